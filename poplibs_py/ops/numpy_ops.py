"""What is told of ops that NumPy does for us, step by step, in FP32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..planner import Explanation

__all__ = ["ByNumPy", "told"]


@dataclass(frozen=True)
class ByNumPy:
    """A call that NumPy's functions of one step each serve, which round as IEEE 754 says."""

    problem: str

    def explain(self) -> Explanation:
        """Return what serves it."""
        return Explanation(self.problem, {"kernels": KERNEL})

    def __str__(self) -> str:
        return self.explain().words()


KERNEL = "NumPy (ufuncs)"


def told(op: str, shape: tuple[int, ...], dtype: Any) -> Callable[[], tuple[str, str, ByNumPy]]:
    """Return what tells, for a reader, which call ran."""
    what = f"{op} {list(shape)} {dtype}"
    return lambda: (what, KERNEL, ByNumPy(what))
