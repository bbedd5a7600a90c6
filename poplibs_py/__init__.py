"""Sparse and numerics kernels for Python: PopLibs' operations on this CPU and on modelled tile arrays."""

from .popops import cast

__all__ = ["cast"]
