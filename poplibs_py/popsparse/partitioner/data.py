"""What a pattern becomes on a machine: buckets of meta-information and of values, and the way back."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ...checks import instance
from ...errors import bad_argument, bad_type
from ...formats import Array
from ..host import HostMatrix
from ..matrix import BlockSparseMatrix
from ..pattern import BlockPattern
from ._buckets import decode
from .layout import BucketLayout


@dataclasses.dataclass(frozen=True, eq=False)
class SparsityData:
    """Meta-information and values of a pattern in buckets. PopLibs' ``dynamic::SparsityDataImpl``.

    Attributes
    ----------
    layout : BucketLayout
    overflow : tuple of int
        How many steps buckets travel along x, y and z, then which distances in x are met, two bits to a word.
    meta_info : numpy.ndarray of uint16, shape (buckets, words)
        Sub-groups one after another, then a 0; behind `layout.meta_room` words those of the gradient of the
        activations, where it has its own.
    values : numpy.ndarray, shape (buckets, value_room)
        Block by block, row by row, then zeros.
    side : int
        Of the blocks of the matrix it was made of.
    plan : object
        The `FullyConnectedPlan` whose buckets these are; None where there is a layout alone.
    """

    layout: BucketLayout
    overflow: tuple[int, ...]
    meta_info: Array
    values: Array
    side: int
    plan: Any = None

    @property
    def meta_words(self) -> Array:
        """All words as they lie on a machine: `overflow`, then bucket after bucket."""
        return np.concatenate([np.array(self.overflow, np.uint16), self.meta_info.ravel()])

    @classmethod
    def of_words(cls, layout: BucketLayout, meta_words: Array, values: Array, side: int | None = None) -> SparsityData:
        """Take words and values as they lie on a machine, those of `meta_words` and `values`.

        Parameters
        ----------
        layout : BucketLayout
        meta_words : numpy.ndarray of uint16
        values : numpy.ndarray
        side : int, optional
            Of the blocks of the matrix (default those of the layout).
        """
        instance("layout", layout, BucketLayout, "a BucketLayout")
        for name, array in (("meta_words", meta_words), ("values", values)):
            instance(name, array, np.ndarray, "a numpy.ndarray")
        if meta_words.dtype != np.uint16:
            raise bad_type("meta_words", meta_words, "an array of uint16")
        head, words = layout.overflow_words, layout.meta_room + layout.own_grad_a_room
        if meta_words.size != head + layout.buckets * words:
            raise bad_argument("meta_words", f"{meta_words.size} words", f"{head + layout.buckets * words} of them")
        if values.size != layout.buckets * layout.value_room:
            raise bad_argument("values", f"{values.size} numbers", f"{layout.buckets * layout.value_room} of them")
        flat = np.ascontiguousarray(meta_words).ravel()
        return cls(layout, tuple(flat[:head].tolist()), flat[head:].reshape(layout.buckets, words),
                   np.ascontiguousarray(values).reshape(layout.buckets, layout.value_room), side or layout.side)

    def read(self) -> tuple[Array, Array, Array]:
        """Return block row, block column and place of each block, in the layout's blocks, bucket by bucket.

        The place counts all buckets' room for blocks.

        Raises
        ------
        InvalidArgumentError
            If the meta-information is none that a partitioner of this layout writes; the message names the bucket.
        """
        layout = self.layout
        room = layout.block_room
        found = np.empty((layout.buckets * room, 3), np.int32)
        x, y, _ = layout.edges()
        own = np.ascontiguousarray(self.meta_info[:, :layout.meta_room])
        told = {"side": layout.side, "blocks": layout.side > 1, "is_float": layout.data_type == "float", "values": room}
        count = decode(own, x, y, told, found)
        if count < 0:
            raise bad_argument("meta_info", f"other words in bucket {-1 - count}", "those that a partitioner writes")
        rows, columns, places = found[:count].T
        return rows, columns, places

    def blocks(self) -> Array:
        """Return the room for blocks of all buckets, as one array of blocks."""
        q = self.layout
        return self.values[:, : q.block_room * q.side**2].reshape(-1, q.side, q.side)

    def to_matrix(self) -> BlockSparseMatrix:
        """Read the matrix back; its blocks are of the matrix it was made of. It raises what `read` does."""
        layout = self.layout
        rows, columns, places = self.read()
        try:
            pattern, order = BlockPattern.from_pairs(layout.shape[:2], layout.side, rows, columns)
        except ValueError as error:
            raise bad_argument("meta_info", f"blocks that are there twice ({error})", "each block once") from None
        blocks = self.blocks()[places if order is None else places[order]]
        if self.side != layout.side:
            pattern, blocks = join_blocks(pattern, blocks, self.side)
        return BlockSparseMatrix(pattern, np.ascontiguousarray(blocks))

    def to_coo(self) -> HostMatrix:
        """Read the matrix back as PopLibs' ``sparsityDataImplToCOOMatrix`` does."""
        return self.to_matrix().to_host("coo")

    def to_csr(self) -> HostMatrix:
        """Read the matrix back as PopLibs' ``sparsityDataImplToCSRMatrix`` does."""
        return self.to_matrix().to_host("csr")

    def to_csc(self) -> HostMatrix:
        """Read the matrix back as PopLibs' ``sparsityDataImplToCSCMatrix`` does."""
        return self.to_matrix().to_host("csc")


def cut_blocks(pattern: BlockPattern, blocks: Array, side: int) -> tuple[BlockPattern, Array]:
    """Cut square blocks into smaller ones, all of which are stored."""
    times = pattern.block_shape[0] // side
    steps = np.arange(times)
    shape = (pattern.n_blocks, times, times)
    rows = np.broadcast_to(pattern.row_indices[:, None, None] * times + steps[:, None], shape)
    columns = np.broadcast_to(pattern.column_indices[:, None, None] * times + steps, shape)
    small, order = BlockPattern.from_pairs(pattern.shape, side, rows.ravel(), columns.ravel())
    parts = blocks.reshape(-1, times, side, times, side).swapaxes(2, 3).reshape(-1, side, side)
    return small, np.ascontiguousarray(parts if order is None else parts[order])


def join_blocks(pattern: BlockPattern, blocks: Array, side: int) -> tuple[BlockPattern, Array]:
    """Join blocks to larger ones, zeros where one has none."""
    small = pattern.block_shape[0]
    times = side // small
    wide = pattern.shape[1] // side
    rows, columns = np.divmod(pattern.row_indices, times), np.divmod(pattern.column_indices, times)
    at, which = np.unique(rows[0].astype(np.int64) * wide + columns[0], return_inverse=True)
    large = np.zeros((at.size, times, small, times, small), blocks.dtype)
    large[which, rows[1], :, columns[1]] = blocks
    joined, _ = BlockPattern.from_pairs(pattern.shape, side, at // wide, at % wide)
    return joined, large.reshape(-1, side, side)
