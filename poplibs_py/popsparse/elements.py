"""Between single elements (row, column, value) and blocks."""

from __future__ import annotations

import numpy as np

from ..formats import Array
from ..target.host_memory import check_memory
from ._transpose import transpose
from .pattern import BlockPattern, as_block_shape, as_shape, index_array


def blocks_of_elements(shape: object, block_shape: object, rows: object, columns: object,
                       values: Array) -> tuple[BlockPattern, Array]:
    """Return the pattern of all blocks with an element in them, and the blocks; elements given twice are added."""
    extents, (high, wide) = as_shape(shape), as_block_shape(block_shape)
    row, column = index_array("row_indices", rows, extents[0]), index_array("column_indices", columns, extents[1])
    order = _order(_over(row, high), _over(column, wide), (-(-extents[0] // high), max(1, -(-extents[1] // wide))))
    if order is not None:
        row, column, values = row[order], column[order], values[order]
    block_row, block_column = _over(row, high), _over(column, wide)
    first = np.ones(row.size, bool)  # of its block
    first[1:] = (block_row[1:] != block_row[:-1]) | (block_column[1:] != block_column[:-1])
    pattern, _ = BlockPattern.from_pairs(extents, (high, wide), block_row[first], block_column[first])
    if (high, wide) == (1, 1) and pattern.n_blocks == row.size:
        return pattern, np.array(values).reshape(-1, 1, 1)
    check_memory("block_shape", (high, wide), pattern.n_blocks * high * wide * (2 * values.itemsize + 1))
    block = np.cumsum(first) - 1
    position = (block * high + (row - block_row * high)) * wide + (column - block_column * wide)
    blocks = np.zeros(pattern.n_blocks * high * wide, values.dtype)
    blocks[position] = values
    if _has_duplicates(position, blocks.size):
        blocks = np.bincount(position, values, blocks.size).astype(values.dtype)
    return pattern, blocks.reshape(-1, high, wide)


def _over(indices: Array, side: int) -> Array:
    return indices if side == 1 else indices // side


def _order(rows: Array, columns: Array, extents: tuple[int, int]) -> Array | None:
    """Return what sorts elements by row and then by column, those of one place as they come; None where they are."""
    key = rows * np.int64(extents[1]) + columns
    if np.all(key[1:] >= key[:-1]):
        return None
    if max(extents) > 4 * key.size:
        return np.argsort(key, kind="stable")
    # Counted by column and then by row, which takes a pass for each.
    whole = np.array([0, key.size])
    by_column = transpose(whole, columns, 1, extents[1])[2]
    by_row: Array = transpose(whole, rows[by_column], 1, extents[0])[2]
    return by_column[by_row]


def _has_duplicates(position: Array, size: int) -> bool:
    seen = np.zeros(size, bool)
    seen[position] = True
    return int(np.count_nonzero(seen)) < position.size


def elements_of_blocks(pattern: BlockPattern, blocks: Array) -> tuple[Array, Array, Array]:
    """Return row, column (int32) and value of every stored element, zeros too; rows count through all groups."""
    group, block_row = np.divmod(pattern.row_indices, max(1, pattern.block_rows))
    high, wide = pattern.block_shape
    # In int64, as the part of an edge block outside the matrix may lie beyond int32.
    inner_rows = block_row[:, None] * np.int64(high) + np.arange(high)
    inner_columns = pattern.column_indices[:, None] * np.int64(wide) + np.arange(wide)
    inside = (inner_rows < pattern.shape[0])[:, :, None] & (inner_columns < pattern.shape[1])[:, None, :]
    all_rows = (inner_rows + (group * pattern.shape[0])[:, None]).astype(np.int32)
    rows = np.broadcast_to(all_rows[:, :, None], blocks.shape)
    columns = np.broadcast_to(inner_columns.astype(np.int32)[:, None, :], blocks.shape)
    if inside.all():
        return rows.ravel(), columns.ravel(), blocks.ravel()
    return rows[inside], columns[inside], blocks[inside]
