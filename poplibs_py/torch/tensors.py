"""A block-sparse matrix as tensors, from and to torch's own layouts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..checks import check_shape, one_of, whole
from ..errors import bad_argument, bad_type
from ..popsparse.matrix import BlockSparseMatrix
from ..popsparse.pattern import BlockPattern
from ._library import array_of, check_tensor, tensor_of
from ._patterns import groups_of, kept_pattern, matrix_of

LAYOUTS = ("bsr", "csr", "coo")


class BlockSparseTensor(NamedTuple):
    """A block-sparse matrix, or a group of them, as tensors: a named tuple that ``torch.compile`` sees through.

    Make one with `from_dense`, `from_sparse`, `from_matrix` or `from_pattern`. Another's values at the same pattern are
    ``w._replace(blocks=…)``. It may be read by several threads; the index tensors are checked when they are first used
    and must not be written to behind torch's back (by ``.data`` or NumPy).

    Attributes
    ----------
    blocks : torch.Tensor, shape (n_blocks, block rows, block columns)
        What is stored: rows of blocks one after another, in each the blocks by ascending column.
    row_offsets : torch.Tensor of int64, shape (groups * block rows + 1,)
        Where each row of blocks begins.
    column_indices : torch.Tensor of int32, shape (n_blocks,)
        The block column of each block.
    rows, columns : int
        Of the matrix, or of each of its groups.

    Examples
    --------
    >>> import torch
    >>> from poplibs_py.torch import BlockSparseTensor
    >>> w = BlockSparseTensor.from_sparse(torch.eye(4).to_sparse(), 2)
    >>> w.shape, w.n_blocks, w.to_sparse("coo").layout
    ((4, 4), 2, torch.sparse_coo)
    """

    blocks: Tensor
    row_offsets: Tensor
    column_indices: Tensor
    rows: int
    columns: int

    @classmethod
    def from_dense(cls, dense: Tensor, block_shape: int | tuple[int, int], *, density: float | None = None,
                   mask: Tensor | None = None) -> BlockSparseTensor:
        """Take the blocks of a dense matrix that have a non-zero element, or the largest, or those of a mask.

        Parameters
        ----------
        dense : torch.Tensor, shape (rows, columns) or (groups, rows, columns)
            The gradient of the blocks flows back to it.
        block_shape : int or (int, int)
        density, mask
            As for `BlockSparseMatrix.from_dense`.
        """
        check_tensor("dense", dense)
        kept = None if mask is None else mask.detach().numpy() if isinstance(mask, Tensor) else mask
        found = BlockSparseMatrix.from_dense(array_of("dense", dense), block_shape, density=density, mask=kept)
        made = cls.from_pattern(found.pattern, tensor_of(found.blocks))
        if not dense.requires_grad:
            return made
        if kept is not None and tuple(np.shape(kept)) == tuple(dense.shape):
            dense = dense * torch.as_tensor(kept)
        return made._replace(blocks=_gathered(dense, found.pattern))

    @classmethod
    def from_sparse(cls, tensor: Tensor, block_shape: int | tuple[int, int] | None = None) -> BlockSparseTensor:
        """Take a BSR, CSR, CSC or COO tensor, in blocks of 1, those of a BSR tensor, or of another shape.

        It holds the values in the tensor's own dtype, without a gradient.
        """
        if not isinstance(tensor, Tensor) or tensor.layout is torch.strided:
            raise bad_type("tensor", getattr(tensor, "layout", type(tensor).__name__),
                           "a tensor of a sparse layout; BlockSparseTensor.from_dense takes dense ones")
        tensor = tensor.detach()
        return cls.from_matrix(BlockSparseMatrix.from_scipy(tensor, block_shape, dtype=tensor.dtype))

    @classmethod
    def from_matrix(cls, matrix: BlockSparseMatrix) -> BlockSparseTensor:
        """Take a `BlockSparseMatrix` at scale 0, whose blocks are shared unless it is a transposed view."""
        if not isinstance(matrix, BlockSparseMatrix):
            raise bad_type("matrix", type(matrix).__name__, "a BlockSparseMatrix")
        if np.any(matrix.scale):
            raise bad_argument("matrix", "a scale", "scale 0: tensors have none")
        matrix = matrix.copy() if matrix.is_transposed else matrix
        return cls.from_pattern(matrix.pattern, tensor_of(matrix.blocks))

    @classmethod
    def from_pattern(cls, pattern: BlockPattern, blocks: Tensor) -> BlockSparseTensor:
        """Put blocks, which are shared, at a `BlockPattern`."""
        if not isinstance(pattern, BlockPattern):
            raise bad_type("pattern", type(pattern).__name__, "a BlockPattern")
        check_tensor("blocks", blocks)
        wanted = (pattern.n_blocks, *pattern.block_shape)
        check_shape("blocks", blocks, tuple(blocks.shape) == wanted, f"shape {wanted}")
        return cls(blocks, *index_tensors(pattern), *pattern.shape)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, of each group."""
        return self.rows, self.columns

    @property
    def block_shape(self) -> tuple[int, int]:
        """Rows and columns of a block."""
        return self.blocks.shape[1], self.blocks.shape[2]

    @property
    def n_blocks(self) -> int:
        """Stored blocks, of all groups together."""
        return len(self.blocks)

    @property
    def groups(self) -> int:
        """How many matrices there are."""
        return groups_of(self.row_offsets.shape[0] - 1, self.rows, self.block_shape[0])

    @property
    def pattern(self) -> BlockPattern:
        """The pattern that the index tensors stand for."""
        return kept_pattern(self.row_offsets, self.column_indices, self.rows, self.columns, self.block_shape).pattern

    @property
    def density(self) -> float:
        """Stored blocks divided by all blocks."""
        return self.pattern.density

    def to_matrix(self) -> BlockSparseMatrix:
        """Return a `BlockSparseMatrix` that shares the blocks."""
        check_tensor("blocks", self.blocks)
        return matrix_of(*self)

    def to_dense(self) -> Tensor:
        """Return a dense tensor of the blocks' dtype, with an axis of groups in front where there are several.

        Its gradient flows back to the blocks.
        """
        pattern, (high, wide) = self.pattern, self.block_shape
        places = torch.from_numpy(pattern.row_indices).long(), self.column_indices.long()
        dtype, narrow = self.blocks.dtype, self.blocks.dtype.itemsize == 1  # torch puts no FP8 numbers into tensors
        codes = self.blocks.view(torch.uint8) if narrow else self.blocks
        grid = codes.new_zeros(pattern.groups * pattern.block_rows, pattern.block_columns, high, wide)
        full = grid.index_put(places, codes).transpose(1, 2)
        full = full.reshape(pattern.groups, pattern.block_rows * high, pattern.block_columns * wide)
        dense = full[:, : self.rows, : self.columns].contiguous()
        dense = dense.view(dtype) if narrow else dense
        return dense[0] if pattern.groups == 1 else dense

    def to_sparse(self, layout: str = "bsr") -> Tensor:
        """Return a tensor of one of torch's sparse layouts, with every stored element.

        Parameters
        ----------
        layout : {"bsr", "csr", "coo"}, optional
            BSR shares the blocks, which must divide the matrix.
        """
        one_of("layout", layout, LAYOUTS)
        pattern = self.pattern
        if pattern.groups > 1:
            raise bad_argument("layout", f"{pattern.groups} groups", "one matrix")
        if layout == "bsr":
            if pattern.is_ragged:
                raise bad_argument("layout", f"'bsr' with blocks of {self.block_shape} in shape {self.shape}",
                                   "'csr' or 'coo' where blocks reach over the edge")
            return torch.sparse_bsr_tensor(self.row_offsets, self.column_indices.to(self.row_offsets.dtype),
                                           self.blocks, self.shape, check_invariants=False)
        at, inside = self._elements(pattern)
        values = self.blocks.reshape(-1)[inside]
        if layout == "coo":
            return torch.sparse_coo_tensor(at, values, self.shape, check_invariants=False, is_coalesced=True)
        offsets = torch.zeros(self.rows + 1, dtype=torch.int64)
        torch.cumsum(torch.bincount(at[0], minlength=self.rows), 0, out=offsets[1:])
        return torch.sparse_csr_tensor(offsets, at[1], values, self.shape, check_invariants=False)

    def _elements(self, pattern: BlockPattern) -> tuple[Tensor, Tensor]:
        """Return rows and columns of the stored elements, in order, and where among the blocks' elements they are."""
        high, wide = self.block_shape
        rows = torch.from_numpy(pattern.row_indices).long()[:, None, None] * high + torch.arange(high)[:, None]
        columns = self.column_indices.long()[:, None, None] * wide + torch.arange(wide)
        places = (rows * self.columns + columns).expand(self.blocks.shape).reshape(-1)
        rows, columns = (t.expand(self.blocks.shape).reshape(-1) for t in (rows, columns))
        inside = torch.nonzero((rows < self.rows) & (columns < self.columns)).reshape(-1)
        inside = inside[torch.argsort(places[inside])]
        return torch.stack([rows[inside], columns[inside]]), inside


def index_tensors(pattern: BlockPattern) -> tuple[Tensor, Tensor]:
    """Return the row offsets and column indices of a pattern as tensors of their own."""
    return torch.from_numpy(pattern.row_offsets.copy()), torch.from_numpy(pattern.column_indices.copy())


def sparse_tensor(name: str, w: Any) -> BlockSparseTensor:
    """Return a `BlockSparseTensor`, or raise."""
    if not isinstance(w, BlockSparseTensor):
        raise bad_type(name, type(w).__name__, "a BlockSparseTensor: see its from_dense, from_sparse and from_matrix")
    check_tensor("blocks", w.blocks)
    return w


def _gathered(dense: Tensor, pattern: BlockPattern) -> Tensor:
    """Return the blocks of a dense tensor at a pattern, in torch's own operations, which have gradients."""
    (rows, columns), (high, wide) = pattern.shape, pattern.block_shape
    stack = dense if dense.dim() == 3 else dense[None]
    over = -columns % wide, -rows % high
    stack = torch.nn.functional.pad(stack, (0, over[0], 0, over[1])) if any(over) else stack
    tiles = stack.reshape(len(stack) * pattern.block_rows, high, pattern.block_columns, wide).transpose(1, 2)
    return tiles[torch.from_numpy(pattern.row_indices).long(), torch.from_numpy(pattern.column_indices.copy()).long()]


def density_of(name: str, density: Any) -> float:
    """Return a share of the blocks, more than none, or raise."""
    if isinstance(density, bool) or not isinstance(density, (int, float)) or not 0 < density <= 1:
        raise bad_argument(name, density, "a number over 0 and up to 1")
    return float(density)


def side_of(block_shape: Any) -> tuple[int, int]:
    """Return the rows and columns of a block from one number or two, or raise."""
    sides = block_shape if isinstance(block_shape, (tuple, list)) else (block_shape, block_shape)
    if len(sides) != 2:
        raise bad_argument("block_shape", block_shape, "one number, or two: rows and columns of a block")
    high, wide = (whole("block_shape", side, 1, 2**15) for side in sides)
    return high, wide
