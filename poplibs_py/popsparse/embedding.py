"""Rows of a sparse matrix by index: read as dense rows, or added to where something is stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import InvalidIndexError, bad_argument, check_shape, finite
from ..formats import FP16, FP32, Array, Format
from ..ops import RESULT, Operand, Request, receive, whole_operand
from ..ops.numpy_ops import told
from ..target.host_memory import check_memory
from .matrix import BlockSparseMatrix
from .operands import check_matrix, dense_operand, product_format, receive_result
from .parts import BLOCKS
from .pattern import BlockPattern
from .values import decode, encode


def slice_request(w: Any, indices: Any, out: Any, out_dtype: Any) -> Request:
    """Describe ``W[indices]``, dense."""
    matrix, wanted = _indexed(w, indices)
    taken = matrix.copy() if matrix.is_transposed else matrix
    shape = (*wanted.shape, matrix.shape[1])
    receiver = receive_result(out, shape, out_dtype, product_format(matrix.format), (wanted,))

    def run(places: Array, result: Array) -> None:
        result[...] = _narrow(_rows(taken, places.ravel()).reshape(shape), receiver.format, receiver.scale)

    return Request(run, (wanted, RESULT), receiver, told("embedding_slice", shape, matrix.format), keep=False)


def update_request(w: Any, slices: Any, indices: Any, scale: Any, out: Any) -> Request:
    """Describe ``W[indices] += scale * slices`` where something is stored."""
    matrix, wanted = _indexed(w, indices)
    factor = np.float32(finite("scale", scale, -FP32.max, FP32.max))
    rows = dense_operand("slices", slices)
    shape = (*wanted.shape, matrix.shape[1])
    check_shape("slices", rows, rows.shape == shape, f"shape {shape}, a row for each index")
    if out is not None:
        into = check_matrix("out", out)
        same = (into.pattern, into.format, into.is_transposed) == (matrix.pattern, matrix.format, matrix.is_transposed)
        if not same or not np.array_equal(into.scale, matrix.scale):
            raise bad_argument("out", repr(into), f"a matrix of the pattern, format and scale of w, {matrix!r}")
    stored = None if out is None else out._parts[1 + BLOCKS]
    receiver = receive("out", stored, matrix.blocks.shape, None, matrix.format, (rows, wanted))

    def run(given: Array, places: Array, result: Array) -> None:
        values = _wide(given, rows.scale).reshape(-1, shape[-1])
        with np.errstate(all="ignore"):
            values *= factor
        _add(matrix, values, places.ravel(), result)

    request = Request(run, (rows, wanted, RESULT), receiver, told("embedding_update_add", shape, matrix.format),
                      keep=False)
    if out is None:
        request.wrap = lambda blocks, _: matrix._with(blocks=blocks)
    else:
        request.receiver = replace(receiver, given=out)
    return request


def _indexed(w: Any, indices: Any) -> tuple[BlockSparseMatrix, Operand]:
    """Return a matrix of one group, and whole numbers that are rows of it, or raise."""
    matrix = check_matrix("w", w)
    if matrix.groups > 1:
        raise bad_argument("w", f"{matrix.groups} groups", "one: see BlockSparseMatrix.group")
    wanted = whole_operand("indices", indices)
    rows, numbers = matrix.shape[0], wanted.array
    wrong = numbers[(numbers < 0) | (numbers >= rows)] if numbers.size else numbers
    if wrong.size:
        raise InvalidIndexError(f"indices: got {wrong[0]}; allowed: whole numbers from 0 to {rows - 1}")
    check_memory("indices", f"{numbers.size} rows", 12 * numbers.size * matrix.shape[1])
    return matrix, wanted


def _met(p: BlockPattern, rows: Array) -> tuple[Array, Array, Array]:
    """Return, index by index, which index meets a block, which block, and the row inside it."""
    down, inside = np.divmod(rows.astype(np.int64), p.block_shape[0])
    begins = p.row_offsets[down]
    counts = p.row_offsets[down + 1] - begins
    which = np.repeat(np.arange(rows.size), counts)
    blocks = np.arange(which.size) + np.repeat(begins - np.cumsum(counts) + counts, counts)
    return which, blocks, inside[which]


def _rows(w: BlockSparseMatrix, rows: Array) -> Array:
    """Rows of a matrix as FP32, dense."""
    p, columns = w.pattern, w.shape[1]
    wide = p.block_shape[1]
    found = np.zeros((rows.size, p.block_columns, wide), np.float32)
    which, blocks, inside = _met(p, rows)
    scale: Any = w.scale if isinstance(w.scale, int) else w.scale[blocks]
    lines = _wide(np.ascontiguousarray(w.blocks[blocks, inside])[:, None], scale)
    found[which, p.column_indices[blocks]] = lines[:, 0]
    return found.reshape(rows.size, p.block_columns * wide)[:, :columns]


def _add(w: BlockSparseMatrix, updates: Array, rows: Array, result: Array) -> None:
    """Add FP32 rows to blocks in the order of their indices, and round each sum once."""
    sums = _wide(w.blocks, w.scale)
    pattern, order = w.pattern.transposed() if w.is_transposed else (w.pattern, np.arange(w.n_blocks))
    which, blocks, inside = _met(pattern, rows)
    wide = pattern.block_shape[1]
    padded = np.zeros((len(updates), pattern.block_columns * wide), np.float32)
    padded[:, :updates.shape[1]] = updates
    added = padded.reshape(len(updates), pattern.block_columns, wide)[which, pattern.column_indices[blocks]]
    with np.errstate(all="ignore"):
        np.add.at(sums.swapaxes(1, 2) if w.is_transposed else sums, (order[blocks], inside), added)
    result[...] = _narrow(sums, w.format, w.scale)


def _wide(values: Array, scale: Any) -> Array:
    """Values as a new array of FP32 numbers; NumPy knows FP16."""
    return np.array(values, np.float32, order="C") if values.dtype == np.float16 else decode(values, scale)


def _narrow(values: Array, to: Format, scale: Any) -> Array:
    """FP32 numbers rounded once to a format; NumPy knows FP16."""
    if to != FP16:
        return encode(values, to, scale)
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float16)
