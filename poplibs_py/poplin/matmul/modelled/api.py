"""Products on a modelled machine: described for the road, compiled, counted, and made slowly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ....errors import bad_argument, bad_type
from ....formats import FP16, FP32, Format
from ....formats.reference import decode
from ....kernels import select
from ....ops import (
    RESULT,
    VALUES,
    Array,
    Operand,
    Receiver,
    Request,
    catalogue,
    compiled,
    operand,
    receive,
    seed_of,
    unchanged,
)
from ....popops import cast
from ....target import Target
from ...convolution import ConvParams, ConvPlan, matmul_params
from ...convolution.api import planned_quietly
from ...convolution.problem import ConvProblem
from ..params import MatrixLayout, layout_of
from .arguments import grouped, read_product
from .count import Count, count
from .interpreter import as_format, interpret
from .lower import TileProgram, lower_work
from .plan import modelled_type
from .work import Same, TileWork, work_of

__all__ = ["compile_modelled", "count_modelled", "interpret_modelled", "modelled_request", "tile_product"]


@dataclass(frozen=True, eq=False)
class TileProduct:
    """A modelled product of given shapes and formats.

    Attributes
    ----------
    plan : ConvPlan
        What it follows.
    work : TileWork
        What its tiles do.
    kind : {"float", "half", "quarter"}
        The operands' type.
    out : Format
        The result's.
    """

    plan: ConvPlan
    work: TileWork
    kind: str
    out: Format

    @property
    def shapes(self) -> dict[str, tuple[int, int, int]]:
        """Of the operands and the result, with their groups."""
        w = self.work
        return {"a": (w.groups, w.m, w.k), "b": (w.groups, w.k, w.n), "out": (w.groups, w.m, w.n)}

    def operand(self, name: str, value: Operand) -> Operand:
        """Return an operand as it was planned for, its groups along the first axis, or raise."""
        shape = self.shapes[name]
        if value.scales is not None:
            raise bad_argument(name, "a QuarterArray with many scales", "one scale: modelled machines have no more")
        if modelled_type(value.format, name) != self.kind:
            raise bad_type(name, f"format {value.format}", f"the planned type, {self.kind}")
        if value.array.ndim == 2 and shape[0] == 1:
            value = value.seen(lambda array: array[None])
        if value.shape != shape:
            raise bad_argument(name, f"shape {value.shape}", f"the planned shape {shape}")
        return value if value.array.flags.aligned else value.copied()

    def told(self) -> tuple[str, str, ConvPlan]:
        """Return what runs, for a reader, its kernel, and the plan."""
        w = self.work
        kernel = select("dot", "multiply", "float32", consistent=True).kernel
        groups = f"{w.groups} x " if w.groups > 1 else ""
        return f"{groups}[{w.m}, {w.k}] x [{w.k}, {w.n}]", f"{kernel.name} ({kernel.level})", self.plan


def tile_product(plan: ConvPlan) -> TileProduct:
    """Return the product that a plan of the planner's is for, as its tiles make it.

    Constraints can ask the planner for transforms that tiles here do not make: such a plan is refused.
    """
    problem = plan.problem
    assert problem is not None
    system, tile = plan.transforms
    if system.expand_dims or system.out_chan_flatten_dims or tile.expand_dims:
        raise bad_argument("plan.transforms", "dimensions expanded or flattened", "none in a plan of a product")
    params = problem.params
    sizes = params.groups, params.batch, params.out_channels, params.in_channels
    work = work_of(plan, *sizes, problem.options.enable_multi_stage_reduce)
    return TileProduct(plan, work, params.input_type, FP32 if params.output_type == "float" else FP16)


def checked_plan(plan: Any) -> ConvPlan:
    """Return a plan that came from outside if it is a product's and as the planner makes it, or raise."""
    if not isinstance(plan, ConvPlan) or not isinstance(plan.problem, ConvProblem):
        raise bad_type("plan", type(plan).__name__, "a product's plan from plan_matmul")
    problem = plan.problem
    params = problem.params
    if not isinstance(params, ConvParams) or params.axes != matmul_params(1, 1, 1, 1, "half").axes:
        raise bad_argument("plan", "one of a convolution", "a product's plan from plan_matmul")
    if params.output_type not in ("float", "half"):
        raise bad_argument("plan", f"results of type {params.output_type}", "float or half")
    return unchanged(plan, lambda: planned_quietly(problem))


def modelled_request(a: Operand, b: Operand, out: Any, out_dtype: Any, target: Target, seed: Any,
                     options: Mapping[str, Any] | None, more: Mapping[str, Any]) -> Request:
    """Describe a product on a modelled machine: that of `poplibs_py.poplin.matmul` with a `target`."""
    product = read_product(a, b, out_dtype)
    receiver = receive("out", out, product.shape, out_dtype, product.out, (a, b))
    if receiver.format not in (FP32, FP16):
        raise bad_argument("out", f"format {receiver.format}", "float32 or float16 on a modelled machine")
    product = replace(product, out=receiver.format)
    if product.is_empty:
        return Request(_zero, (RESULT,), receiver, lambda: ("an empty product", "none", None))
    made = tile_product(product.planned(target, options, more))
    request = _request(made, grouped(a, product), grouped(b, product), receiver, seed)
    request.keep = made.plan.fits
    return request


def _zero(out: Array) -> None:
    out[...] = 0


def _request(product: TileProduct, a: Operand, b: Operand, receiver: Receiver, seed: Any,
             threads: int | None = None) -> Request:
    shape = product.shapes["out"]
    grouped_out = receiver.array.reshape(shape)
    apart = not np.may_share_memory(grouped_out, receiver.array)
    layouts = [layout_of(x, (shape[0],)) for x in (a, b, replace(receiver.operand, array=grouped_out))]
    program = _program(Same(product.work), *layouts, threads, seed is not None)

    def measured() -> dict[str, Any]:
        counted = count(product.work, a.array.itemsize)
        return {"tile_bytes": counted.tile_bytes, "tile_macs": counted.tile_macs,
                "exchanged_bytes": counted.exchanged_bytes}

    words = () if seed is None else (seed_of(seed),)
    if apart:  # no strides say where its groups are

        def run(*arrays: Array) -> None:
            program.executable(*arrays[:2], grouped_out, *arrays[3:])
            receiver.array[...] = grouped_out.reshape(receiver.array.shape)

    return Request(run if apart else program.executable, (a, b, RESULT, *(VALUES,) * len(words)), receiver,
                   product.told, words, phases=program.phases, measure=measured)


@lru_cache(maxsize=64)
def _program(work: Same, a: MatrixLayout, b: MatrixLayout, out: MatrixLayout, threads: int | None,
             stochastic: bool) -> TileProgram:
    return lower_work(work.value, a, b, out, threads, stochastic)


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
        ``run(a, b, *, out=None, seed=None)`` on operands [g, m, k] and [g, k, n] of the planned formats, or without
        groups where there is one. Its attributes ``plan`` and ``work`` are what it follows.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.poplin.matmul.modelled import compile_modelled, plan_modelled
    >>> plan = plan_modelled((16, 32), (32, 8), dtype="half")
    >>> run = compile_modelled(plan)
    >>> run(np.ones((16, 32), np.float16), np.ones((32, 8), np.float16))[0, :3]
    array([32., 32., 32.], dtype=float16)
    """
    made = tile_product(checked_plan(plan))

    def run(a: Any, b: Any, *, out: Any = None, seed: Any = None) -> Any:
        """Run a planned product of a modelled machine: see `compile_modelled`."""
        given = operand("a", a), operand("b", b)
        left, right = made.operand("a", given[0]), made.operand("b", given[1])
        shape = made.shapes["out"][1:] if given[0].array.ndim == 2 else made.shapes["out"]
        receiver = receive("out", out, shape, None, made.out, given)
        if receiver.format != made.out or receiver.scale:
            raise bad_argument("out", f"format {receiver.format}", f"the planned format, {made.out}")
        return _request(made, left, right, receiver, seed, threads)

    face = compiled(plan, catalogue["poplin.matmul"], run, made.told()[0], ("seed",))
    vars(face)["work"] = made.work
    return face


def count_modelled(plan: ConvPlan) -> Count:
    """Return what the tiles would hold, multiply and exchange for a plan's product, and compute nothing."""
    made = tile_product(checked_plan(plan))
    return count(made.work, {"float": 4, "half": 2, "quarter": 1}[made.kind])


def interpret_modelled(plan: ConvPlan, a: Any, b: Any, *, seed: Any = None) -> Array:
    """Make a plan's product in plain NumPy: slow, obvious, and of the same bits as the compiled program.

    Parameters
    ----------
    plan : ConvPlan
        From `plan_modelled`.
    a, b : array_like or QuarterArray
        [g, m, k] and [g, k, n], or without groups where there is one.
    seed : int or pair of int, optional
        As for `poplibs_py.poplin.matmul`.
    """
    made = tile_product(checked_plan(plan))
    given = operand("a", a), operand("b", b)
    left, right = (_values(made.operand(name, x)) for name, x in zip("ab", given, strict=True))
    word = None if seed is None else seed_of(seed)
    sums = interpret(made.work, left, right, word)
    by_cast = word is not None and made.out != FP32
    result: Array = as_format(sums, FP32 if by_cast else made.out)
    if by_cast:
        result = cast(result, made.out, rounding="stochastic", seed=word)
    return result[0] if given[0].array.ndim == 2 else result


def _values(x: Operand) -> Array:
    assert x.format is not None
    return decode(x.array.view(x.format.code_dtype), x.format, x.scale).astype(np.float32)
