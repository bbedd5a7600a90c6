"""What is told of ops that NumPy does for us, step by step, in FP32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..planner.explain import Composition

__all__ = ["told"]


def told(op: str, shape: tuple[int, ...], dtype: Any) -> Callable[[], tuple[str, str, Composition]]:
    """Return what tells, for a reader, which call ran by NumPy's functions, each of which rounds as IEEE 754 says."""
    return Composition(f"{op} {list(shape)} {dtype}", "NumPy (ufuncs)").told
