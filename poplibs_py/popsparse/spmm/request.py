"""``Y = epilogue(op(W) X)``, described: operands taken and checked, planned, and where each array goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import bad_argument, bad_type
from ...formats import Format
from ...ops import RESULT, Operand, Receiver, Request, array_operand, host_target
from ...planner import Memory
from ..operands import (
    DenseLayout,
    SparseOperand,
    check_activation,
    check_rows,
    dense_operand,
    format_in,
    grouped,
    layer_operand,
    layout_of,
    product_format,
    receive_result,
    swapped_axes,
)
from ..pattern import room_for
from .lower import program
from .model import compute_format_of
from .params import BiasLayout, SpmmParams
from .plan import SparsePlan, plan_spmm
from .prepared_dense import PreparedDense
from .slices import longest_row, run_slices

__all__ = ["Epilogue", "bias_operand", "request_of", "spmm_request"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Epilogue:
    """What a call says of the result.

    Attributes
    ----------
    out, out_dtype, bias, activation : object
        As the caller gave them.
    swapped : bool
        Whether the result is the transpose of op(W) X.
    layer : bool
        Whether the result is (batch, groups * rows).
    """

    out: Any = None
    out_dtype: Any = None
    bias: Any = None
    activation: Any = None
    swapped: bool = False
    layer: bool = False

    def shape(self, groups: int, rows: int, x: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the result, for an X of this shape."""
        if self.layer:
            return x[-1], groups * rows
        return (*x[:-2], x[-1], rows) if self.swapped else (*x[:-2], rows, x[-1])

    def seen(self, y: Array, groups: int) -> Array:
        """Return a result as op(W) X."""
        if self.layer:
            return grouped(y, groups)
        return swapped_axes(y) if self.swapped else y


@dataclass(frozen=True, eq=False)
class _Dense:
    """X as a call gives it: as it is read, its layout and format, and whether it is a vector."""

    operand: Operand
    layout: DenseLayout
    shape: tuple[int, ...]
    format: Format
    vector: bool = False


def spmm_request(w: SparseOperand, x: Any, how: Epilogue, memory: Memory, *, x_name: str = "x",
                 x_swapped: bool = False, room: int | None = None, keep: bool = True) -> Request:
    """Describe a product.

    Parameters
    ----------
    w : SparseOperand
    x : object
        X as the caller gave it.
    how : Epilogue
    memory : Memory
    x_name : str, optional
        What the caller calls X.
    x_swapped : bool, optional
        Whether X was given transposed; of a layer it was given as (batch, groups * depth).
    room : int, optional
        The most blocks that there may be; by default about as many as there are.
    keep : bool, optional
        Whether the call may be kept for the next of its kind.
    """
    p, (rows, depth) = w.pattern, w.shape
    if isinstance(x, PreparedDense):
        dense = _prepared(w, x, how.swapped)
    else:
        dense = _dense(x_name, x, p.groups, depth, x_swapped, how.layer)
    if w.prepared is not None and w.prepared != compute_format_of(w.format.name, dense.layout.format, p.block_shape):
        raise _unmet(w, x, dense)
    bias, bias_layout = bias_operand(how.bias, rows, p.groups)
    activation = check_activation(how.activation)
    shape = (rows,) if dense.vector else how.shape(p.groups, rows, dense.shape)
    receiver = receive_result(how.out, shape, how.out_dtype, product_format(w.format, dense.format),
                              (dense.operand, w.values, bias))
    y = receiver.array[:, None] if dense.vector else how.seen(receiver.array, p.groups)
    blocks, y_layout = room_for(p.n_blocks), layout_of(receiver.operand.seen(lambda _: y))
    scale = 0 if w.prepared else w.scale
    params = SpmmParams(w.shape, p.block_shape, p.groups, dense.shape[-1], blocks, room or blocks, w.transposed,
                        w.format.name, scale, dense.layout, y_layout, bias_layout, activation, w.prepared, how.swapped)
    plan = plan_spmm(params, memory, host_target(None, "sparse products"), lambda: longest_row(w))
    request = request_of(plan, w, dense.operand, bias, receiver, y)
    request.keep = keep and plan.fits
    return request


def request_of(plan: SparsePlan, w: SparseOperand, x: Operand, bias: Operand | None, receiver: Receiver,
               y: Array) -> Request:
    """Return the request of a planned product; `y` is the result as op(W) X."""
    p = plan.params
    more = (o for o in (w.order, bias, w.scales) if o is not None)
    run: Callable[..., Any] | None = None
    if plan.slice_blocks:
        added = None if bias is None else np.broadcast_to(bias.array, (p.groups, p.shape[0]))

        def run(*_: Array) -> None:
            run_slices(plan, w, x.array, y, added)
    elif y.size:
        run = program(plan)

    def tell() -> tuple[str, str, Any]:
        what = (f"{w.pattern.n_blocks} blocks {w.pattern.block_shape} {p.w_format} x [{p.shape[1]}, {p.columns}] "
                f"{p.x.format}")
        return what, f"{plan.kernel.name} ({plan.kernel.level})", plan

    return Request(run, (w.offsets, w.columns, w.values, x, RESULT, *more), receiver, tell)


def _dense(name: str, value: Any, groups: int, depth: int, swapped: bool, layer: bool) -> _Dense:
    taken = dense_operand(name, value)
    fmt = format_in(value, taken)
    if layer:
        taken = layer_operand(name, taken, groups, depth)
    vector = taken.array.ndim == 1 and groups == 1
    if vector:
        if taken.array.size != depth:
            raise bad_argument(name, f"shape {taken.array.shape}", f"shape ({depth},) or ({depth}, columns)")
        taken = taken.seen(lambda array: array[:, None])
    elif swapped:
        taken = taken.seen(swapped_axes)
    check_rows(name, taken.array, depth, groups)
    return _Dense(taken, layout_of(taken), taken.array.shape, fmt, vector)


def _prepared(w: SparseOperand, x: PreparedDense, swapped: bool) -> _Dense:
    side, depth = "left" if swapped else "right", w.shape[1]
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


def bias_operand(bias: object, rows: int, groups: int) -> tuple[Operand | None, BiasLayout | None]:
    """Return a bias, one number for each row or for each row of each group, and how it lies; or raise."""
    if bias is None:
        return None, None
    found = array_operand("bias", bias)
    array = found.array
    if array.shape not in ((rows,), (groups, rows)):
        raise bad_argument("bias", f"shape {array.shape}", f"shape ({rows},) or ({groups}, {rows})")
    assert found.format is not None
    step = array.strides[-1] if rows > 1 else array.itemsize
    group = array.strides[0] if array.ndim == 2 and groups > 1 else 0
    return found, BiasLayout(found.format.name, group, step, bool(array.flags.aligned))
