"""Softmax over stored blocks and its gradient: do (`bs_softmax` and its kin), plan, compile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...errors import bad_argument
from ...formats import FP32, Array, Format
from ...ops import RESULT, Operand, Placed, Receiver, Request, own_host, place_of, receive
from ...planner.facts import Load
from ...target import Target, TargetLike
from ...target.types import type_of
from ..matrix import BlockSparseMatrix
from ..operands import check_matrix, matrix_result, wrapping
from ..parts import BLOCKS, COLUMN_INDICES, ROW_OFFSETS
from ..verbs import STORED, planned, sparse_op
from .lower import lower
from .params import SoftmaxParams, check_masks, new_format
from .plan import SoftmaxPlan, plan_softmax


@sparse_op("popsparse::experimental::bsSoftmax", bound="softmax.bound:softmax_call_bound")
def bs_softmax(x: BlockSparseMatrix, *, mask: str | Sequence[str] = "none", out_dtype: object = None,
               scale: int | None = None, out: BlockSparseMatrix | None = None, target: TargetLike = None) -> Any:
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
    target : Target or str, optional
        The machine; by default this CPU. On a modelled one operands and result are FP16 or FP32 alike, blocks divide
        the matrix and none lies wholly in the masked triangle; the numbers are the same as here.

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
    It corresponds to PopLibs' ``popsparse::experimental::bsSoftmax``. All is FP32. In a row with greatest element m, d
    is ``x - m`` rounded once, and e is within 1 ulp of ``exp(d)``. The sum is taken in an order that the shape alone
    decides (see below). ``e / sum`` is rounded once, and once more to the format. The bits are the same at every
    instruction-set level and for every number of threads. NaN or plus infinity at an element that
    is not masked turns all stored elements of its row into NaN. `bs_softmax_bound` tells how far a result may be from
    the exact one.

    A row's sum: p is 1 for blocks of 256 elements or more, and else the fewest blocks that have a multiple of 16
    elements and at least 128. There are p blocks of sums, and the row's i-th stored block is added to number ``i % p``
    of them, element by element. Then the later half of them is added to the earlier until one is left. Its columns are
    added likewise.

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
    masks = check_masks(mask, source.w.groups)
    result = _result(out_dtype, scale, out, source)
    return _on_machine("bs_softmax", _plan(masks, result.formatted, source), result, target, source)


@sparse_op("popsparse::experimental::bsSoftmaxInPlace", bound="softmax.bound:softmax_in_place_bound", written="x")
def bs_softmax_in_place(x: BlockSparseMatrix, *, mask: str | Sequence[str] = "none", target: TargetLike = None) -> Any:
    """Replace the values of a matrix by its softmax, as `bs_softmax` with ``out=x`` does.

    Parameters
    ----------
    x : BlockSparseMatrix
        In any format, with one scale, not transposed.
    mask, target
        As for `bs_softmax`.

    Returns
    -------
    BlockSparseMatrix
        `x`.

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::experimental::bsSoftmaxInPlace``.

    Examples
    --------
    >>> scores = BlockSparseMatrix.from_dense([[0.0, 0.0]], (1, 2), density=1)
    >>> bs_softmax_in_place(scores).to_dense()
    array([[0.5, 0.5]], dtype=float32)
    """
    source = _stored("x", x)
    masks = check_masks(mask, source.w.groups)
    result = _result(None, None, x, source, name="x")
    return _on_machine("bs_softmax_in_place", _plan(masks, result.formatted, source), result, target, source)


@sparse_op("popsparse::experimental::bsSoftmaxGrad", bound="softmax.bound:softmax_grad_call_bound")
def bs_softmax_grad(y: BlockSparseMatrix, grad: BlockSparseMatrix, *, out_dtype: object = None,
                    scale: int | None = None, out: BlockSparseMatrix | None = None, target: TargetLike = None) -> Any:
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
    target : Target or str, optional
        The machine; by default this CPU. On a modelled one operands and result are FP16 or FP32 alike and blocks
        divide the matrix; the numbers are the same as here.

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
    outputs, grads, kept = _gradient(y, grad, out, out_dtype, scale)
    result = _result(out_dtype, kept, out, outputs, grads)
    plan = _plan(("none",) * grads.w.groups, result.formatted, outputs, grads)
    return _on_machine("bs_softmax_grad", plan, result, target, outputs, grads)


@dataclass(frozen=True, eq=False)
class _Stored:
    """A matrix as the kernels walk it: stored rows, one scale; the argument that it is, and whether its arrays are."""

    w: BlockSparseMatrix
    argument: str
    as_given: bool

    @property
    def formatted(self) -> tuple[Format, int]:
        """Its format and the exponent of its scale."""
        assert isinstance(self.w.scale, int)
        return self.w.format, self.w.scale

    @cached_property
    def blocks(self) -> Operand:
        """Its stored blocks, one operand of the call wherever it is asked for."""
        return self.part(BLOCKS)

    def part(self, part: int) -> Operand:
        """Return one of the matrix's arrays as an operand."""
        return Operand(self.w._parts[1 + part], None, place=(self.argument, part) if self.as_given else None)


def _stored(name: str, x: Any) -> _Stored:
    w = check_matrix(name, x)
    w = w.copy() if w.is_transposed else w
    w = w if isinstance(w.scale, int) else w.astype(FP32)
    return _Stored(w, name, w is x)


@dataclass(frozen=True, eq=False)
class _Result:
    """What a result is: its format and scale, and what receives it."""

    formatted: tuple[Format, int]
    receiver: Receiver
    wrap: Callable[[Array, Any], Any] | None = None


def _gradient(y: Any, grad: Any, out: Any, out_dtype: object, scale: int | None) -> tuple[_Stored, _Stored, int | None]:
    """Return the operands of a gradient, and the scale of its result where that is asked for or kept."""
    outputs, grads = _stored("y", y), _stored("grad", grad)
    if grads.w.pattern != outputs.w.pattern:
        raise bad_argument("grad", grads.w.pattern, f"y's pattern, {outputs.w.pattern}")
    if out is None and out_dtype is None and scale is None:
        scale = int(np.max(grads.w.scale, initial=-32))
    return outputs, grads, scale


def _result(out_dtype: object, scale: int | None, out: object, *operands: _Stored, name: str = "out") -> _Result:
    like, shape = operands[-1].w, operands[-1].w.blocks.shape
    if out is None:
        target, scale = new_format(like.format, out_dtype, scale)
        made = receive("out", None, shape, None, target)
        return _Result((target, scale), made, wrapping(like.pattern, target, scale))
    if scale is not None:
        raise bad_argument("out", "out with scale", "one or the other: out has its own")
    found = matrix_result(out, like.pattern, name)
    receiver = receive(name, found._parts[1 + BLOCKS], shape, out_dtype, found.format,
                       in_place=[stored.blocks for stored in operands])
    return _Result((found.format, int(found.scale)), replace(receiver, given=out, place=(name, BLOCKS)))


def _plan(masks: tuple[str, ...], made: tuple[Format, int], *operands: _Stored) -> SoftmaxPlan:
    """Return the plan of a softmax, or of a gradient, of these operands."""
    p = operands[-1].w.pattern
    formats = (*(stored.formatted for stored in operands), made)
    params = SoftmaxParams.of(p, masks, formats)
    return plan_softmax(params, own_host())


def _plan_softmax(_: str, x: Any, *, mask: Any = "none", out_dtype: Any = None, scale: Any = None) -> SoftmaxPlan:
    source = _stored("x", x)
    masks = check_masks(mask, source.w.groups)
    return _plan(masks, new_format(source.w.format, out_dtype, scale), source)


def _plan_gradient(_: str, y: Any, grad: Any, *, out_dtype: Any = None, scale: Any = None) -> SoftmaxPlan:
    outputs, grads, kept = _gradient(y, grad, None, out_dtype, scale)
    return _plan(("none",) * grads.w.groups, new_format(grads.w.format, out_dtype, kept), outputs, grads)


def _run_softmax(planned: SoftmaxPlan) -> Callable[..., Request]:
    def run(x: Any, *, out: Any = None) -> Request:
        """Take the softmax of `x`, which is as planned."""
        return _run(planned, out, _stored("x", x))

    return _of(planned, "softmax", run)


def _run_gradient(planned: SoftmaxPlan) -> Callable[..., Request]:
    def run(y: Any, grad: Any, *, out: Any = None) -> Request:
        """Return the gradient of `y`, which is as planned, as `grad` is."""
        return _run(planned, out, *_gradient(y, grad, out, None, 0)[:2])

    return _of(planned, "gradient", run)


def _of(planned: SoftmaxPlan, name: str, run: Callable[..., Request]) -> Callable[..., Request]:
    if planned.params.op != name:
        raise bad_argument("plan", f"a plan of {planned.explain().problem}", f"one of a {name}")
    return run


def _run(planned: SoftmaxPlan, out: Any, *operands: _Stored) -> Request:
    """Describe a planned call."""
    p, made = planned.params, planned.params.formats[-1]
    for stored, formatted in zip(operands, p.formats, strict=False):
        q = stored.w.pattern
        here = SoftmaxParams.of(q, p.masks, p.formats)
        fits = here.blocks <= p.blocks and here.row_blocks <= p.row_blocks and q.groups == len(p.masks)
        if not fits or replace(here, blocks=p.blocks, row_blocks=p.row_blocks) != p or stored.formatted != formatted:
            in_a_row = f", {p.row_blocks} in a row" if p.row_blocks else ""
            raise bad_argument(stored.argument, repr(stored.w),
                               f"one as planned for, of {p.blocks} blocks at most{in_a_row}")
    result = _result(made[0], made[1] if out is None else None, out, *operands)
    if result.formatted != made:
        raise bad_argument("out", f"{result.formatted[0]} at scale {result.formatted[1]}",
                           f"{made[0]} at scale {made[1]}, as planned")
    return _request(planned, result, *operands)


def _on_machine(name: str, plan: SoftmaxPlan, result: _Result, target: TargetLike, *operands: _Stored) -> Request:
    """Describe a call on the machine that it names: a modelled one, or this CPU."""
    p, pattern = plan.params, operands[0].w.pattern

    def plan_on(machine: Target) -> Any:
        from .modelled import SoftmaxTiles, lacks  # only here: to import it takes its time

        return lacks(pattern, p.masks, p.formats) or SoftmaxTiles(
            pattern, type_of(p.formats[0][0]), len(p.formats), machine)

    return _request(plan, result, *operands, placed=place_of(f"popsparse.{name}", target, plan_on))


def _request(plan: SoftmaxPlan, result: _Result, first: _Stored, *more: _Stored,
             placed: Placed[Any] | None = None) -> Request:
    values, given = [stored.blocks for stored in (first, *more)], result.receiver.given
    rows = first.part(ROW_OFFSETS)
    operands: list[Operand | int] = [rows, first.part(COLUMN_INDICES), *values, RESULT]
    like = values[0] if given is None else None
    # Calls are found again by which matrices share a pattern, not by what is in it.
    others = [stored.w for stored in more] + ([] if given is None else [given])
    shared = all(w.pattern is first.w.pattern for w in others)

    def told() -> tuple[str, str, SoftmaxPlan]:
        formats = " to ".join(dict.fromkeys(fmt.name for fmt, _ in plan.params.formats))
        return f"{first.w.n_blocks} blocks {first.w.block_shape} {formats}", plan.kernel.label, plan

    return Request(lower(plan) if first.w.n_blocks else None, tuple(operands), result.receiver, told,
                   wrap=result.wrap, first=first.w, like=like, keep=shared, placed=placed,
                   measure=lambda: {"loads": {"stored blocks of a block row": Load.of(np.diff(rows.array))}})


plan_bs_softmax, compile_bs_softmax = planned(
    bs_softmax, SoftmaxPlan, _plan_softmax, _run_softmax, "run(x, *, out=None)", {"x": STORED})
plan_bs_softmax_grad, compile_bs_softmax_grad = planned(
    bs_softmax_grad, SoftmaxPlan, _plan_gradient, _run_gradient, "run(y, grad, *, out=None)",
    {"y": STORED, "grad": STORED})
