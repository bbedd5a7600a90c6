"""PopOps' elementwise operations of three operands: rows of `ELEMENTWISE`, as in `unary`.

The bodies are in ``src_cython/kernels/elementwise/ternary.h`` and ``words.h``.
"""

from __future__ import annotations

from typing import Any

from ...target import TargetLike
from .reference import clamp_reference, select_reference
from .table import ELEMENTWISE, elementwise


@elementwise("popops::select", "SELECT", select_reference, kinds="fiub", conditions=("condition",))
def select(a: object, b: object, condition: object, *, out: Any = None, out_dtype: object = None,
           target: TargetLike = None) -> Any:
    """`a` where the condition is true, else `b`, exact (``popops::select``).

    NaN and the sign of zeros stay as they are.

    Examples
    --------
    >>> popops.select([1.0, 2.0], 0.0, [True, False])
    array([1., 0.], dtype=float32)
    """


@elementwise("popops::clamp", "CLAMP", clamp_reference, kinds="fiu")
def clamp(x: object, low: object, high: object, *, out: Any = None, out_dtype: object = None,
          target: TargetLike = None) -> Any:
    """x, but `low` where it is less, then `high` where that is greater, exact (``popops::clamp``).

    NaN for NaN; a bound that is NaN bounds nothing. Where the bounds cross, `high` wins.

    Examples
    --------
    >>> popops.clamp([-1.5, 0.5, 2.0], 0.0, 1.0)
    array([0. , 0.5, 1. ], dtype=float32)
    """


__all__ = [name for name in ELEMENTWISE if name in globals()]
