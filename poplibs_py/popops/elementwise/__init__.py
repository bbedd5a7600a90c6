"""Elementwise operations and casts: rows of one table, their faces, bounds, and plans of modelled machines."""

from ...lazy import submodules_on_demand

__getattr__, __dir__ = submodules_on_demand(__name__)
