"""From a layer's buckets to what its tiles multiply, forward and for the gradient of activations, and to a program.

A layer of several groups is the product of a matrix that has them along its diagonal, each on tiles of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...formats import Array
from ...target import TYPE_SIZES
from ..modelled import ColumnPart, Split, TileBlocks
from ..partitioner import SparsityData


def overflow_of(groups: Sequence[SparsityData]) -> tuple[int, int, int]:
    """Return how many steps the buckets of all groups travel along x, y and z: those of the groups that go furthest."""
    x = max(data.overflow[0] for data in groups)
    y = groups[0].layout.parts[1] if x > 1 else max(data.overflow[1] for data in groups)
    return x, y, groups[0].layout.parts[2]


def propagation_steps(groups: Sequence[SparsityData]) -> int:
    """Return how many steps buckets travel after the first round along z: what their spills ask for."""
    x, y, z = overflow_of(groups)
    return x * y * z - z


def blocks_of(groups: Sequence[SparsityData]) -> tuple[Array, Array, Array]:
    """Return block row and block column of the blocks of all groups, bucket by bucket, and their places in `values`.

    Rows, columns and places of a group come behind those of the groups before it.
    """
    layout = groups[0].layout
    (m, k, _), room = layout.shape, layout.buckets * layout.block_room
    steps = m // layout.side, k // layout.side, room
    read = [[part.astype(np.int64) + group * step for part, step in zip(data.read(), steps, strict=True)]
            for group, data in enumerate(groups)]
    rows, columns, places = (np.concatenate(parts) for parts in zip(*read, strict=True))
    return rows, columns, places


def tile_blocks(groups: Sequence[SparsityData], backward: bool = False) -> tuple[TileBlocks, Array]:
    """Return the blocks of each tile, and the values in that order.

    A tile of part x, y, z meets the buckets of its own x and y first, then those that travel to it: from one step away
    along y, two …, then from a step away along x; each time those of all z in order. In a bucket blocks come as they
    are written.

    Parameters
    ----------
    groups : sequence of SparsityData
        Of a plan: the buckets of each group.
    backward : bool, optional
        Whether it is the gradient of the activations: the product with the transpose, from the same buckets.
    """
    plan, layout = groups[0].plan, groups[0].layout
    parts_x, parts_y, parts_z = layout.parts
    rows, columns, places = blocks_of(groups)
    (m, k, n), side, pieces = layout.shape, layout.side, parts_x * parts_y
    bucket = places // max(1, layout.block_room) % layout.buckets
    group = places // max(1, layout.buckets * layout.block_room)
    x = np.searchsorted(layout.x_starts, rows % (m // side) * side, "right") - 1
    y = np.searchsorted(layout.y_starts, columns % (k // side) * side, "right") - 1
    far_x = (x - bucket // (parts_y * parts_z)) % parts_x
    far_y = (y - bucket // parts_z % parts_y) % parts_y
    piece = group * pieces + (y * parts_x + x if backward else x * parts_y + y)
    order = np.lexsort((places, far_y, far_x, piece))
    numbers = np.arange(parts_y) * parts_z * parts_x + np.arange(parts_x)[:, None]
    if backward:
        rows, columns, numbers, m, k = columns, rows, numbers.T, k, m
    numbers = (np.arange(len(groups))[:, None] * layout.buckets + numbers.ravel()).ravel()
    split = Split(np.searchsorted(piece[order], np.arange(len(groups) * pieces + 1)), rows[order])
    ends = (*layout.z_starts[1:], n)
    parts = tuple(ColumnPart(first, end - first, 0, numbers + z * parts_x)
                  for z, (first, end) in enumerate(zip(layout.z_starts, ends, strict=True)))
    work = TileBlocks((len(groups) * m, len(groups) * k, n), side, layout.data_type, plan.partials_type,
                      plan.target.tiles, np.arange(order.size), rows[order], columns[order], parts, (split,), backward,
                      _received(groups, backward), len(groups))
    return work, np.concatenate([data.blocks() for data in groups])[places[order]]


def _received(groups: Sequence[SparsityData], backward: bool) -> tuple[int, int]:
    """Bytes that tiles receive: dense rows and buckets, then partial sums."""
    plan, layout, count = groups[0].plan, groups[0].layout, len(groups)
    (m, k, n), (parts_x, parts_y, parts_z) = layout.shape, layout.parts
    if backward:
        m, k, parts_x, parts_y = k, m, parts_y, parts_x
    size, partial = TYPE_SIZES[layout.data_type], TYPE_SIZES[plan.partials_type]
    bucket = layout.value_room * size + 2 * layout.meta_room
    dense = k * n * size * parts_x * (parts_x > 1)
    buckets = bucket * layout.buckets * (parts_z - 1 + propagation_steps(groups))
    return count * (dense + buckets), count * m * n * partial * (parts_y - 1)
