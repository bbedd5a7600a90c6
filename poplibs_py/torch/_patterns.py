"""The pattern that index tensors stand for, checked once and kept for as long as the tensors are as they were."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..checks import check_shape
from ..errors import bad_argument, bad_type
from ..formats import Array, format_of
from ..popsparse.makers import maker
from ..popsparse.matrix import BlockSparseMatrix
from ..popsparse.pattern import BlockPattern
from ._library import array_of

_KEPT: dict[int, KeptPattern] = {}
"""By the identity of the tensor of row offsets; each holds that tensor weakly, and goes with it."""

_PARAMETERS: dict[int, tuple[Any, int, Array, torch.dtype]] = {}
"""The memory of parameters, by their identity: each weakly, where its memory is, that as an array, and its dtype."""


class KeptPattern:
    """A pattern, and what makes blocks of each format into a matrix of it.

    Parameters
    ----------
    row_offsets, column_indices : torch.Tensor
    shape, block_shape : (int, int)
    """

    __slots__ = ("_block_shape", "_indices", "_makers", "_shape", "_versions", "blocks_shape", "pattern")

    _indices: tuple[Any, Any]

    def __init__(self, row_offsets: Tensor, column_indices: Tensor, shape: tuple[int, int],
                 block_shape: tuple[int, int]) -> None:
        offsets, columns = index_of("row_offsets", row_offsets), index_of("column_indices", column_indices)
        groups = groups_of(offsets.size - 1, shape[0], block_shape[0])
        self.pattern = BlockPattern(shape, block_shape, offsets, columns, groups)
        self.blocks_shape = (self.pattern.n_blocks, *block_shape)
        self._shape, self._block_shape = shape, block_shape
        key = id(row_offsets)
        self._indices = weakref.ref(row_offsets, lambda _: _KEPT.pop(key, None)), weakref.ref(column_indices)
        self._versions = _versions(row_offsets, column_indices)
        self._makers: dict[tuple[Any, bool], Any] = {}

    def is_of(self, row_offsets: Tensor, column_indices: Tensor, rows: int, columns: int,
              block_shape: tuple[int, int]) -> bool:
        """Whether this is the pattern of these tensors, neither of which has changed."""
        if (self._indices[0]() is not row_offsets or self._indices[1]() is not column_indices
                or self._shape != (rows, columns) or self._block_shape != block_shape):
            return False
        versions = self._versions
        if versions is not None:
            return bool(versions[0] == row_offsets._version and versions[1] == column_indices._version)
        return (np.array_equal(self.pattern.row_offsets, row_offsets.numpy())
                and np.array_equal(self.pattern.column_indices, column_indices.numpy()))

    def matrix(self, blocks: Array, transposed: bool) -> BlockSparseMatrix:
        """Return blocks, which are shared, as a matrix, or as its transposed view."""
        check_shape("blocks", blocks, blocks.shape == self.blocks_shape, f"shape {self.blocks_shape}")
        made = self._makers.get((blocks.dtype, transposed))
        if made is None:
            made = self._makers[blocks.dtype, transposed] = maker(self.pattern, format_of(blocks.dtype), transposed)
        matrix: BlockSparseMatrix = made(blocks, None)
        return matrix


def kept_pattern(row_offsets: Tensor, column_indices: Tensor, rows: int, columns: int,
                 block_shape: tuple[int, int]) -> KeptPattern:
    """Return the pattern of index tensors, made at the first call with them; or raise."""
    kept = _KEPT.get(id(row_offsets))
    if kept is None or not kept.is_of(row_offsets, column_indices, rows, columns, block_shape):
        kept = KeptPattern(row_offsets, column_indices, (rows, columns), block_shape)
        _KEPT[id(row_offsets)] = kept
    return kept


def matrix_of(blocks: Tensor, row_offsets: Tensor, column_indices: Tensor, rows: int, columns: int,
              transposed: bool = False) -> BlockSparseMatrix:
    """Return the matrix, or its transposed view, that tensors stand for; it shares the blocks where they lie together.

    What the blocks hold outside the matrix, where they reach over its edge, is never read.
    """
    lasting = type(blocks) is torch.nn.Parameter
    values = (_values_of_parameter(blocks) if lasting else
              array_of("blocks", blocks if blocks.is_contiguous() else blocks.contiguous()))
    if values.ndim != 3:
        raise bad_argument("blocks", f"{values.ndim} dimensions", "3: blocks, their rows, their columns")
    kept = kept_pattern(row_offsets, column_indices, rows, columns, values.shape[1:])
    return kept.matrix(values, transposed)


def _values_of_parameter(blocks: Tensor) -> Array:
    """Return a parameter's memory as an array, which is kept for the next call.

    The array keeps the memory, so that no other tensor comes to lie where a parameter that was moved has lain.
    """
    key, shape = id(blocks), blocks.shape
    kept = _PARAMETERS.get(key)
    if (kept is not None and kept[0]() is blocks and kept[1] == blocks.data_ptr() and kept[2].shape == shape
            and kept[3] is blocks.dtype and blocks.is_contiguous()):
        return kept[2]
    values = array_of("blocks", (blocks if blocks.is_contiguous() else blocks.contiguous()).detach())
    if blocks.is_contiguous():
        held = weakref.ref(blocks, lambda _: _PARAMETERS.pop(key, None))
        _PARAMETERS[key] = held, blocks.data_ptr(), values, blocks.dtype
    return values


def index_of(name: str, tensor: Any) -> Array:
    """Return an index tensor as an array, or raise."""
    allowed = "a one-dimensional tensor of int64 or int32"
    if not isinstance(tensor, Tensor):
        raise bad_type(name, type(tensor).__name__, allowed)
    if tensor.dtype not in (torch.int64, torch.int32) or tensor.dim() != 1:
        raise bad_type(name, f"a tensor of {tensor.dtype} with {tensor.dim()} dimensions", allowed)
    found: Array = tensor.detach().numpy()
    return found


def block_shape_of(blocks: Tensor) -> tuple[int, int]:
    """Return the shape of each of the blocks of a tensor, or raise."""
    if blocks.dim() != 3:
        raise bad_argument("blocks", f"{blocks.dim()} dimensions", "3: blocks, their rows, their columns")
    return blocks.shape[1], blocks.shape[2]


def groups_of(block_rows: int, rows: int, high: int) -> int:
    """Return how many matrices of so many rows there are in so many block rows of a height."""
    each = -(-rows // high) if high else 0
    return max(1, block_rows // each) if each else 1


def _versions(row_offsets: Tensor, column_indices: Tensor) -> tuple[int, int] | None:
    """What torch counts up when tensors are written to; None where it does not count."""
    if row_offsets.is_inference() or column_indices.is_inference():
        return None
    return row_offsets._version, column_indices._version
