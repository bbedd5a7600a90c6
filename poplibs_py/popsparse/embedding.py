"""Rows of a sparse matrix by index: read as dense rows, or added to where something is stored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..checks import check_shape, finite
from ..errors import InvalidIndexError, bad_argument
from ..formats import FP16, FP32, Array, Format
from ..ops import RESULT, Operand, Request, receive, whole_operand
from ..ops.numpy_ops import told
from ..target.host_memory import check_memory
from .matrix import BlockSparseMatrix
from .operands import SparseOperand, check_matrix, dense_operand, product_format, receive_result, sparse_operand
from .parts import BLOCKS
from .values import decode, encode


def slice_request(w: Any, indices: Any, out: Any, out_dtype: Any) -> Request:
    """Describe ``W[indices]``, dense."""
    matrix, sparse, wanted = _indexed(w, indices)
    rows, shape = _Rows.of(sparse), (*wanted.shape, matrix.shape[1])
    receiver = receive_result(out, shape, out_dtype, product_format(matrix.format))
    form, exponent = receiver.format, receiver.scale

    def run(*arrays: Array) -> None:
        *held, places, result = arrays
        rows.check(places)
        if result.size:
            made = rows.read(_Arrays.of(rows, held), places.ravel()).reshape(shape)
            result[...] = _narrow(made, form, exponent)

    return Request(run, (*_operands(sparse), wanted, RESULT), receiver, told("embedding_slice", shape, matrix.format),
                   checks=True)


def update_request(w: Any, slices: Any, indices: Any, scale: Any, out: Any) -> Request:
    """Describe ``W[indices] += scale * slices`` where something is stored."""
    matrix, sparse, wanted = _indexed(w, indices)
    factor = np.float32(finite("scale", scale, -FP32.max, FP32.max))
    given = dense_operand("slices", slices)
    rows, shape = _Rows.of(sparse), (*wanted.shape, matrix.shape[1])
    check_shape("slices", given, given.shape == shape, f"shape {shape}, a row for each index")
    if out is not None:
        into = check_matrix("out", out)
        same = (into.pattern, into.format, into.is_transposed) == (matrix.pattern, matrix.format, matrix.is_transposed)
        if not same or not np.array_equal(into.scale, matrix.scale):
            raise bad_argument("out", repr(into), f"a matrix of the pattern, format and scale of w, {matrix!r}")
    stored = None if out is None else out._parts[1 + BLOCKS]
    receiver = receive("out", stored, matrix.blocks.shape, None, matrix.format, in_place=(sparse.values,))
    form, exponent = matrix.format, given.scale

    def run(added: Array, *arrays: Array) -> None:
        *held, places, result = arrays
        rows.check(places)
        if result.size:
            values = _wide(added, exponent).reshape(-1, shape[-1])
            with np.errstate(all="ignore"):
                values *= factor
            own = _Arrays.of(rows, held)
            result[...] = _narrow(rows.add(own, values, places.ravel()), form, own.scale)

    request = Request(run, (given, *_operands(sparse), wanted, RESULT), receiver,
                      told("embedding_update_add", shape, matrix.format), checks=True)
    if out is None:
        return request.with_(first=matrix, like=sparse.values, wrap=lambda blocks, first: first._with(blocks=blocks))
    return request.with_(receiver=replace(receiver, given=out, place=("out", BLOCKS)),
                         keep=out.pattern is matrix.pattern and sparse.scales is None)


def _indexed(w: Any, indices: Any) -> tuple[BlockSparseMatrix, SparseOperand, Operand]:
    """Return a matrix of one group, as a product takes it too, and whole numbers, or raise."""
    matrix = check_matrix("w", w)
    if matrix.groups > 1:
        raise bad_argument("w", f"{matrix.groups} groups", "one: see BlockSparseMatrix.group")
    wanted = whole_operand("indices", indices)
    check_memory("indices", f"{wanted.array.size} rows", 12 * wanted.array.size * matrix.shape[1])
    return matrix, sparse_operand("w", matrix), wanted


def _operands(w: SparseOperand) -> tuple[Operand, ...]:
    """Return what a matrix has in memory."""
    return tuple(x for x in (w.offsets, w.columns, w.values, w.order, w.scales) if x is not None)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of matrices of a kind, which may be transposed views."""

    shape: tuple[int, int]
    block_shape: tuple[int, int]
    transposed: bool
    ordered: bool
    scale: int | None

    @classmethod
    def of(cls, w: SparseOperand) -> _Rows:
        """Return those of matrices like this one."""
        block = w.pattern.block_shape
        return cls(w.shape, block[::-1] if w.transposed else block, w.transposed, w.order is not None, w.scale)

    def check(self, places: Array) -> None:
        """Refuse what is no row."""
        rows = self.shape[0]
        wrong = places[(places < 0) | (places >= rows)] if places.size else places
        if wrong.size:
            raise InvalidIndexError(f"indices: got {wrong[0]}; allowed: whole numbers from 0 to {rows - 1}")

    def _met(self, held: _Arrays, rows: Array) -> tuple[Array, Array, Array, Array]:
        """Return, index by index, which index meets a block, which block column and stored block that is, and the row
        inside it."""
        down, inside = np.divmod(rows.astype(np.int64), self.block_shape[0])
        begins = held.offsets[down]
        counts = held.offsets[down + 1] - begins
        which = np.repeat(np.arange(rows.size), counts)
        blocks = np.arange(which.size) + np.repeat(begins - np.cumsum(counts) + counts, counts)
        stored = blocks if held.order is None else held.order[blocks]
        return which, held.columns[blocks], stored, inside[which]

    def read(self, held: _Arrays, rows: Array) -> Array:
        """Rows of a matrix as FP32, dense."""
        columns, wide = self.shape[1], self.block_shape[1]
        found = np.zeros((rows.size, -(-columns // wide), wide), np.float32)
        which, across, stored, inside = self._met(held, rows)
        scale = held.scale if isinstance(held.scale, int) else held.scale[stored]
        lines = held.blocks[stored, :, inside] if self.transposed else held.blocks[stored, inside]
        found[which, across] = _wide(np.ascontiguousarray(lines)[:, None], scale)[:, 0]
        return found.reshape(rows.size, -1)[:, :columns]

    def add(self, held: _Arrays, updates: Array, rows: Array) -> Array:
        """Add FP32 rows to blocks in the order of their indices, and return the sums."""
        sums, wide = _wide(held.blocks, held.scale), self.block_shape[1]
        which, across, stored, inside = self._met(held, rows)
        padded = np.zeros((len(updates), -(-updates.shape[1] // wide), wide), np.float32)
        padded.reshape(len(updates), -1)[:, :updates.shape[1]] = updates
        with np.errstate(all="ignore"):
            np.add.at(sums.swapaxes(1, 2) if self.transposed else sums, (stored, inside), padded[which, across])
        return sums


class _Arrays(NamedTuple):
    """What a matrix of a call has in memory: blocks as they are stored, and their places where those are others."""

    offsets: Array
    columns: Array
    blocks: Array
    order: Array | None
    scale: Any

    @classmethod
    def of(cls, rows: _Rows, arrays: list[Array]) -> _Arrays:
        """Return the arrays of a call."""
        offsets, columns, blocks, *more = arrays
        order = None if not rows.ordered else more.pop(0)
        return cls(offsets, columns, blocks, order, more[0] if rows.scale is None else rows.scale)


def _wide(values: Array, scale: Any) -> Array:
    """Values as a new array of FP32 numbers; NumPy knows FP16."""
    return np.array(values, np.float32, order="C") if values.dtype == np.float16 else decode(values, scale)


def _narrow(values: Array, to: Format, scale: Any) -> Array:
    """FP32 numbers rounded once to a format; NumPy knows FP16."""
    if to != FP16:
        return encode(values, to, scale)
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float16)
