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
from ...program import ComputeSet, Executable, Loop, Program, Segment, temporary
from ...target import Target
from .forward import NOTHING, Forward, LayerArrays, Loops, Made, Pass, Running, looped, slots, state_product
from .lower import BACKWARD, FORWARD, SCRATCH, Side, Strided, cells
from .params import RnnParams
from .products import in_order, lying, matrix_of, multiply
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

    def bytes_taken(self, steps: int, *more: Any) -> int:
        [again] = more
        part, p = self.of_steps(steps), self.params
        size, state = p.state.itemsize, p.batch * (p.states + p.outputs)
        rows, starts = steps * p.batch, (-(-p.steps // steps) + 1 if p.steps else 0) * state
        taken = self.packed_bytes + 8 * state * len(self.loops.products) + size * p.batch * p.states
        taken += 4 * rows * p.attention + rows * p.states * size
        most = part.loops.executable.temporary_bytes
        if p.projected:
            taken += 4 * p.outputs * p.projected + rows * p.outputs * size
            most = max(most, *(_of_projection(part.params, self.target, beta).executable.temporary_bytes
                               for beta in (0.0, 1.0)))
        if again:
            whole = whole_params(p)
            taken += Forward.of(whole, self.target).bytes_taken(steps) + size * starts
            taken += rows * size * (p.states + whole.saved * p.outputs)
        elif not p.whole:
            taken += (2 * rows * p.outputs + starts) * size
        if p.input_grad:
            most = max(most, part.inputs.executable.temporary_bytes)
            taken += part.inputs.packed_bytes if p.blocks[0] else (p.gates * p.outputs * p.inputs
                                                                     * p.weights_input.itemsize)
        return max(taken + most, self.packed_bytes + max(x.packing_bytes for x in self.loops.products))

    def run(self, arrays: LayerArrays, back: BackArrays, grads: Grads, at_once: int) -> None:
        """Write the gradients, so many steps at once, the last ones first."""
        p = self.params
        held, carried = temporary((p.batch, p.states)), temporary((p.batch, p.states))
        cell = temporary((p.batch, p.outputs))
        for state, given in zip((held, cell), (*back.last, None), strict=False):
            state[...] = 0 if given is None else given
        carried[...] = 0
        if not p.each:
            with np.errstate(over="ignore", invalid="ignore"):
                held += back.grad.astype(np.float32)
        if p.steps and held.size:
            self._walk(arrays, back, grads, (carried, held, cell), at_once)
        with np.errstate(over="ignore", invalid="ignore"):
            for to, made in zip(grads.states, (np.add(carried, held, out=held), cell), strict=False):
                to[...] = made
            if not (p.steps and held.size):
                for part in (grads.attention, grads.projection, grads.inputs if p.input_grad else None):
                    if part is not None:
                        part[...] = 0

    def _walk(self, arrays: LayerArrays, back: BackArrays, grads: Grads, states: tuple[Array, Array, Array],
              at_once: int) -> None:
        p = self.params
        packed = self.loops.pack(p, arrays, p.cell.products_in(p.order), transposed=True)
        several = len(self.loops.products) > 1
        shape = p.batch, p.outputs
        room, still = (temporary(shape) if several else NOTHING for _ in range(2))
        still[...] = 0
        projection = _Projection(p, self.target) if p.projected else None
        kept, firsts = Kept(p, arrays, back, at_once, self.target), range(0, p.steps, at_once)
        weights: tuple[Array, ...] = ()
        if p.input_grad:
            which = [p.order[gate] for gate in p.cell.input_gates]
            weights = (self.inputs.pack(arrays.weights_input, which, False, True) if p.blocks[0]
                       else (matrix_of(arrays.weights_input, which, p.by_columns[0]).T,))
        for first in reversed(firsts):
            cut = slice(first, min(first + at_once, p.steps))
            part, held = self.of_steps(cut.stop - first), kept.of(cut)
            lengths = NOTHING if arrays.lengths is None else arrays.lengths - first
            scores = NOTHING if arrays.attention is None else np.ascontiguousarray(arrays.attention[:, cut])
            of_scores = temporary((p.batch, cut.stop - first)) if p.attention else NOTHING
            outputs = temporary((cut.stop - first, p.batch, p.states), p.state_dtype) if p.projected else NOTHING
            part.loops.executable(
                grads.gates[cut], *states, held.saved, held.old,
                in_order(back.grad[cut], p.state_dtype) if p.each else NOTHING,
                lengths, held.out, held.init, scores, of_scores, room, outputs, still, *packed)
            if projection is not None:
                projection.add(held, outputs)
            if grads.attention is not None:
                with np.errstate(over="ignore", invalid="ignore"):
                    grads.attention[:, cut] = of_scores
            if p.input_grad:
                product = part.inputs
                arrange = (lambda *given: given) if p.blocks[0] else product.arrange
                product.executable(*arrange(grads.gates[cut], *weights, grads.inputs[cut]))
        if projection is not None:
            assert grads.projection is not None
            with np.errstate(over="ignore", invalid="ignore"):
                grads.projection[...] = projection.sums


def _of_projection(p: RnnParams, target: Target, beta: float) -> Lowered:
    """The product of what cells gave and of gradients of the states."""
    rows = p.steps * p.batch
    return multiply(p.outputs, rows, p.projected, contiguous(p.state, rows, p.outputs).transposed,
                    contiguous(p.state, rows, p.projected), contiguous(FP32, p.outputs, p.projected), target, beta)


class _Projection:
    """The gradient of a projection's weights: sums over all steps in FP32."""

    def __init__(self, p: RnnParams, target: Target) -> None:
        self.p, self.target = p, target
        self.sums, self.begun = temporary((p.outputs, p.projected)), False

    def add(self, held: Held, grads: Array) -> None:
        """Add some steps: of what their cells gave, and of gradients of the states."""
        p = self.p
        squashed = held.saved[:, :, p.gates] if p.whole else held.old[:, :, 0]
        opened = held.saved[:, :, p.cell.gates.index("output")]
        given = temporary((len(grads), p.batch, p.outputs), p.state_dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            np.multiply(opened, squashed, out=given, dtype=np.float32, casting="unsafe")
        product = _of_projection(replace(p, steps=len(grads)), self.target, float(self.begun))
        product.executable(*product.arrange(given, grads, self.sums))
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

    def __init__(self, p: RnnParams, arrays: LayerArrays, back: BackArrays, at_once: int, target: Target) -> None:
        self.p, self.back = p, back
        self.init = _state(p, arrays.init[0], p.states)
        self.starts: dict[int, tuple[Array, Array]] = {}
        self.running: Running | None = None
        self.lengths = arrays.lengths
        if p.whole and not back.again:
            return
        last = self.init.copy(), _state(p, arrays.init[1] if p.cell.has_cell_state else None, p.outputs)
        if back.again:
            self.running = Running(Forward.of(whole_params(p), target), arrays)
        for first in range(0, p.steps, at_once):
            self.starts[first] = tuple(_copy(state) for state in last)  # type: ignore[assignment]
            if first + at_once < p.steps:
                self._step_on(slice(first, first + at_once), *last)

    def _step_on(self, cut: slice, last: Array, cell: Array) -> Held:
        """Compute what these steps keep, and go on to the states after them."""
        p, steps = self.p, cut.stop - cut.start
        if self.running is None:
            assert self.back.intermediates is not None
            saved = np.ascontiguousarray(self.back.intermediates[cut])
            old = temporary((steps, p.batch, 2, p.outputs), p.state_dtype)
            limits = NOTHING if self.lengths is None else self.lengths - cut.start
            again(replace(p, steps=steps))(saved, cell, limits, old)
            return Held(saved, old, NOTHING, self.init)
        planes, before = self.running.layer.params.saved, _copy(last)
        out = temporary((steps, p.batch, p.states), p.state_dtype)
        saved = temporary((steps, p.batch, planes, p.outputs), p.state_dtype)
        self.running.go(cut, Made(out, last, cell, saved))
        return Held(saved, NOTHING, out, before)

    def of(self, cut: slice) -> Held:
        """Return what these steps kept."""
        p, first = self.p, cut.start
        if self.starts:
            return self._step_on(cut, *self.starts.pop(first))
        saved, out = (NOTHING if x is None else np.ascontiguousarray(x[cut])
                      for x in (self.back.intermediates, self.back.output))
        init = self.init
        if first and "output" in p.cell.reads:
            outputs = self.back.output if p.full else None
            if outputs is None:
                assert self.back.intermediates is not None
                outputs = self.back.intermediates[:, :, p.kept]
            init = np.ascontiguousarray(outputs[first - 1])
        return Held(saved, NOTHING, out, init)


def _copy(x: Array) -> Array:
    made = temporary(x.shape, x.dtype)
    made[...] = x
    return made


def _state(p: RnnParams, given: Array | None, columns: int) -> Array:
    """A state before the first step."""
    made = temporary((p.batch, columns), p.state_dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        made[...] = 0 if given is None else given
    return made


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
