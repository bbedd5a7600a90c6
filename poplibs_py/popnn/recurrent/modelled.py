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
from .sharding import GRU_SAVED, LSTM_SAVED, LSTM_SAVED_RECOMPUTED, sharded

_VERTEX = {"tanh": "TANH", "sigmoid": "SIGMOID", "relu": "RELU"}


class _Layer:
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

    def gate(self, name: str, activation: str, states: int) -> None:
        """Add a non-linearity of so many states."""
        self.each(name, _VERTEX[activation], states, in_place=True)

    def slope(self, name: str, activation: str, states: int) -> None:
        """Add the gradient of one."""
        self.each(name, f"{_VERTEX[activation]}_GRAD", states, operands=2)

    def plan(self, what: str, reads: int, writes: int) -> TilePlan:
        """Return the plan, and how many steps lie side by side on the machine."""
        p, target = self.p, self.made.target
        saved = {"lstm": LSTM_SAVED_RECOMPUTED if p.kept == 4 else LSTM_SAVED, "gru": GRU_SAVED + p.reset_after,
                 "rnn": 0}[p.cell] + (not p.full)
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
    layer = _Layer(target, p, proportion)
    phase = "TRAINING_FWD" if p.saved else "INFERENCE_FWD"
    if p.cell == "rnn":
        layer.product(p.steps * p.batch, p.inputs, p.outputs, "NONE")
    layer.made.times = p.steps
    layer.made.copy("slice", p.batch * (p.inputs if p.weighted else p.gates * p.outputs))
    {"lstm": _lstm_step, "gru": _gru_step, "rnn": _rnn_step}[p.cell](layer, phase)
    if p.saved:
        layer.made.copy("save", p.saved * layer.state)
    layer.made.copy("update", 2 * layer.state)
    weights = p.gates * p.outputs * (p.inputs * p.weighted + p.states + 1) + p.outputs * p.projected
    outputs = p.batch * p.states * (p.steps if p.full else 1)
    return layer.plan("forward", p.steps * p.batch * p.inputs + weights, outputs + p.steps * p.saved * layer.state)


def _lstm_step(layer: _Layer, phase: str) -> None:
    p = layer.p
    layer.product(p.batch, p.states + p.inputs * p.weighted, 4 * p.outputs, phase)
    if not p.weighted:
        layer.each("gates", "ADD", 4, operands=2, in_place=True)
    layer.made.copy("rearrange", 4 * layer.state)
    layer.bias(4)
    layer.gate("gates", p.recurrent_activation, 3)
    layer.gate("gates", p.activation, 1)
    layer.each("cell", "MULTIPLY", 2, operands=2, in_place=not p.saved)
    layer.each("cell", "ADD", 1, operands=2, in_place=True)
    layer.each("cell", _VERTEX[p.activation], 1)
    layer.each("cell", "MULTIPLY", 1, operands=2)
    if p.projected:
        layer.product(p.batch, p.outputs, p.projected, phase)


def _gru_step(layer: _Layer, phase: str) -> None:
    p, depth = layer.p, layer.p.outputs + layer.p.inputs * layer.p.weighted
    if p.reset_after:
        if p.weighted:
            layer.product(p.batch, p.inputs, 3 * p.outputs, phase)
        layer.product(p.batch, p.outputs, 3 * p.outputs, phase)
        layer.bias(6)
        layer.each("gates", "ADD", 2, operands=2, in_place=True)
        layer.gate("gates", p.recurrent_activation, 2)
        layer.each("gates", "MULTIPLY", 1, operands=2, in_place=True)
        layer.each("gates", "ADD", 1, operands=2, in_place=True)
    else:
        layer.product(p.batch, depth, 2 * p.outputs, phase)
        layer.made.copy("rearrange", 2 * layer.state)
        layer.bias(2)
        layer.gate("gates", p.recurrent_activation, 2)
        layer.each("gates", "MULTIPLY", 1, operands=2, in_place=True)
        layer.product(p.batch, depth, p.outputs, phase)
        layer.made.copy("rearrange", layer.state)
        layer.bias(1)
    layer.gate("gates", p.activation, 1)
    for op in ("SUBTRACT", "MULTIPLY", "ADD"):
        layer.each("cell", op, 1, operands=2)


def _rnn_step(layer: _Layer, phase: str) -> None:
    p = layer.p
    layer.product(p.batch, p.outputs, p.outputs, phase)
    layer.each("gates", "ADD", 1, operands=2, in_place=True)
    layer.bias(1)
    layer.gate("gates", p.activation, 1)


@remembered(weight=4)
def _backward(target: Target, p: RnnParams, proportion: float | None) -> TilePlan:
    layer, made = _Layer(target, p, proportion), p.inputs * p.input_grad + p.states
    layer.made.times = p.steps
    layer.made.copy("slice", (max(1, p.kept) + 1) * layer.state)
    layer.each("cell", "ADD", 1, operands=2)
    {"lstm": _lstm_back, "gru": _gru_back, "rnn": _rnn_back}[p.cell](layer, made)
    layer.made.copy("rearrange", p.batch * made)
    grads = p.steps * p.grads * layer.state
    weights = p.gates * p.outputs * made
    return layer.plan("backward", p.steps * (1 + p.kept) * layer.state + weights,
                      grads + p.steps * p.batch * p.inputs * p.input_grad + layer.state)


def _lstm_back(layer: _Layer, made: int) -> None:
    p = layer.p
    if p.projected:
        layer.product(p.batch, p.projected, p.outputs, "TRAINING_BWD")
        layer.product(p.outputs, p.batch, p.projected, "TRAINING_WU")
        layer.made.elementwise("accumulate", "ADD", p.outputs * p.projected, operands=2, in_place=True)
    layer.each("cell", "MULTIPLY", 2, operands=2)
    layer.slope("gates", p.activation, 1)
    layer.slope("gates", p.recurrent_activation, 1)
    layer.each("cell", "ADD", 1, operands=2, in_place=True)
    layer.each("cell", "MULTIPLY", 4, operands=2)
    layer.slope("gates", p.recurrent_activation, 2)
    layer.slope("gates", p.activation, 1)
    layer.product(p.batch, 4 * p.outputs, made, "TRAINING_BWD")


def _gru_back(layer: _Layer, made: int) -> None:
    p = layer.p
    for op in ("SUBTRACT", "SUBTRACT"):
        layer.each("cell", op, 1, operands=2)
    layer.each("cell", "MULTIPLY", 2, operands=2)
    layer.slope("gates", p.activation, 1)
    layer.slope("gates", p.recurrent_activation, 1)
    layer.product(p.batch, p.outputs, made, "TRAINING_BWD")
    layer.each("cell", "MULTIPLY", 1, operands=2)
    layer.slope("gates", p.recurrent_activation, 1)
    layer.product(p.batch, 2 * p.outputs, made, "TRAINING_BWD")
    layer.each("cell", "ADD", 1, operands=2)
    for op in ("MULTIPLY", "ADD"):
        layer.each("cell", op, 1, operands=2)


def _rnn_back(layer: _Layer, made: int) -> None:
    layer.slope("gates", layer.p.activation, 1)
    layer.product(layer.p.batch, layer.p.outputs, made, "TRAINING_BWD")


@remembered(weight=4)
def _update(target: Target, p: RnnParams, proportion: float | None) -> TilePlan:
    layer = _Layer(target, p, proportion)
    layer.made.times = p.steps
    layer.made.copy("slice", p.batch * (p.inputs + p.states) + p.grads * layer.state)
    depth, gates = p.inputs + p.states, p.grads * p.outputs
    layer.product(depth, p.batch, gates, "TRAINING_WU")
    layer.made.elementwise("accumulate", "ADD", depth * gates, operands=2, in_place=True)
    layer.bias(p.grads)
    sequence = p.steps * p.batch
    return layer.plan("weight update", sequence * depth + p.steps * p.grads * layer.state, gates * (depth + 1))
