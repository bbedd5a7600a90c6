"""What is told of ops that NumPy does for us, step by step, in FP32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..planner.explain import Composition

BY_NUMPY = "NumPy (ufuncs)"
"""What serves a step that NumPy's functions do, each of which rounds as IEEE 754 says."""


def told(op: str, shape: tuple[int, ...], dtype: Any,
         kernels: str = BY_NUMPY) -> Callable[[], tuple[str, str, Composition]]:
    """Return what tells, for a reader, which call ran by NumPy's functions, or by which kernels."""
    return Composition(f"{op} {list(shape)} {dtype}", kernels).told
