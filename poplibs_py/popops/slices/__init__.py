"""Slices by index, read and updated: windows, rows, gathers, look-ups in embeddings."""

from ...lazy import submodules_on_demand

__getattr__, __dir__ = submodules_on_demand(__name__)
