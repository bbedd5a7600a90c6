"""The operands of a sparse product: checked, and described for its program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ...errors import InvalidTypeError, bad_argument, bad_type
from ...formats import BF16, FP32, Format, QuarterArray, format_of
from ...formats.arrays import as_array
from ...popops import cast
from ...program import overlaps_itself, result_array
from ...target.host_memory import check_memory
from ..matrix import BlockSparseMatrix
from .items import ACTIVATIONS, FORMAT_NUMBERS
from .multiply import Dense

__all__ = ["Operand", "check_activation", "check_bias", "check_matrix", "check_out", "check_rows",
           "dense_operand", "describe", "receiver", "result_format", "result_operand"]

Array = np.ndarray[Any, Any]
_ALLOWED = f"an array of {', '.join(FORMAT_NUMBERS)}"


@dataclass(frozen=True)
class Operand:
    """A dense operand taken apart: codes or numbers, their format, the exponent of their scale.

    `source` holds the codes that `array` is a copy of, if it is one.
    """

    array: Array
    format: Format
    scale: int = 0
    source: Array | None = None

    @property
    def given(self) -> Array:
        """The array as the caller gave it: a result must not be written there."""
        return self.array if self.source is None else self.source

    def moved(self, view: Callable[[Array], Array]) -> Operand:
        """Return the same operand with its array seen in another way."""
        return replace(self, array=view(self.array))


def check_matrix(name: str, w: object) -> BlockSparseMatrix:
    """Return `w` if it is a `BlockSparseMatrix`, or raise."""
    if not isinstance(w, BlockSparseMatrix):
        raise bad_type(name, type(w).__name__, "a BlockSparseMatrix")
    return w


def dense_operand(name: str, given: object) -> Operand:
    """Return a dense operand of any of the formats that have a dtype, or a `QuarterArray`, or raise.

    Kernels decode 8-bit codes of one scale. What they do not know comes as a copy in the least format that holds its
    values: scales for each row or block, FP16 with a scale, users' formats.
    """
    if isinstance(given, Operand):
        return given
    if isinstance(given, QuarterArray):
        scale, known = given.uniform_scale(), given.format.name in FORMAT_NUMBERS
        if known and (scale == 0 or (scale is not None and given.format.bits == 8)):
            return Operand(given.codes, given.format, scale)
        wide = BF16 if known and given.format.bits == 8 else FP32
        return Operand(cast(given, wide), wide, source=given.codes)
    array = as_array(name, given, "an array or a QuarterArray", np.float32)
    return Operand(array, _format(name, array))


def _format(name: str, array: Array) -> Format:
    try:
        found = format_of(array)
    except InvalidTypeError:
        found = None
    if found is None or found.name not in FORMAT_NUMBERS:
        raise bad_type(name, f"dtype {array.dtype}", _ALLOWED)
    return found


def check_rows(name: str, array: Array, rows: int, groups: int) -> None:
    """Raise unless `array` has `rows` rows, and groups in front where there are several."""
    wanted = f"shape ({groups}, {rows}, columns)" if groups > 1 else f"shape ({rows}, columns)"
    if array.ndim == 3 and array.shape[0] == groups and array.shape[1] == rows:
        return
    if array.ndim != 2 or groups > 1 or array.shape[0] != rows:
        raise bad_argument(name, f"shape {array.shape}", wanted)


def check_bias(bias: object, rows: int, groups: int) -> Array | None:
    """Return the bias as contiguous FP32, one number for each row of each group, or raise."""
    if bias is None:
        return None
    numbers = as_array("bias", bias, _ALLOWED, np.float32)
    _format("bias", numbers)
    if numbers.shape not in ((rows,), (groups, rows)):
        raise bad_argument("bias", f"shape {numbers.shape}", f"shape ({rows},) or ({groups}, {rows})")
    return np.ascontiguousarray(np.broadcast_to(numbers.astype(np.float32), (groups, rows)))


def check_activation(activation: object) -> str | None:
    """Return the activation, or raise."""
    if activation is None:
        return None
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise bad_argument("activation", activation, ", ".join(repr(name) for name in ACTIVATIONS))
    return activation


def check_out(out: object, shape: tuple[int, ...], dtype: Any, *operands: Array) -> Array:
    """Return a view of `out` if a result of this shape and dtype can be written to it, or raise.

    Another thread may resize `out` or turn it over at any time; the view stays as it was checked.
    """
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise bad_type("out", type(out).__name__, f"a numpy.ndarray of {dtype}")
    y = out.view(np.ndarray)
    if y.dtype != dtype:
        raise bad_type("out", y.dtype, f"a numpy.ndarray of {dtype}")
    if y.shape != shape:
        raise bad_argument("out", f"shape {y.shape}", f"shape {shape}")
    if not y.flags.writeable:
        raise bad_argument("out", "a read-only array", "one that can be written to")
    if any(np.may_share_memory(y, operand) for operand in operands):
        raise bad_argument("out", "an array that may overlap an operand", "memory of its own")
    if overlaps_itself(y):
        raise bad_argument("out", "an array whose elements share memory", "one element to each place")
    return y


def receiver(out: object) -> object:
    """Return what receives a result: a `QuarterArray` as its codes and their scale, anything else as it is."""
    if not isinstance(out, QuarterArray):
        return out
    scale = out.uniform_scale()
    if scale is None:
        raise bad_argument("out", f"a QuarterArray with scales of blocks {out.block_shape}", "one with one scale")
    if out.format.name not in FORMAT_NUMBERS or (scale and out.format.bits > 8):
        eight = ", ".join(name for name in FORMAT_NUMBERS if format_of(name).bits == 8)
        raise bad_type("out", f"a QuarterArray of {out.format} at scale {scale}", f"one of {eight}, or of float16 at 0")
    return Operand(out.codes, out.format, scale)


def result_operand(shape: tuple[int, ...], out: object, out_dtype: object, *operands: Array) -> Operand:
    """Return where a result goes: a new array, or what a `receiver` holds, checked."""
    wanted = result_format(out_dtype, out)
    if out is None:
        check_memory("w", f"a matrix for a result of {shape}", prod(shape) * wanted.itemsize)
        return Operand(result_array(shape, wanted.dtype), wanted)
    if not isinstance(out, Operand):
        return Operand(check_out(out, shape, wanted.dtype, *operands), wanted)
    if out.format != wanted:
        raise bad_type("out", out.format.name, f"{wanted.name}, which is out_dtype")
    return replace(out, array=check_out(out.array, shape, out.array.dtype, *operands))


def result_format(out_dtype: object, out: object = None) -> Format:
    """Return the format of a result: the one asked for, or that of `out`, or FP32; raise for one without a dtype."""
    if out_dtype is not None:
        wanted = format_of(out_dtype, "out_dtype")
    elif isinstance(out, Operand):
        wanted = out.format
    else:
        wanted = format_of(out, "out") if isinstance(out, np.ndarray) else FP32
    if wanted.name not in FORMAT_NUMBERS:
        raise bad_type("out_dtype", wanted.name, ", ".join(FORMAT_NUMBERS))
    return wanted


def describe(operand: Operand) -> Dense:
    """Return what a program must know of a dense operand."""
    array = operand.array
    group = array.strides[0] if array.ndim == 3 else 0
    column = array.strides[-1] if array.shape[-1] > 1 else array.itemsize
    aligned = bool(array.flags.aligned) and array.strides[-2] % array.itemsize == 0
    return Dense(operand.format.name, (group, array.strides[-2], column), operand.scale, 0, aligned)
