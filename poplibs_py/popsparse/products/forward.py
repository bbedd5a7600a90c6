"""``Y = epilogue(op(W) X)``: check, find the program, bind the arrays, run."""

from __future__ import annotations

import weakref
from time import perf_counter
from typing import Any

import numpy as np

from ...config import settings
from ...errors import bad_argument, bad_type
from ...formats import QuarterArray
from ...program.record import Run, listening, record
from ..matrix import BlockSparseMatrix
from ..pattern import BlockPattern
from .memory import UNBOUNDED, Memory, within
from .multiply import Product, Ready, Values, domain_of, itemsize_of, program
from .operands import (
    Operand,
    check_activation,
    check_bias,
    check_rows,
    dense_operand,
    describe,
    receiver,
    result_operand,
)
from .prepared import PreparedDense
from .slices import longest_row, run_slices

__all__ = ["multiply", "pattern_arrays", "product_of", "run_product", "threads_for"]

Array = np.ndarray[Any, Any]

_READS_WORTH_A_COPY = 16
_LINE = 64
_NARROW_ROW = 512
_PAGE = 4096
_FEW_READS = 4
_FAR = 1 << 22
_WORK_FOR_A_THREAD = 1 << 20
"""Multiplications below which a second thread costs more than it gains."""

_Transpose = tuple[Array, Array, Array]
_transposes: dict[int, tuple[weakref.ref[BlockPattern], _Transpose]] = {}


def pattern_arrays(w: BlockSparseMatrix, keep: bool) -> tuple[Array, ...]:
    """Return the row offsets and block columns of op(W), and for a transpose the places of its blocks.

    With `keep`, the index of a transpose is built once for each pattern.
    """
    pattern = w.pattern
    if not w.is_transposed:
        return pattern.row_offsets, pattern.column_indices
    key = id(pattern)
    kept = _transposes.get(key)
    if kept is not None and kept[0]() is pattern:
        return kept[1]
    index = pattern.transposed_index()
    if keep:
        _transposes[key] = (weakref.ref(pattern, lambda _: _transposes.pop(key, None)), index)
    return index


def threads_for(multiplications: int) -> int:
    """Return how many threads so much work deserves."""
    return max(1, min(settings.num_threads, multiplications // _WORK_FOR_A_THREAD))


def multiply(w: BlockSparseMatrix, x: object, *, out: object | None = None, out_dtype: object = None,
             bias: object = None, activation: object = None, swapped: bool = False,
             capacity: int | None = None, memory: Memory = UNBOUNDED, ready: Ready | None = None) -> Any:
    """Multiply by a matrix that is known to be one.

    With `swapped`, X and the result are transposed on their way in and out, and messages speak of them as given. With
    `capacity`, the program has room for so many blocks and nothing is kept with the pattern. With `ready`, the matrix's
    values are taken from there.
    """
    prepared = x if isinstance(x, PreparedDense) else None
    rows, depth = w.shape
    if prepared is not None:
        return _multiply_prepared(w, prepared, out, out_dtype, bias, activation, swapped, capacity, memory, ready)
    operand = dense_operand("x", x)
    if operand.array.ndim == 1 and w.groups == 1:
        vector = x if type(x) is np.ndarray else operand
        return _multiply_vector(w, vector, out, swapped, out_dtype=out_dtype, bias=bias, activation=activation,
                                capacity=capacity, memory=memory, ready=ready)
    if swapped and operand.array.ndim >= 2:
        operand = operand.moved(lambda array: array.swapaxes(-1, -2))
    check_rows("x", operand.array, depth, w.groups)
    dense = operand.array
    shape = (*dense.shape[:-2], rows, dense.shape[-1])
    target = _result(shape, out, out_dtype, swapped, operand.given, w.blocks)
    y = target.array
    product = product_of(w, dense.shape[-1], describe(operand), describe(target), bias is not None,
                         check_activation(activation), capacity, memory, ready)
    run_product(product, w, dense, y, check_bias(bias, rows, w.groups), capacity is None, ready)
    result = y.swapaxes(-1, -2) if swapped else y
    return result if out is None else out


def _multiply_vector(w: BlockSparseMatrix, x: Array | Operand, out: Any, swapped: bool, **keywords: Any) -> Any:
    # As a matrix of one column, or of one row where operands are swapped. The program of an array is found again.
    rows, depth = w.shape
    size = (x.array if isinstance(x, Operand) else x).size
    if size != depth:
        raise bad_argument("x", f"shape ({size},)", f"shape ({depth},) or ({depth}, columns)")
    holds = isinstance(out, (np.ndarray, QuarterArray))
    if holds and out.shape != (rows,):
        raise bad_argument("out", f"shape {out.shape}", f"shape ({rows},)")
    along = np.s_[None, :] if swapped else np.s_[:, None]
    matrix = x.moved(lambda array: array[along]) if isinstance(x, Operand) else x[along]
    made = multiply(w, matrix, out=out[along] if holds else out, swapped=swapped, **keywords)
    return out if holds else made.reshape(rows)


def _multiply_prepared(w: BlockSparseMatrix, x: PreparedDense, out: object | None, out_dtype: object, bias: object,
                       activation: object, swapped: bool, capacity: int | None, memory: Memory, ready: Ready | None) -> Any:
    rows, depth = w.shape
    side = "left" if swapped else "right"
    if x.side != side:
        raise bad_type("x", f"operand prepared for the {x.side}", f"one from prepare_dense(x, side={side!r})")
    if (x.groups, x.rows) != (w.groups, depth):
        raise bad_type("x", f"{x.groups} groups of {x.rows} rows", f"{w.groups} groups of {depth} rows")
    if x.domain == "bfloat16" and domain_of(w.format.name, "bfloat16") != "bfloat16":
        raise bad_type("x", "operand prepared as bfloat16", f"one prepared for a matrix of {w.format.name}")
    if ready is not None and ready.domain != domain_of(w.format.name, x.domain, w.pattern.block_shape):
        raise bad_type("x", f"operand prepared as {x.domain} beside a w prepared for {ready.domain}",
                       f"one of the two prepared, or prepare(w, x_dtype={x.domain!r})")
    made = _result(x.result_shape(rows), out, out_dtype, swapped, w.blocks, x.panels)
    product = product_of(w, x.columns, x.dense, describe(made), bias is not None, check_activation(activation),
                         capacity, memory, ready)
    run_product(product, w, x.panels, made.array, check_bias(bias, rows, w.groups), capacity is None, ready)
    result = made.array.swapaxes(-1, -2) if swapped else made.array
    return result if out is None else out


def _result(shape: tuple[int, ...], out: object | None, out_dtype: object, swapped: bool,
            *operands: Array) -> Operand:
    given = (*shape[:-2], shape[-1], shape[-2]) if swapped else shape
    made = result_operand(given, receiver(out), out_dtype, *operands)
    return made.moved(lambda array: array.swapaxes(-1, -2)) if swapped else made


def product_of(w: BlockSparseMatrix, columns: int, x: Any, y: Any, bias: bool, activation: str | None,
               capacity: int | None, memory: Memory = UNBOUNDED, ready: Ready | None = None) -> Product:
    """Return the product of a matrix and a dense operand as it will run, within the bound on its memory."""
    domain = domain_of(w.format.name, x.format, w.pattern.block_shape)
    if ready is not None and ready.domain != domain:
        raise bad_type("x", x.format, f"a format that meets {w.format} in {ready.domain}, which w was prepared for")
    scale = 0 if ready is not None else w.scale if isinstance(w.scale, int) else None
    decoded = w.format.name != domain or domain == "float16" or (domain == "bfloat16" and w.is_transposed)
    values = Values(w.format.name, scale, (capacity or w.n_blocks) if decoded else 0)
    product = Product(w.shape, w.pattern.block_shape, w.groups, columns, threads_for(w.nnz * columns), w.is_transposed,
                      domain, values, x, y, bias, activation, _panels_pay(w, columns * itemsize_of(x.format)),
                      ready=ready is not None)
    return within(product, memory, lambda: longest_row(w))


def _panels_pay(w: BlockSparseMatrix, row_bytes: int) -> bool:
    # Rows off a cache line take two of them, rows far apart fall into few sets of the caches, and those of a large X
    # are met at random in memory: a copy is worth its while where each is read often enough.
    reads = w.nnz / (max(1, w.groups * w.shape[1]) * min(8, w.block_shape[0]))
    if w.shape[1] * row_bytes >= _FAR and reads >= _FEW_READS:
        return True
    if w.block_shape == (1, 1):
        return reads >= (_FEW_READS if row_bytes > _NARROW_ROW else _READS_WORTH_A_COPY)
    if row_bytes < _NARROW_ROW // 2 or (w.block_shape[0] > 8 and row_bytes < _PAGE):
        worth = _READS_WORTH_A_COPY if row_bytes >= _NARROW_ROW // 2 else 2 * _READS_WORTH_A_COPY
        return row_bytes >= _LINE and reads >= worth
    return reads >= _READS_WORTH_A_COPY // 2


def run_product(product: Product, w: BlockSparseMatrix, x: Array, y: Array, bias: Array | None, keep: bool,
                ready: Ready | None = None) -> None:
    if not y.size:
        return
    pattern = pattern_arrays(w, keep)
    extra = [] if bias is None else [bias]
    if product.w.scale is None:
        extra.append(np.ascontiguousarray(w.scale))
    run = None if product.slice_blocks else program(product)
    began = perf_counter()
    if run is None:
        run_slices(product, w, pattern, x, y, bias)
    else:
        values = w.blocks if ready is None else ready.values
        run(pattern[0], pattern[1], values, x, y, *pattern[2:], *extra)
    if listening():
        record(_run_of(product, w, "static" if keep else "dynamic", perf_counter() - began))


def _run_of(product: Product, w: BlockSparseMatrix, use: str, seconds: float) -> Run:
    kernel = product.kernel
    what = f"{w.n_blocks} blocks {w.block_shape} {w.format} x [{w.shape[1]}, {product.columns}] {product.x.format}"
    return Run(f"popsparse.{use} product", what, f"{kernel.name} ({kernel.level})", seconds, product)
