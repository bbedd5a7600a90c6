"""Which peers are installed, and in which version."""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from .mkl import load_mkl

LIBRARIES = ("numpy", "scipy", "mkl", "torch")
"""Every peer that the benchmarks know."""


@cache
def installed() -> dict[str, str]:
    """Return the peers that can be called here and their versions, without importing them.

    Examples
    --------
    >>> list(installed())[:2]
    ['numpy', 'scipy']
    """
    present = {"numpy": True, "scipy": True, "mkl": load_mkl() is not None,
               "torch": importlib.util.find_spec("torch") is not None}
    return {name: _version(name) for name in LIBRARIES if present[name]}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown version"


_RESTRAINTS = ("OPENBLAS_CORETYPE", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR", "ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY")


def restraints() -> list[str]:
    """Settings of the environment that may keep a peer from its fastest kernels, as ``NAME=value``."""
    return [f"{name}={os.environ[name]}" for name in _RESTRAINTS if os.environ.get(name)]
