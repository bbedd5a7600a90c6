"""The dense operands of a sparse product: checked, and the output made."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import bad_argument, bad_type
from ...formats import format_of
from ..matrix import BlockSparseMatrix

__all__ = ["check_matrix", "check_out", "dense_operand", "empty"]

Array = np.ndarray[Any, Any]

_ALIGNMENT = 64


def check_matrix(name: str, w: object) -> BlockSparseMatrix:
    """Return `w` if it is a `BlockSparseMatrix`, or raise."""
    if not isinstance(w, BlockSparseMatrix):
        raise bad_type(name, type(w).__name__, "a BlockSparseMatrix")
    return w


def dense_operand(name: str, array: object, rows: int, groups: int) -> Array:
    """Return a dense operand with `rows` rows, or raise; three dimensions where there are groups."""
    if not isinstance(array, np.ndarray):
        raise bad_type(name, type(array).__name__, "a numpy.ndarray")
    format_of(array, name)
    wanted = f"shape ({groups}, {rows}, columns)" if groups > 1 else f"shape ({rows}, columns)"
    grouped = array.ndim == 3 and array.shape[0] == groups
    if not grouped and (array.ndim != 2 or groups > 1):
        raise bad_argument(name, f"shape {array.shape}", wanted)
    if array.shape[-2] != rows:
        raise bad_argument(name, f"shape {array.shape}", wanted)
    return array


def check_out(out: object, shape: tuple[int, ...], dtype: np.dtype[Any], *operands: Array) -> Array:
    """Return `out` if a result of this shape and dtype can be written to it, or raise."""
    if not isinstance(out, np.ndarray) or out.dtype != dtype:
        got = out.dtype if isinstance(out, np.ndarray) else type(out).__name__
        raise bad_type("out", got, f"a numpy.ndarray of {dtype}")
    if out.shape != shape:
        raise bad_argument("out", f"shape {out.shape}", f"shape {shape}")
    if not out.flags.writeable:
        raise bad_argument("out", "a read-only array", "one that can be written to")
    if any(np.may_share_memory(out, operand) for operand in operands):
        raise bad_argument("out", "an array that may overlap an operand", "memory of its own")
    return out


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return a new array that begins on a cache line where it is large."""
    items = int(np.prod(shape, dtype=object))
    size = items * dtype.itemsize
    if size < 1 << 16:
        return np.empty(shape, dtype)
    raw = np.empty(size + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start:start + size].view(dtype).reshape(shape)
