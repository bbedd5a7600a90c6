"""A forward pass: one product of all inputs, then a loop of a product and a kernel for each step.

Where memory is limited, some steps at a time: a stretch is a pass of its own that begins with the states of the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ...formats import FP32, Array
from ...kernels import Selection
from ...memo import remembered
from ...planner import Explanation
from ...planner.explain import Explained, considered_kernels
from ...poplin.gemm.params import MatrixLayout, contiguous
from ...program import ComputeSet, Executable, Loop, Program
from ...target import Target
from .builder import NOTHING, Builder
from .lower import FORWARD, SCRATCH, Side, Strided, cells
from .params import RnnParams, checked_limits
from .products import (
    StepProduct,
    lying,
    lying_product,
    matrix_of,
    multiply,
    prepared_product,
    step_product,
)
from .sparse import SparseStep, sparse_step

(_OUT, _LAST, _CELL, _SAVED, _PRODUCT, _INPUT, _BIAS, _LENGTHS, _ATTENTION, _RESET, _SECOND, _PACKED) = range(12)

SLOTS = 4  # of what a product of a step reads: weights, and of block-sparse ones where they are


class LayerArrays(NamedTuple):
    """What stands for a layer's operands, weights and biases with an axis of gates, block-sparse weights as `Stored`;
    lengths are those of all rows, checked, and scores FP32 numbers in C order."""

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

    def pack(self, builder: Builder, p: RnnParams, arrays: LayerArrays, gates: Sequence[Sequence[int]],
             transposed: bool = False) -> list[Array]:
        """Return the weights of these of the caller's gates packed, for each product; of the products with their
        transposes, those.

        The last product of a layer with a projection is that.
        """
        packed: list[Array] = []
        for number, product in enumerate(self.products):
            if number < len(gates):
                packed += product.pack(builder, arrays.weights_output, gates[number], p.by_columns[1], transposed)
            else:
                assert arrays.weights_projection is not None
                weights = arrays.weights_projection if p.packed[2] else arrays.weights_projection[None]
                packed += product.pack(builder, weights, (0,), p.by_columns[2], transposed)
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
    def flops(self) -> int:
        """Operations of the products."""
        return self.params.flops

    def explain(self) -> Explanation:
        """Return what was decided."""
        return self.loops.explain(f"{self.params} {self.direction}")


@dataclass(frozen=True, eq=False)
class Forward(Pass):
    """A forward pass, ready."""

    direction = "forward"

    def _looped(self) -> Loops:
        return _loops(self.params, self.target)

    @cached_property
    def inputs(self) -> Any:
        """Return the product of all inputs with their weights: a `Lowered`, or a `SparseStep`."""
        p = self.params
        rows, wide, packed = p.steps * p.batch, p.gates * p.outputs, p.packed[0]
        if p.blocks[0]:
            a = contiguous(p.x, rows, p.inputs)
            return sparse_step(rows, p.inputs, wide, a, p.weights_input, p.blocks[0], False, self.target)
        return multiply(rows, p.inputs, wide, contiguous(p.x, rows, p.inputs),
                        packed[0].product.b if packed else
                        lying(p.weights_input, p.inputs, wide, p.by_columns[0], p.scales[0]),
                        contiguous(FP32, rows, wide), self.target, packed=packed[0] if packed else None)

    def build(self, builder: Builder, arrays: LayerArrays, made: Made, at_once: int) -> None:
        """Add what writes a pass's results, so many steps at once."""
        p = self.params
        for state, given in zip((made.last, made.cell), arrays.init, strict=False):
            builder.begin(given, state)
        if not p.steps:
            return
        running = Running(builder, self, arrays)
        for cut in builder.stretches(p.steps, at_once):
            running.go(cut, Made(made.out if made.out is None else made.out[cut], made.last, made.cell,
                                 made.saved if made.saved is None else made.saved[cut]))


class Running:
    """A forward pass under way: its weights are packed."""

    def __init__(self, builder: Builder, layer: Forward, arrays: LayerArrays) -> None:
        p = layer.params
        self.builder, self.layer, self.arrays = builder, layer, arrays
        self.bias = _summed_biases(builder, p, arrays.biases)
        every, products = range(p.gates), layer.loops.products
        self.packed = layer.loops.pack(builder, p, arrays, p.cell.gates_at_once(p.order))
        self.weights: tuple[Array, ...] = ()
        if p.weighted and p.packed[0]:
            self.weights = (arrays.weights_input,)
        elif p.weighted and p.blocks[0]:
            self.weights = layer.inputs.pack(builder, arrays.weights_input, every, False, False)
        elif p.weighted:
            self.weights = (matrix_of(builder, arrays.weights_input, every, p.by_columns[0]),)
        self.product = builder.room((p.batch, products[0].n))
        self.reset, self.second = NOTHING, NOTHING
        if len(products) > 1:
            self.reset = builder.room((p.batch, p.outputs), p.state_dtype)
            self.second = builder.room((p.batch, products[1].n))

    def go(self, cut: slice, made: Made) -> None:
        """Take these steps of the layer's; its states are what `made` holds, and then what they are after them."""
        part, arrays, builder = self.layer.of_steps(cut.stop - cut.start), self.arrays, self.builder
        with builder.passing():
            inputs = self._inputs(part, arrays.x[cut])
            builder.run(
                part.loops.executable, NOTHING if made.out is None else made.out, made.last, made.cell,
                NOTHING if made.saved is None else made.saved, self.product, inputs, self.bias,
                lengths_from(builder, arrays.lengths, cut.start), scores_of(builder, arrays.attention, cut),
                self.reset, self.second, *self.packed)

    def _inputs(self, part: Forward, x: Array) -> Array:
        """Return inputs multiplied by their weights."""
        p, x = part.params, self.builder.in_order(x)
        if not p.weighted:
            return x
        made, product = self.builder.room((p.steps * p.batch, p.gates * p.outputs)), part.inputs
        arranged = (x, *self.weights, made) if p.blocks[0] else product.arrange(x, *self.weights, made)
        self.builder.run(product.executable, *arranged)
        return made


def lengths_of(builder: Builder, p: RnnParams, given: Array | None) -> Array | None:
    """Return the numbers of steps of all rows, which are checked."""
    if given is None:
        return None
    made = builder.room((p.batch,), np.int64)
    builder.run(partial(_check_lengths, p.steps), given, made)
    return made


def _check_lengths(steps: int, given: Array, to: Array) -> None:
    read = given.astype(np.int64)  # once: others may write to it meanwhile
    checked_limits(read, steps)
    to[...] = read.reshape(-1)


def lengths_from(builder: Builder, lengths: Array | None, first: int) -> Array:
    """Return how many steps there are from one on."""
    if lengths is None or not first:
        return NOTHING if lengths is None else lengths
    made = builder.room(lengths.shape, np.int64)
    builder.apply(partial(_less, first), lengths, made)
    return made


def _less(first: int, lengths: Array, to: Array) -> None:
    np.subtract(lengths, first, out=to)


def scores_of(builder: Builder, scores: Array | None, cut: slice) -> Array:
    """Return the scores of some steps."""
    return NOTHING if scores is None else builder.in_order(scores[:, cut])


def _summed_biases(builder: Builder, p: RnnParams, given: Array | None) -> Array:
    """Return what is added to the planes of a step in FP32, [planes, outputs]: those of states that stay apart come
    last."""
    cell, made = p.cell, builder.room((p.cell.grads, p.outputs))
    if given is None:
        builder.clear(made)
    elif not cell.apart:
        builder.put_planes(given, p.order, made)
    else:
        single = builder.in_order(given, np.float32)
        for gate, place in enumerate(p.order):
            builder.put(single[place, 0], made[gate])
            if cell.input_planes[gate] == cell.state_planes[gate]:
                builder.add(made[gate], single[place, 1], made[gate])
            else:
                builder.put(single[place, 1], made[cell.state_planes[gate]])
    return made


def _sides(p: RnnParams) -> dict[str, Side | None]:
    """Where everything is."""
    o, state, size = p.outputs, p.state, p.state.itemsize
    cell = p.cell
    out: Side | None = Side(_OUT, p.states, 1, True, state)
    if not p.full:  # the output is the last of the planes that are saved
        out = Side(_SAVED, o, p.saved, True, state, p.kept * o * size) if p.saved else None
    gates, apart = len(cell.products[0]), cell.resets
    return {
        "input": Side(_INPUT, o, p.gates, True, FP32 if p.weighted else p.x, order=p.order),
        "product": Side(_PRODUCT, o, gates, order=() if apart else p.order),
        "bias": Side(_BIAS, o, planes=0),
        "cell": Side(_CELL, o, format=state) if cell.has_cell_state else None,
        "last": Side(_LAST, p.states, format=state), "out": out,
        "saved": Side(_SAVED, o, p.saved, True, state) if p.kept else None,
        "old": Side(_SAVED, o, p.saved, True, state, p.gates * o * size) if cell.has_cell_state and p.whole else None,
        "lengths": Strided(_LENGTHS, row=8) if p.limited else None,
        "attention": Strided(_ATTENTION, row=4 * p.steps, step=4) if p.attention else None,
        "reset_state": Side(_RESET, o, format=state) if apart else None,
        "second": Side(_SECOND, p.states) if apart or p.projected else None,
    }  # fmt: skip


def _loops(p: RnnParams, target: Target) -> Loops:
    o, before, sides = p.outputs, p.cell.resets, _sides(p)
    wide = len(p.cell.products[0]) * o
    first = state_product(p, p.states, wide, contiguous(p.state, p.batch, p.states), 1, target)
    work, tables = first.segment(_LAST, slots(0), _PRODUCT)
    # what a cell gives waits for its projection
    own = sides | {"out": Side(_RESET, o, format=p.state), "last": None} if p.projected else sides
    made, selection = cells(p, p.cell.name, FORWARD, own, target.tiles, phase=0 if before else 1)
    sets, products = [ComputeSet("", (work,)), ComputeSet("", (made,))], [first]
    if before or p.projected:
        second = state_product(p, o, p.states, contiguous(p.state, p.batch, o), 2 if p.projected else 1, target,
                               number=int(before))
        work, held = second.segment(_RESET, slots(1), _SECOND)
        last = cells(p, "project" if p.projected else p.cell.name, FORWARD, sides, target.tiles)[0]
        sets += [ComputeSet("", (work,)), ComputeSet("", (last,))]
        tables, products = [*tables, *held], [first, second]
    return looped(p, sets, products, tables, selection, _PACKED)


def slots(number: int, first: int = _PACKED) -> range:
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
    there = lying_product(p.batch, k, n, a, weights, target) if which == 1 and not back and p.in_place else None
    return there or step_product(p.batch, k, n, a, weights, p.by_columns[which] != back, p.scales[which], target)


def looped(p: RnnParams, sets: list[ComputeSet], products: list[StepProduct | SparseStep], tables: list[Any],
           selection: Selection, first: int) -> Loops:
    """Return the loop of these compute sets over the steps, on as many threads as the one that takes most."""
    threads = 1 + max(int(segment.tiles.max(initial=0)) for step in sets for segment in step.segments)
    scratch = max(SCRATCH, *(x.scratch_bytes for x in products))
    operands = first + SLOTS * len(products)
    program = Program((Loop(p.steps, tuple(sets)),), operands, threads, scratch, tables=tuple(tables))
    return Loops(program.executable(threads), tuple(products), selection)
