"""Cholesky factors and triangular systems on a modelled machine: PopLibs' blocked algorithms, and what they cost.

`cholesky_moves` and `solve_moves` are the algorithms; `modelled.py` runs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...checks import whole
from ...memo import remembered
from ...ops import parsed
from ...planner import Memory, Temporaries
from ...planner.facts import Table
from ...planner.tile_plan import Step, TilePlan, Vertex, mapping_words, memory_of, work_of
from ...popops.elementwise.modelled import planned
from ...target import Target, linear_mapping
from ...target.types import TYPE_BYTES
from ..product.options import PRODUCT_OPTIONS, conv_options
from ..tile_conv import ConvOptions, ConvPlan, matmul_params
from ..tile_conv.api import planned_quietly
from ..tile_conv.problem import ConvProblem
from ..tile_conv.work import work_of as tile_work_of
from .params import FactorParams

BLOCK_SIZES = {"cholesky": 8, "solve": 64}
"""PopLibs' defaults of its option ``blockSize``."""

_BLOCK = "block_size"
_PANEL, _REST = "panel products", "products of what is left"


@dataclass(frozen=True)
class TileProblem:
    """A factorisation or a solve that a modelled machine plans.

    Attributes
    ----------
    op : {"cholesky", "solve"}
    batch, order, sides : int
        Matrices, their order, right-hand sides of each.
    upper, unit : bool
        Which triangle a solve has; whether its diagonal counts as ones.
    kind : {"float", "half"}
    block : int
        Order of the blocks that one vertex takes.
    options : ConvOptions
        Of the products.
    target : Target
    """

    op: str
    batch: int
    order: int
    sides: int
    upper: bool
    unit: bool
    kind: str
    block: int
    options: ConvOptions
    target: Target

    @classmethod
    def of(cls, p: FactorParams, kind: str, block: int, options: ConvOptions, target: Target) -> TileProblem:
        """Return the problem of params; a block is no larger than the matrix."""
        sides = p.columns if p.op == "solve" else 0
        upper = p.upper and p.op == "solve"  # an upper factor is the transpose of the transpose's lower one
        return cls(p.op, p.batch, p.rows, sides, upper, p.unit, kind, min(block, p.rows), options, target)

    def product(self, m: int, k: int, n: int) -> ConvPlan:
        """Return the plan of products [m, k] x [k, n] of the batch, whether it keeps to its limit or not."""
        params = matmul_params(self.batch, m, k, n, self.kind, self.kind)
        return planned_quietly(ConvProblem(self.target, params.canonical(), self.options))


class Move(NamedTuple):
    """A move of an algorithm: ranges of a matrix as (first, end).

    Attributes
    ----------
    block : tuple of int
        The block that is factored or substituted; empty for a product alone.
    rows, columns : tuple of int
        What a product changes, and what of the matrix it multiplies.
    """

    block: tuple[int, ...]
    rows: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()


def cholesky_moves(order: int, block: int) -> Iterator[Move]:
    """Blocks down the diagonal, each with the rows below it: the right-looking algorithm."""
    for first in range(0, order, block):
        end = min(first + block, order)
        yield Move((first, end), (end, order) * (end < order))


def padded_order(order: int, block: int) -> int:
    """Return the order that recursive halving comes down to blocks from.

    Examples
    --------
    >>> from poplibs_py.poplin.factor.plan import padded_order
    >>> padded_order(50, 64), padded_order(65, 64), padded_order(200, 64)
    (50, 128, 256)
    """
    return order if order <= block else block << (-(-order // block) - 1).bit_length()


def solve_moves(first: int, end: int, block: int, upper: bool) -> Iterator[Move]:
    """A triangle as two halves: what the first has solved is taken from the right-hand sides of the second."""
    if end - first <= block:
        yield Move((first, end))
        return
    half = (first + end) // 2
    before, after = ((half, end), (first, half)) if upper else ((first, half), (half, end))
    yield from solve_moves(*before, block, upper)
    yield Move((), after, before)
    yield from solve_moves(*after, block, upper)


@dataclass(frozen=True, kw_only=True)
class FactorPlan(TilePlan):
    """A factorisation on a modelled machine: vertices that take a block each, and planned products between them.

    Attributes
    ----------
    products : tuple of ConvPlan
        In the order in which they are made.
    """

    products: tuple[ConvPlan, ...] = ()

    @property
    def exchanged_bytes(self) -> int:
        """Bytes that all tiles receive, those of the products among them."""
        works = map(tile_work_of, self.products)
        return super().exchanged_bytes + sum(w.operand_bytes + w.partial_bytes for w in works)

    @property
    def flops(self) -> int:
        """Multiplications and additions of the products."""
        return sum(plan.flops for plan in self.products)

    def tables(self) -> tuple[Table, ...]:
        """Return the steps by their names: the first of each is the largest product, or as all of them are."""
        rows = []
        for name in dict.fromkeys(step.name for step in self.steps):
            steps = [step for step in self.steps if step.name == name]
            vertices = ", ".join(dict.fromkeys(str(v) for w in steps[0].work for v in w.vertices))
            rows.append((f"{sum(w.tiles for w in steps[0].work):,}", f"{sum(s.times for s in steps):,}",
                         f"{name}: {vertices}", f"{steps[0].compute_cycles:,}", f"{steps[-1].compute_cycles:,}",
                         f"{self.phases[name]:,}"))
        return (Table("Steps", ("tiles", "times", "step", "first", "last", "cycles"), tuple(rows)),)


def block_options(op: str, options: Any, block_size: Any = None, memory: Memory | None = None
                  ) -> tuple[int, ConvOptions]:
    """Return the block size and the products' options that a call of an op says, by PopLibs' options and by keyword."""
    more = {} if block_size is None else {_BLOCK: block_size}

    def check(key: str, field: str, value: Any) -> Any:
        return whole(key, value, 1, 2**16) if field == _BLOCK else value

    said = parsed(options, {"blockSize": _BLOCK, **PRODUCT_OPTIONS}, check, more)
    limited = {} if memory is None else {"available_memory_proportion": memory.proportion}
    limited |= {"strict_memory": True} if memory is not None and memory.strict else {}
    rest = {key: value for key, value in (options or {}).items() if key not in ("blockSize", _BLOCK)}
    return said.get(_BLOCK, BLOCK_SIZES[op]), conv_options(rest, limited)


@remembered(weight=4)
def plan_factoring(problem: TileProblem) -> FactorPlan:
    """Return the plan of a problem."""
    p, size = problem, TYPE_BYTES[problem.kind]
    made = tuple(_cholesky_steps(p) if p.op == "cholesky" else _solve_steps(p)) if p.batch and p.order else ()
    steps = tuple(step for step, _ in made)
    mapping = linear_mapping(p.target, p.batch * p.order**2, size)
    sides = linear_mapping(p.target, p.batch * p.order * (p.sides or p.order), size)
    operands, results = (np.diff(x.edges()) * size for x in (mapping, sides))
    which = "upper" if p.upper else "lower"
    what = f"{p.op} {p.batch} x [{p.order}, {p.order}] {p.kind}"
    what += f", {which}, {p.sides} right-hand sides" * (p.op == "solve")
    temp_bytes = max((step.temp_bytes for step in steps), default=0)
    products = tuple(plan for _, plan in made if plan is not None)
    decisions = (("mapping", mapping_words(p.target, mapping)),
                 ("blocks", f"of order {p.block}, {sum(s.times for s in steps if s.name in _OF_BLOCKS)} of them"),
                 ("products", f"{len(products)}, planned as convolutions are"), ("not known", _not_known(p)))
    memory = memory_of(p.target, operands, results, temp_bytes)
    return FactorPlan(problem=what, target=p.target, steps=steps, memory=memory, decisions=decisions,
                      products=products,
                      over_limit=Temporaries.worst(plan.temporaries for plan in products if not plan.fits))


_OF_BLOCKS = "factor blocks", "substitute"


def _not_known(p: TileProblem) -> str:
    """What of the cycles PopLibs' models do not say."""
    words = "what is moved between steps, and zeros of the other triangle: they are not counted"
    if p.kind == "half":
        words += "; vertices of blocks in half: those in float are counted"
    return words + "; those of upper triangles: those of lower ones are counted" * p.upper


def _vertices(p: TileProblem, name: str, step: str, order: int, count: int) -> Step:
    """So many vertices of a block each, dealt out to tiles, each with its block, and a column where it solves."""
    vertex = {"Cholesky": _cholesky_vertex, "TriangularSolve": _solve_vertex}[name](p, order)
    size = TYPE_BYTES[p.kind] * (vertex.elements + (2 * order if name == "TriangularSolve" else 0))
    shares = linear_mapping(p.target, count, TYPE_BYTES[p.kind], grain=1, least=1)
    work = work_of(p.target, shares.classes, lambda n: (vertex,) * n, lambda n: size * n)
    return Step(step, work, max(w.received for w in work))


def _cholesky_vertex(p: TileProblem, d: int) -> Vertex:
    cycles = d**3 + 102 * d**2 + 101 * d + 102
    return Vertex("Cholesky", (p.kind, "true"), ((d * d, 1),), cycles, "worker")


def _solve_vertex(p: TileProblem, n: int) -> Vertex:
    cycles = max(0, (3 * n * n + 1) // 2 + 180 * n - 126)
    return Vertex("TriangularSolve", (p.kind, "false" if p.upper else "true"), ((n * n, 1),), cycles, "worker")


def _product(p: TileProblem, name: str, plan: ConvPlan) -> tuple[Step, ConvPlan]:
    """A product as a step: its exchanges are within its cycles."""
    macs = plan.total_macs // max(1, plan.tiles_used)
    vertex = Vertex(plan.method.type, (p.kind,), ((macs, 1),), plan.cycles, "tile")
    work = work_of(p.target, ((vertex.elements, plan.tiles_used),), lambda _: (vertex,))
    return Step(name, work, plan.temp_bytes), plan


def _elementwise(p: TileProblem, name: str, op: str, elements: int) -> tuple[Step, None]:
    plan = planned(f"popops.{name}", op, (elements,), p.kind, p.kind, True, p.target, (False, False))
    return replace(plan.steps[0], name=name), None


Made = Iterator[tuple[Step, ConvPlan | None]]


def _cholesky_steps(p: TileProblem) -> Made:
    for (first, end), below, _ in cholesky_moves(p.order, p.block):
        size = end - first
        yield _vertices(p, "Cholesky", "factor blocks", size, p.batch), None
        if below:
            left = p.order - end
            yield _vertices(p, "TriangularSolve", "invert blocks", size, p.batch * size), None
            yield _product(p, _PANEL, p.product(left, size, size))
            yield _product(p, _REST, p.product(left, size, left))
            yield _elementwise(p, "subtract", "SUBTRACT", p.batch * left * left)


def _solve_steps(p: TileProblem) -> Made:
    if not p.sides:
        return
    order = padded_order(p.order, p.block)
    if not p.unit:
        yield _elementwise(p, "divide", "DIVIDE", p.batch * p.order * (p.order + p.sides))
    for block, rows, columns in solve_moves(0, order, p.block, p.upper):
        if block:
            yield _vertices(p, "TriangularSolve", "substitute", block[1] - block[0], p.batch * p.sides), None
        else:
            size = rows[1] - rows[0]
            yield _product(p, "products", p.product(size, columns[1] - columns[0], p.sides))
            yield _elementwise(p, "subtract", "SUBTRACT", p.batch * size * p.sides)
