"""Between dense arrays, masks, raw parts and blocks. The callers have checked formats; shapes are checked here."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..checks import check_shape
from ..errors import bad_argument, bad_type
from ..formats import Array
from ..formats.arrays import as_array
from ..target.host_memory import check_memory
from ._pattern import check
from .pattern import BlockPattern, as_block_shape, as_extent, as_shape, block_count, index_array


def check_edges(pattern: BlockPattern, blocks: Array) -> None:
    """Raise if an edge block holds a value outside the matrix that is not zero."""
    if not pattern.is_ragged or not pattern.n_blocks:
        return
    rows_left, columns_left = (extent % side for extent, side in zip(pattern.shape, pattern.block_shape, strict=True))
    if rows_left:
        for group in range(pattern.groups):
            last = (group + 1) * pattern.block_rows
            start, stop = pattern.row_offsets[last - 1], pattern.row_offsets[last]
            _check_zero(blocks[start:stop, rows_left:], f"in the last block row, below row {rows_left - 1} of a block")
    if columns_left:
        edge = np.flatnonzero(pattern.column_indices == pattern.block_columns - 1)
        _check_zero(blocks[edge][:, :, columns_left:],
                    f"in the last block column, right of column {columns_left - 1} of a block")


def _check_zero(outside: Array, where: str) -> None:
    wrong = outside != 0
    if wrong.any():
        raise bad_argument("blocks", f"{outside[wrong][0]} {where}", "zeros outside the matrix")


def pattern_of_parts(blocks_shape: tuple[int, ...], shape: object, column_indices: object, row_offsets: object,
                     row_indices: object, groups: object, block_shape: object) -> tuple[BlockPattern, Array | None]:
    """Return the pattern of raw parts, and the order to put the blocks in (None where they are in order)."""
    if (row_offsets is None) == (row_indices is None):
        got = "neither" if row_offsets is None else "row_offsets and row_indices"
        raise bad_argument("row_offsets", got, "one of row_offsets and row_indices")
    n_blocks, *given = blocks_shape
    sides = as_block_shape(tuple(given) if block_shape is None else block_shape)
    if tuple(given) != sides:
        raise bad_argument("blocks", f"blocks of shape {tuple(given)}", f"block_shape, {sides}")
    n_groups = as_extent("groups", groups, 1)
    rows_and_columns = as_shape(shape, n_groups)
    columns = index_array("column_indices", column_indices, -(-rows_and_columns[1] // sides[1]))
    if columns.size != n_blocks:
        raise bad_argument("column_indices", f"{columns.size} indices", f"as many as blocks, {n_blocks}")
    if row_indices is not None:
        return BlockPattern.from_pairs(rows_and_columns, sides, row_indices, columns, n_groups)
    offsets = index_array("row_offsets", row_offsets)
    block_rows = n_groups * -(-rows_and_columns[0] // sides[0])
    block_columns = -(-rows_and_columns[1] // sides[1])
    if offsets.size == block_rows + 1 and check(offsets, columns, block_columns)[0] in ("order", "duplicate"):
        rows = np.repeat(np.arange(block_rows), np.diff(offsets))
        return BlockPattern.from_pairs(rows_and_columns, sides, rows, columns, n_groups)
    return BlockPattern(rows_and_columns, sides, offsets, columns, n_groups), None


def pattern_of_mask(mask: object, block_shape: object, shape: object = None) -> BlockPattern:
    """Return the pattern with blocks where a mask, of one group or with groups first, is true."""
    chosen = as_array("mask", mask, "an array of bool")
    if chosen.dtype != np.bool_:
        raise bad_type("mask", f"dtype {chosen.dtype}", "an array of bool")
    if chosen.ndim not in (2, 3):
        raise bad_argument("mask", f"{chosen.ndim} dimensions", "2, or 3 with groups first")
    sides = as_block_shape(block_shape)
    stack = chosen if chosen.ndim == 3 else chosen[None]
    groups = as_extent("mask", stack.shape[0], 1)
    full = tuple(count * side for count, side in zip(stack.shape[1:], sides, strict=True))
    rows_and_columns = as_shape(full if shape is None else shape, groups)
    wanted = tuple(-(-extent // side) for extent, side in zip(rows_and_columns, sides, strict=True))
    check_shape("mask", chosen, stack.shape[1:] == wanted,
                f"{wanted[0]} block rows and {wanted[1]} block columns for shape {rows_and_columns}")
    check_memory("mask", f"shape {chosen.shape}", 24 * groups * wanted[0])
    offsets = np.zeros(groups * wanted[0] + 1, np.int64)
    np.cumsum(stack.sum(axis=2).ravel(), out=offsets[1:])
    check_memory("mask", f"{offsets[-1]} blocks", 32 * int(offsets[-1]))
    return BlockPattern(rows_and_columns, sides, offsets, np.nonzero(stack)[2], groups)


def blocks_of_dense(dense: Array, block_shape: object, density: float | None,
                    mask: object) -> tuple[BlockPattern, Array]:
    """Return the pattern and blocks of the part of a dense matrix that is kept: see `BlockSparseMatrix.from_dense`."""
    sides = as_block_shape(block_shape)
    stack = dense if dense.ndim == 3 else dense[None]
    groups = as_extent("dense", stack.shape[0], 1)
    shape = as_shape(stack.shape[1:], groups)
    chosen: Any = None
    if mask is not None:
        chosen = as_array("mask", mask, "an array of bool")
        counts = (groups, *(-(-extent // side) for extent, side in zip(shape, sides, strict=True)))[dense.ndim == 2 :]
        if chosen.shape not in (counts, dense.shape) or chosen.dtype != np.bool_:
            raise bad_argument("mask", f"shape {chosen.shape} of {chosen.dtype}",
                               f"bool, of shape {counts} for blocks or {dense.shape} for elements")
        if chosen.shape != counts:
            elements = chosen.reshape(stack.shape)
            stack = np.where(elements, stack, np.zeros((), stack.dtype))
            chosen = _tiled(elements, sides).any(axis=(3, 4))
    tiles = _tiled(stack, sides)
    if density is not None:
        chosen = _largest(tiles, density)
    elif chosen is None:
        chosen = (tiles != 0).any(axis=(3, 4))
    chosen = chosen.reshape(tiles.shape[:3])
    return pattern_of_mask(chosen, sides, shape), tiles[chosen]


def inside_matrix(pattern: BlockPattern) -> Array:
    """Whether the elements of blocks are inside the matrix."""
    (rows, columns), (high, wide) = pattern.shape, pattern.block_shape
    down = pattern.row_indices % max(1, pattern.block_rows) * np.int64(high)
    across = pattern.column_indices * np.int64(wide)
    inside: Array = (((down[:, None] + np.arange(high)) < rows)[:, :, None]
                     & ((across[:, None] + np.arange(wide)) < columns)[:, None, :])
    return inside


def _tiled(stack: Array, sides: tuple[int, int]) -> Array:
    """Return matrices as (groups, block rows, block columns, rows, columns), the last blocks filled up with zeros."""
    padding = [(0, -extent % side) for extent, side in zip(stack.shape[1:], sides, strict=True)]
    if any(after for _, after in padding):
        padded = [extent + after for extent, (_, after) in zip(stack.shape[1:], padding, strict=True)]
        check_memory("block_shape", sides, 2 * len(stack) * padded[0] * padded[1] * stack.itemsize)
        stack = np.pad(stack, [(0, 0), *padding])
    rows, columns = (extent // side for extent, side in zip(stack.shape[1:], sides, strict=True))
    return stack.reshape(len(stack), rows, sides[0], columns, sides[1]).swapaxes(2, 3)


def _largest(tiles: Array, density: float) -> Array:
    if tiles.dtype.kind not in "f":
        tiles = tiles.astype(np.float32)  # ml_dtypes
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.einsum("grcij,grcij->grc", tiles, tiles, dtype=np.float64).ravel()
    norms[np.isnan(norms)] = np.inf
    chosen = np.zeros(norms.size, bool)
    chosen[np.argsort(-norms, kind="stable")[: block_count(density, norms.size)]] = True
    return chosen.reshape(tiles.shape[:3])


def dense_of_blocks(pattern: BlockPattern, numbers: Array, dtype: np.dtype[Any]) -> Array:
    """Return blocks as a dense array, shape (groups, rows, columns)."""
    (rows, columns), (high, wide) = pattern.shape, pattern.block_shape
    everywhere = pattern.groups * pattern.block_rows * high * pattern.block_columns * wide
    check_memory("shape", f"{pattern.groups} dense matrices of {pattern.shape}" if pattern.groups > 1 else
                 f"a dense matrix of {pattern.shape}", (1 + pattern.is_ragged) * everywhere * dtype.itemsize)
    dense = np.zeros((pattern.groups * pattern.block_rows, high, pattern.block_columns, wide), dtype)
    with np.errstate(invalid="ignore"):  # signalling NaNs, where float64 is asked for
        dense[pattern.row_indices, :, pattern.column_indices] = numbers
    full = dense.reshape(pattern.groups, pattern.block_rows * high, pattern.block_columns * wide)
    return np.ascontiguousarray(full[:, :rows, :columns])


def whole_block_rows(rows: slice, extent: int, side: int, name: str) -> tuple[int, int]:
    """Return where a slice of rows (or columns, as `name` says) begins and ends, both on edges of blocks, or raise."""
    try:
        start, stop, step = rows.indices(extent)
    except Exception:  # whatever an object of somebody else's raises
        raise bad_type(name, rows, "a slice of whole numbers") from None
    if step != 1:
        raise bad_argument(name, f"step {rows.step}", "step 1")
    start, stop = (start, stop) if start < stop else (0, 0)
    if start % side or (stop % side and stop != extent):
        raise bad_argument(name, f"{start}:{stop}", f"multiples of the block's {side} {name}, or the last of them")
    return start, stop


def slice_pattern(pattern: BlockPattern, start: int, stop: int, columns: bool) -> tuple[BlockPattern, slice | Array]:
    """Return the pattern of some whole block rows (or columns) of each group, and which blocks are in it."""
    high, wide = pattern.block_shape
    if columns:
        first, last = start // wide, -(-stop // wide)
        inside = (pattern.column_indices >= first) & (pattern.column_indices < last)
        kept = np.flatnonzero(inside)
        offsets = np.searchsorted(kept, pattern.row_offsets)
        new = pattern.column_indices[kept] - first
        shape = pattern.shape[0], stop - start
        return BlockPattern._of_parts(shape, (high, wide), offsets, new, pattern.groups), kept
    first, last = start // high, -(-stop // high)
    shape = (stop - start, pattern.shape[1])
    if pattern.groups == 1:
        offsets = pattern.row_offsets[first : last + 1] if last > first else pattern.row_offsets[first : first + 1]
        span = slice(int(offsets[0]), int(offsets[-1]))
        return BlockPattern._of_parts(shape, (high, wide), offsets - offsets[0], pattern.column_indices[span]), span
    rows = np.arange(pattern.groups)[:, None] * pattern.block_rows + np.arange(first, last)
    counts = np.diff(pattern.row_offsets)[rows.ravel()]
    offsets = np.concatenate([[0], np.cumsum(counts)])
    kept = np.flatnonzero(np.isin(pattern.row_indices, rows))
    return BlockPattern._of_parts(shape, (high, wide), offsets, pattern.column_indices[kept], pattern.groups), kept


def group_pattern(pattern: BlockPattern, group: int) -> tuple[BlockPattern, slice]:
    """Return the pattern of one group, and which blocks are in it."""
    first = group * pattern.block_rows
    offsets = pattern.row_offsets[first : first + pattern.block_rows + 1]
    span = slice(int(offsets[0]), int(offsets[-1]))
    columns = pattern.column_indices[span]
    return BlockPattern._of_parts(pattern.shape, pattern.block_shape, offsets - offsets[0], columns), span
