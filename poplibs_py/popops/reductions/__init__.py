"""Reductions, and running ones: faces, requests, bounds, and plans of modelled machines."""

from ...lazy import submodules_on_demand

__getattr__, __dir__ = submodules_on_demand(__name__)
