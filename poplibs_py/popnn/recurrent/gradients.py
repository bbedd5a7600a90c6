"""Backward passes of recurrent layers described for the road."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...checks import flag
from ...errors import bad_argument, bad_type
from ...ops import Operand, Request, own_host
from ...ops.parts import Part, results
from ...target import Target, TargetLike
from .backward import BackArrays, Backward, Grads
from .builder import Builder, Lie
from .cell import Cell
from .modelled import place_of_layer
from .params import RnnParams, numbers, optional
from .plan import stretches
from .prepared import PreparedWeights
from .request import Called, layer_arrays, layer_call, programs, request


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
        p = self.layer.params
        missing = {"intermediates": self.intermediates is None, "output": self.output is None and p.full}
        return any(missing[name] for name in p.cell.reads)


def backward_call(cell: Cell, grad: Any, x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *,
                  last_output_grad: Any = None, last_cell_state_grad: Any = None, intermediates: Any = None,
                  output: Any = None, output_full_sequence: bool = True, calc_input_gradients: bool = True,
                  poplibs_exact: bool = False, reset_after: bool = False, **more: Any) -> CalledBack:
    """Take the arguments of a backward pass, or raise."""
    full = flag("output_full_sequence", output_full_sequence)
    inputs = flag("calc_input_gradients", calc_input_gradients)
    for name, weights in (("weights_input", weights_input), ("weights_output", weights_output),
                          ("weights_projection", more.get("weights_projection"))):
        if isinstance(weights, PreparedWeights):
            raise bad_type(name, "PreparedWeights", "the weights before they were prepared: it is by their transposes "
                                                    "that a backward pass multiplies")
    layer = layer_call(cell.form(flag("reset_after", reset_after)), x, weights_input, weights_output, biases, full=full,
                       input_grad=inputs, constant_slope=flag("poplibs_exact", poplibs_exact), **more)
    p = layer.params
    shape, sequence = (p.batch, p.states), (p.steps, p.batch, p.states)
    given = numbers("grad", grad, sequence if full else shape)
    ends = ("last_output_grad", last_output_grad, p.states), ("last_cell_state_grad", last_cell_state_grad, p.outputs)
    states = tuple(optional(name, value, (p.batch, columns)) for name, value, columns in ends[: len(cell.states)])
    outputs = saved_operand("output", output, p, sequence)
    saved = saved_operand("intermediates", intermediates, p, (p.steps, p.batch, "planes", p.outputs))
    if saved is not None and not saved.shape[2]:
        saved = None
    if saved is not None:
        allowed = {p.cell.saved(mode, full) for mode in p.cell.kept}
        if saved.shape[2] not in allowed:
            words = " or ".join(str(n) for n in sorted(allowed, reverse=True))
            raise bad_argument("intermediates", f"{saved.shape[2]} planes", f"{words}, or none of them")
    made = CalledBack(layer, given, states, saved, outputs)
    planes = p.cell.whole if made.again else 0 if saved is None else saved.shape[2]
    params = replace(p, full=full or made.again, each=full, saved=planes)
    return replace(made, layer=replace(layer, params=params))


def saved_operand(name: str, value: Any, p: RnnParams, shape: tuple[int | str, ...]) -> Operand | None:
    """Take what a forward pass gave, of the states' format."""
    x = optional(name, value, shape)
    if x is not None and x.format != p.state:
        raise bad_argument(name, f"dtype {x.format}", f"{p.state}, the states' (see out_dtype)")
    return x


def backward_request(cell: Cell, kinds: Sequence[Any], name: str, /, *, out: Any, target: TargetLike,
                     **given: Any) -> Request:
    """Describe a backward pass as its face was called; `kinds` are the named tuples of its results, the second with
    that of an attention or a projection."""
    op, call = f"popnn.{name}", backward_call(cell, **given)
    p, layer = call.layer.params, call.layer
    placed = place_of_layer(target, op, p, (*layer.operands, call.grad, call.intermediates), layer.memory)
    machine, more = own_host(), (call.grad, *call.last, call.intermediates, call.output)
    made = results(out, _parts(p, len(layer.init)), kinds[p.attention or p.projected > 0])
    lies = (*layer.lies, *map(Lie.of, more))
    program = programs((p, call.again), machine, lies, _backward, made)
    memory = placed.memory_here(layer.memory)
    how, run = stretches(op, Backward.of(p, machine), memory, machine, program)
    unread = {"intermediates": given.get("intermediates")} if call.intermediates is None else {}  # it has no planes
    return request(run, (*layer.operands, *more), made, how, placed, unread)


def _parts(p: RnnParams, states: int) -> tuple[Part, ...]:
    sequence, planes = (p.steps, p.batch), (p.cell.grads,) if p.cell.front else ()
    return (Part((*sequence, p.inputs if p.input_grad else 0), p.state),
            *(Part((p.batch, columns), p.state) for columns in (p.states, p.outputs)[:states]),
            *([Part((p.batch, p.steps), p.state)] if p.attention else []),
            Part((*sequence, *planes, p.outputs), p.state),
            *([Part((p.outputs, p.projected), p.state)] if p.projected else []))


def _backward(builder: Builder, params: tuple[RnnParams, bool], target: Target, _: Sequence[Any],
              at_once: int) -> None:
    """Add a backward pass, which perhaps runs the forward pass again."""
    p, again = params
    states = len(p.cell.states)
    count = len(builder.arrays) - 3 - states
    grad, *last, intermediates, output = builder.arrays[count:]
    inputs, *rest = builder.views
    found, rest = rest[:states], rest[states:]
    projection = rest.pop() if p.projected else None
    grads = Grads(inputs, found, rest[0] if len(rest) > 1 else None, rest[-1], projection)
    arrays = layer_arrays(builder, p, builder.arrays[:count])
    Backward.of(p, target).build(builder, arrays, BackArrays(grad, last, intermediates, output, again), grads, at_once)
