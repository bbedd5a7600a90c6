"""Products on a modelled machine: convolutions of one field element, planned as PopLibs plans them, and run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...checks import check_shape, one_of
from ...errors import bad_argument, bad_type
from ...formats import FP16, FP32, Array, format_of
from ...formats.metadata import METADATA_SCALES
from ...kernels.records import ACTIVATIONS
from ...ops import (
    AS_ASKED,
    Operand,
    Receiver,
    Request,
    array_operand,
    catalogue,
    compiled,
    operand,
    planned_receiver,
    receive,
    result_format,
    seed_of,
    unchanged,
)
from ...planner.cache import PlanCache
from ...program import Executable, temporary
from ...target import Target
from ...target.types import type_of
from ..gemm.params import as_matrix, spread_bias
from ..gemm.plan import Epilogue
from ..gemm.prepared import PreparedMatrix
from ..tile_conv import ConvParams, ConvPlan, plan_convolution
from ..tile_conv.api import planned_quietly
from ..tile_conv.count import Count, count
from ..tile_conv.interpreter import interpret
from ..tile_conv.modelled import TileConvolution, Views, tile_kernel, values_of
from ..tile_conv.problem import ConvProblem
from ..tile_conv.summary import is_product
from ..tile_conv.work import ConvWork, work_of
from .options import conv_options
from .params import Product, product_of, stated


def plan_modelled(a_shape: Sequence[int], b_shape: Sequence[int], *, dtype: object = "half", out_dtype: object = None,
                  target: Target | str = "gc200", options: Mapping[str, Any] | None = None,
                  cache: PlanCache[ConvPlan] | None = None, **more: Any) -> ConvPlan:
    """Plan ``a @ b`` for a modelled machine.

    Corresponds to PopLibs' ``matMul`` and ``matMulGrouped``: A holds the activations, B the weights, batch is
    the rows of A.

    Parameters
    ----------
    a_shape, b_shape : sequence of int
        ``(M, K)`` and ``(K, N)``, with axes of groups in front if wanted.
    dtype, out_dtype : format or dtype
        Of the operands (float32, float16 or FP8) and of the result (default as the operands; float16 for FP8).
    target : Target or str
        The machine.
    options : mapping, optional
        PopLibs' matmul options, such as ``{"fullyConnectedPass": "TRAINING_FWD"}``.
    **more
        The same by keyword, in Python's spelling; one that contradicts `options` is refused.

    Returns
    -------
    ConvPlan

    Examples
    --------
    >>> from poplibs_py.poplin.product.modelled import plan_modelled
    >>> plan = plan_modelled((4096, 4096), (4096, 4096), partials_type="half", available_memory_proportion=0.15)
    >>> plan.cycles, plan.serial_splits
    (1576048, 32)
    """
    checked = conv_options(options, more)
    return plan_convolution(stated(a_shape, b_shape, dtype, out_dtype), target=target, options=checked, cache=cache)


def _rows(_: int, a: Array) -> Array:
    """[g, m, k] as images of one element: [m, g, k, 1]."""
    return a.swapaxes(0, 1)[..., None]


_VIEWS = Views(_rows, lambda _, b: b.swapaxes(1, 2)[..., None], _rows, lambda out: out[..., 0].swapaxes(0, 1))


class _TileProduct(TileConvolution):
    """A product of given shapes and formats, as the tiles of a plan make it: rows are images of one element."""

    def __init__(self, work: ConvWork) -> None:
        super().__init__(work, _VIEWS)

    def operand(self, name: str, value: Operand) -> Operand:
        """Return an operand as it was planned for, its groups along the first axis, or raise."""
        value = super().operand(name, value)
        p = self.product
        shape = {"a": (*p.batch, p.m, p.k), "b": (*p.batch, p.k, p.n)}[name]
        if value.shape == shape[1:]:  # of one group, or the same in all
            value = value.seen(lambda array: np.broadcast_to(array, shape))
        check_shape(name, value, value.shape == shape, f"the planned shape {shape}")
        return value

    @property
    def product(self) -> Product:
        """The product, its groups as one batch axis."""
        p = self.work.problem.params
        shape = p.groups, p.batch, p.out_channels
        return Product(shape, (p.groups,), p.batch, p.out_channels, p.in_channels, p.input_type, self.work.out)

    def told(self) -> tuple[str, str, ConvPlan]:
        """Return what runs, for a reader, its kernel, and the plan."""
        p = self.product
        groups = f"{p.batch[0]} x " if p.batch[0] > 1 else ""
        return f"{groups}[{p.m}, {p.k}] x [{p.k}, {p.n}] {self.formats}", tile_kernel(), self.plan

    def request(self, x: Operand, w: Operand, bias: Operand | None, activation: str | None, receiver: Receiver,
                seed: Any, threads: int | None = None) -> Request:
        """Describe a call on operands with their groups along the first axis; a bias has the result's shape."""
        grouped_out = receiver.array.reshape(self.product.shape)
        written = replace(receiver, array=grouped_out)
        program = self.executable(x, w, written, bias, activation, seed is not None, threads)
        if np.may_share_memory(grouped_out, receiver.array):
            return self.described(program, program, x, w, bias, receiver, seed)

        shape, dtype = grouped_out.shape, grouped_out.dtype

        def run(left: Array, right: Array, result: Array, *more: Array) -> None:  # no strides say where its groups are
            made = temporary(shape, dtype)
            program(left, right, made, *more)
            result[...] = made.reshape(result.shape)

        return self.described(run, program, x, w, bias, receiver, seed)


def product_program(work: ConvWork, a: Array, b: Array, out: Array, threads: int | None = None) -> Executable:
    """Return the program of a plan's product on arrays that lie as these, each with its groups along the first axis.

    Parameters
    ----------
    work : ConvWork
        What the tiles do.
    a, b, out : numpy.ndarray
        [g, m, k], [g, k, n] and [g, m, n], of the planned formats.
    threads : int, optional
        Threads of this CPU to run on, at most.
    """
    made = _TileProduct(work)
    left, right, result = (array_operand(name, x) for name, x in (("a", a), ("b", b), ("out", out)))
    return made.executable(made.operand("a", left), made.operand("b", right), result, None, None, False, threads)


def _checked_plan(plan: Any) -> ConvPlan:
    """Return a plan that came from outside if it is a product's and as the planner makes it, or raise."""
    if not isinstance(plan, ConvPlan) or not isinstance(plan.problem, ConvProblem):
        raise bad_type("plan", type(plan).__name__, "a product's plan from plan_matmul")
    problem = plan.problem
    params = problem.params
    if not isinstance(params, ConvParams) or not is_product(params):
        raise bad_argument("plan", "one of a convolution", "a product's plan from plan_matmul")
    if params.output_type not in ("float", "half"):
        raise bad_argument("plan", f"results of type {params.output_type}", "float or half")
    return unchanged(plan, lambda: planned_quietly(problem))


def lacks(a: Any, b: Any, out: Any, out_dtype: Any, alpha: Any, bias: Any) -> str:
    """Return what of a product no vertex of PopLibs does, in words; an empty string if they do it all."""
    if Epilogue.of(alpha, 0.0, None) != Epilogue():
        return "with alpha"
    if any(isinstance(x, PreparedMatrix) for x in (a, b)):
        return "of an operand that is prepared for this CPU"
    left, right = operand("a", a), operand("b", b)
    if out_dtype is not None:
        result: Any = format_of(out_dtype, "out_dtype")
    else:
        result = result_format(left, right) if out is None else operand("out", out).format
    return operands_lack((left, right), result, None if bias is None else operand("bias", bias))


def operands_lack(operands: tuple[Operand, ...], result: Any, bias: Operand | None) -> str:
    """Return what of a sum of products no vertex does because of its operands, in words, or an empty string."""
    if any(x.scales is not None for x in operands):
        return "with scales but one of each operand"
    if any(x.scale not in METADATA_SCALES for x in operands):
        return f"at scales {' and '.join(str(x.scale) for x in operands)}: its own are -32 to 31"
    formats = [x.format for x in operands]
    kinds = {type_of(fmt) for fmt in formats}
    if "" in kinds or len(kinds) > 1:
        return f"of {' and '.join(map(str, formats))}"
    if result not in (FP32, FP16) or (kinds == {"quarter"} and result == FP32):
        return f"of {formats[0]} to {result}"
    return "" if bias is None or bias.format == result else f"to {result} with a bias of {bias.format}"


def modelled_request(a: Any, b: Any, out: Any, out_dtype: Any, bias: Any, activation: Any, target: Target,
                     seed: Any, options: Mapping[str, Any] | None, more: Mapping[str, Any]) -> Request:
    """Describe a product on a modelled machine: that of `poplibs_py.poplin.matmul` with a `target`."""
    left, right, added = operand("a", a), operand("b", b), None if bias is None else operand("bias", bias)
    product = product_of(left, right, out_dtype)
    receiver = receive("out", out, product.shape, out_dtype, product.out)
    product = replace(product, out=receiver.format)
    row = _epilogue(product, added, activation)
    if 0 in product.shape:
        return Request(None, (), receiver, lambda: ("an empty product", "none", None), placed=AS_ASKED)
    made = _TileProduct(work_of(product.planned(target, options, more)))
    left, right = as_matrix(left, "a", True), as_matrix(right, "b", False)
    request = made.request(product.grouped(left), product.grouped(right), row, activation, receiver, seed)
    return request.with_(temporaries=made.plan.temporaries)


def _epilogue(product: Product, bias: Operand | None, activation: Any) -> Operand | None:
    """Check a bias and an activation, and return the bias in the shape of the result, its batch axes as groups."""
    one_of("activation", activation, ACTIVATIONS)
    if bias is None:
        return None
    if bias.format != product.out:
        raise bad_type("bias", f"format {bias.format}", f"the result's, {product.out}, on a modelled machine")
    return product.grouped(spread_bias(bias, product.batch, product.m, product.n))


def compile_modelled(plan: ConvPlan, *, threads: int | None = None) -> Callable[..., Any]:
    """Make a plan from `plan_modelled` into a function.

    Parameters
    ----------
    plan : ConvPlan
        Of the product.
    threads : int, optional
        Threads of this CPU to run on; results do not depend on it.

    Returns
    -------
    callable
        ``run(a, b, *, out=None, bias=None, activation=None, seed=None)`` on operands [g, m, k] and [g, k, n] of the
        planned formats, either without groups where there is one, or where all have the same. Its attributes
        ``plan`` and ``work`` are what it follows.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.poplin.product.modelled import compile_modelled, plan_modelled
    >>> plan = plan_modelled((16, 32), (32, 8), dtype="half")
    >>> run = compile_modelled(plan)
    >>> run(np.ones((16, 32), np.float16), np.ones((32, 8), np.float16))[0, :3]
    array([32., 32., 32.], dtype=float16)
    """
    made = _TileProduct(work_of(_checked_plan(plan)))
    planned = made.product

    def run(a: Any, b: Any, *, out: Any = None, bias: Any = None, activation: Any = None, seed: Any = None) -> Any:
        """Run a planned product of a modelled machine: see `compile_modelled`."""
        given = operand("a", a), operand("b", b), None if bias is None else operand("bias", bias)
        left, right = made.operand("a", given[0]), made.operand("b", given[1])
        ndim = 2 if planned.shape[0] == 1 and given[0].array.ndim == given[1].array.ndim == 2 else 3
        receiver = planned_receiver(out, planned.shape[3 - ndim:], planned.out, contiguous=False)
        row = _epilogue(planned, given[2], activation)
        return made.request(left, right, row, activation, receiver, seed, threads)

    face = compiled(plan, catalogue["poplin.matmul"], run, made.told()[0], ("seed",))
    vars(face)["work"] = made.work
    return face


def count_modelled(plan: ConvPlan) -> Count:
    """Return what the tiles would hold, multiply and exchange for a plan's product, and compute nothing."""
    return count(work_of(_checked_plan(plan)))


def interpret_modelled(plan: ConvPlan, a: Any, b: Any, *, bias: Any = None, activation: str | None = None,
                       seed: Any = None) -> Array:
    """Make a plan's product in plain NumPy: slow, obvious, and of the same bits as the compiled program.

    Parameters
    ----------
    plan : ConvPlan
        From `plan_modelled`.
    a, b : array_like or QuarterArray
        [g, m, k] and [g, k, n], or without groups where there is one.
    bias, seed
        As for `poplibs_py.poplin.matmul`.
    activation : {None, "relu"}, optional
        The others are this library's own functions, and not NumPy's to repeat.
    """
    made = _TileProduct(work_of(_checked_plan(plan)))
    given = operand("a", a), operand("b", b)
    left, right = (values_of(made.operand(name, x)) for name, x in zip("ab", given, strict=True))
    row = _epilogue(made.product, None if bias is None else operand("bias", bias), activation)
    one_of("activation", activation, (None, "relu"))
    positive = None if activation is None else lambda sums: np.where(sums < 0, np.float32(0), sums)
    added = None if row is None else made.seen("out", values_of(row))
    word = None if seed is None else seed_of(seed)
    result = made.back(interpret(made.work, made.seen("x", left), made.seen("w", right), word, added, positive))
    return result[0] if given[0].array.ndim == 2 else result
