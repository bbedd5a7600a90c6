"""Plain references for the sparse products: NumPy, float64, dense matrices cut into blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..formats import Array


def transposed(x: Any) -> Any:
    """Return transposed matrices; a vector as it is."""
    shape = x.shape if hasattr(x, "shape") else np.shape(x)
    return x if len(shape) == 1 else np.swapaxes(x, -1, -2)


def by_group(batch_first: Array, groups: int) -> Array:
    """Return (batch, groups * width) as (groups, width, batch)."""
    batch, width = batch_first.shape
    return batch_first.reshape(batch, groups, width // groups).transpose(1, 2, 0)


def dense_of(shape: tuple[int, int], block_shape: tuple[int, int], row_offsets: Array, column_indices: Array,
             blocks: Array, groups: int = 1) -> Array:
    """Return the dense float64 matrices, shape (groups, rows, columns), of a stored pattern and values."""
    (high, wide), (rows, columns) = block_shape, shape
    down, across = -(-rows // high), -(-columns // wide)
    tiles = np.zeros((groups, down, high, across, wide))
    group, row = np.divmod(np.repeat(np.arange(groups * down), np.diff(row_offsets)), max(1, down))
    tiles[group, row, :, column_indices] = blocks.astype(np.float64)
    dense: Array = tiles.reshape(groups, down * high, across * wide)[:, :rows, :columns]
    return dense


def sampled(full: Array, block_shape: tuple[int, int], row_offsets: Array, column_indices: Array) -> Array:
    """Return the stored blocks of dense matrices, shape (groups, rows, columns), zero outside them."""
    (high, wide), (groups, rows, columns) = block_shape, full.shape
    down, across = -(-rows // high), -(-columns // wide)
    whole = np.pad(full, ((0, 0), (0, down * high - rows), (0, across * wide - columns)))
    group, row = np.divmod(np.repeat(np.arange(groups * down), np.diff(row_offsets)), max(1, down))
    blocks: Array = whole.reshape(groups, down, high, across, wide)[group, row, :, column_indices]
    return blocks
