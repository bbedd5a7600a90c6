"""A product whose W is decoded some block rows at a time, because all of it would exceed the limit on memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ...program import temporary
from ..operands import SparseOperand
from .lower import program
from .params import BiasLayout
from .plan import SparsePlan

__all__ = ["longest_row", "run_slices"]

Array = np.ndarray[Any, Any]

_PLACES_AT_ONCE = 256


def longest_row(w: SparseOperand) -> int:
    """Return the stored blocks of the block row of op(W) that has most."""
    return int(np.max(np.diff(w.offsets.array), initial=0))


def run_slices(plan: SparsePlan, w: SparseOperand, x: Array, y: Array, bias: Array | None) -> None:
    """Run a product with `slice_blocks`: each slice of block rows as a product of its own.

    A row of the result belongs to one slice, so that its sum is what the whole product would give. The bias has a row
    for each group.
    """
    p = plan.params
    offsets, columns = w.offsets.array, w.columns.array
    height, area = p.block_shape[1 if p.transposed else 0], p.block_shape[0] * p.block_shape[1]
    codes = w.values.array.reshape(-1, area)
    codes = codes.view(f"u{codes.itemsize}")
    scales = None if w.scales is None else w.scales.array.reshape(-1)
    gather = None if w.order is None else _Gather(plan, codes, scales)
    n_rows = -(-p.shape[0] // height)
    for group in range(p.groups):
        dense, made = (x[group] if x.ndim == 3 else x), (y[group] if y.ndim == 3 else y)
        for first, last, cut in _slices(plan, offsets, group, n_rows):
            rows = slice(first * height, min(last * height, p.shape[0]))
            values, more = codes[cut], [] if bias is None else [bias[group, rows]]
            own = [] if scales is None else [scales[cut]]
            if gather is not None:
                assert w.order is not None
                values, own, places = gather.blocks(w.order.array[cut])
                more.insert(0, places)
            row = first + group * n_rows
            part = offsets[row:row + last - first + 1] - cut.start
            program(_piece(plan, rows.stop - rows.start))(part, columns[cut], values, dense, made[rows], *more, *own)


def _piece(plan: SparsePlan, rows: int) -> SparsePlan:
    p = plan.params
    bias = None if p.bias is None else BiasLayout(p.bias.format, 0, p.bias.step, p.bias.aligned)
    params = replace(p, shape=(rows, p.shape[1]), groups=1, room=plan.slice_blocks, bias=bias)
    return replace(plan, params=params, slice_blocks=0, gathered_bytes=0, bias_bytes=plan.bias_bytes and 4 * rows)


def _slices(plan: SparsePlan, offsets: Array, group: int, n_rows: int) -> Iterator[tuple[int, int, slice]]:
    # Block rows from and to, and their blocks; of all slices but the last as many rows, so that they share a program.
    own = offsets[group * n_rows:(group + 1) * n_rows + 1]
    step = max(1, n_rows)
    while step > 1 and np.max(np.diff(own[np.minimum(np.arange(0, n_rows + step, step), n_rows)])) > plan.slice_blocks:
        step = -(-step // 2)
    for first in range(0, n_rows, step):
        last = min(first + step, n_rows)
        yield first, last, slice(int(own[first]), int(own[last]))


class _Gather:
    """Blocks of a transpose, which lie apart, made neighbours in counted memory: the plan's `gathered_bytes`."""

    def __init__(self, plan: SparsePlan, codes: Array, scales: Array | None) -> None:
        n, self._sources = plan.slice_blocks, [codes] if scales is None else [codes, scales]
        room, at = temporary((plan.gathered_bytes,), np.uint8), 0
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
