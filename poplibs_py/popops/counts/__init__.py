"""Counts: histograms between levels, and how often each whole number is there."""

from ...lazy import submodules_on_demand

__getattr__, __dir__ = submodules_on_demand(__name__)
