"""The operands of a sparse product: checked, and described for its program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import InvalidTypeError, bad_argument, bad_type
from ...formats import FP32, Format, QuarterArray, format_of
from ...formats.arrays import as_array
from ...program import overlaps_itself
from ..matrix import BlockSparseMatrix
from .items import ACTIVATIONS, FORMAT_NUMBERS
from .multiply import Dense

__all__ = ["Operand", "check_activation", "check_bias", "check_matrix", "check_out", "check_rows",
           "dense_operand", "describe", "result_format"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Operand:
    """A dense operand taken apart: codes or numbers, their format, the exponent of their scale."""

    array: Array
    format: Format
    scale: int = 0

    def moved(self, view: Callable[[Array], Array]) -> Operand:
        """Return the same operand with its array seen in another way."""
        return Operand(view(self.array), self.format, self.scale)


def check_matrix(name: str, w: object) -> BlockSparseMatrix:
    """Return `w` if it is a `BlockSparseMatrix`, or raise."""
    if not isinstance(w, BlockSparseMatrix):
        raise bad_type(name, type(w).__name__, "a BlockSparseMatrix")
    return w


def dense_operand(name: str, given: object) -> Operand:
    """Return a dense operand of any of the formats that have a dtype, or raise."""
    if isinstance(given, Operand):
        return given
    if isinstance(given, QuarterArray):
        if given.format.name not in FORMAT_NUMBERS:
            raise bad_type(name, given.format.name, ", ".join(FORMAT_NUMBERS))
        if not isinstance(given.scale, int):
            raise bad_argument(name, f"scales of shape {np.shape(given.scale)}", "one scale for the whole operand")
        return Operand(given.codes, given.format, given.scale)
    array = as_array(name, given, "an array or a QuarterArray", np.float32)
    return Operand(array, _format(name, array))


def _format(name: str, array: Array) -> Format:
    try:
        found = format_of(array)
    except InvalidTypeError:
        found = None
    if found is None or found.name not in FORMAT_NUMBERS:
        raise bad_type(name, f"dtype {array.dtype}", f"an array of {', '.join(FORMAT_NUMBERS)}")
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
    numbers = as_array("bias", bias, "an array of numbers")
    format_of(numbers if numbers.dtype.kind not in "fiu" else np.float32, "bias")
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


def result_format(out_dtype: object, out: object = None) -> Format:
    """Return the format of a result: the one asked for, or that of `out`, or FP32; raise for one without a dtype."""
    if out_dtype is not None:
        wanted = format_of(out_dtype, "out_dtype")
    else:
        wanted = format_of(out, "out") if isinstance(out, np.ndarray) else FP32
    if wanted.name not in FORMAT_NUMBERS:
        raise bad_type("out_dtype", wanted.name, ", ".join(FORMAT_NUMBERS))
    return wanted


def describe(array: Array, format: Format, scale: int = 0) -> Dense:
    """Return what a program must know of a dense operand."""
    group = array.strides[0] if array.ndim == 3 else 0
    column = array.strides[-1] if array.shape[-1] > 1 else array.itemsize
    aligned = bool(array.flags.aligned) and array.strides[-2] % array.itemsize == 0
    return Dense(format.name, (group, array.strides[-2], column), scale, 0, aligned)
