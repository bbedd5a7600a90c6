"""Plain references for the sparse products: NumPy, float64, blocks put in place one by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..formats import Format

__all__ = ["by_group", "dense_of", "rounded", "sampled", "sparse_dense_matmul", "turned"]

Array = np.ndarray[Any, Any]


def turned(x: Any) -> Any:
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
    height, width = block_shape
    block_rows = -(-shape[0] // height)
    dense = np.zeros((groups, shape[0], shape[1]))
    for row in range(groups * block_rows):
        group, r = divmod(row, block_rows)
        for place in range(row_offsets[row], row_offsets[row + 1]):
            c = column_indices[place]
            part = dense[group, r * height:(r + 1) * height, c * width:(c + 1) * width]
            part[...] = blocks[place][:part.shape[0], :part.shape[1]].astype(np.float64)
    return dense


def sparse_dense_matmul(dense: Array, x: Array) -> Array:
    """Return ``W X`` in float64 from W as `dense_of` gives it."""
    product: Array = np.matmul(dense, x.astype(np.float64))
    return product


def rounded(values: Array, format: Format) -> Array:
    """Return float64 values rounded to a format, too large ones to infinity or, where it has none, NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = values.astype(np.float32).astype(format.dtype)
    exact: Array = narrow.astype(np.float64)
    return exact


def sampled(full: Array, block_shape: tuple[int, int], row_offsets: Array, column_indices: Array) -> Array:
    """Return the stored blocks of dense matrices, shape (groups, rows, columns), zero outside them."""
    height, width = block_shape
    block_rows = -(-full.shape[1] // height)
    blocks = np.zeros((len(column_indices), height, width))
    for row in range(full.shape[0] * block_rows):
        group, r = divmod(row, block_rows)
        for place in range(row_offsets[row], row_offsets[row + 1]):
            c = column_indices[place]
            part = full[group, r * height:(r + 1) * height, c * width:(c + 1) * width]
            blocks[place, :part.shape[0], :part.shape[1]] = part
    return blocks
