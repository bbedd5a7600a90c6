"""The gradient of a dynamic sparse layer's weights on a modelled machine: from buckets to tiles, calls, the contract.

Buckets of partial sums travel along the parts of the batch, or the dense operands do: as the plan decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import bad_argument
from ...formats import Array
from ...ops import RESULT, Request
from ...target import TYPE_SIZES, Target
from ..matrix import BlockSparseMatrix
from ..modelled import empty_request, tiles_request
from ..operands import dense_operand, layout_of, receive_result, sparse_operand
from ..partitioner import SparsityData
from ..pattern import BlockPattern, places_of
from ..samples_modelled import TileSamples, interpret_samples, lower_samples
from .lower import blocks_of, overflow_of
from .modelled import grouped, partitioned, plan_of_call


def exchange_steps(groups: Sequence[SparsityData]) -> tuple[int, int, int]:
    """Return how often buckets, or the dense operands, move by one part along x, y and z.

    They go round all parts of z at each place that spills ask for. Buckets go on until they are back where they began.
    """
    plan = groups[0].plan
    x, y, z = overflow_of(groups)
    parts_x, parts_y, _ = groups[0].layout.parts
    home = plan.candidate.exchanges_buckets
    rounds = x * y * z if z > 1 else 0
    if x > 1:
        return parts_x if home else x - 1, x * parts_y if parts_y > 1 else 0, rounds
    return 0, (parts_y if home else y - 1) if y > 1 else 0, rounds


def tile_samples(groups: Sequence[SparsityData], pattern: BlockPattern, transposed: bool = False) -> TileSamples:
    """Return the blocks of each tile: those of its bucket, as they are written there.

    Parameters
    ----------
    groups : sequence of SparsityData
        Of a plan: the buckets of each group.
    pattern : BlockPattern
        What is stored of the weights.
    transposed : bool, optional
        Whether that is the transpose of the weights.
    """
    plan, layout, count = groups[0].plan, groups[0].layout, len(groups)
    (m, k, n), (parts_x, parts_y, parts_z), side = layout.shape, layout.parts, layout.side
    rows, columns, places = blocks_of(groups)
    bucket = places // max(1, layout.block_room)
    part = bucket % layout.buckets
    tile = bucket
    if plan.candidate.exchanges_buckets:  # tiles are numbered as forward
        tile = bucket - part + (part % (parts_y * parts_z)) * parts_x + part // (parts_y * parts_z)
    order = np.lexsort((places, tile))
    rows, columns, tile, bucket = rows[order], columns[order], tile[order], bucket[order]
    tiles, begins = np.unique(tile, return_index=True)
    return TileSamples(
        (count * m, count * k, n), side, layout.data_type, plan.partials_type, plan.target.tiles, rows, columns,
        _stored_places(pattern, rows, columns, (m // side, k // side, side), transposed),
        np.append(begins, rows.size), tiles, bucket[begins] % parts_z, np.array([*layout.z_starts, n], np.int64),
        _received(groups), (pattern.n_blocks, pattern.block_shape[0]), count)


def _stored_places(pattern: BlockPattern, rows: Array, columns: Array, shape: tuple[int, int, int],
                   transposed: bool) -> Array:
    """Where a pattern stores blocks, in blocks of their side: a stored block has several if it is larger."""
    down, across, side = shape
    group, rows, columns = rows // down, rows % down, columns % across
    if transposed:
        rows, columns = columns, rows
    each = pattern.block_shape[0] // side
    high, wide = (extent // pattern.block_shape[0] for extent in pattern.shape)
    which = np.searchsorted(places_of(pattern), (group * high + rows // each) * wide + columns // each)
    places: Array = (which * each + rows % each) * each + columns % each
    return places


def _received(groups: Sequence[SparsityData]) -> int:
    """Bytes that tiles receive: the dense operands, then at each step buckets of partial sums, or dense operands."""
    plan, layout, count = groups[0].plan, groups[0].layout, len(groups)
    (m, k, n), (parts_x, parts_y, _) = layout.shape, layout.parts
    size, (along_x, along_y, along_z) = TYPE_SIZES[layout.data_type], exchange_steps(groups)
    grads, acts = m * n * size * parts_y, k * n * size * parts_x  # on all tiles
    begun = grads * (parts_y > 1) + acts * (parts_x > 1)
    if plan.candidate.exchanges_buckets:
        bucket = layout.value_room * TYPE_SIZES[plan.partials_type] + 2 * layout.meta_room
        return count * (begun + bucket * layout.buckets * (along_x + along_y + along_z))
    return count * (begun + grads * (along_x + along_z) + acts * (along_y + along_z))


def tile_loads(groups: Sequence[SparsityData], work: TileSamples) -> tuple[Array, Array]:
    """Return the bytes, and the multiply-accumulates, of each tile."""
    plan, layout, count = groups[0].plan, groups[0].layout, len(groups)
    (m, k, n), (parts_x, parts_y, _) = layout.shape, layout.parts
    x, y, z = (np.diff(edges) for edges in layout.edges())
    held = ((x[:, None, None] + y[:, None]) * z * TYPE_SIZES[layout.data_type]
            + layout.value_room * TYPE_SIZES[plan.partials_type] + 2 * layout.meta_room)
    if plan.candidate.exchanges_buckets:
        groups_of, rows, columns = (work.rows // (m // work.side), work.rows % (m // work.side),
                                    work.columns % (k // work.side))
        part = (np.searchsorted(layout.x_starts, rows * work.side, "right") - 1) * parts_y
        part += np.searchsorted(layout.y_starts, columns * work.side, "right") - 1
        blocks = np.bincount(groups_of * parts_x * parts_y + part, minlength=count * parts_x * parts_y)
        done = blocks.reshape(count, parts_x, parts_y, 1) * z
        held, done = (np.moveaxis(np.broadcast_to(part, done.shape), 1, 3) for part in (held, done))
    else:
        blocks = np.zeros(count * layout.buckets, np.int64)
        blocks[work.tiles] = np.diff(work.starts)
        done, held = blocks * n, np.broadcast_to(held, (count, *held.shape))
    spread = np.zeros((2, work.machine_tiles), np.int64)
    spread[:, :count * layout.buckets] = held.ravel(), done.ravel() * work.side**2
    return spread[0], spread[1]


def gradient_request(w: BlockSparseMatrix, grads: Any, acts: Any, out: Any, out_dtype: Any, target: Target,
                     options: Mapping[str, Any] | None, more: Mapping[str, Any], blocks: int) -> Request:
    """Describe the gradient of a layer's stored weights on a modelled machine, planned for so many blocks."""
    (rows, depth), groups = w.shape, w.groups
    left = grouped("grads", dense_operand("grads", grads), "layer", groups, rows)
    right = grouped("acts", dense_operand("acts", acts), "layer", groups, depth)
    columns = left.shape[2]
    if right.shape[2] != columns:
        raise bad_argument("acts", f"a batch of {right.shape[2]}", f"that of grads, {columns}")
    receiver = receive_result(out, w._blocks.shape, out_dtype, w.format, contiguous=True)
    if not receiver.array.size or 0 in (rows, depth, columns):
        return empty_request(receiver)
    data = partitioned(w, plan_of_call(w, columns, blocks, target, options, more))
    work, plan = tile_samples(data, w.pattern, w.is_transposed), data[0].plan
    program = lower_samples(work, layout_of(left), layout_of(right), w.is_transposed)
    return tiles_request(program, (left, right, RESULT), receiver, plan.of_pass("GradW"),
                         f"gradient of the weights of {plan.params}", lambda: tile_loads(data, work),
                         lambda: sparse_operand("w", w, False).measured(columns))


def interpret_gradient(groups: Sequence[SparsityData], pattern: BlockPattern, grads: Array, acts: Array,
                       transposed: bool = False) -> Array:
    """Make the gradient of the weights in plain NumPy: slow, obvious, and of the same bits as the compiled program.

    Parameters
    ----------
    groups, pattern, transposed
        As for `tile_samples`.
    grads, acts : numpy.ndarray, shape (batch, groups * outputs), (batch, groups * inputs)
        Of the plan's type.
    """
    work = tile_samples(groups, pattern, transposed)
    return interpret_samples(work, np.asarray(grads, np.float32).T, np.asarray(acts, np.float32).T, transposed)
