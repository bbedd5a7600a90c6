"""A product whose W is decoded some block rows at a time, because all of it would exceed the memory bound."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from ...program import temporary
from ..matrix import BlockSparseMatrix
from .multiply import Product, program

__all__ = ["longest_row", "run_slices"]

Array = np.ndarray[Any, Any]

_COUNTED_AT_ONCE = 2048
_PLACES_AT_ONCE = 256


def longest_row(w: BlockSparseMatrix) -> int:
    """Return the stored blocks of the block row of op(W) that has most; a transpose is not made for it."""
    p = w.pattern
    if not w.is_transposed:
        return int(np.max(np.diff(p.row_offsets), initial=0))
    longest, step = 0, max(_COUNTED_AT_ONCE, p.block_columns)
    for first, end in pairwise(p.row_offsets[::max(1, p.block_rows)]):
        counts = np.zeros(p.block_columns, np.intp)
        for at in range(first, end, step):  # NumPy makes 8-byte numbers of what it counts
            counts += np.bincount(p.column_indices[at:min(at + step, end)], minlength=p.block_columns)
        longest = max(longest, int(np.max(counts, initial=0)))
    return longest


def run_slices(p: Product, w: BlockSparseMatrix, pattern: tuple[Array, ...], x: Array, y: Array,
               bias: Array | None) -> None:
    """Run a product with `slice_blocks`: each slice of block rows as a product of its own.

    A row of the result belongs to one slice, so that its sum is what the whole product would give.
    """
    offsets, inner, *order = pattern
    height, area = p.block_shape[1 if p.transposed else 0], p.block_shape[0] * p.block_shape[1]
    codes = np.ascontiguousarray(w.blocks).reshape(-1, area)
    codes = codes.view(f"u{codes.itemsize}")
    scales = None if p.w.scale is not None else np.ascontiguousarray(w.scale).reshape(-1)
    gather = _Gather(p, codes, scales) if p.transposed else None
    for group in range(p.groups):
        dense, made = (x[group] if p.groups > 1 else x), (y[group] if y.ndim == 3 else y)
        for first, last, cut in _slices(p, offsets, group, -(-p.shape[0] // height)):
            rows = slice(first * height, min(last * height, p.shape[0]))
            values, more = codes[cut], [] if bias is None else [np.ascontiguousarray(bias[group, rows])]
            own = [] if scales is None else [scales[cut]]
            if gather is not None:
                values, own, places = gather.blocks(order[0][cut])
                more.insert(0, places)
            row = first + group * -(-p.shape[0] // height)
            part = offsets[row:row + last - first + 1] - cut.start
            piece = replace(p, shape=(rows.stop - rows.start, p.shape[1]), groups=1, slice_blocks=0,
                            w=replace(p.w, capacity=p.slice_blocks))
            program(piece)(part, inner[cut], values, dense, made[rows], *more, *own)


def _slices(p: Product, offsets: Array, group: int, n_rows: int) -> Iterator[tuple[int, int, slice]]:
    # Block rows from and to, and their blocks; of all slices but the last as many rows, so that they share a program.
    own = offsets[group * n_rows:(group + 1) * n_rows + 1]
    step = max(1, n_rows)
    while step > 1 and np.max(np.diff(own[np.minimum(np.arange(0, n_rows + step, step), n_rows)])) > p.slice_blocks:
        step = -(-step // 2)
    for first in range(0, n_rows, step):
        last = min(first + step, n_rows)
        yield first, last, slice(int(own[first]), int(own[last]))


class _Gather:
    """Blocks of a transpose, which lie apart, made neighbours in counted memory: `Product.gathered_bytes` of it."""

    def __init__(self, p: Product, codes: Array, scales: Array | None) -> None:
        n, self._sources = p.slice_blocks, [codes] if scales is None else [codes, scales]
        room, at = temporary((p.gathered_bytes,), np.uint8), 0
        parts = []
        for dtype, shape in ((np.dtype(np.intp), ()), (np.dtype(np.int32), ()),
                             *((source.dtype, source.shape[1:]) for source in self._sources)):
            size = n * math.prod(shape) * dtype.itemsize
            parts.append(room[at:at + size].view(dtype).reshape(n, *shape))
            at += size
        self._index, self._places, *self._gathered = parts
        for first in range(0, n, _PLACES_AT_ONCE):
            end = min(n, first + _PLACES_AT_ONCE)
            self._places[first:end] = np.arange(first, end)

    def blocks(self, order: Array) -> tuple[Array, list[Array], Array]:
        """Return the codes and the scales, if there are any, of the blocks at these places, and their places now."""
        n = len(order)
        index = self._index[:n]  # NumPy would make one of its own of any other type
        index[...] = order
        codes, *scales = [np.take(source, index, axis=0, out=room[:n], mode="clip")
                          for source, room in zip(self._sources, self._gathered, strict=True)]
        return codes, scales, self._places[:n]
