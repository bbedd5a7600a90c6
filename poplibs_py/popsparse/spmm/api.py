"""``Y = epilogue(op(W) X)``: described for the road, planned ahead, compiled.

`static` and `dynamic` are its public faces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from ...checks import check_shape, flag
from ...errors import bad_argument, bad_type
from ...formats import FP32, Array, Format
from ...ops import RESULT, Operand, Placed, Receiver, Request, array_operand, own_host
from ...ops.road import Told
from ...planner import Memory
from ..operands import (
    DenseLayout,
    Form,
    SparseOperand,
    check_activation,
    check_matrix,
    checked_format,
    dense_operand,
    format_in,
    layout_of,
    matrices,
    planned_operand,
    planned_result,
    product_format,
    receive_result,
    seen,
    shape_of,
    sparse_operand,
)
from ..options import memory_of
from ..pattern import as_extent, room_for
from ..verbs import PRODUCT, planned
from .lower import lower, run_slices
from .model import compute_format_of
from .params import PLAIN, BiasLayout, Forms, SpmmParams, contiguous_params
from .plan import SparsePlan, plan_spmm
from .prepared import PreparedDense


@dataclass(frozen=True)
class Epilogue:
    """What a call says of the result, as the caller gave it."""

    out: Any = None
    out_dtype: Any = None
    bias: Any = None
    activation: Any = None


@dataclass(frozen=True, eq=False)
class _Dense:
    """X as a call gives it: as it is read, its layout and format, whether it is a vector, and the axes of a batch in
    front, where it is read a matrix at a time."""

    operand: Operand
    layout: DenseLayout
    shape: tuple[int, ...]
    format: Format
    vector: bool = False
    batch: tuple[int, ...] = ()


def spmm_request(op: str, w: SparseOperand, x: Any, how: Epilogue, memory: Memory, forms: Forms = PLAIN, *,
                 x_name: str = "x", room: int | None = None, keep: bool = True,
                 placed: Placed[Any] | None = None) -> Request:
    """Describe a product.

    Parameters
    ----------
    op : str
        The op's public name.
    w : SparseOperand
        op(W).
    x : object
        X as the caller gave it.
    how : Epilogue
    memory : Memory
    forms : Forms, optional
    x_name : str, optional
        What the caller calls X.
    room : int, optional
        The most blocks that there may be; by default about as many as there are.
    keep : bool, optional
        Whether the call may be kept for the next of its kind.
    placed : Placed, optional
        As a `Request` has it.
    """
    p, (rows, depth), y_form = w.pattern, w.shape, forms[2]
    dense = _prepared(w, x, y_form) if isinstance(x, PreparedDense) else _dense(x_name, x, forms[1], p.groups, depth)
    if w.prepared is not None and w.prepared != compute_format_of(w.format.name, dense.layout.format, p.block_shape):
        raise _unmet(w, x, dense)
    bias, bias_layout = _bias(how.bias, rows, p.groups, y_form)
    activation = check_activation(how.activation)
    shape = (rows,) if dense.vector else shape_of(y_form, p.groups, rows, dense.shape[-1], dense.shape[:-2])
    receiver = receive_result(how.out, shape, how.out_dtype, product_format(w.format, dense.format))
    y = receiver.array[:, None] if dense.vector else seen(receiver.array, y_form, p.groups)
    batch, first = dense.batch, _first(y, dense.batch)
    if batch and y_form == forms[1] == "swapped" and _one_batch(_transposed(dense.operand.array)) and _one_batch(
            receiver.array):
        dense = _dense(x_name, dense.operand.seen(lambda array: _rows(_transposed(array)).T), "plain", 1, depth)
        first = y = _rows(receiver.array).T
        batch = ()
    blocks, y_layout = room_for(p.n_blocks), layout_of(receiver.seen(lambda _: first))
    scale = 0 if w.prepared else w.scale
    params = SpmmParams(w.shape, p.block_shape, p.groups, dense.shape[-1], blocks, room or blocks, w.transposed,
                        w.format.name, scale, dense.layout, y_layout, bias_layout, activation, w.prepared, forms)
    plan = plan_spmm(op, params, memory, own_host(), lambda: w.longest_row)
    return _request(plan, w, dense.operand, bias, receiver, y, batch, temporaries=plan.temporaries, keep=keep,
                    placed=placed)


def plan_product(op: str, w: Any, n: Any, forms: Forms = PLAIN, room: int | None = None, *, dtype: Any = None,
                 out_dtype: Any = None, has_bias: Any = False, activation: Any = None, **memory: Any) -> SparsePlan:
    """Return the plan of a product whose dense operands are C-contiguous."""
    limit = memory_of(**memory)
    matrix, columns = check_matrix("w", w), as_extent("n", n, 0)
    operand = sparse_operand("w", matrix, forms[0] == "swapped")
    p, room = operand.pattern, room or room_for(operand.pattern.n_blocks)
    x_format = checked_format("dtype", dtype, matrix.format)
    y_format = checked_format("out_dtype", out_dtype, product_format(matrix.format, x_format))
    params = contiguous_params(operand.shape, p.block_shape, p.groups, columns, room, operand.transposed,
                               matrix.format.name, operand.scale, x_format, y_format, flag("has_bias", has_bias),
                               check_activation(activation), forms)
    return plan_spmm(op, params, limit, own_host(), lambda: operand.longest_row)


def run_product(planned: SparsePlan) -> Callable[..., Request]:
    """Return what describes the calls of a planned product."""
    p, (w_form, x_form, y_form) = planned.params, planned.params.forms

    def run(w: Any, x: Any, *, out: Any = None, bias: Any = None) -> Request:
        """Multiply: `w` and `x` in the plan's shapes and formats, `x` in any strides."""
        operand = sparse_operand("w", w, w_form == "swapped")
        _check_planned(p, operand, w)
        dense = planned_operand("x", x, p.x, x_form, p.groups, p.shape[1], p.columns)
        added = _planned_bias(p, bias)
        receiver = planned_result(out, shape_of(y_form, p.groups, p.shape[0], p.columns), p.y.format)
        runs = planned
        if planned.slice_blocks and operand.longest_row > planned.slice_blocks:  # another pattern's
            runs = plan_spmm(planned.op, p, planned.memory, planned.target, lambda: operand.longest_row)
        if receiver.scale:
            runs = replace(runs, params=replace(p, y=replace(p.y, scale=receiver.scale)))
        keep = p.room >= room_for(operand.pattern.n_blocks)  # a kept call is that of patterns of about as many
        return _request(runs, operand, dense, added, receiver, seen(receiver.array, y_form, p.groups), keep=keep)

    return run


def product_verbs(face: Any, plan_it: Callable[..., SparsePlan]) -> Any:
    """Return what plans a product, and what compiles its plan."""
    run = "run(w, x, *, out=None, bias=None)"
    return planned(face, SparsePlan, plan_it, run_product, run, PRODUCT, "dtype")


def _request(plan: SparsePlan, /, w: SparseOperand, x: Operand, bias: Operand | None, receiver: Receiver,
             y: Array, batch: tuple[int, ...] = (), **more: Any) -> Request:
    """Return the request of a planned product; `x` and `y` are as op(W) X has them, the axes of a batch in front."""
    p = plan.params
    others = {name: o for name, o in (("order", w.order), ("bias", bias), ("scales", w.scales)) if o is not None}
    run: Callable[..., Any] | None = None
    if plan.slice_blocks:
        def run(_: Array, __: Array, values: Array, dense: Array, result: Array, *more: Array) -> None:
            own = dict(zip(others, more, strict=True))
            added = None if bias is None else np.broadcast_to(own["bias"], (p.groups, p.shape[0]))
            stored = w.with_arrays(values, own.get("scales"))
            made = np.lib.stride_tricks.as_strided(result, y.shape, y.strides)
            for place in np.ndindex(batch):
                run_slices(plan, stored, dense[place], made[place], added)
    elif y.size:
        run = lower(plan)
        run = _each(run, batch) if batch else run

    def told() -> Told:
        what = (f"{w.pattern.n_blocks} blocks {w.pattern.block_shape} {p.w_format} x [{p.shape[1]}, {p.columns}] "
                f"{p.x.format}" + f", for each of {batch}" * bool(batch))
        return what, plan.kernel.label, plan

    return Request(run, (w.offsets, w.columns, w.values, x, RESULT, *others.values()), receiver, told,
                   measure=lambda: w.measured(p.columns * prod(batch)), **more)


def _each(run: Callable[..., Any], batch: tuple[int, ...]) -> Callable[..., Any]:
    """Return what runs a product on each matrix of a batch."""
    def runs(offsets: Array, columns: Array, values: Array, x: Array, y: Array, *more: Array) -> None:
        for place in np.ndindex(batch):
            run(offsets, columns, values, x[place], y[place], *more)

    return runs


def _first(array: Array, batch: tuple[int, ...]) -> Array:
    """Return the first matrix of a batch, or one like it where there is none."""
    return array[(0,) * len(batch)] if all(batch) else np.empty(array.shape[len(batch):], array.dtype)


def _one_batch(array: Array) -> bool:
    """Whether the axes in front of an array's last are one without a copy."""
    axes = [(n, s) for n, s in zip(array.shape[:-1], array.strides[:-1], strict=True) if n != 1]
    return array.size > 0 and all(outer[1] == inner[0] * inner[1] for outer, inner in pairwise(axes))


def _rows(array: Array) -> Array:
    return array.reshape(-1, array.shape[-1])


def _transposed(array: Array) -> Array:
    return array.swapaxes(-1, -2)


def _dense(name: str, value: Any, form: Form, groups: int, depth: int) -> _Dense:
    taken = value if isinstance(value, Operand) else dense_operand(name, value)
    fmt = taken.format if isinstance(value, Operand) else format_in(value, taken)
    vector = taken.array.ndim == 1 and groups == 1 and form != "layer"
    if vector:
        inner = f"rows, {depth}" if form == "swapped" else f"{depth}, columns"
        check_shape(name, taken.array, taken.array.size == depth, f"shape ({depth},) or ({inner})")
        taken = taken.seen(lambda array: array[:, None])
    elif taken.array.ndim > 2 and groups == 1 and form != "layer":
        batch, taken = taken.shape[:-2], taken.seen(lambda array: seen(array, form, 1))
        wanted = f"(..., rows, {depth})" if form == "swapped" else f"(..., {depth}, columns)"
        check_shape(name, seen(taken.array, form, 1), taken.shape[-2] == depth, f"shape {wanted}")
        first = taken.seen(lambda array: _first(array, batch))
        return _Dense(taken, layout_of(first), taken.shape, fmt, batch=batch)
    else:
        taken = matrices(name, taken, form, groups, depth)
    return _Dense(taken, layout_of(taken), taken.array.shape, fmt, vector)


def _prepared(w: SparseOperand, x: PreparedDense, form: Form) -> _Dense:
    side, depth = "left" if form == "swapped" else "right", w.shape[1]
    p, name = w.pattern, w.format.name
    if x.side != side:
        raise bad_type("x", f"operand prepared for the {x.side}", f"one from prepare_dense(x, side={side!r})")
    if (x.groups, x.rows) != (p.groups, depth):
        raise bad_type("x", f"{x.groups} groups of {x.rows} rows", f"{p.groups} groups of {depth} rows")
    if x.compute_format == "bfloat16" and compute_format_of(name, "bfloat16") != "bfloat16":
        raise bad_type("x", "operand prepared as bfloat16", f"one prepared for a matrix of {name}")
    shape = (x.groups, depth, x.columns) if x.grouped else (depth, x.columns)
    return _Dense(x.operand(), x.layout, shape, x.format)


def _unmet(w: SparseOperand, x: Any, dense: _Dense) -> Exception:
    """The error of an X that does not meet a prepared W in the compute format that it was prepared for."""
    if isinstance(x, PreparedDense):
        return bad_type("x", f"operand prepared as {x.compute_format} beside a w prepared for {w.prepared}",
                        f"one of the two prepared, or prepare(w, x_dtype={x.compute_format!r})")
    return bad_type("x", dense.layout.format,
                    f"a format that meets {w.format} in {w.prepared}, which w was prepared for")


def _bias(bias: object, rows: int, groups: int, form: Form) -> tuple[Operand | None, BiasLayout | None]:
    """Return a bias, one number for each row or for each row of each group, and how it lies; or raise.

    It may have an axis of one element where the result has its columns, as that of a dense product.
    """
    if bias is None:
        return None, None
    found = array_operand("bias", bias)
    lone, axis = ((rows, 1), -1) if form == "plain" else ((1, rows), -2)
    if found.shape not in ((rows,), (groups, rows)):
        if found.shape not in (lone, (groups, *lone)) or form == "layer":
            also = "" if form == "layer" else f", {lone}" + f" or {(groups, *lone)}" * (groups > 1)
            raise bad_argument("bias", f"shape {found.shape}", f"shape ({rows},) or ({groups}, {rows}){also}")
        found = found.seen(lambda array: array.squeeze(axis))
    array = found.array
    step = array.strides[-1] if rows > 1 else array.itemsize
    group = array.strides[0] if array.ndim == 2 and groups > 1 else 0
    return found, BiasLayout(found.format.name, group, step, bool(array.flags.aligned))


def _check_planned(p: SpmmParams, w: SparseOperand, given: Any) -> None:
    q = w.pattern
    got = (w.shape, q.block_shape, q.groups, w.transposed, w.format.name, w.scale)
    planned = (p.shape, p.block_shape, p.groups, p.transposed, p.w_format, p.w_scale)
    names = "shape", "block shape", "groups", "transposed", "dtype", "scale"
    wrong = [f"{name} {due}" for name, due, found in zip(names, planned, got, strict=True) if due != found]
    if wrong or q.n_blocks > p.room:
        due = f": {wrong[0]}" if wrong else f", of {p.room} blocks at most"
        raise bad_argument("w", repr(given), "one as planned for" + due)


def _planned_bias(p: SpmmParams, bias: Any) -> Operand | None:
    if (bias is not None) != (p.bias is not None):
        raise bad_argument("bias", "an array" if bias is not None else None, "as the plan has it")
    found, layout = _bias(bias, p.shape[0], p.groups, p.forms[2])
    if found is None or layout == p.bias:
        return found
    numbers = np.broadcast_to(found.array.astype(np.float32), (p.groups, p.shape[0]))
    return Operand(np.ascontiguousarray(numbers), FP32)
