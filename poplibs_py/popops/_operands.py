"""What elementwise operations take and give: inputs as codes with their format and scales, outputs likewise."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ..config import settings
from ..errors import bad_argument, bad_type
from ..formats import Format, QuarterArray
from ..formats.arrays import as_array
from ..formats.scales import checked_block_shape, checked_scale
from ..program import overlaps_itself, result_array_like
from ..program.record import Run, listeners, record
from ._formats import format_by_dtype
from ._strided import StridedOperand, StridedParams, StridedProgram, lower

__all__ = ["Operand", "apart", "checked_array", "checked_out", "destination", "execute", "quarter", "scaled",
           "taken"]

Array = np.ndarray[Any, Any]


class Operand(NamedTuple):
    """Codes, what they are (None for float64), and their scale: one exponent, or those of blocks where they vary."""

    codes: Array
    format: Format | None
    scale: int = 0
    exponents: Array | None = None
    blocks: tuple[int, ...] | None = None

    @property
    def laid(self) -> StridedOperand:
        """How it lies."""
        return StridedOperand(self.format, self.codes.strides, self.scale, self.blocks)


def taken(name: str, x: object, allowed: str) -> Operand:
    """Return an input: an array of a format's dtype, a `QuarterArray`, or a list of numbers, which become float32.

    Raises
    ------
    InvalidTypeError
        For anything else; float64 is told what to do.
    """
    if isinstance(x, QuarterArray):
        return quarter(x)
    array = as_array(name, x, allowed, np.float32)
    fmt = format_by_dtype(array.dtype)
    if fmt is None:
        remedy = f'; {name}.astype("float32") rounds it' if array.dtype == np.float64 else ""
        raise bad_type(name, str(array.dtype), allowed + remedy)
    return Operand(array, fmt)


def quarter(x: QuarterArray) -> Operand:
    """Return a `QuarterArray` as an operand."""
    scale = x.uniform_scale()
    if scale is not None:
        return Operand(x.codes, x.format, scale)
    return Operand(x.codes, x.format, 0, np.ascontiguousarray(x.scale, np.int8).reshape(-1), x.block_shape)


def destination(codes: Array, target: Format, exponents: Array | None,
                blocks: tuple[int, ...] | None) -> tuple[Any, Operand]:
    """Return a new result of the layout of `codes`, and as the operand that is written.

    It is a `QuarterArray` where there are exponents or the format has no dtype.
    """
    if exponents is None and target.dtype is not None:
        made = result_array_like(codes, target.dtype)
        return made, Operand(made, target)
    exponents = checked_scale(0, target, codes.shape, None) if exponents is None else exponents
    held = QuarterArray._of_parts(result_array_like(codes, target.code_dtype), target, exponents, blocks)
    return held, quarter(held)


def scaled(scale: object, target: Format, shape: tuple[int, ...],
           block_shape: Sequence[int] | None) -> tuple[Array, tuple[int, ...] | None]:
    """Return checked exponents for a new result and the blocks that share one."""
    blocks = checked_block_shape(block_shape, shape)
    return checked_scale(0 if scale is None else scale, target, shape, blocks), blocks


def checked_out(out: object, target: Format, shape: tuple[int, ...], dtype: np.dtype[Any] | None = None) -> Operand:
    """Return the caller's `out` as the operand that is written.

    An array of the format's dtype (or of another `dtype`), or a `QuarterArray` of the format, whose scales hold.
    """
    if isinstance(out, QuarterArray):
        if out.format != target:
            raise bad_argument("out", f"a QuarterArray of {out.format}", f"a QuarterArray of {target}")
        operand = quarter(out)
        _check_array(operand.codes, shape, target.code_dtype)
        return operand
    if target.dtype is None and dtype is None:
        raise bad_type("out", type(out), "a QuarterArray, which can carry the scale and the format")
    return Operand(checked_array(out, shape, dtype or target.dtype), target)  # type: ignore[arg-type]


def checked_array(out: object, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return a view of `out`, which stays as it is checked here whatever another thread makes of the caller's own."""
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise bad_type("out", type(out), f"an array of {dtype}")
    view = out.view(np.ndarray)
    _check_array(view, shape, dtype)
    return view


def _check_array(view: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    if view.dtype != dtype:
        raise bad_type("out", str(view.dtype), f"an array of {dtype}")
    if view.shape != shape:
        raise bad_argument("out", f"an array of shape {view.shape}", f"the shape of x, {shape}")
    if not view.flags.writeable:
        raise bad_argument("out", "a read-only array", "a writeable one")
    if overlaps_itself(view):
        raise bad_argument("out", "an array with elements that share memory", "one of separate elements")


def apart(x: Operand, written: Array) -> Operand:
    """Return the input, copied where writing the output would destroy elements not yet read."""
    if not np.may_share_memory(x.codes, written):
        return x
    same = x.codes.ctypes.data == written.ctypes.data and x.codes.strides == written.strides
    if same and x.codes.itemsize == written.itemsize:
        return x
    return x._replace(codes=x.codes.copy())


def execute(name: str, params: StridedParams, operands: Sequence[Operand], *seed: Array) -> StridedProgram:
    """Run a strided operation on its inputs and outputs, tell who listens, and return the program."""
    program = lower(params, settings.num_threads)
    exponents = [operand.exponents for operand in operands if operand.exponents is not None]
    began = perf_counter()
    program.executable(*[operand.codes for operand in operands], *exponents, *seed)
    if listeners:
        record(Run(name, str(params), program.kernel, perf_counter() - began, program))
    return program
