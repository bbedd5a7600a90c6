"""Calls of recurrent layers described for the road: operands checked, what receives the results, what runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np

from ...checks import check_shape, flag, one_of
from ...errors import bad_type
from ...memo import remembered
from ...ops import Operand, Placed, Request, own_host, result_format
from ...ops.parts import Part, Results, results
from ...planner import Memory
from ...popsparse.matrix import BlockSparseMatrix
from ...popsparse.operands import format_in
from ...program import Sequence as Program
from ...target import Target, TargetLike
from .builder import Builder, Lie
from .cell import Cell
from .forward import Forward, LayerArrays, Made, lengths_of
from .modelled import place_of_layer
from .params import RnnParams, SparseWeights, cell_params, gate_order, limits, numbers, optional, weights_of
from .plan import stretches
from .prepared import PreparedWeights
from .sparse import Stored


@dataclass(frozen=True)
class Called:
    """A layer's operands as a call gives them, and its params; those that are not given are None."""

    params: RnnParams
    x: Operand
    weights_input: Any
    weights_output: Any
    biases: Operand | None
    init: tuple[Operand | None, ...]
    time_steps: Operand | None
    attention: Operand | None = None
    projection: Any = None
    memory: Memory = field(default_factory=Memory)

    @property
    def operands(self) -> tuple[Operand | None, ...]:
        """All of them, in order, what block-sparse weights have behind them."""
        *weights, projection = (w.operand if isinstance(w, PreparedWeights) else w if isinstance(w, Operand) else None
                                for w in (self.weights_input, self.weights_output, self.projection))
        both = self.weights_input, self.weights_output
        stored = (x for w in both if isinstance(w, SparseWeights) for x in w.stored)
        return self.x, *weights, self.biases, *self.init, self.time_steps, self.attention, projection, *stored

    @property
    def lies(self) -> tuple[Lie | None, ...]:
        """How they lie."""
        both = zip((self.weights_input, self.weights_output), self.params.blocks, strict=True)
        sparse = [(w.stored, blocks) for w, blocks in both if blocks is not None]
        dense = self.operands[:len(self.operands) - sum(len(stored) for stored, _ in sparse)]
        return (*map(Lie.of, dense), *(lie for stored, blocks in sparse for lie in stored.lies(blocks)))


def forward_call(cell: Cell, *operands: Any, output_full_sequence: bool = True, inference_only: bool = False,
                 recomputation_mode: str = "none", reset_after: bool = False, **more: Any) -> Called:
    """Take the arguments of a forward pass, or raise."""
    full = flag("output_full_sequence", output_full_sequence)
    one_of("recomputation_mode", recomputation_mode, cell.modes)
    form = cell.form(flag("reset_after", reset_after))
    saved = 0 if flag("inference_only", inference_only) else form.saved(recomputation_mode, full)
    return layer_call(form, *operands, full=full, saved=saved, **more)


def layer_call(cell: Cell, x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *,
               init_output: Any = None, init_cell_state: Any = None, time_steps: Any = None, cell_order: Any = None,
               do_input_weight_calc: bool = True, attention: Any = None, weights_projection: Any = None,
               out_dtype: object = None, available_memory_proportion: float | None = None, strict_memory: bool = False,
               **more: Any) -> Called:
    """Take the operands of a layer, or raise; `more` are fields of its params."""
    gates = cell.front
    order = gate_order(cell, cell.gates if cell_order is None else cell_order)
    weighted = flag("do_input_weight_calc", do_input_weight_calc)
    recurrent = weights_of("weights_output", weights_output, (*gates, "states", "outputs"))
    fed, outputs = recurrent.shape[-2:]
    projected = None
    if isinstance(weights_projection, BlockSparseMatrix):
        raise bad_type("weights_projection", weights_projection, "a dense array, or a QuarterArray")
    if weights_projection is not None:
        projected = weights_of("weights_projection", weights_projection, (outputs, "projected"))
    check_shape("weights_output", recurrent, projected is not None or fed == outputs, "a square matrix for each gate")
    check_shape("weights_projection", projected, projected is None or 0 < projected.shape[1] == fed <= outputs,
                f"({outputs}, {fed}), from 1 to {outputs} columns, as many as weights_output has rows")
    read = numbers("x", x, ("steps", "batch", "inputs") if weighted else ("steps", "batch", *gates, outputs))
    steps, batch = read.shape[:2]
    inputs = weights_of("weights_input", weights_input, (*gates, read.shape[2], outputs)) if weighted else None
    added = optional("biases", biases, (*cell.bias_shape, outputs))
    begun = ("init_output", init_output, fed), ("init_cell_state", init_cell_state, outputs)
    states = tuple(optional(name, value, (batch, columns)) for name, value, columns in begun[: len(cell.states)])
    scores = optional("attention", attention, (batch, steps))
    given = limits(time_steps, batch, steps)
    if not gates:
        recurrent, inputs, added = (v.seen(lambda array: array[None]) if isinstance(v, Operand) else v
                                    for v in (recurrent, inputs, added))
    if isinstance(projected, Operand):
        projected = projected.seen(lambda array: array[None])
    if out_dtype is None:  # weights that are decoded first count as what they are
        every = (x, read), (weights_input, inputs), (weights_output, recurrent), (weights_projection, projected)
        out_dtype = result_format(*(format_in(value, taken) for value, taken in every if taken is not None))
    params = cell_params(cell, read, inputs, recurrent, out_dtype, projected, order=order, weighted=weighted,
                         limited=given is not None, attention=scores is not None, **more)
    for weights, partner in ((inputs, params.x), (recurrent, params.state), (projected, params.state)):
        if isinstance(weights, PreparedWeights):
            weights.checked(partner, cell.gates_at_once(order) if weights is recurrent else None)
    return Called(params, read, inputs, recurrent, added, states, given, scores, projected,
                  Memory(available_memory_proportion, strict_memory))


def layer_arrays(builder: Builder, p: RnnParams, arrays: Sequence[Any]) -> LayerArrays:
    """Return what stands for a layer's arrays, given as `Called.operands` has them."""
    sparse = [place for place, blocks in enumerate(p.blocks) if blocks]
    size = len(Stored._fields)
    dense = len(arrays) - size * len(sparse)
    arrays, held = arrays[:dense], arrays[dense:]
    x, weights_input, weights_output, biases, *init, lengths, scores, projection = gated(p, list(arrays))
    projection = projection if projection is None or projection.ndim < 3 else projection[0]
    formats = p.weights_input, p.weights_output, p.weights_projection
    weights: list[Any] = [array if array is None or packed or dtype.bits > 8 else array.view(dtype.dtype)
                          for array, dtype, packed in
                          zip((weights_input, weights_output, projection), formats, p.packed, strict=True)]
    for number, place in enumerate(sparse):
        weights[place] = Stored(*held[size * number:size * (number + 1)])
    return LayerArrays(x, weights[0], weights[1], biases, init, lengths_of(builder, p, lengths),
                       None if scores is None else builder.in_order(scores, np.float32), weights[2])


def forward_request(cell: Cell, kind: Any, name: str, /, *, out: Any, target: TargetLike, **given: Any) -> Request:
    """Describe a forward pass as its face was called; `kind` is the named tuple of its results."""
    op, call = f"popnn.{name}", forward_call(cell, **given)
    p = call.params
    placed = place_of_layer(target, op, p, call.operands, call.memory)
    parts = _forward_parts(p, len(call.init))
    made, machine = results(out, parts, kind), own_host()
    program = programs(p, machine, call.lies, _forward, made)
    layer = Forward.of(p, machine)
    how, run = stretches(op, layer, placed.memory_here(call.memory), machine, program)
    unread = {} if p.weighted else {"weights_input": given["weights_input"]}
    return request(run, call.operands, made, how, placed, unread)


def _forward_parts(p: RnnParams, states: int) -> tuple[Part, ...]:
    sequence = p.steps, p.batch
    ends = [Part((p.batch, columns), p.state) for columns in (p.states, p.outputs)[:states]]
    output = Part((*sequence, p.states), p.state) if p.full else ends[0]
    return (output, *ends, *([Part((*sequence, p.saved, p.outputs), p.state)] if p.cell.whole else []))


def _forward(builder: Builder, p: RnnParams, target: Target, _: Sequence[Any], at_once: int) -> None:
    """Add a forward pass."""
    first, last, *more = builder.views
    other = more[0] if p.cell.has_cell_state else last
    saved = more[-1] if p.cell.whole and p.saved else None
    if p.projected and not p.full and saved is not None:
        builder.clear(saved[:, :, p.kept, p.projected:])
    arrays = layer_arrays(builder, p, builder.arrays)
    Forward.of(p, target).build(builder, arrays, Made(first if p.full else None, last, other, saved), at_once)
    if not p.full:
        builder.put(last, first)


def programs(p: Any, target: Target, lies: tuple[Lie | None, ...], build: Callable[..., None],
             made: Results, matrices: tuple[Any, ...] = ()) -> Callable[..., Program]:
    """Return what makes programs of calls of some params on operands and results that lie so, given how much is done at
    once: what `build` adds.

    Given True beside it, they are none to run, but have all the bytes and threads (`Builder.counts`): where a limit on
    memory is small, there are many stretches, and many choices are asked for their bytes alone.

    Those that know matrices of a call are made for it; others are remembered.
    """
    given = p, target, lies, matrices, build, tuple(Lie(x.shape, x.strides, x.dtype) for x in made.arrays)
    known = any(w is not None for w in matrices)
    return cache(partial(_made, *given)) if known else partial(_remembered, *given)


def _made(p: Any, target: Target, lies: tuple[Lie | None, ...], matrices: tuple[Any, ...], build: Callable[..., None],
          into: tuple[Lie, ...], at_once: Any, counts: bool = False) -> Program:
    builder = Builder(lies, into, counts)
    build(builder, p, target, matrices, at_once)
    return builder.made()


_remembered = remembered(weight=4)(_made)


def request(run: Program, operands: Sequence[Operand | None], made: Results, how: Any, placed: Placed[Any],
            unread: Mapping[str, Any], own: bool = False) -> Request:
    """Describe a call of a program that has the operands that are there, perhaps what is the call's `own`, and what of
    its arguments is `unread`."""
    return Request.to(made, run, [x for x in operands if x is not None], how.told, placed=placed,
                      temporaries=how.temporaries, keep=not own, unread=unread)


def gated(p: RnnParams, arrays: list[Any]) -> list[Any]:
    """Return the arrays of a layer, its weights and biases with an axis of gates."""
    if not p.cell.front:
        for number, axes in ((1, 3), (2, 3), (3, 2)):
            array = arrays[number]
            packed = number < 3 and p.packed[number - 1]
            arrays[number] = array if array is None or packed or array.ndim >= axes else array[None]
    return arrays
