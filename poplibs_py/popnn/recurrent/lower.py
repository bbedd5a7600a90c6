"""What the passes of recurrent layers are made of: loops over the steps, of products and a kernel between them.

A pass runs on the arrays of a layer, all of its steps at once or a stretch of them, which is a pass of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ...formats import FP16, Array
from ...kernels import Selection
from ...memo import remembered
from ...planner import Explanation
from ...planner.explain import Explained, considered_kernels
from ...poplin.gemm.params import MatrixLayout
from ...program import ComputeSet, Executable, Loop, Program
from ...target import Target
from .cells import SCRATCH
from .params import RnnParams, checked_limits, gates_at_once
from .products import (
    StepProduct,
    lying_product,
    prepared_product,
    step_product,
)
from .sparse import SparseStep, sparse_step

NOTHING = np.empty(0, np.uint8)
SLOTS = 4  # of what a product of a step reads: weights, and of block-sparse ones where they are

_FEW_STEPS = 16
"""Steps of one row for which packing weights takes longer than it saves: on Zen 4 a step with packed ones takes 0.8 of
the time at 256 outputs and as long at 1,024, and packing as long as 3 and 10 steps."""


class LayerArrays(NamedTuple):
    """A layer's operands as arrays, weights and biases with an axis of gates, block-sparse weights as they are; lengths
    and scores are checked."""

    x: Array
    weights_input: Any
    weights_output: Any
    biases: Array | None
    init: Sequence[Array | None]
    lengths: Array | None
    attention: Array | None
    weights_projection: Array | None = None


class Made(NamedTuple):
    """What a stretch of steps writes: outputs and what is saved of each, and the states, which it reads before."""

    out: Array | None
    last: Array
    cell: Array
    saved: Array | None


@dataclass(frozen=True)
class Loops:
    """What repeats for every step.

    Attributes
    ----------
    executable : Executable
    products : tuple of StepProduct or SparseStep
        Whose weights are packed before.
    selection : Selection
        The kernel between them.
    """

    executable: Executable
    products: tuple[StepProduct | SparseStep, ...]
    selection: Selection

    def pack(self, p: RnnParams, arrays: LayerArrays, gates: Sequence[Sequence[int]],
             transposed: bool = False) -> list[Array]:
        """Return the weights of these of the caller's gates packed, for each product; of the products with their
        transposes, those.

        The last product of a layer with a projection is that.
        """
        packed: list[Array] = []
        for number, product in enumerate(self.products):
            if number < len(gates):
                packed += product.pack(arrays.weights_output, gates[number], p.by_columns[1], transposed)
            else:
                assert arrays.weights_projection is not None
                weights = arrays.weights_projection if p.packed[2] else arrays.weights_projection[None]
                packed += product.pack(weights, (0,), p.by_columns[2], transposed)
        return packed

    def explain(self, problem: str) -> Explanation:
        """Return what was decided."""
        products = ", ".join(x.told for x in self.products)
        decisions = {"kernel": self.selection.kernel.label, "products of a step": products,
                     "threads": str(self.executable.threads)}
        return Explanation(problem, decisions, considered_kernels(self.selection))


@dataclass(frozen=True, eq=False)
class Pass(Explained):
    """What passes forward and backward share: params, and loops that are ready.

    Attributes
    ----------
    params : RnnParams
    target : Target
    """

    params: RnnParams
    target: Target
    loops: Loops = field(init=False)
    direction: ClassVar[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "loops", self._looped())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).of, (self.params, self.target)

    @classmethod
    @remembered(weight=2)
    def of(cls, params: RnnParams, target: Target) -> Self:
        """Return the pass, as it was made before where it was."""
        return cls(params, target)

    def of_steps(self, steps: int) -> Self:
        """Return the pass of so many steps."""
        return self if steps == self.params.steps else self.of(replace(self.params, steps=steps), self.target)

    def _looped(self) -> Loops:
        """The loop over the steps."""
        raise NotImplementedError

    @property
    def threads(self) -> int:
        """Threads of the loop."""
        return self.loops.executable.threads

    @property
    def flops(self) -> int:
        """Operations of the products."""
        return self.params.flops

    @property
    def packed_bytes(self) -> int:
        """Bytes of packed weights."""
        return sum(x.packed_bytes for x in self.loops.products)

    def explain(self) -> Explanation:
        """Return what was decided."""
        return self.loops.explain(f"{self.params} {self.direction}")


def lengths_of(p: RnnParams, given: Array) -> Array:
    """Return the numbers of steps of all rows, checked."""
    checked_limits(given, p.steps)
    return np.ascontiguousarray(np.broadcast_to(given.reshape(-1), (p.batch,)), np.int64)


def slots(number: int, first: int) -> range:
    """The operands that a product of a step reads beside what it multiplies."""
    return range(first + SLOTS * number, first + SLOTS * (number + 1))


def state_product(p: RnnParams, k: int, n: int, a: MatrixLayout, which: int, target: Target,
                  back: bool = False, number: int = 0) -> StepProduct | SparseStep:
    """Return a product of each step with the weights of states, 1, or of a projection, 2; `back` transposed.

    `number` counts the products of a step with those weights.
    """
    blocks = p.blocks[1]
    if which == 1 and blocks:
        return sparse_step(p.batch, k, n, a, p.weights_output, blocks, back, target)
    if p.packed[which]:
        return prepared_product(p.batch, k, n, a, p.packed[which], number, target)
    weights = p.weights_projection if which == 2 else p.weights_output
    there = lying_product(p.batch, k, n, a, weights, target) if which == 1 and not back and _in_place_pays(p) else None
    return there or step_product(p.batch, k, n, a, weights, p.by_columns[which] != back, p.scales[which], target)


def _in_place_pays(p: RnnParams) -> bool:
    """Whether a forward pass meets weights of states where they lie, if kernels do; packed, FP16 would be widened."""
    lies = p.by_columns[1] and not p.scales[1] and len(gates_at_once(p.cell, p.order, p.reset_after)) == 1
    return lies and p.batch == 1 and (p.steps <= _FEW_STEPS or p.weights_output == FP16)


def looped(p: RnnParams, sets: list[ComputeSet], products: list[StepProduct | SparseStep], tables: list[Any],
           selection: Selection, first: int) -> Loops:
    """Return the loop of these compute sets over the steps, on as many threads as the one that takes most."""
    threads = 1 + max(int(segment.tiles.max(initial=0)) for step in sets for segment in step.segments)
    scratch = max(SCRATCH, *(x.scratch_bytes for x in products))
    operands = first + SLOTS * len(products)
    program = Program((Loop(p.steps, tuple(sets)),), operands, threads, scratch, tables=tuple(tables))
    return Loops(program.executable(threads), tuple(products), selection)
