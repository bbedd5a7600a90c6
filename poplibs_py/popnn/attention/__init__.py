"""Scaled dot-product attention and its gradient, dense or of a pattern of blocks, without a matrix of scores."""

from ...lazy import submodules_on_demand

__getattr__, __dir__ = submodules_on_demand(__name__)
