"""Do and compile a product on a modelled machine; `plan_modelled` plans it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, overload

import numpy as np

from ....errors import bad_argument, bad_type, one_of, whole
from ....formats import FP16, FP32, Format, QuarterArray, format_of
from ....formats.reference import decode
from ....immutable import Constant
from ....kernels import select
from ....popops.cast import MOST_SEED, cast
from ....program import overlaps_itself, result_array
from ....program.record import Run, listening, record
from ....target import Target
from ...convolution import ConvPlan
from ...convolution.api import planned_quietly
from ..arguments import Array, taken
from ..params import Operand
from .arguments import read_product
from .check import product_of
from .count import Count, count
from .interpreter import as_format, interpret
from .lower import TileProgram, lower_work
from .plan import modelled_type
from .work import Same, TileWork, work_of

__all__ = ["TileMatmul", "compile_modelled", "matmul_modelled"]

Executor = Literal["compiled", "python", "count"]
_Runs = Literal["compiled", "python"]


class TileMatmul(Constant):
    """A modelled product of given shapes and formats, ready to run.

    Attributes
    ----------
    plan : ConvPlan
        What it follows.
    work : TileWork
        What its tiles do.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.poplin.matmul.modelled import compile_modelled, plan_modelled
    >>> plan = plan_modelled((16, 32), (32, 8), dtype="half")
    >>> run = compile_modelled(plan)
    >>> run(np.ones((16, 32), np.float16), np.ones((32, 8), np.float16))[0, :3]
    array([32., 32., 32.], dtype=float16)
    """

    __slots__ = ("__weakref__", "_dtype", "_out", "_threads", "plan", "work")

    _KEEP = "its plan, to compile again"

    plan: ConvPlan
    work: TileWork
    _dtype: str
    _out: Format
    _threads: int | None

    def __init__(self, plan: ConvPlan, work: TileWork, dtype: str, out: Format, threads: int | None) -> None:
        self._set(plan=plan, work=work, _dtype=dtype, _out=out, _threads=threads)

    def __repr__(self) -> str:
        w = self.work
        return f"TileMatmul(({w.groups}, {w.m}, {w.k}) x ({w.groups}, {w.k}, {w.n}), {self._dtype} -> {self._out})"

    @overload
    def __call__(self, a: Any, b: Any, *, executor: Literal["count"], seed: int | None = None) -> Count: ...

    @overload
    def __call__(self, a: Any, b: Any, *, seed: int | None = None, executor: _Runs = "compiled") -> Array: ...

    def __call__(self, a: Any, b: Any, *, seed: int | None = None, executor: Executor = "compiled") -> Array | Count:
        """Run on operands [g, m, k] and [g, k, n], or without groups where there is one.

        Parameters
        ----------
        a, b : array_like or QuarterArray
            Of the planned shapes and formats, with any strides.
        seed : int, optional
            Round stochastically wherever the plan rounds to half, save inside a vertex; else to nearest even.
        executor : {"compiled", "python", "count"}, optional
            Compiled kernels; the slow and obvious interpreter that gives the same bits; or one that does nothing but
            count, and returns a `Count` in place of the result.
        """
        w = self.work
        one_of("executor", executor, ("compiled", "python", "count"))
        seed = None if seed is None else whole("seed", seed, 0, MOST_SEED)
        left, left_scale = self._operand(a, "a", (w.groups, w.m, w.k))
        right, right_scale = self._operand(b, "b", (w.groups, w.k, w.n))
        counted = count(w, left.itemsize) if executor == "count" or listening() else None
        if executor == "count":
            assert counted is not None
            return counted
        if executor == "python":
            sums = interpret(w, _values(left, left_scale), _values(right, right_scale), seed)
            by_cast = seed is not None and self._out != FP32
            made = as_format(sums, FP32 if by_cast else self._out)
            made = cast(made, self._out, rounding="stochastic", seed=seed) if by_cast else made
        else:
            made = result_array((w.groups, w.m, w.n), self._out.dtype)
            scaled = ((left, left_scale), (right, right_scale), (made, 0))
            operands = [Operand(format_of(x), x.strides[1], x.strides[2], (x.strides[0],), scale=s) for x, s in scaled]
            program = _program(Same(w), *operands, self._threads, seed is not None)
            if counted is None:
                program.run(left, right, made, seed)
            else:
                record(self._run_of(counted, program.timed(left, right, made, seed)))
        return made[0] if w.groups == 1 and np.ndim(a) == 2 else made

    def _run_of(self, counted: Count, seconds: dict[str, float]) -> Run:
        w = self.work
        kernel = select("dot", "multiply", "float32", consistent=True).kernel
        groups = f"{w.groups} x " if w.groups > 1 else ""
        return Run(
            "poplin.matmul", f"{groups}[{w.m}, {w.k}] x [{w.k}, {w.n}]", f"{kernel.name} ({kernel.level})",
            sum(seconds.values()), self.plan, seconds, counted.tile_bytes, counted.tile_macs, counted.exchanged_bytes,
        )  # fmt: skip

    def _operand(self, given: Any, name: str, shape: tuple[int, ...]) -> tuple[Array, int]:
        scale = 0
        if isinstance(given, QuarterArray):
            if np.size(given.scale) != 1:
                raise bad_argument(name, "a QuarterArray with many scales", "one scale: modelled machines have no more")
            array, scale = given.codes.view(np.dtype(given.format.dtype)), int(np.ravel(given.scale)[0])
        else:
            array = taken(given, name)
        if modelled_type(array.dtype, name) != self._dtype:
            raise bad_type(name, f"dtype {array.dtype}", f"the planned type, {self._dtype}")
        if array.ndim == 2 and shape[0] == 1:
            array = array[None]
        if array.shape != shape:
            raise bad_argument(name, f"shape {array.shape}", f"the planned shape {shape}")
        return (array if array.flags.aligned else array.copy()), scale


def _values(array: Array, scale: int) -> Array:
    f = format_of(array)
    return decode(array.view(f.code_dtype), f, scale).astype(np.float32)


@lru_cache(maxsize=64)
def _program(work: Same, a: Operand, b: Operand, out: Operand, threads: int | None, stochastic: bool) -> TileProgram:
    return lower_work(work.held, a, b, out, threads, stochastic)


def compile_modelled(plan: ConvPlan, *, threads: int | None = None) -> TileMatmul:
    """Make a plan from `plan_modelled` into a callable.

    Parameters
    ----------
    plan : ConvPlan
        Of the product.
    threads : int, optional
        Threads of this CPU to run on; results do not depend on it.

    Returns
    -------
    TileMatmul
    """
    params = product_of(plan)
    assert plan.problem is not None
    planned = planned_quietly(plan.problem)
    if planned is not plan and planned != plan:  # the program follows it blindly
        raise bad_argument("plan", "a plan with changes", "a plan as plan_matmul returned it")
    options = plan.problem.options
    sizes = params.groups, params.batch, params.out_channels, params.in_channels
    work = work_of(plan, *sizes, options.enable_multi_stage_reduce)
    return TileMatmul(plan, work, params.input_type, FP32 if params.output_type == "float" else FP16, threads)


@overload
def matmul_modelled(a: Any, b: Any, *, executor: Literal["count"], **more: Any) -> Count: ...


@overload
def matmul_modelled(a: Any, b: Any, *, executor: _Runs = "compiled", **more: Any) -> Array: ...


def matmul_modelled(
    a: Any,
    b: Any,
    *,
    target: Target | str = "gc200",
    out: Array | None = None,
    out_dtype: object = None,
    seed: int | None = None,
    executor: Executor = "compiled",
    options: Mapping[str, Any] | None = None,
    **more: Any,
) -> Array | Count:
    """Multiply matrices as a modelled machine would, with the numbers of its plan.

    Corresponds to PopLibs' ``matMul`` and ``matMulGrouped``; `poplibs_py.poplin.matmul` calls it where `target` names
    a modelled machine.

    Parameters
    ----------
    a : array_like [..., m, k] or QuarterArray
        float32, float16, or FP8 of PopLibs' formats, with any strides.
    b : array_like [..., k, n] or QuarterArray
        Of the same type as a. Batch axes broadcast and become groups.
    target : Target or str, optional
        The machine. Default ``"gc200"``.
    out : numpy.ndarray, optional
        Where the result goes.
    out_dtype : dtype, optional
        float32 or float16; by default as the operands, float16 for FP8.
    seed : int, optional
        Round stochastically from this seed wherever tiles exchange half partial sums and at the result; by default to
        nearest even. Vertices round their running sums to nearest even either way.
    executor : {"compiled", "python", "count"}, optional
        The Python executor is slow, obvious, and gives the same bits. The counting one returns a `Count` of what the
        tiles would hold, multiply and exchange, and computes nothing.
    options, **more
        PopLibs' matmul options, as for `plan_modelled`.

    Returns
    -------
    numpy.ndarray [..., m, n], or Count

    Notes
    -----
    The order of sums is part of the plan: see `poplibs_py.poplin.matmul.modelled.work`. The result does not depend on
    this CPU's instruction-set level or threads.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.poplin.matmul.modelled import matmul_modelled
    >>> matmul_modelled(np.eye(4, dtype=np.float16), np.ones((4, 2), np.float16), target="gc200")[0]
    array([1., 1.], dtype=float16)
    """
    product = read_product(a, b, out_dtype)
    _check_out(out, product.shape, product.out)
    if product.is_empty:
        if executor == "count":
            raise bad_argument("executor", executor, "'compiled' or 'python' for a product without elements")
        made = np.zeros(product.shape, product.out.dtype)
    else:
        run = compile_modelled(product.planned(target, options, more))
        if executor == "count":
            return run(product.a, product.b, executor="count")
        made = run(product.a, product.b, seed=seed, executor=executor).reshape(product.shape)
    if out is None:
        return made
    out[...] = made
    return out


def _check_out(out: Array | None, shape: tuple[int, ...], fmt: Format) -> None:
    if out is None:
        return
    if not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != fmt.dtype or not out.flags.writeable:
        got = f"{out.dtype} of shape {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
        raise bad_argument("out", got, f"a writeable {fmt} array of shape {shape}")
    if overlaps_itself(out):
        raise bad_argument("out", "an array whose elements share memory", "one element to each place")
