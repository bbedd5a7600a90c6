"""Softmax over the stored blocks of each row, and its gradient: the middle of block-sparse attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter
from typing import Any

import numpy as np

from ..config import settings
from ..errors import bad_argument, whole
from ..formats import BF16, F143, F152, FP16, FP32, Format
from ..kernels.registry import Kernel, select
from ..program import Executable, result_array
from ..program.record import Run, listening, record
from .matrix import BlockSparseMatrix
from .operands import check_matrix
from .values import SCALE_LIMITS, as_format, as_scale

__all__ = ["bs_softmax", "bs_softmax_grad", "bs_softmax_in_place"]

Array = np.ndarray[Any, Any]

MASKS = ("none", "zero_upper_triangle", "zero_lower_triangle")
"""PopLibs' ``SubBlockMask``, in the order that the kernels number them."""

_OWN_KERNELS = (FP32, FP16, BF16, F143, F152)
_WORK_FOR_A_THREAD = 1 << 16
_LEAST_LANES = 128
_MANY_ELEMENTS = 256  # a last vector of each block that is partly empty costs less than room for 16 blocks
_SPECIALS = ("ieee", "nan_only", "negative_zero")

_FORMAT = np.dtype([(name, np.int32) for name in
                    ("exponent_bits", "mantissa_bits", "bias", "specials", "subnormals")])  # fmt: skip
_ITEM = np.dtype([(name, np.int64) for name in
                  ("origin", "n_rows", "part", "parts", "high", "wide", "rows", "columns", "lanes", "mask")]
                 + [("formats", _FORMAT, 3), ("unused", np.int32)])  # fmt: skip


def bs_softmax(x: BlockSparseMatrix, *, mask: str | Sequence[str] = "none", format: object = None,
               scale: int | None = None, out: BlockSparseMatrix | None = None) -> BlockSparseMatrix:
    """Take the softmax of each row over its stored elements; all others count as minus infinity.

    Parameters
    ----------
    x : BlockSparseMatrix
        In any format. That of a transposed view is stored transposed in the result.
    mask : {"none", "zero_upper_triangle", "zero_lower_triangle"} or one for each group, optional
        Elements above (below) the diagonal count as minus infinity too and become zero; the diagonal stays. A block may
        lie wholly in the masked triangle.
    format : Format, dtype or str, optional
        Of the result (default: that of `x`).
    scale : int, optional
        Of the result where its format has 8 bits (default: the least that holds 1).
    out : BlockSparseMatrix, optional
        Where to write the result: a matrix of the same pattern. It may be `x` itself.

    Returns
    -------
    BlockSparseMatrix
        `out`, or a new matrix that shares `x`'s pattern. A row without an element that counts gives zeros.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        For what does not fit; nothing is written then.

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::experimental::bsSoftmax``. All is FP32: for a row with greatest element m, d
    is ``x - m`` rounded once, e is within 2^-23 of ``exp(d)``, relatively, and 0 where that is below 2^-126; the sum is
    taken in an order that the shape alone decides (see below); ``e / sum`` is rounded once, and once more to the
    format. The bits are the same at every instruction-set level and for every number of threads. NaN or plus infinity
    in a row makes its elements that are not masked NaN. `bs_softmax_bound` tells how far a result may be from the exact
    one.

    A row's sum: with p = 1 for blocks of 256 elements or more, and else the fewest blocks that have a multiple of 16
    elements and at least 128, the row's i-th stored block adds to the sums of block ``i mod p``, element by element;
    of these the later half is added to the earlier until one is left, and so are its columns.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.popsparse import BlockSparseMatrix, bs_softmax
    >>> scores = BlockSparseMatrix.from_mask([[True, False], [True, True]], 2)
    >>> bs_softmax(scores, mask="zero_upper_triangle").to_dense()
    array([[1.        , 0.        , 0.        , 0.        ],
           [0.5       , 0.5       , 0.        , 0.        ],
           [0.33333334, 0.33333334, 0.33333334, 0.        ],
           [0.25      , 0.25      , 0.25      , 0.25      ]], dtype=float32)
    """
    source = _stored(check_matrix("x", x))
    masks = _masks(mask, source.groups)
    result = _result(source, x.format, format, scale, out, (source,))
    if not source.n_blocks:
        return result
    row_blocks = 0 if result.format is FP32 else int(np.diff(source.row_offsets).max())
    task = _task("softmax", source, masks, (source, result), row_blocks)
    _run("popsparse.bs_softmax", task, source, source.blocks, result.blocks)
    return result


def bs_softmax_in_place(x: BlockSparseMatrix, *, mask: str | Sequence[str] = "none") -> None:
    """Replace the values of `x` by its softmax: `bs_softmax` with ``out=x``.

    It corresponds to PopLibs' ``popsparse::experimental::bsSoftmaxInPlace``.
    """
    bs_softmax(x, mask=mask, out=x)


def bs_softmax_grad(y: BlockSparseMatrix, grad: BlockSparseMatrix, *, format: object = None, scale: int | None = None,
                    out: BlockSparseMatrix | None = None) -> BlockSparseMatrix:
    """Return the gradient with respect to softmax's input: ``y * (grad - sum(grad * y))``, the sum over each row.

    Parameters
    ----------
    y : BlockSparseMatrix
        What `bs_softmax` returned. Elements that it masked are zero and stay so.
    grad : BlockSparseMatrix
        The gradient with respect to `y`, of the same pattern; finite.
    format : Format, dtype or str, optional
        Of the result (default: that of `grad`).
    scale : int, optional
        Of the result where its format has 8 bits. Default: that of `grad`, the greatest where each block has its own;
        with `format`, the least that holds 1.
    out : BlockSparseMatrix, optional
        Where to write the result: a matrix of the same pattern; it may be `grad` or `y` itself.

    Returns
    -------
    BlockSparseMatrix

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::experimental::bsSoftmaxGrad``. Products and sums are FP32, summed in an
    order that the shape alone decides; the result is rounded to the format, where finite numbers that are too large
    become infinite if it has infinities and else the largest number. See `bs_softmax_grad_bound`.

    Examples
    --------
    >>> scores = BlockSparseMatrix.from_dense([[0.0, 0.0]], (1, 2), density=1)
    >>> y = bs_softmax(scores)
    >>> bs_softmax_grad(y, BlockSparseMatrix.from_dense([[1.0, 0.0]], (1, 2))).to_dense()
    array([[ 0.25, -0.25]], dtype=float32)
    """
    outputs, grads = _stored(check_matrix("y", y)), _stored(check_matrix("grad", grad))
    if grads.pattern != outputs.pattern:
        raise bad_argument("grad", grads.pattern, f"y's pattern, {outputs.pattern}")
    if out is None and format is None and scale is None:
        scale = int(np.max(grad.scale, initial=-32))
    result = _result(grads, grad.format, format, scale, out, (outputs, grads))
    if not grads.n_blocks:
        return result
    task = _task("gradient", grads, ("none",) * grads.groups, (outputs, grads, result), 0)
    _run("popsparse.bs_softmax_grad", task, grads, outputs.blocks, grads.blocks, result.blocks)
    return result


def _stored(x: BlockSparseMatrix) -> BlockSparseMatrix:
    # The kernels walk stored rows and know one scale.
    x = x.copy() if x.is_transposed else x
    return x if isinstance(x.scale, int) else x.astype(FP32)


def _masks(mask: object, groups: int) -> tuple[str, ...]:
    allowed = ", ".join(map(repr, MASKS)) + ", or one of them for each group"
    masks = (mask,) * groups if isinstance(mask, str) else mask
    if not isinstance(masks, (tuple, list)) or len(masks) != groups or any(
            not isinstance(m, str) or m not in MASKS for m in masks):
        raise bad_argument("mask", mask, allowed)
    return tuple(masks)


def _result(like: BlockSparseMatrix, default: Format, format: object, scale: int | None, out: object,
            operands: tuple[BlockSparseMatrix, ...]) -> BlockSparseMatrix:
    if out is None:
        target = default if format is None else as_format(format)
        scale = default_scale(target) if scale is None else whole("scale", scale, *SCALE_LIMITS)
        as_scale(scale, target, 0)
        return like._with(blocks=result_array(like.blocks.shape, target.dtype), format=target, scale=scale)
    found = check_matrix("out", out)
    if format is not None or scale is not None:
        raise bad_argument("out", "out with format or scale", "one or the other: out has its own")
    if found.is_transposed or found.pattern != like.pattern:
        raise bad_argument("out", found, f"a matrix with the pattern {like.pattern}, not transposed")
    if not isinstance(found.scale, int):
        raise bad_argument("out", "a scale for each block", "one scale")
    if not found.blocks.flags.writeable:
        raise bad_argument("out", "read-only blocks", "a matrix whose blocks may be written to")
    for operand in operands:
        same = operand.blocks.ctypes.data == found.blocks.ctypes.data and operand.format == found.format
        if not same and np.may_share_memory(operand.blocks, found.blocks):
            raise bad_argument("out", "blocks that overlap an operand's", "the operand itself, or memory of its own")
    return found


def default_scale(format: Format) -> int:
    """Return the exponent of a result's scale where none is asked for: the least that holds 1."""
    return -math.floor(math.log2(format.max)) if format.bits <= 8 else 0


@dataclass(frozen=True)
class _Task:
    """Everything that a program depends on; the pattern is not part of it."""

    op: str
    shape: tuple[int, int]
    block_shape: tuple[int, int]
    masks: tuple[str, ...]
    formats: tuple[tuple[Format, int], ...]
    row_blocks: int
    threads: int


def _task(op: str, x: BlockSparseMatrix, masks: tuple[str, ...], values: tuple[BlockSparseMatrix, ...],
          row_blocks: int) -> _Task:
    formats = tuple((v.format, v.scale if isinstance(v.scale, int) else 0) for v in values)
    threads = max(1, min(settings.num_threads, x.nnz // _WORK_FOR_A_THREAD))
    # Rounded up, so that patterns of much the same size share a program.
    room = 1 << (row_blocks - 1).bit_length() if row_blocks else 0
    return _Task(op, x.shape, x.block_shape, masks, formats, room, threads)


def _run(op: str, task: _Task, x: BlockSparseMatrix, *values: Array) -> None:
    program, began = _program(task), perf_counter()
    program(x.row_offsets, x.column_indices, *values)
    if listening():
        kernel = _kernel(task)
        formats = " to ".join(dict.fromkeys(format.name for format, _ in task.formats))
        record(Run(op, f"{x.n_blocks} blocks {x.block_shape} {formats}", f"{kernel.name} ({kernel.level})",
                   perf_counter() - began, task))


def _kernel(task: _Task) -> Kernel:
    first, _ = task.formats[0]
    same = first in _OWN_KERNELS and all(format == first for format, _ in task.formats)
    return select("softmax", task.op, first.name if same else "any").kernel


@lru_cache(maxsize=256)
def _program(task: _Task) -> Executable:
    high, wide = task.block_shape
    area, groups = high * wide, len(task.masks)
    lanes = _lanes(area)
    parts = 1 if groups >= task.threads else task.threads
    items = np.zeros((groups, parts), _ITEM)
    n_rows = -(-task.shape[0] // high)
    items["origin"], items["n_rows"] = np.arange(groups)[:, None] * n_rows, n_rows
    items["part"], items["parts"] = np.arange(parts), parts
    items["high"], items["wide"] = high, wide
    items["rows"], items["columns"] = task.shape
    items["lanes"] = lanes
    items["mask"] = np.array([MASKS.index(mask) for mask in task.masks])[:, None]
    for i, (format, scale) in enumerate(task.formats):
        items["formats"][..., i] = (format.exponent_bits, format.mantissa_bits, format.bias - scale,
                                    _SPECIALS.index(format.specials), format.subnormals)  # fmt: skip
    table = (items.T if parts > 1 else items).reshape(-1)
    tiles = np.arange(len(table)) * task.threads // len(table)
    scratch = 4 * (2 * _up16(lanes) + _up16(task.row_blocks * area))
    sets = [[(_kernel(task).address, table, tiles)]]
    return Executable(sets, 2 + len(task.formats), task.threads, scratch, 0, task.threads)


def _lanes(area: int) -> int:
    """Floats of an accumulator: a block of many elements, or the fewest that make 128 or more and whole vectors."""
    if area >= _MANY_ELEMENTS:
        return area
    unit = area * (16 // math.gcd(area, 16))
    return unit * -(-_LEAST_LANES // unit)


def _up16(n: int) -> int:
    return -(-n // 16) * 16
