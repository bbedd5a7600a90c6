"""Recurrent layers on modelled machines: the operations that PopNN composes a step of, and its products' plans.

What runs is this CPU's layer, with its numbers. PopNN fuses the last expression of a GRU's step into one vertex; here
it is counted as its operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...memo import remembered
from ...ops import Operand, Placed, place_of
from ...planner import Memory
from ...planner.tile_plan import TilePlan
from ...poplin.products_modelled import product_steps
from ...popops.reductions.compose import StepsBuilder
from ...target import Target
from ...target.types import TYPE_BYTES, type_of
from .params import RnnParams
from .sharding import sharded

_VERTEX = {"tanh": "TANH", "sigmoid": "SIGMOID", "relu": "RELU"}


class Layer:
    """The sizes of a layer's step, and what its operations are composed of."""

    def __init__(self, target: Target, p: RnnParams, proportion: float | None) -> None:
        self.p, self.made, self.proportion = p, StepsBuilder(target, type_of(p.state)), proportion
        self.state = p.batch * p.outputs

    def product(self, rows: int, depth: int, columns: int, phase: str) -> None:
        """Add a product of the layer."""
        made = self.made
        made.take_product(product_steps(made.target, made.data_type, (rows, depth), (depth, columns),
                                        fully_connected_pass=phase, proportion=self.proportion))

    def each(self, name: str, op: str, states: int, *, operands: int = 1, in_place: bool = False) -> None:
        """Add an operation on so many states."""
        self.made.elementwise(name, op, states * self.state, operands=operands, in_place=in_place)

    def bias(self, gates: int) -> None:
        """Add the biases of so many gates, of which each tile receives those of its elements."""
        self.made.elementwise("bias", "ADD", gates * self.state, operands=2, in_place=True,
                              received=TYPE_BYTES[self.made.data_type])

    def gate(self, name: str, activation: str, states: int, *, in_place: bool = True) -> None:
        """Add a non-linearity of so many states."""
        self.each(name, _VERTEX[activation], states, in_place=in_place)

    def slope(self, name: str, activation: str, states: int) -> None:
        """Add the gradient of one."""
        self.each(name, f"{_VERTEX[activation]}_GRAD", states, operands=2)

    def plan(self, what: str, reads: int, writes: int) -> TilePlan:
        """Return the plan, and how many steps lie side by side on the machine."""
        p, target = self.p, self.made.target
        saved = (p.kept or p.cell.whole) + (not p.full)
        shards = sharded(target, self.made.data_type, p.batch, p.steps, p.inputs, p.outputs, saved)
        decisions = (("steps", f"{p.steps}, on {shards.shards} shards of {shards.shard_tiles} tiles"),)
        problem = f"{p.cell} {what}, {p.steps} x {p.batch}, {p.inputs} to {p.outputs}, {self.made.data_type}"
        return self.made.plan(problem, reads=reads, writes=writes, decisions=decisions)


def _missing(p: RnnParams, operands: Sequence[Operand | None]) -> str:
    """What no vertex does of a layer, in words."""
    if any(p.blocks):
        return "with block-sparse weights"
    if any(p.packed):
        return "of weights that are prepared for this CPU"
    formats = {p.state.name, *(str(x.format) for x in operands if x is not None and x.format is not None)}
    if not type_of(p.state) or len(formats) > 1:
        return f"of {' and '.join(sorted(formats))}"
    if {p.activation, p.recurrent_activation} - _VERTEX.keys():
        return "with a hard sigmoid"
    if not (p.steps and p.batch and p.inputs and p.outputs):
        return "of nothing"
    return "with scores of attention" if p.attention else ""


def place_of_layer(target: Any, op: str, p: RnnParams, operands: Sequence[Operand | None],
                   memory: Memory) -> Placed[TilePlan]:
    """Return where a pass of a layer runs.

    Parameters
    ----------
    target, op
        As `place_of` takes them.
    p : RnnParams
    operands : sequence of Operand or None
        Whose formats are asked for.
    memory : Memory
        What its products are planned within.
    """
    planned = {"fwd": _forward, "bwd": _backward, "wu": _update}[op.rpartition("_")[2]]

    def plan_on(machine: Target) -> TilePlan | str:
        return _missing(p, operands) or planned(machine, p, memory.proportion).checked(op, memory)

    return place_of(op, target, plan_on)


@remembered(weight=4)
def _forward(target: Target, p: RnnParams, proportion: float | None) -> TilePlan:
    layer = Layer(target, p, proportion)
    phase = "TRAINING_FWD" if p.saved else "INFERENCE_FWD"
    if p.cell.inputs_first:
        layer.product(p.steps * p.batch, p.inputs, p.outputs, "NONE")
    layer.made.times = p.steps
    layer.made.copy("slice", p.batch * (p.inputs if p.weighted else p.gates * p.outputs))
    p.cell.formulas.forward_steps(layer, phase)
    if p.saved:
        layer.made.copy("save", p.saved * layer.state)
    layer.made.copy("update", 2 * layer.state)
    weights = p.gates * p.outputs * (p.inputs * p.weighted + p.states + 1) + p.outputs * p.projected
    outputs = p.batch * p.states * (p.steps if p.full else 1)
    return layer.plan("forward", p.steps * p.batch * p.inputs + weights, outputs + p.steps * p.saved * layer.state)


@remembered(weight=4)
def _backward(target: Target, p: RnnParams, proportion: float | None) -> TilePlan:
    layer, made = Layer(target, p, proportion), p.inputs * p.input_grad + p.states
    layer.made.times = p.steps
    layer.made.copy("slice", (max(1, p.kept) + 1) * layer.state)
    layer.each("cell", "ADD", 1, operands=2)
    p.cell.formulas.backward_steps(layer, made)
    layer.made.copy("rearrange", p.batch * made)
    grads = p.steps * p.cell.grads * layer.state
    weights = p.gates * p.outputs * made
    return layer.plan("backward", p.steps * (1 + p.kept) * layer.state + weights,
                      grads + p.steps * p.batch * p.inputs * p.input_grad + layer.state)


@remembered(weight=4)
def _update(target: Target, p: RnnParams, proportion: float | None) -> TilePlan:
    layer, planes = Layer(target, p, proportion), p.cell.grads
    layer.made.times = p.steps
    layer.made.copy("slice", p.batch * (p.inputs + p.states) + planes * layer.state)
    depth, gates = p.inputs + p.states, planes * p.outputs
    layer.product(depth, p.batch, gates, "TRAINING_WU")
    layer.made.elementwise("accumulate", "ADD", depth * gates, operands=2, in_place=True)
    layer.bias(planes)
    sequence = p.steps * p.batch
    return layer.plan("weight update", sequence * depth + p.steps * planes * layer.state, gates * (depth + 1))
