"""A backward pass: a loop over the steps from the last, of a kernel and its products; then all inputs' gradients.

Where memory is limited, some steps at a time; what the forward pass did not keep is computed again for each stretch,
from the states where it began.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...formats import FP32, Array
from ...memo import remembered
from ...poplin.gemm.lower import Lowered
from ...poplin.gemm.params import MatrixLayout, contiguous
from ...program import ComputeSet, Executable, Loop, Program, Segment
from ...target import Target
from .builder import NOTHING, Builder, times
from .forward import (
    Forward,
    LayerArrays,
    Loops,
    Made,
    Pass,
    Running,
    lengths_from,
    looped,
    scores_of,
    slots,
    state_product,
)
from .lower import BACKWARD, FORWARD, SCRATCH, Side, Strided, cells
from .params import RnnParams
from .products import lying, matrix_of, multiply
from .sparse import sparse_step

(_GRADS, _CARRIED, _HELD, _CELL, _SAVED, _OLD, _OUT_GRAD, _LENGTHS, _OUT, _INIT, _ATTENTION, _ATTENTION_GRAD, _RESET,
 _STATE_GRADS, _STILL, _PACKED) = range(16)


class BackArrays(NamedTuple):
    """What a backward pass reads beside its layer: gradients of the outputs and of the last states; what was kept."""

    grad: Array
    last: Sequence[Array | None]
    intermediates: Array | None
    output: Array | None
    again: bool


class Grads(NamedTuple):
    """What it writes: gradients of the inputs, of the states before the first step, of scores, of gates, and of the
    weights of a projection."""

    inputs: Array
    states: Sequence[Array]
    attention: Array | None
    gates: Array
    projection: Array | None


@dataclass(frozen=True, eq=False)
class Backward(Pass):
    """A backward pass, ready."""

    direction = "backward"

    def _looped(self) -> Loops:
        return _loops(self.params, self.target)

    @cached_property
    def inputs(self) -> Any:
        """Return the product of the gates' gradients that gives those of all inputs: a `Lowered`, or a `SparseStep`."""
        p, size = self.params, self.params.state.itemsize
        rows, wide = p.steps * p.batch, p.gates * p.outputs
        a = MatrixLayout(p.state, p.cell.grads * p.outputs * size, size)
        if p.blocks[0]:
            return sparse_step(rows, wide, p.inputs, a, p.weights_input, p.blocks[0], True, self.target, p.state)
        b = lying(p.weights_input, wide, p.inputs, not p.by_columns[0], p.scales[0])
        return multiply(rows, wide, p.inputs, a, b, contiguous(p.state, rows, p.inputs), self.target)

    def build(self, builder: Builder, arrays: LayerArrays, back: BackArrays, grads: Grads, at_once: int) -> None:
        """Add what writes the gradients, so many steps at once, the last ones first."""
        p = self.params
        held, carried, cell = (builder.room((p.batch, n)) for n in (p.states, p.states, p.outputs))
        for state, given in zip((held, cell), (*back.last, None), strict=False):
            builder.begin(given, state)
        builder.clear(carried)
        if not p.each:
            builder.apply(_add_to, back.grad, held)
        if p.steps and held.size:
            self._walk(builder, arrays, back, grads, (carried, held, cell), at_once)
        builder.add(carried, held, held)
        for to, made in zip(grads.states, (held, cell), strict=False):
            builder.put(made, to)
        if not (p.steps and held.size):
            for part in (grads.attention, grads.projection, grads.inputs if p.input_grad else None):
                if part is not None:
                    builder.clear(part)

    def _walk(self, builder: Builder, arrays: LayerArrays, back: BackArrays, grads: Grads,
              states: tuple[Array, Array, Array], at_once: int) -> None:
        p = self.params
        packed = self.loops.pack(builder, p, arrays, p.cell.products_in(p.order), transposed=True)
        several = len(self.loops.products) > 1
        shape = p.batch, p.outputs
        room, still = (builder.room(shape) if several else NOTHING for _ in range(2))
        builder.clear(still)
        projection = _Projection(builder, p, self.target) if p.projected else None
        kept = Kept(builder, p, arrays, back, at_once, self.target)
        weights: tuple[Array, ...] = ()
        if p.input_grad:
            which = [p.order[gate] for gate in p.cell.input_gates]
            weights = (self.inputs.pack(builder, arrays.weights_input, which, False, True) if p.blocks[0]
                       else (matrix_of(builder, arrays.weights_input, which, p.by_columns[0]).T,))
        for cut in reversed(builder.stretches(p.steps, at_once)):
            with builder.passing():
                steps = cut.stop - cut.start
                part, held = self.of_steps(steps), kept.of(cut)
                of_scores = builder.room((p.batch, steps)) if p.attention else NOTHING
                outputs = builder.room((steps, p.batch, p.states), p.state_dtype) if p.projected else NOTHING
                builder.run(
                    part.loops.executable, grads.gates[cut], *states, held.saved, held.old,
                    builder.in_order(back.grad[cut], p.state_dtype) if p.each else NOTHING,
                    lengths_from(builder, arrays.lengths, cut.start), held.out, held.init,
                    scores_of(builder, arrays.attention, cut), of_scores, room, outputs, still, *packed)
                if projection is not None:
                    projection.add(held, outputs)
                if grads.attention is not None:
                    builder.put(of_scores, grads.attention[:, cut])
                if p.input_grad:
                    given = grads.gates[cut], *weights, grads.inputs[cut]
                    builder.run(part.inputs.executable, *(given if p.blocks[0] else part.inputs.arrange(*given)))
        if projection is not None:
            assert grads.projection is not None
            builder.put(projection.sums, grads.projection)


def _add_to(x: Array, to: Array) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        to += x.astype(np.float32)


def _of_projection(p: RnnParams, target: Target, beta: float) -> Lowered:
    """The product of what cells gave and of gradients of the states."""
    rows = p.steps * p.batch
    return multiply(p.outputs, rows, p.projected, contiguous(p.state, rows, p.outputs).transposed,
                    contiguous(p.state, rows, p.projected), contiguous(FP32, p.outputs, p.projected), target, beta)


class _Projection:
    """The gradient of a projection's weights: sums over all steps in FP32."""

    def __init__(self, builder: Builder, p: RnnParams, target: Target) -> None:
        self.builder, self.p, self.target = builder, p, target
        self.sums, self.begun = builder.room((p.outputs, p.projected)), False

    def add(self, held: Held, grads: Array) -> None:
        """Add some steps: of what their cells gave, and of gradients of the states."""
        p, builder = self.p, self.builder
        squashed = held.saved[:, :, p.gates] if p.whole else held.old[:, :, 0]
        given = builder.room((len(grads), p.batch, p.outputs), p.state_dtype)
        builder.apply(times, held.saved[:, :, p.cell.gates.index("output")], squashed, given)
        product = _of_projection(replace(p, steps=len(grads)), self.target, float(self.begun))
        builder.run(product.executable, *product.arrange(given, grads, self.sums))
        self.begun = True


def _sides(p: RnnParams) -> dict[str, Side | None]:
    """Where everything is; what the forward pass kept is `p.saved` planes, the output last where it is among them."""
    o, state = p.outputs, p.state
    plane = o * state.itemsize
    old = Side(_SAVED, o, p.saved, True, state, p.gates * plane) if p.whole else Side(_OLD, o, 2, True, state)
    out = Side(_OUT, o, 1, True, state) if p.full else Side(_SAVED, o, p.saved, True, state, p.kept * plane)
    return {
        "grads": Side(_GRADS, o, p.cell.grads, True, state), "carried": Side(_CARRIED, o), "held": Side(_HELD, o),
        "cell": Side(_CELL, o), "saved": Side(_SAVED, o, p.saved, True, state), "old": old,
        "out_grad": Side(_OUT_GRAD, o, 1, True, state) if p.each else None,
        "lengths": Strided(_LENGTHS, row=8) if p.limited else None, "out": out, "init": Side(_INIT, o, format=state),
        "attention": Strided(_ATTENTION, row=4 * p.steps, step=4) if p.attention else None,
        "attention_grad": Strided(_ATTENTION_GRAD, row=4 * p.steps, step=4), "reset": Side(_RESET, o),
    }  # fmt: skip


def _loops(p: RnnParams, target: Target) -> Loops:
    o, size = p.outputs, p.state.itemsize
    sides, cell = _sides(p), p.cell
    sets: list[ComputeSet] = []
    tables: list[Any] = []
    products = []

    def multiplied(k: int, n: int, place: tuple[int, int, int], which: int, number: int, out: int) -> None:
        """A product of a step's gradients, which lie at an operand, an offset and a distance of rows."""
        operand, offset, row = place
        step = p.batch * row
        a = MatrixLayout(p.state, row, size, offset=offset + (p.steps - 1) * step)
        product = state_product(p, k, n, a, which, target, True)
        work, held = product.segment(operand, slots(number, _PACKED), out, p.steps, -step)
        sets.append(ComputeSet("", (work,)))
        tables.extend(held)
        products.append(product)

    def kernel(name: str, phase: int, own: dict[str, Side | None]) -> Any:
        made, selection = cells(p, name, BACKWARD, own, target.tiles, True, phase)
        sets.append(ComputeSet("", (made,)))
        return selection

    if p.projected:
        end = Side(_STATE_GRADS, p.projected, 1, True, p.state)
        outside = {"carried": Side(_CARRIED, p.projected), "held": Side(_HELD, p.projected), "grads": end}
        given = Side(_OUT_GRAD, p.projected, 1, True, p.state) if p.each else None
        kernel("project_grad", 0, sides | outside | {"out_grad": given})
        multiplied(p.projected, o, (_STATE_GRADS, 0, p.projected * size), 2, 1, _RESET)
        sides |= {"carried": Side(_RESET, o), "held": Side(_STILL, o), "out_grad": None}
    selection = kernel(f"{cell}_grad", 0, sides)
    for number, product in reversed([*enumerate(cell.products)]):
        first = min(cell.state_planes[gate] for gate in product)
        multiplied(len(product) * o, p.states, (_GRADS, first * o * size, cell.grads * o * size), 1, number,
                   _RESET if number else _CARRIED)
        if number:
            kernel(f"{cell}_grad", 1, sides)
    products.reverse()
    return looped(p, sets, products, tables, selection, _PACKED)


class Held(NamedTuple):
    """What the loop reads of the forward pass: planes, an LSTM's cell states, outputs, the output before."""

    saved: Array
    old: Array
    out: Array
    init: Array


class Kept:
    """What the forward pass kept, stretch by stretch: as it was given, or computed again from where each begins."""

    def __init__(self, builder: Builder, p: RnnParams, arrays: LayerArrays, back: BackArrays, at_once: int,
                 target: Target) -> None:
        self.builder, self.p, self.back = builder, p, back
        self.init = self._state(p.states)
        builder.begin(arrays.init[0], self.init)
        self.starts: dict[int, tuple[Array, ...]] = {}
        self.running: Running | None = None
        self.lengths = arrays.lengths
        if p.whole and not back.again:
            return
        last = self._copy(self.init), self._state(p.outputs)
        builder.begin(arrays.init[1] if p.cell.has_cell_state else None, last[1])
        if back.again:
            self.running = Running(builder, Forward.of(whole_params(p), target), arrays)
        count = -(-p.steps // at_once)
        starts = [builder.room((count, *x.shape), x.dtype) for x in last]
        for cut in builder.stretches(p.steps, at_once):
            own = tuple(held[cut.start // at_once] for held in starts)
            for begun, state in zip(own, last, strict=True):
                builder.put(state, begun)
            self.starts[cut.start] = own
            if cut.stop < p.steps:
                with builder.passing():
                    self._step_on(cut, *last)

    def _state(self, columns: int) -> Array:
        return self.builder.room((self.p.batch, columns), self.p.state_dtype)

    def _copy(self, x: Array) -> Array:
        made = self._state(x.shape[1])
        self.builder.put(x, made)
        return made

    def _step_on(self, cut: slice, last: Array, cell: Array) -> Held:
        """Compute what these steps keep, and go on to the states after them."""
        p, steps, builder = self.p, cut.stop - cut.start, self.builder
        if self.running is None:
            assert self.back.intermediates is not None
            saved = builder.in_order(self.back.intermediates[cut])
            old = builder.room((steps, p.batch, 2, p.outputs), p.state_dtype)
            limits = lengths_from(builder, self.lengths, cut.start)
            builder.run(again(replace(p, steps=steps)), saved, cell, limits, old)
            return Held(saved, old, NOTHING, self.init)
        planes, before = self.running.layer.params.saved, self._copy(last)
        out = builder.room((steps, p.batch, p.states), p.state_dtype)
        saved = builder.room((steps, p.batch, planes, p.outputs), p.state_dtype)
        self.running.go(cut, Made(out, last, cell, saved))
        return Held(saved, NOTHING, out, before)

    def of(self, cut: slice) -> Held:
        """Return what these steps kept."""
        p, first, order = self.p, cut.start, self.builder.in_order
        if self.starts:
            return self._step_on(cut, *self.starts.pop(first))
        saved, out = (NOTHING if x is None else order(x[cut]) for x in (self.back.intermediates, self.back.output))
        init = self.init
        if first and "output" in p.cell.reads:
            outputs = self.back.output if p.full else None
            if outputs is None:
                assert self.back.intermediates is not None
                outputs = self.back.intermediates[:, :, p.kept]
            init = order(outputs[first - 1])
        return Held(saved, NOTHING, out, init)


@remembered(weight=4)
def again(p: RnnParams) -> Executable:
    """Return what computes cell states again: of what was saved, the states before, lengths, to the two."""
    o = p.outputs
    sides = {"saved": Side(0, o, p.saved, True, p.state), "cell": Side(1, o, format=p.state),
             "lengths": Strided(2, row=8) if p.limited else None, "old": Side(3, o, 2, True, p.state)}
    made: Segment = cells(p, f"{p.cell}_again", FORWARD, sides, 1)[0]
    return Program((Loop(p.steps, (ComputeSet("", (made,)),)),), 4, 1, SCRATCH).executable(1)


def whole_params(p: RnnParams) -> RnnParams:
    """Return the params of a forward pass that keeps all."""
    return replace(p, saved=p.cell.whole, full=True)
