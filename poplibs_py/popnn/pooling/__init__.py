"""Pooling as a planned op: how PopLibs cuts fields, batch and channels over tiles, and what that costs."""

from ...lazy import submodules_on_demand

__getattr__, __dir__ = submodules_on_demand(__name__)
