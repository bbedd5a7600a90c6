"""Recurrent layers on this CPU; on modelled machines, how many of their steps lie side by side."""

from ...lazy import submodules_on_demand

__getattr__, __dir__ = submodules_on_demand(__name__)
