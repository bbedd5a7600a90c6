"""Elementwise operations as rows of one table: what each computes, how well, and the function made of its row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ..config import settings
from ..formats.bounds import Ball
from ..formats.reference import default_overflow
from ..program import Bound, Hold, LayoutMemo, result_array
from ..program.record import listeners
from ._formats import result_format
from ._operands import apart, checked_out, destination, execute, taken
from ._strided import StridedParams
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
    _memo: LayoutMemo = field(default_factory=LayoutMemo, compare=False, repr=False)

    def __call__(self, x: Any, out: Any, out_dtype: object) -> Any:
        """Apply it to `x`."""
        options = (out_dtype, settings.num_threads)
        if not listeners and (found := self._memo.find(x, out, options)) is not None:
            dtype, run = found
            result = result_array(x.shape, dtype) if out is None else out
            if run(x, result):
                return result  # else another thread has just changed one of them
        given = taken("x", x, _ALLOWED)
        keep = Hold(given.codes)  # while it may be copied
        assert given.format is not None
        target = result_format((given.format,), out, out_dtype)
        if out is None:
            result, written = destination(given.codes, target, None, None)
        else:
            result, written = out, checked_out(out, target, given.codes.shape)
            given = apart(given, written.codes)
        if given.codes.size:
            params = StridedParams(self.name, given.codes.shape, (given.laid,), (written.laid,), "nearest-even",
                                   default_overflow(target, "nearest-even"))
            program = execute(f"popops.{self.name}", params, (given, written))
            plain = given.codes.flags.c_contiguous if out is None else written.codes.base is out
            if plain and given.codes.base is x and isinstance(result, np.ndarray):
                run = Bound(program.executable, given.codes, written.codes)
                self._memo.keep(x, out, options, (written.codes.dtype, run))
        del keep
        return result

    def bound(self, x: Any, *, out: Any = None, out_dtype: Any = None) -> Ball:
        """Return exact results of a call and how far right ones may lie from them."""
        return unary_bound(self.reference, self.ulp, x, out=out, out_dtype=out_dtype)


_PARAMETERS = """
    Parameters
    ----------
    x : array_like or QuarterArray
        float32, float16, bfloat16 or FP8 numbers, of any shape and strides. Lists become float32.
    out : numpy.ndarray or QuarterArray, optional
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
        op = ELEMENTWISE[function.__name__] = ElementwiseOp(function.__name__, poplibs, reference, ulp)

        def call(x: Any, *, out: Any = None, out_dtype: Any = None) -> Any:
            return op(x, out, out_dtype)

        head, mark, rest = (function.__doc__ or "").partition("\n    Notes\n")
        for name in ("__module__", "__name__", "__qualname__", "__annotations__"):
            setattr(call, name, getattr(function, name))
        function.__globals__[f"{op.name}_bound"] = op.bound
        call.__doc__ = head.rstrip() + "\n" + _PARAMETERS + mark + rest
        return call  # type: ignore[return-value]

    return make
