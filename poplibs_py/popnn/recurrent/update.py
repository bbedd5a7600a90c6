"""Gradients of a recurrent layer's weights: products of all steps at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...checks import check_shape, flag
from ...errors import bad_argument
from ...formats import Format
from ...ops import Operand, Request, own_host
from ...ops.parts import Part, results
from ...planner import Memory
from ...popsparse.matrix import BlockSparseMatrix
from ...target import TargetLike
from .builder import Lie
from .cell import Cell
from .modelled import place_of_layer
from .params import RnnParams, gate_order, numbers, optional, state_format
from .plan import Update, chosen_within, shorter
from .request import programs, request
from .sparse import Blocks, checked_blocks
from .update_lower import UpdateSizes, add_update


class WeightGradients(NamedTuple):
    """What `lstm_wu` and its kin return."""

    weights_input_grad: Any
    weights_output_grad: Any
    biases_grad: Any


@dataclass(frozen=True)
class CalledUpdate:
    """A weight update's operands, checked.

    Attributes
    ----------
    cell : Cell
    grads, x, output : Operand
    init, reset : Operand or None
        The state before the first step; what a GRU that resets before its product saved.
    order : tuple of int
        Where each gate of the cell is in the results.
    result : Format
    memory : Memory
    matrices : tuple of BlockSparseMatrix or None
        Both weights, where their gradients are at stored blocks alone.
    """

    cell: Cell
    grads: Operand
    x: Operand
    output: Operand
    init: Operand | None
    reset: Operand | None
    order: tuple[int, ...]
    result: Format
    memory: Memory = field(default_factory=Memory)
    matrices: tuple[BlockSparseMatrix | None, BlockSparseMatrix | None] = (None, None)

    @property
    def operands(self) -> tuple[Operand | None, ...]:
        """All of them, in order."""
        return self.grads, self.x, self.output, self.init, self.reset

    @property
    def params(self) -> RnnParams:
        """What there is to know of the layer."""
        steps, batch, inputs = self.x.shape
        outputs, states = self.grads.shape[3], self.output.shape[2]
        w, u = self.matrices
        return RnnParams(self.cell, steps, batch, inputs, outputs, self.result, self.result, self.result, self.result,
                         self.order, projected=states if states != outputs else 0,
                         blocks=(None if w is None else Blocks.of(w), None if u is None else Blocks.of(u)))

    def __str__(self) -> str:
        return f"{self.cell} {' x '.join(map(str, self.x.shape[:2]))}, {self.x.shape[2]} to {self.output.shape[2]}"


def update_call(cell: Cell, gate_grads: Any, x: Any, output: Any, intermediates: Any = None, *,
                cell_order: Any = None, reset_after: bool = False, init_output: Any = None, out_dtype: object = None,
                available_memory_proportion: float | None = None, strict_memory: bool = False,
                weights_input: Any = None, weights_output: Any = None) -> CalledUpdate:
    """Take the arguments of `lstm_wu` and its kin, or raise."""
    cell = cell.form(flag("reset_after", reset_after))
    planes = (cell.grads,) if cell.front else ()
    grads = numbers(cell.grads_name, gate_grads, ("steps", "batch", *planes, "outputs"))
    grads = grads if planes else grads.seen(lambda array: array[:, :, None])
    steps, batch, _, outputs = grads.shape
    saved = optional("intermediates", intermediates, (steps, batch, "planes", outputs))
    if cell.resets and (saved is None or saved.shape[2] < cell.whole):
        got = "None" if saved is None else f"{saved.shape[2]} planes"
        raise bad_argument("intermediates", got, f"what {cell}_fwd saved, at least {cell.whole} planes, without "
                                                 "reset_after")
    order = gate_order(cell, cell.gates if cell_order is None else cell_order)
    inputs = numbers("x", x, (steps, batch, "inputs"))
    states = numbers("output", output, (steps, batch, "states" if cell.projects else outputs))
    check_shape("output", states, states.shape[2] <= outputs, f"at most {outputs} elements, as a projection has")
    init = optional("init_output", init_output, (batch, states.shape[2]))
    result = state_format(out_dtype, grads, inputs, states)
    for name, w, rows in (("weights_input", weights_input, inputs.shape[2]),
                          ("weights_output", weights_output, states.shape[2])):
        if isinstance(w, BlockSparseMatrix):
            checked_blocks(name, w, (*cell.front, rows, outputs))
    of_inputs, of_states = (w if isinstance(w, BlockSparseMatrix) else None for w in (weights_input, weights_output))
    return CalledUpdate(cell, grads, inputs, states, init, saved if cell.resets else None, order, result,
                        Memory(available_memory_proportion, strict_memory), (of_inputs, of_states))


def update_request(cell: Cell, short: str, /, *, out: Any, target: TargetLike, **given: Any) -> Request:
    """Describe a weight update as its face was called."""
    weights = {name: given.get(name) for name in ("weights_input", "weights_output")}  # arrays say nothing
    intermediates, name = given.get("intermediates"), f"popnn.{short}"
    call = update_call(cell, given.pop(cell.grads_name), **given)
    placed = place_of_layer(target, name, call.params, call.operands, call.memory)
    machine = own_host()
    inputs, outputs, front = call.x.shape[2], call.grads.shape[3], cell.front
    shapes = [(*front, rows, outputs) if w is None else w.blocks.shape
              for w, rows in zip(call.matrices, (inputs, call.output.shape[2]), strict=True)]
    parts = [Part(shape, call.result) for shape in (*shapes, (*call.cell.bias_shape, outputs))]
    own = any(w is not None for w in call.matrices)
    if own and out is not None:
        raise bad_argument("out", out, "None where weights are block-sparse")
    made = results(out, parts, WeightGradients)
    sizes = UpdateSizes.of(call)
    lies = tuple(map(Lie.of, call.operands))
    program = programs((sizes, call.cell, call.order), machine, lies, add_update, made, call.matrices)
    choices = [(steps, planes) for planes in dict.fromkeys((sizes.planes, 1)) for steps in shorter(sizes.steps)]
    memory = placed.memory_here(call.memory)
    run, taken = chosen_within(name, choices, program, memory, machine)
    how = Update(*taken, f"{call} weight update", sizes, machine)
    unread = {"intermediates": intermediates} if call.reset is None else {}
    found = request(run, call.operands, made, how, placed, unread | weights, own)
    return found.with_(wrap=lambda buffer, _: _wrapped(call, made.views(buffer))) if own else found


def _wrapped(call: CalledUpdate, made: Any) -> WeightGradients:
    """Return gradients with those at stored blocks as matrices."""
    first, second = (array if w is None else w._with(array, format=call.result, scale=0)
                     for w, array in zip(call.matrices, made[:2], strict=True))
    return WeightGradients(first, second, made[2])
