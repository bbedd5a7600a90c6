"""From a layer's buckets to what its tiles multiply, forward and for the gradient of activations, and to a program."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import FP16, FP32
from ...program import Executable
from ...target import TYPE_SIZES
from ..operands import DenseLayout
from ..partitioner import SparsityData
from ..tiles import ColumnPart, Split, TileBlocks, lower_tiles

__all__ = ["lower", "propagation_steps", "tile_blocks"]

Array = np.ndarray[Any, Any]


def propagation_steps(data: SparsityData) -> int:
    """Return how many steps buckets travel after the first round along z: what their spills ask for."""
    x, y, z = data.overflow[:3]
    return x * y * z - data.layout.parts[2]


def tile_blocks(data: SparsityData, backward: bool = False) -> tuple[TileBlocks, Array]:
    """Return the blocks of each tile, and the values in that order.

    A tile of part x, y, z meets the buckets of its own x and y first, then those that travel to it: from one step away
    along y, two …, then from a step away along x; each time those of all z in order. In a bucket blocks come as they
    are written.

    Parameters
    ----------
    data : SparsityData
        Of a plan.
    backward : bool, optional
        Whether it is the gradient of the activations: the product with the transpose, from the same buckets.
    """
    plan, layout = data.plan, data.layout
    assert plan is not None
    parts_x, parts_y, parts_z = layout.parts
    rows, columns, places = (part.astype(np.int64) for part in data.read())
    bucket = places // max(1, layout.block_room)
    x = np.searchsorted(layout.x_starts, rows * layout.side, "right") - 1
    y = np.searchsorted(layout.y_starts, columns * layout.side, "right") - 1
    far_x = (x - bucket // (parts_y * parts_z)) % parts_x
    far_y = (y - bucket // parts_z % parts_y) % parts_y
    piece = y * parts_x + x if backward else x * parts_y + y
    order = np.lexsort((places, far_y, far_x, piece))
    numbers = np.arange(parts_y) * parts_z * parts_x + np.arange(parts_x)[:, None]
    m, k, n = layout.shape
    if backward:
        rows, columns, numbers, m, k = columns, rows, numbers.T, k, m
    split = Split(np.searchsorted(piece[order], np.arange(parts_x * parts_y + 1)), rows[order])
    ends = (*layout.z_starts[1:], layout.shape[2])
    parts = tuple(ColumnPart(first, end - first, 0, (numbers + z * parts_x).ravel())
                  for z, (first, end) in enumerate(zip(layout.z_starts, ends, strict=True)))
    work = TileBlocks((m, k, n), layout.side, layout.data_type, plan.partials_type, plan.target.tiles,
                      np.arange(order.size), rows[order], columns[order], parts, (split,), backward,
                      _received(data, backward))
    return work, data.blocks()[places[order]]


def _received(data: SparsityData, backward: bool) -> tuple[int, int]:
    """Bytes that tiles receive: dense rows and buckets, then partial sums."""
    plan, layout = data.plan, data.layout
    assert plan is not None
    (m, k, n), (parts_x, parts_y, parts_z) = layout.shape, layout.parts
    if backward:
        m, k, parts_x, parts_y = k, m, parts_y, parts_x
    size, partial = TYPE_SIZES[layout.data_type], TYPE_SIZES[plan.partials_type]
    bucket = layout.value_room * size + 2 * layout.meta_room
    dense = k * n * size * parts_x * (parts_x > 1)
    buckets = bucket * layout.buckets * (parts_z - 1 + propagation_steps(data))
    return dense + buckets, m * n * partial * (parts_y - 1)


def lower(work: TileBlocks, x: DenseLayout, y: DenseLayout) -> Executable:
    """Return the executable of a pass, which runs on the values in order, X and the result."""
    kind = FP16 if work.data_type == "half" else FP32
    return lower_tiles(work, kind, x, y, kind)
