"""Calls of recurrent layers described for the road: operands checked, what receives the results, what runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import bad_argument, flag, one_of
from ...ops import RESULT, Array, Operand, Request, host_target, on_tiles
from ...ops.parts import Part, results
from .forward import forward, lengths_of
from .modelled import modelled_forward
from .params import GATES, RnnParams, cell_params, gate_order, limits, numbers, optional

__all__ = ["MODES", "Called", "called", "forward_request", "mode_of", "request", "saved_planes", "spread",
           "told"]

MODES = ("none", "cell_and_tanh", "full")
"""What a backward pass computes again: nothing, an LSTM's cell states, or the whole forward pass."""


@dataclass(frozen=True)
class Called:
    """A layer's operands as a call gives them, and its params; those that are not given are None."""

    params: RnnParams
    x: Operand
    weights_input: Operand | None
    weights_output: Operand
    biases: Operand | None
    init: tuple[Operand | None, ...]
    time_steps: Operand | None
    attention: Operand | None = None

    @property
    def operands(self) -> tuple[Operand | None, ...]:
        """All of them, in order."""
        return (self.x, self.weights_input, self.weights_output, self.biases, *self.init, self.time_steps,
                self.attention)


def saved_planes(cell: str, mode: str, full: bool, reset_after: bool) -> int:
    """Return the planes that each step keeps for the gradients."""
    if mode == "full":
        return 0
    kept = {"lstm": 6 if mode == "none" else 4, "gru": 3 + reset_after, "rnn": 0}[cell]
    return kept + (not full)


def called(cell: str, x: Any, weights_input: Any, weights_output: Any, biases: Any, init: dict[str, Any], *,
           time_steps: Any = None, cell_order: Any = None, do_input_weight_calc: bool = True, reset_after: bool = False,
           attention: Any = None, out_dtype: object = None, **more: Any) -> Called:
    """Take the operands of a layer, or raise; `more` are fields of its params."""
    count = len(GATES[cell])
    gates = (count,) if cell != "rnn" else ()
    order = gate_order(cell, GATES[cell] if cell_order is None else cell_order)
    weighted = flag("do_input_weight_calc", do_input_weight_calc)
    recurrent = numbers("weights_output", weights_output, (*gates, "outputs", "outputs"))
    outputs = recurrent.shape[-1]
    if recurrent.shape[-2] != outputs:
        raise bad_argument("weights_output", f"shape {recurrent.shape}", "a square matrix for each gate")
    read = numbers("x", x, ("steps", "batch", "inputs") if weighted else ("steps", "batch", count, outputs))
    steps, batch = read.shape[:2]
    inputs = numbers("weights_input", weights_input, (*gates, read.shape[2], outputs)) if weighted else None
    added = optional("biases", biases, (*gates, *((2,) if reset_after else ()), outputs))
    states = tuple(optional(name, value, (batch, outputs)) for name, value in init.items())
    scores = optional("attention", attention, (batch, steps))
    given = limits(time_steps, batch, steps)
    if cell == "rnn":  # one gate
        recurrent = recurrent.seen(lambda array: array[None])
        inputs, added = (v and v.seen(lambda array: array[None]) for v in (inputs, added))
    params = cell_params(cell, read, inputs, recurrent, out_dtype, order=order, weighted=weighted,
                         reset_after=reset_after, limited=given is not None, attention=scores is not None, **more)
    return Called(params, read, inputs, recurrent, added, states, given, scores)


def forward_request(op: str, call: Called, kind: Any, out: Any, target: Any) -> Request:
    """Describe a forward pass; `kind` is the named tuple of its results."""
    p = call.params
    plan, lacking = modelled_forward(target, op, p, call.operands)
    sequence, state = (p.steps, p.batch), Part((p.batch, p.outputs), p.state)
    output = Part((*sequence, p.outputs), p.state) if p.full else state
    kept = () if p.cell == "rnn" else (Part((*sequence, p.saved, p.outputs), p.state),)
    parts = (output, *(state for _ in call.init), *kept)
    made = results(out, parts, kind)
    layer = forward(p, made.offsets, host_target(None, op))
    present = [x for x in call.operands if x is not None]
    slots = [x is not None for x in call.operands]

    def run(*arrays: Array) -> None:
        given = gated(p, spread(arrays[:-1], slots))
        lengths = None if given[-2] is None else lengths_of(p, given[-2])
        scores = None if given[-1] is None else np.ascontiguousarray(given[-1], np.float32)
        layer.run(given[0], (given[1], given[2]), given[3], given[4:-2], lengths, scores, arrays[-1])
        if not p.full:
            first, last = (np.ndarray(state.shape, state.dtype, arrays[-1], at) for at in made.offsets[:2])
            first[...] = last

    return on_tiles(request(run, present, made, told(layer), lacking), plan)


def told(layer: Any) -> Any:
    """Return what tells of a pass."""
    return lambda: (str(layer.params), layer.loops.selection.kernel.label, layer)


def request(run: Any, operands: Sequence[Operand], made: Any, tell: Any, lacking: str) -> Request:
    """Describe a call that a function of the operands and of the bytes of its results makes."""
    return Request(run, (*operands, RESULT), made.receiver, tell, wrap=made.wrap, lacking=lacking, steady=True,
                   keep=not made.given)


def spread(arrays: Sequence[Array], slots: Sequence[bool]) -> list[Any]:
    """Return the arrays of a call where its operands are, None for those that were not given."""
    rest = iter(arrays)
    return [next(rest) if there else None for there in slots]


def gated(p: RnnParams, arrays: list[Any]) -> list[Any]:
    """Return the arrays of a layer, its weights and biases with an axis of gates."""
    if p.cell == "rnn":
        for number, axes in ((1, 3), (2, 3), (3, 2)):
            array = arrays[number]
            arrays[number] = array[None] if array is not None and array.ndim < axes else array
    return arrays


def mode_of(cell: str, recomputation_mode: Any) -> str:
    """Check a mode of recomputation."""
    one_of("recomputation_mode", recomputation_mode, MODES if cell == "lstm" else ("none", "full"))
    return str(recomputation_mode)
