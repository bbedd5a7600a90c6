"""PopOps' elementwise operations of three operands: rows of `ELEMENTWISE`, as in `elementwise`.

The bodies are in ``src_cython/kernels/elementwise/ternary.h`` and ``words.h``.
"""

from __future__ import annotations

from typing import Any

from ..target import Target
from ._elementwise import ELEMENTWISE, elementwise, requested
from .reference import clamp_reference, select_reference


@elementwise("popops::select", "SELECT", select_reference, kinds="fiub", conditions=("condition",))
def select(a: object, b: object, condition: object, *, out: Any = None, out_dtype: object = None,
           target: Target | str | None = None) -> Any:
    """`a` where the condition is true, else `b`, exact (``popops::select``).

    Notes
    -----
    NaN and the sign of zeros stay as they are.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> popops.select([1.0, 2.0], 0.0, [True, False])
    array([1., 0.], dtype=float32)
    """
    return requested("select", out, out_dtype, target, a=a, b=b, condition=condition)


@elementwise("popops::clamp", "CLAMP", clamp_reference, kinds="fiu")
def clamp(x: object, low: object, high: object, *, out: Any = None, out_dtype: object = None,
          target: Target | str | None = None) -> Any:
    """x, but `low` where it is less, then `high` where that is greater, exact (``popops::clamp``).

    Notes
    -----
    NaN for NaN; a bound that is NaN bounds nothing. Where the bounds cross, `high` wins.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> popops.clamp([-1.5, 0.5, 2.0], 0.0, 1.0)
    array([0. , 0.5, 1. ], dtype=float32)
    """
    return requested("clamp", out, out_dtype, target, x=x, low=low, high=high)


__all__ = [name for name in ELEMENTWISE if name in globals()]
