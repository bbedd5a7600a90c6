"""Gradients of a recurrent layer's weights: products of all steps at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from ...errors import bad_argument, check_shape, flag
from ...formats import Format
from ...ops import Operand, Request, op, own_host
from ...ops.parts import Part, results
from ...planner import Memory, first_within
from ...popsparse.matrix import BlockSparseMatrix
from ...target import TargetLike
from .modelled import place_of_layer
from .params import GATES, RnnParams, gate_order, numbers, optional, state_format
from .request import request, shorter
from .sparse import blocks_of, checked_blocks
from .update_lower import Update, UpdateArrays, UpdateSizes


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
    cell : str
    grads, x, output : Operand
    init, reset : Operand or None
        The state before the first step; what a GRU that resets before its product saved.
    order : tuple of int
        Where each gate of the cell is in the results.
    result : Format
    reset_after : bool
    memory : Memory
    matrices : tuple of BlockSparseMatrix or None
        Both weights, where their gradients are at stored blocks alone.
    """

    cell: str
    grads: Operand
    x: Operand
    output: Operand
    init: Operand | None
    reset: Operand | None
    order: tuple[int, ...]
    result: Format
    reset_after: bool = False
    memory: Memory = field(default_factory=Memory)
    matrices: tuple[BlockSparseMatrix | None, BlockSparseMatrix | None] = (None, None)

    @property
    def planes(self) -> dict[str, tuple[int, ...]]:
        """The planes of the gates' gradients that inputs and states are multiplied with, in the cell's order."""
        if self.cell != "gru":
            every = tuple(range(len(self.order)))
            return {"input": every, "state": every}
        return {"input": (1, 2, 0), "state": (1, 2, 3 if self.reset_after else 0)}

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
                         self.order, reset_after=self.reset_after, projected=states if states != outputs else 0,
                         blocks=(None if w is None else blocks_of(w), None if u is None else blocks_of(u)))

    def __str__(self) -> str:
        return f"{self.cell} {' x '.join(map(str, self.x.shape[:2]))}, {self.x.shape[2]} to {self.output.shape[2]}"


def lstm_update(gate_grads: Any, x: Any, output: Any, *, cell_order: Any = GATES["lstm"], **more: Any) -> CalledUpdate:
    """Take the arguments of `lstm_wu`, or raise."""
    grads = numbers("gate_grads", gate_grads, ("steps", "batch", 4, "outputs"))
    return _called("lstm", grads, x, output, gate_order("lstm", cell_order), **more)


def gru_update(gate_grads: Any, x: Any, output: Any, intermediates: Any = None, *, cell_order: Any = GATES["gru"],
               reset_after: bool = False, **more: Any) -> CalledUpdate:
    """Take the arguments of `gru_wu`, or raise."""
    after = flag("reset_after", reset_after)
    grads = numbers("gate_grads", gate_grads, ("steps", "batch", 3 + after, "outputs"))
    steps, batch, _, outputs = grads.shape
    saved = optional("intermediates", intermediates, (steps, batch, "planes", outputs))
    if not after and (saved is None or saved.shape[2] < 3):
        got = "None" if saved is None else f"{saved.shape[2]} planes"
        raise bad_argument("intermediates", got, "what gru_fwd saved, at least 3 planes, without reset_after")
    return _called("gru", grads, x, output, gate_order("gru", cell_order), reset=None if after else saved,
                   reset_after=after, **more)


def rnn_update(step_grads: Any, x: Any, output: Any, **more: Any) -> CalledUpdate:
    """Take the arguments of `rnn_wu`, or raise."""
    grads = numbers("step_grads", step_grads, ("steps", "batch", "outputs"))
    return _called("rnn", grads.seen(lambda array: array[:, :, None]), x, output, (0,), **more)


def _called(cell: str, grads: Operand, x: Any, output: Any, order: tuple[int, ...], *, init_output: Any = None,
            reset: Operand | None = None, reset_after: bool = False, out_dtype: object = None,
            available_memory_proportion: float | None = None, strict_memory: bool = False,
            weights_input: Any = None, weights_output: Any = None) -> CalledUpdate:
    steps, batch, _, outputs = grads.shape
    inputs = numbers("x", x, (steps, batch, "inputs"))
    states = numbers("output", output, (steps, batch, "states" if cell == "lstm" else outputs))
    check_shape("output", states, states.shape[2] <= outputs, f"at most {outputs} elements, as a projection has")
    init = optional("init_output", init_output, (batch, states.shape[2]))
    result = state_format(out_dtype, grads, inputs, states)
    front = (len(order),) if cell != "rnn" else ()
    for name, w, rows in (("weights_input", weights_input, inputs.shape[2]),
                          ("weights_output", weights_output, states.shape[2])):
        if isinstance(w, BlockSparseMatrix):
            checked_blocks(name, w, (*front, rows, outputs))
    of_inputs, of_states = (w if isinstance(w, BlockSparseMatrix) else None for w in (weights_input, weights_output))
    return CalledUpdate(cell, grads, inputs, states, init, reset, order, result, reset_after,
                        Memory(available_memory_proportion, strict_memory), (of_inputs, of_states))


def _request(take: Callable[..., CalledUpdate], short: str, /, *, out: Any,
             target: TargetLike, **given: Any) -> Request:
    """Describe a weight update as its face was called, whose arguments `take` takes."""
    call, name = take(**given), f"popnn.{short}"
    placed = place_of_layer(target, name, call.params, call.operands, call.memory)
    machine = own_host()
    inputs, outputs, gates = call.x.shape[2], call.grads.shape[3], len(call.order)
    front = () if call.cell == "rnn" else (gates,)
    shapes = [(*front, rows, outputs) if w is None else w.blocks.shape
              for w, rows in zip(call.matrices, (inputs, call.output.shape[2]), strict=True)]
    parts = [Part(shape, call.result) for shape in (*shapes, (*front, *((2,) if call.reset_after else ()), outputs))]
    own = any(w is not None for w in call.matrices)
    if own and out is not None:
        raise bad_argument("out", out, "None where weights are block-sparse")
    made = results(out, parts, WeightGradients)
    sizes = UpdateSizes.of(call)
    choices = [(steps, planes) for planes in dict.fromkeys((sizes.planes, 1)) for steps in shorter(sizes.steps)]
    ready = Update(f"{call} weight update", sizes, machine)
    memory = call.memory if placed.plan is None else Memory()
    ready.at_once, ready.fits = first_within(name, choices, lambda at_once: ready.bytes_taken(*at_once), memory,
                                             machine, ready.threads)

    def run(arrays: list[Any], views: Any) -> None:
        grads, read, output, init, reset = arrays
        grads = grads if grads.ndim == 4 else grads[:, :, None]
        given = UpdateArrays(grads, read, output, init, reset, call.matrices)
        ready.run(call.planes, call.order, given, views)

    found = request(run, call.operands, made, ready, placed, own)
    if own:
        found.wrap = lambda buffer, _: _wrapped(call, made.views(buffer))
    return found


def _wrapped(call: CalledUpdate, made: Any) -> WeightGradients:
    """Return gradients with those at stored blocks as matrices."""
    first, second = (array if w is None else w._with(array, format=call.result, scale=0)
                     for w, array in zip(call.matrices, made[:2], strict=True))
    return WeightGradients(first, second, made[2])


@op("popnn::lstm::lstmWU", bound="popnn.recurrent.bound_update", draws="testing.rnn_calls", written=None,
    by=partial(_request, lstm_update))
def lstm_wu(gate_grads: Any, x: Any, output: Any, *, weights_input: Any = None, weights_output: Any = None,
            init_output: Any = None, cell_order: Any = GATES["lstm"], out: Any = None, out_dtype: object = None,
            available_memory_proportion: float | None = None, strict_memory: bool = False,
            target: TargetLike = None) -> Any:
    """Return the gradients of an LSTM's weights and biases (``popnn::lstm::lstmWU``).

    Parameters
    ----------
    gate_grads : array_like [steps, batch, 4, outputs]
        As `lstm_bwd` returned them.
    x : array_like [steps, batch, inputs]
        The inputs; finite past a row's length too.
    output : array_like [steps, batch, outputs]
        The outputs of all steps, as `lstm_fwd` returned or saved them.
    weights_input, weights_output : BlockSparseMatrix, optional
        As `lstm_fwd` was given them: their gradients are block-sparse too, of the same pattern, and only what is stored
        is computed. Dense weights are not read.
    init_output : array_like [batch, outputs], optional
        The output before the first step; by default zero.
    cell_order : tuple of str, optional
        How the results are ordered; as for `lstm_fwd`.
    out : tuple of three arrays, optional
        Where the results go.
    out_dtype : dtype, Format or str, optional
        float32, float16 or bfloat16; by default what the operands give.
    available_memory_proportion : float, optional
        The share of the cores' memory that temporaries may take: with less, products of some steps or of some gates are
        summed. By default there is no limit; on a modelled machine PopLibs' 0.6.

    Returns
    -------
    weights_input_grad : numpy.ndarray [4, inputs, outputs]
    weights_output_grad : numpy.ndarray [4, outputs, outputs]
        Or a BlockSparseMatrix, each.
    biases_grad : numpy.ndarray [4, outputs]

    Notes
    -----
    Sums over steps and batch in FP32, in any order, rounded once; PopLibs adds in the weights' type step by step
    (``weightAccumulatorsType``).

    Examples
    --------
    >>> popnn.lstm_wu(*(np.ones(shape, np.float32) for shape in ((3, 2, 4, 1), (3, 2, 5), (3, 2, 1)))).biases_grad[0]
    array([6.], dtype=float32)
    """


@op("popnn::gru::gruWU", bound="popnn.recurrent.bound_update", draws="testing.rnn_calls", written=None,
    by=partial(_request, gru_update))
def gru_wu(gate_grads: Any, x: Any, output: Any, intermediates: Any = None, *, weights_input: Any = None,
           weights_output: Any = None, init_output: Any = None, cell_order: Any = GATES["gru"],
           reset_after: bool = False, out: Any = None, out_dtype: object = None,
           available_memory_proportion: float | None = None, strict_memory: bool = False,
           target: TargetLike = None) -> Any:
    """Return the gradients of the weights and biases of a GRU or an AUGRU (``popnn::gru::gruWU``).

    Parameters
    ----------
    gate_grads : array_like [steps, batch, 3, outputs], or four planes with `reset_after`
        As `gru_bwd` returned them.
    x, output
        As for `lstm_wu`.
    intermediates : array_like [steps, batch, planes, outputs], optional
        What `gru_fwd` saved, of which the reset gates are read; without `reset_after` it must be there.
    weights_input, weights_output, init_output, out, out_dtype, available_memory_proportion, strict_memory,
    target
        As for `lstm_wu`.
    cell_order : tuple of str, optional
        How the results are ordered; as for `gru_fwd`.
    reset_after : bool, optional
        As for `gru_fwd`.

    Returns
    -------
    weights_input_grad : numpy.ndarray [3, inputs, outputs]
    weights_output_grad : numpy.ndarray [3, outputs, outputs]
    biases_grad : numpy.ndarray [3, outputs], or [3, 2, outputs] with `reset_after`

    Notes
    -----
    As for `lstm_wu`; states that are multiplied by reset gates are rounded to their format, as in the forward pass.

    Examples
    --------
    >>> operands = (np.ones(shape, np.float32) for shape in ((3, 2, 4, 1), (3, 2, 5), (3, 2, 1)))
    >>> popnn.gru_wu(*operands, reset_after=True).weights_output_grad.ravel()
    array([4., 4., 4.], dtype=float32)
    """


@op("popnn::rnn::paramDeltaUpdate", bound="popnn.recurrent.bound_update", draws="testing.rnn_calls", written=None,
    by=partial(_request, rnn_update))
def rnn_wu(step_grads: Any, x: Any, output: Any, *, weights_input: Any = None, weights_output: Any = None,
           init_output: Any = None, out: Any = None, out_dtype: object = None,
           available_memory_proportion: float | None = None, strict_memory: bool = False,
           target: TargetLike = None) -> Any:
    """Return the gradients of a vanilla RNN's weights and biases (``popnn::rnn::paramDeltaUpdate``).

    Parameters
    ----------
    step_grads : array_like [steps, batch, outputs]
        As `rnn_bwd` returned them.
    x, output, weights_input, weights_output, init_output, out, out_dtype, available_memory_proportion, strict_memory,
    target
        As for `lstm_wu`.

    Returns
    -------
    weights_input_grad : numpy.ndarray [inputs, outputs]
    weights_output_grad : numpy.ndarray [outputs, outputs]
    biases_grad : numpy.ndarray [outputs]

    Notes
    -----
    As for `lstm_wu`.

    Examples
    --------
    >>> popnn.rnn_wu(*(np.ones((3, 2, 1), np.float32) for _ in range(3))).weights_output_grad
    array([[4.]], dtype=float32)
    """
