"""Cholesky factors and triangular systems as a modelled machine's plan makes them.

The products between blocks are the planner's programs of `poplin.matmul`; a vertex's block is made by the kernels that
factor and solve many small matrices here, in FP32, and rounded once to the type; so is each quotient and difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...config import settings
from ...formats import FP16, FP32, Array, Format
from ...memo import remembered
from ...ops import RESULT, Operand, Placed, Receiver, Request
from ...planner import Explanation, Memory
from ...planner.explain import PlanDefaults
from ...program import temporary
from ...target import Target
from ...target.types import type_of
from ..product.modelled import product_program
from ..tile_conv import ConvOptions
from ..tile_conv.modelled import tile_kernel
from ..tile_conv.work import work_of
from .lower import Factoring, checked, on_kernels
from .params import FactorLayout, FactorParams
from .plan import FactorPlan, TileProblem, cholesky_moves, padded_order, plan_factoring, solve_moves

_FORMATS: dict[str, Format] = {"float": FP32, "half": FP16}


def lacks(out: Format, *operands: Operand) -> str:
    """Return what no vertex of PopLibs does, in words; an empty string if they do it all."""
    formats = {x.format for x in operands} | {out}
    if len(formats) > 1 or out not in _FORMATS.values():
        return "of " + " and ".join(dict.fromkeys(str(x.format) for x in operands)) + f" to {out}"
    return ""


def modelled_request(params: FactorParams, name: str, operands: tuple[Operand, ...], receiver: Receiver, target: Target,
                     block: int, options: ConvOptions) -> Request:
    """Describe a call on a modelled machine; the operand of this name is the one whose matrices it may refuse."""
    problem = TileProblem.of(params, type_of(params.operands[0].format), block, options, target)
    op = "poplin.cholesky" if problem.op == "cholesky" else "poplin.triangular_solve"
    plan = plan_factoring(problem).checked(op, Memory(options.available_memory_proportion, options.strict_memory))
    made = _factoring(params, problem, settings.num_threads)
    return Request(checked(made, name), (*operands, RESULT), receiver, lambda: (str(params), made.kernel, made),
                   placed=Placed(plan))


@dataclass(frozen=True, eq=False)
class TileFactoring(PlanDefaults):
    """A factorisation or a solve of given shapes and formats, as a plan's steps make it.

    Attributes
    ----------
    params : FactorParams
    problem : TileProblem
    threads : int
        Of this CPU, at most; results do not depend on them.
    """

    params: FactorParams
    problem: TileProblem
    threads: int
    programs: dict[tuple[Any, ...], Callable[..., Any]] = field(default_factory=dict)

    @property
    def plan(self) -> FactorPlan:
        """The plan."""
        return plan_factoring(self.problem)

    @property
    def kernel(self) -> str:
        """Who does it, for a reader."""
        p = self.problem
        sides = {"cholesky": p.block, "solve": p.block if self.params.op == "cholesky" else p.sides}
        made = [self._block_of(op, p.block, sides[op]) for op in dict.fromkeys((self.params.op, "solve"))]
        return ", ".join([*(x.kernel for x in made), tile_kernel()])

    def explain(self) -> Explanation:
        """Return what the plan decided."""
        return self.plan.explain()

    def run(self, *arrays: Array) -> None:
        """Run on the operands, the result and the status."""
        seen = [_matrices(arrays[o.operand], o, self.params.batch) for o in self.params.operands]
        with np.errstate(all="ignore"):
            (self._cholesky if self.params.op == "cholesky" else self._solve)(seen, arrays[-1])

    def _cholesky(self, arrays: list[Array], failed: Array) -> None:
        (a, out), p = arrays, self.problem
        work = np.array(a.swapaxes(-1, -2) if self.params.upper else a, order="C")
        for block, rows, _ in cholesky_moves(p.order, p.block):
            own = slice(*block)
            factor = self._block("cholesky", failed, np.ascontiguousarray(work[:, own, own]))
            work[:, own, own] = factor
            if rows:
                rest = slice(*rows)
                ones = np.broadcast_to(np.eye(factor.shape[-1], dtype=factor.dtype), factor.shape)
                inverse = self._block("solve", np.zeros_like(failed), factor, np.ascontiguousarray(ones))
                panel = self._product(work[:, rest, own], inverse.swapaxes(-1, -2))
                work[:, rest, own] = panel
                work[:, rest, rest] -= self._product(panel, panel.swapaxes(-1, -2))
        made = np.tril(work)
        out[...] = made.swapaxes(-1, -2) if self.params.upper else made

    def _solve(self, arrays: list[Array], failed: Array) -> None:
        (a, b, out), p = arrays, self.problem
        order = padded_order(p.order, p.block)
        t = np.zeros((p.batch, order, order), a.dtype)
        x = np.zeros((p.batch, order, p.sides), a.dtype)
        t[:, range(order), range(order)] = 1
        kept = np.tri(p.order, k=-p.unit, dtype=bool)
        np.copyto(t[:, :p.order, :p.order], a, where=kept.T if p.upper else kept)
        x[:, :p.order] = b
        if not p.unit:
            own = np.diagonal(t, axis1=-2, axis2=-1).copy()[..., None]
            failed[...] = ~own.all((-2, -1))
            t /= own
            x /= own
        for block, changed, solved in solve_moves(0, order, p.block, p.upper):
            if block:
                rows = slice(*block)
                corner, sides = (np.ascontiguousarray(v) for v in (t[:, rows, rows], x[:, rows]))
                x[:, rows] = self._block("solve", np.zeros_like(failed), corner, sides, upper=p.upper, unit=True)
            else:
                to, from_ = slice(*changed), slice(*solved)
                x[:, to] -= self._product(t[:, to, from_], x[:, from_])
        out[...] = x[:, :p.order]

    def _block(self, op: str, failed: Array, *operands: Array, upper: bool = False, unit: bool = False) -> Array:
        """Factor blocks, or solve with them, and mark those that have no factor."""
        out = temporary(operands[-1].shape, operands[-1].dtype)
        made = self._block_of(op, operands[0].shape[-1], out.shape[-1], upper=upper, unit=unit)
        status = np.zeros_like(failed)
        made.run(*operands, out, status)
        failed |= status
        return out

    def _block_of(self, op: str, order: int, sides: int, **triangle: bool) -> Factoring:
        """What factors blocks of an order, or solves with them for so many right-hand sides."""
        columns = (order, sides, sides) if op == "solve" else (order, order)
        fmt = self.params.operands[0].format
        lies = tuple(FactorLayout(fmt, order, each, operand=i) for i, each in enumerate(columns))
        return _on_kernels(FactorParams(op, (self.problem.batch,), order, sides, lies, **triangle), self.threads)

    def _product(self, a: Array, b: Array) -> Array:
        """Multiply matrices as the plan of such products does."""
        out = temporary((*a.shape[:-1], b.shape[-1]), a.dtype)
        key = "product", a.shape, a.strides, b.shape, b.strides
        if key not in self.programs:
            plan = self.problem.product(a.shape[-2], a.shape[-1], b.shape[-1])
            self.programs[key] = product_program(work_of(plan), a, b, out, self.threads)
        self.programs[key](a, b, out)
        return out


@remembered(weight=2)
def _on_kernels(params: FactorParams, threads: int) -> Factoring:
    return on_kernels(params, threads)


@remembered(weight=16)
def _factoring(params: FactorParams, problem: TileProblem, threads: int) -> TileFactoring:
    return TileFactoring(params, problem, threads)


def _matrices(array: Array, lies: FactorLayout, batch: int) -> Array:
    """An operand's matrices, or the result's, as those of the algorithm."""
    array = array if array.flags.c_contiguous else array.swapaxes(-1, -2)
    lines = array.reshape(batch, lies.rows, lies.columns)
    return lines.swapaxes(-1, -2) if lies.transposed else lines
