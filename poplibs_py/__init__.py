"""Sparse and numerics kernels for Python: PopLibs' operations on this CPU and on modelled tile arrays."""

from .lazy import submodules_on_demand
from .popops import cast
from .report.profile import Profile, profile

__version__ = "0.1.0"

__all__ = ["Profile", "cast", "profile"]

__getattr__, __dir__ = submodules_on_demand(__name__)
