"""A forward pass: one product of all inputs, then a loop of a product and a kernel for each step.

Where memory is limited, some steps at a time: a stretch is a pass of its own that begins with the states of the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...formats import FP32, Array
from ...poplin.gemm.params import contiguous
from ...program import ComputeSet, temporary
from ...target import Target
from .cells import FORWARD, Side, Strided, cells
from .lower import NOTHING, LayerArrays, Loops, Made, Pass, looped, slots, state_product
from .params import RnnParams, gates_at_once
from .products import (
    in_order,
    lying,
    matrix_of,
    multiply,
)
from .sparse import sparse_step

(_OUT, _LAST, _CELL, _SAVED, _PRODUCT, _INPUT, _BIAS, _LENGTHS, _ATTENTION, _RESET, _SECOND, _PACKED) = range(12)

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

    def bytes_taken(self, steps: int) -> int:
        """Bytes that a run of so many steps at once takes beside operands and results."""
        part, p = self.of_steps(steps), self.params
        most = part.loops.executable.temporary_bytes
        products = self.loops.products
        taken = self.packed_bytes + sum(4 * p.batch * x.n for x in products)
        taken += (len(products) - 1) * p.batch * p.outputs * p.state.itemsize
        if p.weighted:
            taken += steps * p.batch * (4 * p.gates * p.outputs + p.x.itemsize * p.inputs)
            if not p.packed[0]:
                taken += part.inputs.packed_bytes if p.blocks[0] else (p.gates * p.outputs * p.inputs
                                                                         * p.weights_input.itemsize)
            most = max(most, part.inputs.executable.temporary_bytes)
        else:
            taken += steps * p.batch * p.gates * p.outputs * p.x.itemsize
        return max(taken + most, self.packed_bytes + max(x.packing_bytes for x in products))

    def run(self, arrays: LayerArrays, made: Made, at_once: int) -> None:
        """Write a pass's results, so many steps at once."""
        p, running = self.params, None
        for state, given in zip((made.last, made.cell), arrays.init, strict=False):
            state[...] = 0 if given is None else given
        for first in range(0, p.steps, max(1, at_once)):
            running = running or Running(self, arrays)
            cut = slice(first, min(first + at_once, p.steps))
            running.go(cut, Made(made.out if made.out is None else made.out[cut], made.last, made.cell,
                                 made.saved if made.saved is None else made.saved[cut]))


class Running:
    """A forward pass under way: its weights packed."""

    def __init__(self, layer: Forward, arrays: LayerArrays) -> None:
        p = layer.params
        self.layer, self.arrays = layer, arrays
        self.bias = summed_biases(p, arrays.biases)
        every, products = range(p.gates), layer.loops.products
        self.packed = layer.loops.pack(p, arrays, gates_at_once(p.cell, p.order, p.reset_after))
        self.weights: tuple[Array, ...] = ()
        if p.weighted and p.packed[0]:
            self.weights = (arrays.weights_input,)
        elif p.weighted and p.blocks[0]:
            self.weights = layer.inputs.pack(arrays.weights_input, every, False, False)
        elif p.weighted:
            self.weights = (matrix_of(arrays.weights_input, every, p.by_columns[0]),)
        self.product = temporary((p.batch, products[0].n))
        self.reset, self.second = NOTHING, NOTHING
        if len(products) > 1:
            self.reset = temporary((p.batch, p.outputs), p.state_dtype)
            self.second = temporary((p.batch, products[1].n))

    def go(self, cut: slice, made: Made) -> None:
        """Take these steps of the layer's; its states are what `made` holds, and then what they are after them."""
        part, arrays = self.layer.of_steps(cut.stop - cut.start), self.arrays
        inputs = self._inputs(part, arrays.x[cut])
        lengths = NOTHING if arrays.lengths is None else arrays.lengths - cut.start
        scores = NOTHING if arrays.attention is None else np.ascontiguousarray(arrays.attention[:, cut])
        part.loops.executable(
            NOTHING if made.out is None else made.out, made.last, made.cell,
            NOTHING if made.saved is None else made.saved, self.product, inputs, self.bias, lengths, scores,
            self.reset, self.second, *self.packed)

    def _inputs(self, part: Forward, x: Array) -> Array:
        """Return inputs multiplied by their weights."""
        p = part.params
        if not p.weighted:
            return np.ascontiguousarray(x)
        made, product = temporary((p.steps * p.batch, p.gates * p.outputs)), part.inputs
        x = in_order(x)
        if p.blocks[0]:
            product.executable(x, *self.weights, made)
        else:
            product.executable(*product.arrange(x, *self.weights, made))
        return made


def summed_biases(p: RnnParams, given: Array | None) -> Array:
    """Return what is added to the planes of a step in FP32, [planes, outputs]: those of a GRU that resets after its
    product have the recurrent bias of the candidate last."""
    made = np.zeros((p.grads, p.outputs), np.float32)
    if given is None:
        return made
    biases = given.astype(np.float32)[list(p.order)]
    if not p.reset_after:
        made[...] = biases
        return made
    made[:3] = biases[:, 0]
    with np.errstate(over="ignore", invalid="ignore"):
        made[:2] += biases[:2, 1]
    made[3] = biases[2, 1]
    return made


def _sides(p: RnnParams) -> dict[str, Side | None]:
    """Where everything is."""
    o, state, size = p.outputs, p.state, p.state.itemsize
    before = p.cell == "gru" and not p.reset_after
    out: Side | None = Side(_OUT, p.states, 1, True, state)
    if not p.full:  # the output is the last of the planes that are saved
        out = Side(_SAVED, o, p.saved, True, state, p.kept * o * size) if p.saved else None
    whole = p.cell == "lstm" and p.kept == 6
    return {
        "input": Side(_INPUT, o, p.gates, True, FP32 if p.weighted else p.x, order=p.order),
        "product": Side(_PRODUCT, o, p.gates - before, order=() if before else p.order),
        "bias": Side(_BIAS, o, planes=0),
        "cell": Side(_CELL, o, format=state) if p.cell == "lstm" else None,
        "last": Side(_LAST, p.states, format=state), "out": out,
        "saved": Side(_SAVED, o, p.saved, True, state) if p.kept else None,
        "old": Side(_SAVED, o, p.saved, True, state, 4 * o * size) if whole else None,
        "lengths": Strided(_LENGTHS, row=8) if p.limited else None,
        "attention": Strided(_ATTENTION, row=4 * p.steps, step=4) if p.attention else None,
        "reset_state": Side(_RESET, o, format=state) if before else None,
        "second": Side(_SECOND, p.states) if before or p.projected else None,
    }  # fmt: skip


def _loops(p: RnnParams, target: Target) -> Loops:
    o, before, sides = p.outputs, p.cell == "gru" and not p.reset_after, _sides(p)
    wide = (2 if before else p.gates) * o
    first = state_product(p, p.states, wide, contiguous(p.state, p.batch, p.states), 1, target)
    work, tables = first.segment(_LAST, slots(0, _PACKED), _PRODUCT)
    # what a cell gives waits for its projection
    own = sides | {"out": Side(_RESET, o, format=p.state), "last": None} if p.projected else sides
    made, selection = cells(p, p.cell, FORWARD, own, target.tiles, phase=0 if before else 1)
    sets, products = [ComputeSet("", (work,)), ComputeSet("", (made,))], [first]
    if before or p.projected:
        second = state_product(p, o, p.states, contiguous(p.state, p.batch, o), 2 if p.projected else 1, target,
                               number=int(before))
        work, held = second.segment(_RESET, slots(1, _PACKED), _SECOND)
        last = cells(p, "project" if p.projected else p.cell, FORWARD, sides, target.tiles)[0]
        sets += [ComputeSet("", (work,)), ComputeSet("", (last,))]
        tables, products = [*tables, *held], [first, second]
    return looped(p, sets, products, tables, selection, _PACKED)
