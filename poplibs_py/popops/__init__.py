"""PopOps: element-wise operations, casts and reductions."""

from ..lazy import submodules_on_demand
from .cast import cast

__all__ = ["cast"]

__getattr__, __dir__ = submodules_on_demand(__name__)
