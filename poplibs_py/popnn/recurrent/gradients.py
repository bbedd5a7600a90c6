"""Backward passes of recurrent layers described for the road."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...errors import bad_argument, flag
from ...ops import Array, Operand, Request, host_target, on_tiles
from ...ops.parts import Part, results
from ...program import temporary
from .backward import backward, computed_again, whole_again
from .forward import lengths_of
from .modelled import modelled_backward
from .params import RnnParams, numbers, optional
from .request import Called, called, gated, request, saved_planes, spread, told

__all__ = ["CalledBack", "backward_call", "backward_request"]


@dataclass(frozen=True)
class CalledBack:
    """A backward pass's operands beside those of its layer.

    Attributes
    ----------
    layer : Called
        Its params are the backward pass's.
    grad : Operand
    last : tuple of Operand or None
        Gradients of the last states.
    intermediates, output : Operand or None
        What the forward pass saved and gave; where one that is needed is not there, the pass is run again.
    """

    layer: Called
    grad: Operand
    last: tuple[Operand | None, ...]
    intermediates: Operand | None
    output: Operand | None

    @property
    def again(self) -> bool:
        """Whether the forward pass is run again."""
        cell = self.layer.params.cell
        missing = (self.intermediates is None) if cell != "rnn" else self.output is None
        return missing or (cell == "gru" and self.output is None and self.layer.params.full)


def backward_call(cell: str, grad: Any, x: Any, weights_input: Any, weights_output: Any, biases: Any, *,
                  init: dict[str, Any], last: dict[str, Any], intermediates: Any = None, output: Any = None,
                  output_full_sequence: bool = True, calc_input_gradients: bool = True, poplibs_exact: bool = False,
                  **more: Any) -> CalledBack:
    """Take the arguments of a backward pass, or raise."""
    full = flag("output_full_sequence", output_full_sequence)
    inputs = flag("calc_input_gradients", calc_input_gradients)
    layer = called(cell, x, weights_input, weights_output, biases, init, full=full, input_grad=inputs,
                   constant_slope=flag("poplibs_exact", poplibs_exact), **more)
    p = layer.params
    shape, sequence = (p.batch, p.outputs), (p.steps, p.batch, p.outputs)
    given = numbers("grad", grad, sequence if full else shape)
    states = tuple(optional(name, value, shape) for name, value in last.items())
    outputs = kept("output", output, p, sequence)
    saved = kept("intermediates", intermediates, p, (p.steps, p.batch, "planes", p.outputs))
    if saved is not None and not saved.shape[2]:
        saved = None
    if saved is not None:
        allowed = {saved_planes(cell, mode, full, p.reset_after) for mode in ("none", "cell_and_tanh")}
        if saved.shape[2] not in allowed:
            words = " or ".join(str(n) for n in sorted(allowed, reverse=True))
            raise bad_argument("intermediates", f"{saved.shape[2]} planes", f"{words}, or none of them")
    made = CalledBack(layer, given, states, saved, outputs)
    planes = saved_planes(cell, "none", True, p.reset_after) if made.again else 0 if saved is None else saved.shape[2]
    params = replace(p, full=full or made.again, each=full, saved=planes)
    return replace(made, layer=replace(layer, params=params))


def kept(name: str, value: Any, p: RnnParams, shape: tuple[int | str, ...]) -> Operand | None:
    """Take what a forward pass gave, of the states' format."""
    x = optional(name, value, shape)
    if x is not None and x.format != p.state:
        raise bad_argument(name, f"dtype {x.format}", f"{p.state}, the states' (see out_dtype)")
    return x


def backward_request(op: str, call: CalledBack, kind: Any, out: Any, target: Any) -> Request:
    """Describe a backward pass; `kind` is the named tuple of its results."""
    p, layer = call.layer.params, call.layer
    plan, lacking = modelled_backward(target, op, p, (*layer.operands, call.grad, call.intermediates))
    machine = host_target(None, op)
    inputs = (p.steps, p.batch, p.inputs if p.input_grad else 0)
    state = Part((p.batch, p.outputs), p.state)
    planes = () if p.cell == "rnn" else (p.grads,)
    parts = [Part(inputs, p.state), *(state for _ in layer.init),
             *([Part((p.batch, p.steps), p.state)] if p.cell == "gru" and p.attention else []),
             Part((p.steps, p.batch, *planes, p.outputs), p.state)]
    made = results(out, parts, kind)
    made_back = backward(p, (made.offsets[0], made.offsets[-1]), machine)
    of_layer = layer.operands
    operands = (*of_layer, call.grad, *call.last, call.intermediates, call.output)
    slots = [x is not None for x in operands]

    def run(*arrays: Array) -> None:
        given, buffer = spread(arrays[:-1], slots), arrays[-1]
        own, rest = gated(p, given[: len(of_layer)]), given[len(of_layer):]
        lengths = None if own[-2] is None else lengths_of(p, own[-2])
        scores = None if own[-1] is None else np.ascontiguousarray(own[-1], np.float32)
        held = _kept(p, own, rest[-2:], lengths, scores, call.again, machine)
        found = made_back.run(rest[0], (own[1], own[2]), held, rest[1:-2], lengths, scores, buffer)
        for part, offset, array in zip(parts[1:-1], made.offsets[1:-1], found, strict=True):
            with np.errstate(over="ignore", invalid="ignore"):
                np.ndarray(part.shape, part.dtype, buffer, offset)[...] = array

    return on_tiles(request(run, [x for x in operands if x is not None], made, told(made_back), lacking), plan)


def _kept(p: RnnParams, own: list[Any], given: Sequence[Array | None], lengths: Array | None, scores: Array | None,
          again: bool, machine: Any) -> dict[str, Array]:
    """Return what the loop reads of the forward pass, as it was given or computed again."""
    init = temporary((p.batch, p.outputs), p.state_dtype)
    init[...] = 0 if own[4] is None else own[4]
    if again:
        return whole_again(p, own[0], (own[1], own[2]), own[3], own[4:-2], lengths, scores, machine) | {"init": init}
    names = zip(("saved", "out"), given, strict=True)
    held = {name: np.ascontiguousarray(array) for name, array in names if array is not None}
    if p.cell == "lstm" and p.kept == 4:
        cell = np.zeros((p.batch, p.outputs), p.state_dtype)
        cell[...] = 0 if own[5] is None else own[5]
        held["old"] = computed_again(p, held["saved"], cell, lengths)
    return held | {"init": init}
