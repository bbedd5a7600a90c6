"""Expressions of arrays in one pass: ``popops::map``, sums of scaled arrays, and gradients that are such."""

from ...lazy import submodules_on_demand

__getattr__, __dir__ = submodules_on_demand(__name__)
