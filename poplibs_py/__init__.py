"""Sparse and numerics kernels for Python: PopLibs' operations on this CPU and on modelled tile arrays."""

from .popops import cast
from .report.profile import Profile, profile

__all__ = ["Profile", "cast", "profile"]
