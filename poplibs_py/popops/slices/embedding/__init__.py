"""Rows of a table by index, read and updated, as a planned op: where PopLibs puts table, indices and rows, and why."""

from ....lazy import submodules_on_demand

__getattr__, __dir__ = submodules_on_demand(__name__)
