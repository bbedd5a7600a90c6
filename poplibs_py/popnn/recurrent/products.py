"""Products of a recurrent layer: weights as one matrix, packed once a call, and products of steps within a loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ...formats import FP32, Array, Format
from ...memo import remembered
from ...poplin.gemm import _gemm
from ...poplin.gemm._gemm import Mode
from ...poplin.gemm.lower import Lowered, items_of, lower, lower_prepare
from ...poplin.gemm.options import GemmOptions
from ...poplin.gemm.params import GemmParams, MatrixLayout, contiguous
from ...poplin.gemm.plan import Epilogue, GemmPlan, prepared_bytes
from ...poplin.gemm.search import parts, plan_gemm
from ...program import Executable, Segment, spread, whole_lines
from ...target import Target
from .builder import NOTHING, Builder


def matrix_of(builder: Builder, weights: Array, gates: Sequence[int], by_columns: bool) -> Array:
    """Return weights [gates, rows, columns] as one matrix, [rows, gates * columns], of these gates in this order.

    It is in C order, or the transpose of one that is where columns of the weights lie so; a copy is in a run's room.
    """
    count, (rows, columns) = len(gates), weights.shape[1:]
    if by_columns:
        lines = weights.transpose(0, 2, 1)
        if list(gates) == list(range(len(weights))):
            return lines.reshape(count * columns, rows).T
        made = builder.room((count, columns, rows), weights.dtype)
        builder.put_planes(lines, gates, made)
        return made.reshape(count * columns, rows).T
    if count == 1 and weights[gates[0]].flags.c_contiguous:
        only: Array = weights[gates[0]]
        return only
    made = builder.room((rows, count, columns), weights.dtype)
    builder.put_planes(weights, gates, made.swapaxes(0, 1))
    return made.reshape(rows, count * columns)


def lying(dtype: Format, rows: int, columns: int, transposed: bool, scale: int = 0) -> MatrixLayout:
    """Return how a matrix lies that is in C order, or the transpose of one."""
    made = contiguous(dtype, columns, rows).transposed if transposed else contiguous(dtype, rows, columns)
    return replace(made, scale=scale) if scale else made


@remembered(weight=4)
def multiply(m: int, k: int, n: int, a: MatrixLayout, b: MatrixLayout, out: MatrixLayout, target: Target,
             beta: float = 0.0, packed: GemmPlan | None = None) -> Lowered:
    """Return a product of matrices that lie so, lowered; `beta` times what is there already is added.

    `packed` is what B was packed under, where it was.
    """
    params = GemmParams(m, n, k, a, b, out)
    return lower(plan_gemm(params, GemmOptions(), Epilogue(beta=beta), target, fixed=packed))


def in_turns(vertex: int, items: Array, tiles: Array, field: str, turns: int, turn: int) -> Segment:
    """Return the work of a product in a loop, whose first operand moves by so many bytes in each turn, if at all."""
    if not turn:
        return Segment(vertex, items, tiles)
    numbers = np.repeat(np.arange(turns), len(items))
    items, tiles = np.tile(items, turns), np.tile(tiles, turns)
    items[field] += numbers * turn
    return Segment(vertex, items, tiles, numbers)


@dataclass(frozen=True, eq=False)
class StepProduct:
    """A product of every step with weights that came packed.

    Attributes
    ----------
    plan : GemmPlan
        Of the product.
    begin : int
        Where its weights are among those that were packed together.
    """

    plan: GemmPlan
    begin: int

    def pack(self, builder: Builder, weights: Array, gates: Sequence[int], by_columns: bool,
             back: bool) -> tuple[Array, ...]:
        """Return the packed weights; see `PackingProduct.pack`."""
        return weights[self.begin :], NOTHING, NOTHING, NOTHING

    @property
    def n(self) -> int:
        """Columns of the result."""
        return self.plan.product.n

    @property
    def told(self) -> str:
        """What it is, in words."""
        p = self.plan.product
        return f"{self.plan.kernel.label} [{p.m}, {p.k}] x [{p.k}, {p.n}]"

    @property
    def scratch_bytes(self) -> int:
        """Bytes of a thread."""
        return self.plan.scratch_bytes

    def segment(self, a: int, slots: Sequence[int], out: int, turns: int = 1,
                turn: int = 0) -> tuple[Segment, list[Any]]:
        """Return the work of a product in a loop, and the tables that it points to.

        Parameters
        ----------
        a, out : int
            Operands of the program.
        slots : sequence of int
            The four that `pack` returns.
        turns, turn : int, optional
            Turns of the loop, and bytes from the first operand of one turn to that of the next, if it moves.
        """
        items, tables = items_of(self.plan, a, slots[0])
        tables[0]["out_skip"] = out - 2
        tiles = spread(len(items), self.plan.threads)
        return in_turns(_gemm.VERTEX, items, tiles, "a", turns, turn), tables


@dataclass(frozen=True, eq=False)
class LyingProduct(StepProduct):
    """A product of a row with weights whose columns are read where they lie: dot products, as the planner swaps it."""

    def pack(self, builder: Builder, weights: Array, gates: Sequence[int], by_columns: bool,
             back: bool) -> tuple[Array, ...]:
        return matrix_of(builder, weights, gates, by_columns), NOTHING, NOTHING, NOTHING

    def segment(self, a: int, slots: Sequence[int], out: int, turns: int = 1,
                turn: int = 0) -> tuple[Segment, list[Any]]:
        return super().segment(slots[0], (a,), out, turns, turn)


@dataclass(frozen=True, eq=False)
class PackingProduct(StepProduct):
    """A product of every step with weights that are packed before the first one.

    Attributes
    ----------
    packing : Executable
    nbytes : int
        That packed weights take.
    weights : Format
        What they are to be before they are packed.
    given : Format
        What they are.
    scale : int
        The exponent of theirs where they are not packed as they are.
    """

    packing: Executable
    nbytes: int
    weights: Format
    given: Format
    scale: int = 0

    def pack(self, builder: Builder, weights: Array, gates: Sequence[int], by_columns: bool, back: bool,
             packed: Array | None = None) -> tuple[Array, ...]:
        """Return the weights of some gates packed, `back` transposed, and nothing that tells where they are.

        They are written to `packed`, from the start of a cache line on, or by default to a run's room.
        """
        packed = builder.room((self.nbytes,), np.uint8) if packed is None else packed
        with builder.passing():
            matrix = matrix_of(builder, weights, gates, by_columns)
            matrix = matrix.T if back else matrix
            if self.weights != self.given:
                lines = matrix if matrix.flags.c_contiguous else matrix.T
                wide = builder.room(lines.shape)
                builder.put(lines, wide)
                if self.scale:
                    builder.apply(partial(_scale, self.scale), wide)
                matrix = wide if lines is matrix else wide.T
            builder.run(self.packing, matrix, matrix, packed)
        return packed, NOTHING, NOTHING, NOTHING


def _scale(exponent: int, x: Array) -> None:
    np.ldexp(x, exponent, out=x)


@remembered(weight=4)
def step_product(m: int, k: int, n: int, a: MatrixLayout, b: Format, transposed: bool, scale: int,
                 target: Target) -> PackingProduct:
    """Plan a step's product, of m rows that lie like `a`, with a matrix that is packed beforehand; results are FP32."""
    options, out, apart, given = GemmOptions(), contiguous(FP32, m, n), 0, b
    params = GemmParams(m, n, k, a, lying(b, k, n, transposed, scale), out)
    if parts(params) != (1, 1):  # else the frame would want the matrix whole too, for what is not finite
        apart, b = scale, FP32
        params = GemmParams(m, n, k, a, lying(b, k, n, transposed), out)
    packed = plan_gemm(params, options, Epilogue(), target, packing=True)
    plan = plan_gemm(params, options, Epilogue(), target, fixed=packed)
    return PackingProduct(plan, 0, lower_prepare(packed).executable, _bytes_of(packed), b, given, apart)


@remembered(weight=4)
def lying_product(m: int, k: int, n: int, a: MatrixLayout, b: Format, target: Target) -> LyingProduct | None:
    """Plan a step's product with weights that lie by columns and are read there, or return None if no kernel does."""
    params = GemmParams(m, n, k, a, lying(b, k, n, True), contiguous(FP32, m, n))
    plan = plan_gemm(params, GemmOptions(), Epilogue(), target)
    return LyingProduct(plan, 0) if plan.swapped and plan.a_mode == Mode.DIRECT and not plan.fallback else None


@remembered(weight=4)
def prepared_product(m: int, k: int, n: int, a: MatrixLayout, packed: tuple[GemmPlan, ...], number: int,
                     target: Target) -> StepProduct:
    """Plan a step's product with the weights of this number that came packed together; results are FP32."""
    params = GemmParams(m, n, k, a, packed[number].product.b, contiguous(FP32, m, n))
    plan = plan_gemm(params, GemmOptions(), Epilogue(), target, fixed=packed[number])
    return StepProduct(plan, sum(map(_bytes_of, packed[:number])))


def _bytes_of(packed: GemmPlan) -> int:
    """Bytes of packed weights, up to the start of a cache line."""
    return whole_lines(prepared_bytes(packed))
