"""Dense products on this CPU: calls described for the road, plans of shapes, plans made into functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...checks import as_shape, instance
from ...errors import bad_argument, bad_type
from ...formats import format_of
from ...ops import (
    AS_ASKED,
    RESULT,
    Operand,
    Placed,
    Request,
    as_planned,
    catalogue,
    compiled,
    operand,
    planned_receiver,
    receive,
    result_format,
    unchanged,
)
from ...target import Target
from .lower import lower
from .options import GemmOptions
from .params import (
    GemmParams,
    block_scales,
    checked_params,
    checked_size,
    contiguous,
    params_of,
    result_shape,
    row_bias,
    shared_by,
)
from .plan import Epilogue, GemmPlan
from .prepared import PreparedMatrix
from .search import plan_gemm


def gemm_request(a: Any, b: Any, out: Any, out_dtype: Any, epilogue: Epilogue, bias: Any, options: GemmOptions,
                 placed: Placed[Any], out_name: str = "out", values: tuple[int, ...] = ()) -> Request:
    """Describe a product on this CPU; `values` are words of the call, where the epilogue takes some."""
    assert placed.host is not None
    row = None if bias is None else operand("bias", bias)
    if row is not None and (row.scale or row.scales):
        raise bad_type("bias", "a QuarterArray", "an array")
    left, right = gemm_operand(a, "a"), gemm_operand(b, "b")
    batch, shape, sizes = result_shape(left, right)
    receiver = receive(out_name, out, shape, out_dtype, result_format(left, right),
                       reads=epilogue.beta != 0)
    params = params_of(left, right, receiver, row, batch, sizes)
    prepared = _prepared(a, b)
    whole = None
    if prepared is None:
        made = lower(plan_gemm(params, options, epilogue, placed.host))
    else:
        made, packed, whole = prepared.lowered(params, options, epilogue, placed.host)
        left, right = (packed, right) if prepared is a else (left, packed)
    return Request(made.executable, made.arrange(left, right, RESULT, row, left.scales, right.scales, whole), receiver,
                   made.told, values, placed=placed, temporaries=made.plan.temporaries)


def gemm_operand(value: Any, name: str) -> Operand:
    """Take an operand of a product, which may be prepared."""
    if isinstance(value, PreparedMatrix):
        return value.stand_in(name)
    return block_scales(operand(name, value))


def _prepared(a: Any, b: Any) -> PreparedMatrix | None:
    """Return the operand that is prepared, if one is."""
    held = [x for x in (a, b) if isinstance(x, PreparedMatrix)]
    if len(held) > 1:
        raise bad_type("b", "PreparedMatrix", "an array where a is prepared: one of the two may be")
    return held[0] if held else None


def stated(a_shape: tuple[int, ...], b_shape: tuple[int, ...], dtype: Any, b_dtype: Any, out_dtype: Any,
           bias_dtype: Any) -> GemmParams:
    """Check shapes and formats, and state the product of C-contiguous arrays."""
    shapes = [as_shape(name, s, 2) for s, name in ((a_shape, "a_shape"), (b_shape, "b_shape"))]
    (*batch, m, k), (*b_batch, b_rows, n) = shapes
    if (batch and b_batch and batch != b_batch) or b_rows != k:
        allowed = f"batch axes {tuple(batch)} or none, and {k} rows, as a_shape has"
        raise bad_argument("b_shape", tuple(b_shape), allowed)
    fa = format_of(dtype, "dtype")
    fb = fa if b_dtype is None else format_of(b_dtype, "b_dtype")
    fo = result_format(fa, fb) if out_dtype is None else format_of(out_dtype, "out_dtype")
    axes = tuple(batch or b_batch)
    a, b = (contiguous if batch else shared_by)(fa, m, k, axes), (contiguous if b_batch else shared_by)(fb, k, n, axes)
    out = contiguous(fo, m, n, axes)
    bias = None if bias_dtype is None else row_bias(format_of(bias_dtype, "bias_dtype"), axes)
    params = GemmParams(m, n, k, a, b, out, axes, bias)
    return checked_size(params, tuple(shapes[0]), tuple(shapes[1]))


def compile_gemm(plan: GemmPlan) -> Callable[..., Any]:
    """Lower a plan to a function: see `poplibs_py.poplin.compile_matmul`."""
    _check_plan(plan)
    made, planned, reads = lower(plan), plan.product, plan.epilogue.beta != 0
    shapes: dict[str, list[tuple[int, ...]]] = {"bias": [(planned.n,)]}
    for name, layout, matrix in (("a", planned.a, (planned.m, planned.k)), ("b", planned.b, (planned.k, planned.n))):
        lies = (contiguous, (*planned.batch, *matrix)), (shared_by, matrix)  # both, of matrices without elements
        shapes[name] = [shape for how, shape in lies if layout == how(layout.format, *matrix, planned.batch)]

    def run(a: Any, b: Any, *, out: Any = None, bias: Any = None) -> Any:
        """Run a planned product: see `compile_matmul`."""
        if planned.bias is None and bias is not None:
            raise bad_argument("bias", "an array", "None: the plan has no bias")
        left = as_planned("a", a, planned.a.format, *shapes["a"])
        right = as_planned("b", b, planned.b.format, *shapes["b"])
        row = None if planned.bias is None else as_planned("bias", bias, planned.bias.format, *shapes["bias"])
        shape, fmt = (*planned.batch, planned.m, planned.n), planned.out.format
        if reads and out is None:
            raise bad_argument("out", "None", "an array, which the planned beta multiplies")
        receiver = planned_receiver(out, shape, fmt, reads=reads)
        return Request(made.executable, made.arrange(left, right, RESULT, row), receiver, made.told, placed=AS_ASKED)

    return compiled(plan, catalogue["poplin.matmul"], run, made.told()[0])


def _check_plan(plan: Any) -> None:
    """Refuse a plan that the planner would not make."""
    if not isinstance(plan, GemmPlan):
        raise bad_type("plan", type(plan).__name__, "a plan from plan_matmul for this CPU")
    parts = (("product", GemmParams), ("options", GemmOptions), ("epilogue", Epilogue), ("target", Target))
    for name, kind in parts:
        instance(f"plan.{name}", getattr(plan, name), kind, f"of type {kind.__name__}")
    if plan.target.kind != "host":
        raise bad_argument("plan.target", plan.target.name, "this CPU")
    if plan.epilogue.takes_words:
        raise bad_argument("plan.epilogue", "a number of each call", "numbers, as plan_matmul plans them")
    product = checked_params(plan.product)
    epilogue = Epilogue.of(plan.epilogue.alpha, plan.epilogue.beta, plan.epilogue.activation)
    unchanged(plan, lambda: plan_gemm(product, plan.options, epilogue, plan.target))
