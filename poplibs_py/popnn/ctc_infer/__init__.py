"""CTC decoding: the best path, and prefix beam search."""

from ...lazy import submodules_on_demand

__getattr__, __dir__ = submodules_on_demand(__name__)
