"""Arrays that are made of few numbers, or put another way: one-hot rows, padding, transposes, splines."""

from ...lazy import submodules_on_demand

__getattr__, __dir__ = submodules_on_demand(__name__)
