"""PopLibs' partitioner of dynamic sparsity: a matrix becomes buckets, on any pattern that fits them."""

from __future__ import annotations

import dataclasses
from functools import singledispatch
from typing import Any

import numpy as np

from ...checks import instance, one_of
from ...errors import CapacityError, CapacityWarning, bad_argument, bad_type, warn
from ...formats import Array
from ..host import HostMatrix
from ..matrix import BlockSparseMatrix
from ..pattern import BlockPattern
from ._buckets import Buckets, Encoder
from .data import SparsityData, cut_blocks
from .layout import BucketLayout

_MOST_OVERSIZE = 64.0
_STEPS = 6


class BucketOverflowError(CapacityError):
    """A pattern does not fit its buckets.

    Attributes
    ----------
    original : str
        What PopLibs says.
    """

    def __init__(self, message: str, original: str) -> None:
        super().__init__(message)
        self.original = original


class _NoRoomError(Exception):
    """Why a pattern does not fit a layout, and what PopLibs says."""

    def __init__(self, why: str, original: str) -> None:
        super().__init__(why)
        self.original = original


class Partitioner:
    """Puts patterns into the buckets of a layer's plan. PopLibs' ``popsparse::dynamic::Partitioner``.

    Parameters
    ----------
    plan : FullyConnectedPlan or BucketLayout
        Of the layer, or its buckets alone.

    Attributes
    ----------
    plan : object
        The layer's plan, or None.
    layout : BucketLayout

    Examples
    --------
    >>> from poplibs_py.popsparse import random_matrix, random_pattern
    >>> from poplibs_py.popsparse.fully_connected import FullyConnectedParams, plan_fully_connected
    >>> from poplibs_py.popsparse.partitioner import Partitioner
    >>> plan = plan_fully_connected(FullyConnectedParams(256, 256, 64, 0.1, side=8))
    >>> w = random_matrix(random_pattern(256, 256, 8, density=0.1, seed=1), dtype="float16", seed=2)
    >>> data = Partitioner(plan).create_sparsity_data(w)
    >>> data.meta_info.shape[0] == plan.tiles_used, data.to_matrix().equals(w)
    (True, True)
    """

    def __init__(self, plan: Any) -> None:
        self.plan = None if isinstance(plan, BucketLayout) else plan
        layout: Any = plan if self.plan is None else getattr(plan, "layout", None)
        instance("plan", layout, BucketLayout, "a FullyConnectedPlan or a BucketLayout")
        self.layout: BucketLayout = layout

    def create_sparsity_data(self, w: BlockSparseMatrix | HostMatrix, *, capacity: str = "fixed") -> SparsityData:
        """Put a matrix into buckets, word for word as PopLibs' ``createSparsityDataImpl`` does.

        Parameters
        ----------
        w : BlockSparseMatrix, COOMatrix, CSRMatrix or CSCMatrix
            Of the plan's shape and blocks, or of the layout's; one group. Its values are copied as they are.
        capacity : {"fixed", "grow"}, optional
            What to do where it does not fit: raise (default), or plan anew with as large a
            ``metaInfoBucketOversizeProportion`` as it takes. The data's `layout` is then the new plan's, and a
            `CapacityWarning` says so.

        Raises
        ------
        BucketOverflowError
            If it does not fit, a `CapacityError`. The message says by how much, and which oversize would do.
        """
        one_of("capacity", capacity, ("fixed", "grow"))
        pattern, blocks, side = self._parts(w)
        try:
            return dataclasses.replace(_encoded(self.layout, pattern, blocks, side), plan=self.plan)
        except _NoRoomError as refusal:
            why, original = str(refusal), refusal.original
        grown = self._grown(pattern, blocks, side)
        if grown is None:
            raise BucketOverflowError(f"w: got {why}; allowed: what fits {self._room()}", original)
        plan, data = grown
        oversize = plan.options.meta_info_bucket_oversize_proportion
        if capacity == "fixed":
            raise BucketOverflowError(f"w: got {why}; allowed: what fits {self._room()}; "
                                      f"metaInfoBucketOversizeProportion={oversize:g} would do", original)
        warn(f"w: got {why}; room was made for {self._room()}; planned anew with "
             f"metaInfoBucketOversizeProportion={oversize:g}", CapacityWarning)
        return data

    def buckets_of(self, pattern: BlockPattern) -> Buckets:
        """Return the compiled buckets of a pattern of the layout's blocks, whether all of it finds room or not."""
        offsets = np.ascontiguousarray(pattern.row_offsets, np.int64)
        columns = np.ascontiguousarray(pattern.column_indices, np.int32)
        return Buckets(self.layout.fields(), *self.layout.edges(), offsets, columns)

    def _parts(self, w: Any) -> tuple[BlockPattern, Array, int]:
        """Pattern and blocks as the layout has them, and the side of the matrix' own blocks."""
        if isinstance(w, HostMatrix):
            w = BlockSparseMatrix.from_host(w)
        if not isinstance(w, BlockSparseMatrix):
            raise bad_type("w", type(w).__name__, "a BlockSparseMatrix, COOMatrix, CSRMatrix or CSCMatrix")
        pattern, blocks = w.pattern, w._blocks
        if w.is_transposed:
            pattern, order = pattern.transposed()
            blocks = np.ascontiguousarray(blocks[order].swapaxes(1, 2))
        side = self.layout.side if self.plan is None else self.plan.params.side
        wanted = self.layout.shape[:2]
        if pattern.shape != wanted or pattern.groups != 1:
            raise bad_argument("w", f"shape {pattern.shape}, {pattern.groups} groups", f"shape {wanted}, one group")
        if pattern.block_shape not in ((side, side), (self.layout.side, self.layout.side)):
            raise bad_argument("w", f"blocks of {pattern.block_shape}", f"blocks of {side} x {side}, as planned")
        side = pattern.block_shape[0]
        if side != self.layout.side:
            pattern, blocks = cut_blocks(pattern, blocks, self.layout.side)
        return pattern, blocks, side

    def _room(self) -> str:
        q = self.layout
        return f"{q.buckets} buckets of {q.block_room} blocks and {q.meta_room} words of meta-information"

    def _grown(self, pattern: BlockPattern, blocks: Array, side: int) -> tuple[Any, SparsityData] | None:
        """Return a plan with as little more room as holds a pattern, and the pattern in it; None where none does."""
        if self.plan is None:
            return None
        low = self.plan.options.meta_info_bucket_oversize_proportion
        high, found = max(2 * low, 0.25), None
        while found is None and high <= _MOST_OVERSIZE:
            found = self._tried(high, pattern, blocks, side)
            if found is None:
                low, high = high, 2 * high
        for _ in range(_STEPS if found else 0):
            between = (low + high) / 2
            better = self._tried(between, pattern, blocks, side)
            low, high, found = (low, between, better) if better else (between, high, found)
        return found

    def _tried(self, oversize: float, pattern: BlockPattern, blocks: Array,
               side: int) -> tuple[Any, SparsityData] | None:
        plan = replanned(self.plan, oversize)
        if plan is None or plan.layout.side != self.layout.side:
            return None
        try:
            return plan, dataclasses.replace(_encoded(plan.layout, pattern, blocks, side), plan=plan)
        except _NoRoomError:
            return None


@singledispatch
def replanned(plan: Any, oversize: float) -> Any:
    """Return a plan of the same problem with another ``metaInfoBucketOversizeProportion``, or None.

    Plans of layers register how they are planned anew.
    """
    raise NotImplementedError(type(plan).__name__)


def _encoded(layout: BucketLayout, pattern: BlockPattern, blocks: Array, side: int) -> SparsityData:
    """Put blocks into the buckets of a layout, or refuse."""
    offsets = np.ascontiguousarray(pattern.row_offsets, np.int64)
    columns = np.ascontiguousarray(pattern.column_indices, np.int32)
    buckets = Buckets(layout.fields(), *layout.edges(), offsets, columns)
    full, left, words, most = buckets.spill()
    if full:
        raise _NoRoomError(f"{pattern.n_blocks} blocks, of which {left} find no room: {full} buckets spill, up to "
                           f"{most} blocks and {words} words each", "Overflow in buckets")
    encoder = Encoder(buckets)
    meta = np.zeros((layout.buckets, layout.meta_room + layout.own_grad_a_room), np.uint16)
    values = np.zeros((layout.buckets, layout.value_room), blocks.dtype)
    at, excess, largest = encoder.encode(meta, as_bytes(blocks).ravel(), as_bytes(values),
                                        layout.side**2 * blocks.itemsize)
    if at >= 0:
        if excess:
            raise _NoRoomError(f"{excess} words of meta-information too many for bucket {at}",
                               "Meta info exceeds specified bucket size}")
        raise _NoRoomError(f"numbers up to {largest} in bucket {at}, more than 16 bits hold",
                           "Metainfo bucket element exceeds type bound")
    return SparsityData(layout, tuple(encoder.overflow()), meta, values, side)


def as_bytes(array: Array) -> Array:
    """Return a C-contiguous array's bytes, the last axis longer."""
    return array.view(np.uint8) if array.size else np.empty((*array.shape[:-1], 0), np.uint8)
