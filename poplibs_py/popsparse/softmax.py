"""Softmax over the stored blocks of each row, and its gradient: the middle of block-sparse attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..config import settings
from ..errors import bad_argument, whole
from ..formats import FORMATS, FP32, Format
from ..kernels.records import dtype_of, format_facts, numbers_of
from ..kernels.registry import Selection, select
from ..ops import RESULT, Operand, Receiver, Request, op, receive
from ..planner.explain import Explanation, considered_kernels
from ..program import Executable, Segment, Wrapper, host_program, spread, threads_for
from .matrix import BlockSparseMatrix
from .operands import check_matrix
from .parts import BLOCKS, COLUMN_INDICES, ROW_OFFSETS, kinds_of
from .values import SCALE_LIMITS, as_format, as_scale

__all__ = ["bs_softmax", "bs_softmax_grad", "bs_softmax_in_place"]

Array = np.ndarray[Any, Any]

MASKS = tuple(numbers_of("mask"))
"""PopLibs' ``SubBlockMask``, in the order of the kernels' numbers."""

_ITEM = dtype_of("pop_softmax_item")
_WORK_FOR_A_THREAD = 1 << 16
_LEAST_LANES = 128
_MANY_ELEMENTS = 256  # a last vector of each block that is partly empty costs less than room for 16 blocks


_BOUND = "popsparse.softmax_bound:"


@op("popsparse.bs_softmax", poplibs="popsparse::experimental::bsSoftmax", reference=_BOUND + "softmax_call_bound",
    bound=_BOUND + "softmax_call_bound", draws="testing.calls:bs_softmax_calls")
def bs_softmax(x: BlockSparseMatrix, *, mask: str | Sequence[str] = "none", out_dtype: object = None,
               scale: int | None = None, out: BlockSparseMatrix | None = None) -> Any:
    """Take the softmax of each row over its stored elements; all others count as minus infinity.

    Parameters
    ----------
    x : BlockSparseMatrix
        In any format. That of a transposed view is stored transposed in the result.
    mask : {"none", "zero_upper_triangle", "zero_lower_triangle"} or one for each group, optional
        Elements above (below) the diagonal count as minus infinity too and become zero; the diagonal stays. A block may
        lie wholly in the masked triangle.
    out_dtype : dtype, Format or str, optional
        The result's format (default: that of `x`). Beside an `out` it must be the format of that.
    scale : int, optional
        Of the result where its format has 8 bits (default: the least that holds 1).
    out : BlockSparseMatrix, optional
        Where to write the result: a matrix of the same pattern. It may be `x` itself; one that shares part
        of its memory receives the result from a copy.

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
    is ``x - m`` rounded once, e is within 1 ulp of ``exp(d)``; the sum is taken in an order that the shape alone
    decides (see below); ``e / sum`` is rounded once, and once more to the format. The bits are the same at every
    instruction-set level and for every number of threads. NaN or plus infinity in a row makes its elements that are not
    masked NaN. `bs_softmax_bound` tells how far a result may be from the exact one.

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
    source = _stored("x", x)
    masks = _masks(mask, source.w.groups)
    result = _result(source, source.w.format, out_dtype, scale, out, (source,))
    row_blocks = 0 if result.format is FP32 else source.w.pattern.longest_row
    task = _task("softmax", source.w, masks, (source.w, result), row_blocks)
    return _request(task, result, source)


def bs_softmax_in_place(x: BlockSparseMatrix, *, mask: str | Sequence[str] = "none") -> None:
    """Replace the values of `x` by its softmax: `bs_softmax` with ``out=x``.

    It corresponds to PopLibs' ``popsparse::experimental::bsSoftmaxInPlace``.
    """
    bs_softmax(x, mask=mask, out=x)


@op("popsparse.bs_softmax_grad", poplibs="popsparse::experimental::bsSoftmaxGrad",
    reference=_BOUND + "softmax_grad_call_bound", bound=_BOUND + "softmax_grad_call_bound",
    draws="testing.calls:bs_softmax_grad_calls")
def bs_softmax_grad(y: BlockSparseMatrix, grad: BlockSparseMatrix, *, out_dtype: object = None,
                    scale: int | None = None, out: BlockSparseMatrix | None = None) -> Any:
    """Return the gradient with respect to softmax's input: ``y * (grad - sum(grad * y))``, the sum over each row.

    Parameters
    ----------
    y : BlockSparseMatrix
        What `bs_softmax` returned. Elements that it masked are zero and stay so.
    grad : BlockSparseMatrix
        The gradient with respect to `y`, of the same pattern; finite.
    out_dtype : dtype, Format or str, optional
        The result's format (default: that of `grad`). Beside an `out` it must be the format of that.
    scale : int, optional
        Of the result where its format has 8 bits. Default: that of `grad`, the greatest where each block has its own;
        with `out_dtype`, the least that holds 1.
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
    outputs, grads = _stored("y", y), _stored("grad", grad)
    if grads.w.pattern != outputs.w.pattern:
        raise bad_argument("grad", grads.w.pattern, f"y's pattern, {outputs.w.pattern}")
    if out is None and out_dtype is None and scale is None:
        scale = int(np.max(grads.w.scale, initial=-32))
    result = _result(grads, grads.w.format, out_dtype, scale, out, (outputs, grads))
    task = _task("gradient", grads.w, ("none",) * grads.w.groups, (outputs.w, grads.w, result), 0)
    return _request(task, result, outputs, grads)


@dataclass(frozen=True, eq=False)
class _Stored:
    """A matrix as the kernels walk it: stored rows, one scale; and which argument its arrays are, if they are."""

    w: BlockSparseMatrix
    name: str | None

    def part(self, part: int) -> Operand:
        """Return one of the matrix's arrays as an operand."""
        place = None if self.name is None else (self.name, part)
        return Operand(self.w._parts[1 + part], None, place=place)


def _stored(name: str, x: BlockSparseMatrix) -> _Stored:
    w = check_matrix(name, x)
    w = w.copy() if w.is_transposed else w
    w = w if isinstance(w.scale, int) else w.astype(FP32)
    return _Stored(w, name if w is x else None)


@dataclass(frozen=True, eq=False)
class _Result:
    """What a result is: its format and scale, and what receives it."""

    format: Format
    scale: int
    receiver: Receiver
    wrap: Callable[[Array, Any], Any] | None = None


def _masks(mask: object, groups: int) -> tuple[str, ...]:
    allowed = ", ".join(map(repr, MASKS)) + ", or one of them for each group"
    masks = (mask,) * groups if isinstance(mask, str) else mask
    if not isinstance(masks, (tuple, list)) or len(masks) != groups or any(
            not isinstance(m, str) or m not in MASKS for m in masks):
        raise bad_argument("mask", mask, allowed)
    return tuple(masks)


def _result(like: _Stored, default: Format, out_dtype: object, scale: int | None, out: object,
            operands: tuple[_Stored, ...]) -> _Result:
    shape = like.w.blocks.shape
    if out is None:
        target = default if out_dtype is None else as_format(out_dtype)
        scale = default_scale(target) if scale is None else whole("scale", scale, *SCALE_LIMITS)
        as_scale(scale, target, 0)
        receiver = receive("out", None, shape, None, target)
        return _Result(target, scale, receiver, _wrapping(like.w, target, scale))
    found = check_matrix("out", out)
    if scale is not None:
        raise bad_argument("out", "out with scale", "one or the other: out has its own")
    if found.is_transposed or found.pattern != like.w.pattern:
        raise bad_argument("out", found, f"a matrix with the pattern {like.w.pattern}, not transposed")
    if not isinstance(found.scale, int):
        raise bad_argument("out", "a scale for each block", "one scale")
    read = tuple(operand.part(BLOCKS) for operand in operands)
    receiver = receive("out", found._parts[1 + BLOCKS], shape, out_dtype, found.format, read, in_place=True)
    return _Result(found.format, found.scale, replace(receiver, given=out, place=("out", BLOCKS)))


def _wrapping(like: BlockSparseMatrix, fmt: Format, scale: int) -> Wrapper:
    """Return what makes new blocks into a matrix of the pattern of a call's first argument, as kernels walk it.

    Its kind is the same in every call that is kept under this one's key; those of transposed matrices are not.
    """
    kinds = kinds_of(like.pattern, fmt, scale)
    settled = {"_kinds": kinds, "format": fmt, "scale": scale, "is_transposed": False}
    before = kinds[0], 1 + ROW_OFFSETS, 1 + COLUMN_INDICES
    return Wrapper(BlockSparseMatrix, "_blocks", ("pattern",), settled, before)


def _request(task: _Task, result: _Result, first: _Stored, *more: _Stored) -> Request:
    program = _program(task) if first.w.n_blocks else None
    values, given = [stored.part(BLOCKS) for stored in (first, *more)], result.receiver.given
    operands: list[Operand | int] = [first.part(ROW_OFFSETS), first.part(COLUMN_INDICES), *values, RESULT]
    like = values[0] if given is None else None
    # Calls are found again by which matrices share a pattern, not by what is in it.
    others = [stored.w for stored in more] + ([] if given is None else [given])
    shared = all(w.pattern is first.w.pattern for w in others)

    def told() -> tuple[str, str, _Task]:
        kernel = _selection(task).kernel
        formats = " to ".join(dict.fromkeys(fmt.name for fmt, _ in task.formats))
        what = f"{first.w.n_blocks} blocks {first.w.block_shape} {formats}"
        return what, f"{kernel.name} ({kernel.level})", task

    return Request(program, tuple(operands), result.receiver, told, wrap=result.wrap, first=first.w, like=like,
                   keep=shared)


def default_scale(dtype: Format) -> int:
    """Return the exponent of a result's scale where none is asked for: the least that holds 1."""
    return -math.floor(math.log2(dtype.max)) if dtype.bits <= 8 else 0


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

    def explain(self) -> Explanation:
        """Return what was decided."""
        selection, (high, wide) = _selection(self), self.block_shape
        formats = " to ".join(dict.fromkeys(fmt.name for fmt, _ in self.formats))
        groups = f"{len(self.masks)} x " * (len(self.masks) > 1)
        name = "bs_softmax" if self.op == "softmax" else "bs_softmax_grad"
        problem = f"{name} {groups}[{self.shape[0]}, {self.shape[1]}]: blocks of {high} x {wide}, {formats}"
        return Explanation(problem, {
            "kernel": f"{selection.kernel.name} ({selection.kernel.level})",
            "masks": ", ".join(dict.fromkeys(self.masks)),
            "threads": str(self.threads),
        }, considered_kernels(selection))

    def __str__(self) -> str:
        return self.explain().words()


def _task(op: str, x: BlockSparseMatrix, masks: tuple[str, ...], values: tuple[Any, ...],
          row_blocks: int) -> _Task:
    formats = tuple((v.format, v.scale if isinstance(v.scale, int) else 0) for v in values)
    threads = threads_for(x.nnz, _WORK_FOR_A_THREAD, settings.num_threads)
    # Rounded up, so that patterns of much the same size share a program.
    room = 1 << (row_blocks - 1).bit_length() if row_blocks else 0
    return _Task(op, x.shape, x.block_shape, masks, formats, room, threads)


def _selection(task: _Task) -> Selection:
    first, _ = task.formats[0]
    same = first in FORMATS and all(format == first for format, _ in task.formats)
    return select("softmax", task.op, first.name if same else "any")


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
        items["formats"][..., i] = format_facts(format, scale)
    table = (items.T if parts > 1 else items).reshape(-1)
    scratch = 4 * (2 * _up16(lanes) + _up16(task.row_blocks * area))
    rows = Segment(_selection(task).kernel.address, table, spread(len(table), task.threads))
    return host_program((rows,), operands=2 + len(task.formats), threads=task.threads, arena_bytes=scratch)


def _lanes(area: int) -> int:
    """Floats of an accumulator: a block of many elements, or the fewest that make 128 or more and whole vectors."""
    if area >= _MANY_ELEMENTS:
        return area
    unit = area * (16 // math.gcd(area, 16))
    return unit * -(-_LEAST_LANES // unit)


def _up16(n: int) -> int:
    return -(-n // 16) * 16
