"""Elementwise operations as rows of one table: what each computes, how well, and the function made of its row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ..formats.bounds import Ball
from ..formats.reference import default_overflow
from ..ops import Request, op, operand, receive, result_format
from ._request import strided_request
from .bound import unary_bound

__all__ = ["ELEMENTWISE", "ElementwiseOp", "unary"]

Floats = np.ndarray[Any, np.dtype[np.float64]]
Function = TypeVar("Function", bound=Callable[..., Any])

ELEMENTWISE: dict[str, ElementwiseOp] = {}
"""Every elementwise operation, by name."""

_ALLOWED = "float32, float16, bfloat16 or FP8 numbers, or a QuarterArray"


@dataclass(frozen=True)
class ElementwiseOp:
    """One elementwise operation.

    Attributes
    ----------
    name : str
        Its public name in `poplibs_py.popops`, and its kernels'.
    poplibs : str
        PopLibs' name.
    reference : callable
        The exact function, float64 arrays to float64.
    ulp : float
        How far its FP32 result may lie from the exact one, in units of the last place: 0 exact, 0.5 correctly rounded.
    """

    name: str
    poplibs: str
    reference: Callable[..., Floats]
    ulp: float
    def request(self, x: Any, out: Any, out_dtype: object) -> Request:
        """Describe a call."""
        given = operand("x", x, _ALLOWED)
        assert given.format is not None
        receiver = receive("out", out, given.shape, out_dtype, result_format(given.format), (given,), in_place=True,
                           blocks=True, like=given.array)
        return strided_request(self.name, given, receiver, default_overflow(receiver.format, "nearest-even"))

    def bound(self, x: Any, *, out: Any = None, out_dtype: Any = None) -> Ball:
        """Return exact results of a call and how far right ones may lie from them."""
        return unary_bound(self.reference, self.ulp, x, out=out, out_dtype=out_dtype)


_PARAMETERS = """
    Parameters
    ----------
    x : array_like or QuarterArray
        float32, float16, bfloat16 or FP8 numbers, of any shape and strides. Lists become float32.
    out : array or QuarterArray, optional
        Where the result goes: an array of the shape of `x` and of any of these formats. It may be `x`, or overlap
        it: the result is as if it did not. A `QuarterArray` keeps its scales.
    out_dtype : Format, dtype or str, optional
        The result's format; by default that of `out`, else float32 for float32, the format of 16 bits for itself, and
        float16 for FP8.

    Returns
    -------
    numpy.ndarray or QuarterArray
        `out`, or a new array laid out like `x`; a `QuarterArray` where the format has no dtype.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value. Nothing has been written then.
"""


def unary(poplibs: str, reference: Callable[[Floats], Floats], ulp: float) -> Callable[[Function], Function]:
    """Make a function, of which only the docstring counts, the operation of its name, and beside it ``<name>_bound``.

    Parameters
    ----------
    poplibs, reference, ulp
        As `ElementwiseOp` has them. The kernel is the one of the function's name.

    Notes
    -----
    What is the same for every operation goes into the docstring between its first lines and its own sections.
    """
    def make(function: Function) -> Function:
        row = ELEMENTWISE[function.__name__] = ElementwiseOp(function.__name__, poplibs, reference, ulp)

        def call(x: Any, *, out: Any = None, out_dtype: Any = None) -> Any:
            return row.request(x, out, out_dtype)

        head, mark, rest = (function.__doc__ or "").partition("\n    Notes\n")
        for name in ("__module__", "__name__", "__qualname__", "__annotations__"):
            setattr(call, name, getattr(function, name))
        function.__globals__[f"{row.name}_bound"] = row.bound
        call.__doc__ = head.rstrip() + "\n" + _PARAMETERS + mark + rest
        bound = f"popops.elementwise:{row.name}_bound"
        record = op(f"popops.{row.name}", poplibs=poplibs, bound=bound,
                    draws="testing.calls:unary_calls")
        return record(call)  # type: ignore[return-value]

    return make
