"""What walks operands of any strides: steps of kernels on chunks, the axes of the walk, and the requests of it."""

from ...lazy import submodules_on_demand

__getattr__, __dir__ = submodules_on_demand(__name__)
