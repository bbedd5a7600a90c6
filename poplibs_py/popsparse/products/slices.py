"""A product whose W is decoded some block rows at a time, because all of it would exceed the memory bound."""

from __future__ import annotations

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


def longest_row(w: BlockSparseMatrix) -> int:
    """Return the stored blocks of the block row of op(W) that has most; a transpose is not made for it."""
    p = w.pattern
    if not w.is_transposed:
        return int(np.max(np.diff(p.row_offsets), initial=0))
    groups = pairwise(p.row_offsets[::max(1, p.block_rows)])
    return max((int(np.max(np.bincount(p.column_indices[a:b]), initial=0)) for a, b in groups), default=0)


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
    gathered = _room(p.slice_blocks, codes) if p.transposed else None
    for group in range(p.groups):
        dense, made = (x[group] if p.groups > 1 else x), (y[group] if y.ndim == 3 else y)
        for first, last, cut in _slices(p, offsets, group, -(-p.shape[0] // height)):
            rows = slice(first * height, min(last * height, p.shape[0]))
            places = np.arange(cut.stop - cut.start, dtype=np.int32)
            values, own = codes[cut], [] if scales is None else [scales[cut]]
            if gathered is not None:
                chosen = order[0][cut]
                values = np.take(codes, chosen, axis=0, out=gathered[:len(chosen)], mode="clip")
                own = [] if scales is None else [scales[chosen]]
            row = first + group * -(-p.shape[0] // height)
            part = offsets[row:row + last - first + 1] - cut.start
            more = [] if bias is None else [np.ascontiguousarray(bias[group, rows])]
            piece = replace(p, shape=(rows.stop - rows.start, p.shape[1]), groups=1, slice_blocks=0,
                            w=replace(p.w, capacity=p.slice_blocks))
            program(piece)(part, inner[cut], values, dense, made[rows], *[places] * len(order), *more, *own)


def _slices(p: Product, offsets: Array, group: int, n_rows: int) -> Iterator[tuple[int, int, slice]]:
    # Block rows from and to, and their blocks; of all slices but the last as many rows, so that they share a program.
    own = offsets[group * n_rows:(group + 1) * n_rows + 1]
    step = max(1, n_rows)
    while step > 1 and np.max(np.diff(own[np.minimum(np.arange(0, n_rows + step, step), n_rows)])) > p.slice_blocks:
        step = -(-step // 2)
    for first in range(0, n_rows, step):
        last = min(first + step, n_rows)
        yield first, last, slice(int(own[first]), int(own[last]))


def _room(blocks: int, codes: Array) -> Array:
    # Counted memory for the codes of so many blocks.
    size = blocks * codes.shape[1] * codes.itemsize
    room: Array = temporary((-(-size // 4),)).view(np.uint8)[:size].view(codes.dtype).reshape(blocks, codes.shape[1])
    return room
