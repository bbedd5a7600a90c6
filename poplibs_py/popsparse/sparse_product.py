"""A block-sparse by a block-sparse matrix: the pattern of the product first, then its blocks, pair after pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..config import settings
from ..errors import bad_argument, bad_type
from ..formats import Array
from ..ops import RESULT, Operand, Request, receive
from ..planner.explain import Composition
from ..poplin.tile_conv import _partials
from ..program import Executable, Segment, host_program, spread, threads_for, whole_lines
from ..target.host_memory import check_memory
from ._tiles import BLOCKS_VERTEX
from .matrix import BlockSparseMatrix
from .modelled import block_items, clearing, finishing, multiply_kernel
from .operands import check_matrix, checked_format, product_format
from .pattern import BlockPattern
from .values import decode

_LEFT, _RIGHT = range(2)  # of the program's operands
_THREAD_FLOPS = 1 << 18
_ITEMS = 8  # for each thread


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Which blocks of two matrices meet, in the order of the product's blocks and then along the depth.

    Attributes
    ----------
    pattern : BlockPattern
        Of the product.
    left, right : numpy.ndarray of int
        A block of each.
    starts : numpy.ndarray of int
        Where the pairs of the product's blocks begin, and the last end.
    """

    pattern: BlockPattern
    left: Array
    right: Array
    starts: Array


def sparse_sparse_request(w: Any, v: Any, out_dtype: Any) -> Request:
    """Describe ``W V`` of two matrices."""
    left, right = check_matrix("w", w), check_matrix("v", v)
    (rows, depth), groups = left.shape, left.groups
    if right.shape[0] != depth or right.groups != groups:
        raise bad_argument("v", f"{right.groups} x {right.shape}", f"{groups} x ({depth}, columns)")
    if right.block_shape[0] != left.block_shape[1]:
        raise bad_argument("v", f"blocks of {right.block_shape}", f"blocks of {left.block_shape[1]} rows")
    made = checked_format("out_dtype", out_dtype, product_format(left.format, right.format))
    if made.bits == 8:
        raise bad_type("out_dtype", made.name, "float32, bfloat16 or float16; the product's astype rounds to 8 bits")
    left, right = (x.copy() if x.is_transposed else x for x in (left, right))
    pairs = _met(left.pattern, right.pattern)
    pattern = pairs.pattern
    shape = pattern.n_blocks, *pattern.block_shape
    check_memory("v", f"{pairs.left.size} pairs of blocks, {shape[0]} blocks of the product",
                 24 * pairs.left.size + 8 * int(np.prod(shape)))
    receiver = receive("out", None, shape, None, made)
    operands = [Operand(decode(x.blocks, x.scale), None) for x in (left, right)]
    flops = 2 * pairs.left.size * left.block_shape[0] * left.block_shape[1] * right.block_shape[1]
    program = None
    if receiver.array.size:
        program = _lower(pairs, left.block_shape[1], made, threads_for(flops, _THREAD_FLOPS, settings.num_threads))
    kernel = multiply_kernel().label
    measured = {"flops": flops}
    problem = f"[{rows}, {depth}] x [{depth}, {right.shape[1]}], {left.n_blocks} by {right.n_blocks} blocks"
    return Request(program, (*operands, RESULT), receiver, Composition(problem, kernel).told,
                   wrap=lambda blocks, _: BlockSparseMatrix(pattern, blocks), measure=lambda: measured)


def _met(left: BlockPattern, right: BlockPattern) -> _Pairs:
    """Which blocks of two patterns meet; in a block of the product they come along the depth."""
    group = left.row_indices // max(1, left.block_rows)
    row = group.astype(np.int64) * right.block_rows + left.column_indices
    begins = right.row_offsets[row]
    counts = right.row_offsets[row + 1] - begins
    check_memory("v", f"{int(counts.sum())} pairs of blocks", 64 * int(counts.sum()))
    one = np.repeat(np.arange(left.n_blocks), counts)
    other = np.arange(one.size) + np.repeat(begins - np.cumsum(counts) + counts, counts)
    keys = left.row_indices.astype(np.int64)[one] * right.block_columns + right.column_indices[other]
    order = np.argsort(keys, kind="stable")
    places, starts = np.unique(keys[order], return_index=True)
    rows, columns = np.divmod(places, max(1, right.block_columns))
    pattern, _ = BlockPattern.from_pairs((left.shape[0], right.shape[1]), (left.block_shape[0], right.block_shape[1]),
                                         rows, columns, left.groups)
    return _Pairs(pattern, one[order], other[order], np.append(starts, one.size))


def _lower(pairs: _Pairs, depth: int, made: Any, threads: int) -> Executable:
    """Return the program: sums of each block from zero, pair after pair, then rounded to the result."""
    high, wide = pairs.pattern.block_shape
    count = pairs.pattern.n_blocks
    table = np.empty((pairs.left.size, 3), np.int64)
    table[:, 0], table[:, 1] = pairs.left * (4 * high * depth), pairs.right * (4 * depth * wide)
    table[:, 2] = np.repeat(np.arange(count), np.diff(pairs.starts)) * (4 * high * wide)
    wanted = np.arange(1, _ITEMS * threads) * pairs.left.size // (_ITEMS * threads)
    edges = np.unique(np.concatenate([[0], np.searchsorted(pairs.starts, wanted), [count]]))
    items = block_items(table, pairs.starts[edges])
    items["values"], items["x"] = _LEFT, _RIGHT
    items["side"], items["cells"], items["columns"] = high, depth, wide
    items["value_row"], items["value_cell"], items["x_row"] = 4 * depth, 4, 4 * wide
    size = 4 * count * high * wide
    results = finishing(made, (count * high, wide), 0, 0, (wide * made.itemsize, made.itemsize))
    sets = [(Segment(vertex, records, spread(records.size, threads)),)
            for vertex, records in ((_partials.CLEAR_VERTEX, clearing(0, size)), (BLOCKS_VERTEX, items),
                                    (_partials.FINISH_VERTEX, results))]
    return host_program(*sets, operands=3, threads=threads, workspace_bytes=whole_lines(size), tables=(table,))
