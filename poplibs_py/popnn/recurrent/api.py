"""Stacks of recurrent layers of any cell, in one direction or both, as torch has them: made of passes of single ones.

What a cell's functions are called and say is in the file of the cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...checks import check_shape, flag, instance, one_of
from ...errors import bad_argument, bad_type
from ...formats import FP16, Array, Format
from ...ops import WIDE, Operand, own_host, result_format, wide_format
from ...popsparse.matrix import BlockSparseMatrix
from .cell import CELLS, Cell
from .params import gate_order, lies_by_columns, limits, numbers, optional, weights_of
from .passes import Passes
from .prepared import PreparedWeights

_WEIGHTS = "weights_input", "weights_output", "weights_projection"


class LayerWeights(NamedTuple):
    """The weights of a layer in one direction, as `lstm_fwd` and its kin take them.

    Attributes
    ----------
    weights_input, weights_output, biases : array_like
    cell_order : tuple of str or None
        How gates are ordered; None for PopLibs' order.
    reset_after : bool
        Of a GRU.
    weights_projection : array_like or None
        Of an LSTM.
    """

    weights_input: Any
    weights_output: Any
    biases: Any = None
    cell_order: Any = None
    reset_after: bool = False
    weights_projection: Any = None


@dataclass(frozen=True, eq=False)
class Tape:
    """What `layers_bwd` reads of a pass over a stack.

    Attributes
    ----------
    passes : Passes
        Of the cell.
    layers : list of list of LayerWeights
        By layer and direction.
    inputs, made, init : list
        What each of them was given, returned and began with.
    lengths : numpy.ndarray or None
    how : dict
        Keywords of all layers.
    batch_first : bool
    """

    passes: Passes
    layers: list[list[LayerWeights]]
    inputs: list[Array]
    made: list[Any]
    init: list[dict[str, Any]]
    lengths: Array | None
    how: dict[str, Any]
    batch_first: bool


class LayersForward(NamedTuple):
    """What `lstm`, `gru` and `rnn` return; there is a cell state of an LSTM alone."""

    output: Any
    last_output: Any
    last_cell_state: Any
    tape: Any


class LayerGradients(NamedTuple):
    """The gradients of a layer's weights in one direction; of a projection where there is one."""

    weights_input_grad: Any
    weights_output_grad: Any
    biases_grad: Any
    weights_projection_grad: Any = None


class LayersBackward(NamedTuple):
    """What `layers_bwd` returns."""

    input_grad: Any
    init_output_grad: Any
    init_cell_state_grad: Any
    weights: Any


def from_torch(state: Any, cell: str = "lstm") -> list[tuple[LayerWeights, ...]]:
    """Return the weights of a torch module's layers, by layer and direction; nothing is copied but summed biases.

    Parameters
    ----------
    state : mapping of str to array_like
        What the `state_dict` of ``torch.nn.LSTM``, ``GRU`` or ``RNN`` holds, as arrays, without a prefix.
    cell : {"lstm", "gru", "rnn"}, optional

    Returns
    -------
    list of tuple of LayerWeights

    Raises
    ------
    InvalidArgumentError
        If a name is missing or none of such a module's.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import popnn
    >>> state = {"weight_ih_l0": np.ones((4, 2), np.float32), "weight_hh_l0": np.ones((4, 1), np.float32)}
    >>> popnn.lstm(np.ones((3, 1, 2), np.float32), popnn.from_torch(state)).output.shape
    (3, 1, 1)
    """
    one_of("cell", cell, tuple(CELLS))
    instance("state", state, Mapping, "a mapping of names to arrays")
    left: dict[str, Any] = dict(state)
    layers: list[tuple[LayerWeights, ...]] = []
    while f"weight_ih_l{len(layers)}" in left:
        ends = [f"l{len(layers)}{way}" for way in ("", "_reverse") if f"weight_ih_l{len(layers)}{way}" in left]
        layers.append(tuple(_layer_of(left, CELLS[cell], end) for end in ends))
    if left or not layers:
        got = ", ".join(sorted(map(str, left))) or "nothing"
        raise bad_argument("state", got, "weight_ih_l0, weight_hh_l0, bias_ih_l0, weight_hr_l0 and so on")
    return layers


def to_torch(layers: Any, cell: str = "lstm") -> dict[str, Array]:
    """Return the state of a torch module with these weights, by torch's names: what `from_torch` reads.

    Parameters
    ----------
    layers : sequence of LayerWeights, or of pairs of them
        As for `lstm`, of a GRU those that reset after the product with the weights of states, as torch does.
    cell : {"lstm", "gru", "rnn"}, optional

    Returns
    -------
    dict of str to numpy.ndarray
        For ``load_state_dict``, as tensors. Weights that lie as torch has them are not copied. Biases that torch adds
        up are under ``bias_ih``, and zeros under ``bias_hh``.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind, shape or value: weights are arrays, neither block-sparse nor prepared.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import popnn
    >>> one = popnn.LayerWeights(np.ones((4, 2, 3), np.float32), np.ones((4, 3, 3), np.float32))
    >>> {name: x.shape for name, x in popnn.to_torch([one]).items()}
    {'weight_ih_l0': (12, 2), 'weight_hh_l0': (12, 3)}
    """
    one_of("cell", cell, tuple(CELLS))
    stack = list(_stack(layers))
    if len({layer.biases is None for ways in stack for layer in ways}) > 1:
        raise bad_argument("biases", "those of some layers alone", "those of all layers or none, as torch has them")
    return {f"{name}_l{number}{end}": array for number, ways in enumerate(stack)
            for end, layer in zip(("", "_reverse"), ways, strict=False)
            for name, array in _state_of(CELLS[cell], layer)}


def _state_of(cell: Cell, layer: LayerWeights) -> Iterator[tuple[str, Array]]:
    """The arrays of a layer in one direction, as torch has them, and what their names begin with."""
    form, front = cell.form(True), cell.front
    if form.apart and not layer.reset_after:
        raise bad_argument("reset_after", False, "True, as torch has it")
    order = gate_order(cell, list(layer.cell_order if front and layer.cell_order is not None else cell.gates))
    rows = [order[cell.gates.index(gate)] for gate in cell.torch]

    def ordered(name: str, *shape: int | str) -> Array:
        x = numbers(name, getattr(layer, name), (*front, *shape)).array
        return x if not front or rows == sorted(rows) else x[rows]

    taken = {name: ordered(name, "rows", "outputs") for name in _WEIGHTS[:2]}
    size = taken["weights_input"].shape[-1]
    for name, x in zip(("weight_ih", "weight_hh"), taken.values(), strict=True):
        check_shape("weights_output", x, x.shape[-1] == size, f"that of {size} outputs, as weights_input has")
        yield name, x.swapaxes(-1, -2).reshape(-1, x.shape[-2])
    if layer.weights_projection is not None:
        yield "weight_hr", numbers("weights_projection", layer.weights_projection, (size, "projected")).array.T
    if layer.biases is not None:
        biases = ordered("biases", *((2,) if form.apart else ()), size)
        pair = (biases[:, 0], biases[:, 1]) if form.apart else (biases, np.zeros_like(biases))
        yield from zip(("bias_ih", "bias_hh"), (x.reshape(-1) for x in pair), strict=True)


def prepare_layers(layers: Any, cell: str = "lstm", *, x_dtype: object = None,
                   out_dtype: object = None) -> list[tuple[LayerWeights, ...]]:
    """Return layers whose weights are packed once, for many forward passes.

    Their weights are `PreparedWeights` then, which `lstm` and its kin take, and `lstm_fwd` and its kin in place of the
    arguments that they were: copies, so that later changes are not seen. Backward passes take weights as they were.

    Parameters
    ----------
    layers : sequence of LayerWeights, or of pairs of them
        As for `lstm`; block-sparse weights stay as they are.
    cell : {"lstm", "gru", "rnn"}, optional
    x_dtype, out_dtype : dtype, Format or str, optional
        float32, float16 or bfloat16: the format of the sequences to come, by default the weights'; that of states and
        results, by default what the two give.

    Returns
    -------
    list of tuple of LayerWeights

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind, shape or value.

    Notes
    -----
    Results are within the bound of `lstm` and its kin. The bits are those of weights as they were, but for one row of
    at most 16 steps or in float16, for which calls with these may read them where they lie.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import popnn
    >>> one = popnn.LayerWeights(np.ones((4, 2, 3), np.float32), np.ones((4, 3, 3), np.float32))
    >>> prepared = popnn.prepare_layers([one])
    >>> popnn.lstm(np.ones((5, 1, 2), np.float32), prepared).output.shape
    (5, 1, 3)
    """
    one_of("cell", cell, tuple(CELLS))
    x = None if x_dtype is None else wide_format("x_dtype", x_dtype)
    out = None if out_dtype is None else wide_format("out_dtype", out_dtype)
    made: list[tuple[LayerWeights, ...]] = []
    for ways in _stack(layers):
        each = [_prepared(CELLS[cell], layer, x, out) for layer in ways]
        made.append(tuple(layer for layer, _ in each))
        x = each[0][1]
    return made


def _prepared(cell: Cell, layer: LayerWeights, x: Format | None, out: Format | None) -> tuple[LayerWeights, Format]:
    """Return a layer prepared for sequences of a format, and the format of its states."""
    order = gate_order(cell, layer.cell_order if cell.front and layer.cell_order is not None else cell.gates)
    every, machine = tuple(range(len(order))), own_host()
    axes: dict[str, tuple[int | str, ...]] = dict.fromkeys(_WEIGHTS, ("rows", "outputs"))
    axes |= dict.fromkeys(_WEIGHTS[:2], (*cell.front, "rows", "outputs"))
    taken = {name: None if name == "weights_projection" and layer.weights_projection is None
             else weights_of(name, getattr(layer, name), shape) for name, shape in axes.items()}
    for name, w in taken.items():
        if isinstance(w, PreparedWeights):
            raise bad_type(name, "PreparedWeights", "the weights before they were prepared")
    formats = [w.format for w in taken.values() if w is not None]
    x = x or (formats[0] if formats[0] in WIDE else FP16)
    state = out or result_format(x, *formats)
    gates = {"weights_input": (every,), "weights_output": cell.form(bool(layer.reset_after)).gates_at_once(order),
             "weights_projection": ((0,),)}
    meets = {"weights_input": x, "weights_output": state, "weights_projection": state}
    packed: dict[str, Any] = {name: PreparedWeights(name, w, lies_by_columns(w), gates[name], meets[name], machine)
                              for name, w in taken.items() if isinstance(w, Operand)}
    return layer._replace(**packed), state


def _layer_of(left: dict[str, Any], cell: Cell, end: str) -> LayerWeights:
    gates, form = len(cell.gates), cell.form(True)
    weights: list[Array] = []
    for kind in ("ih", "hh"):
        name = f"weight_{kind}_{end}"
        if name not in left:
            raise bad_argument("state", f"nothing under {name}", "both weights of each layer")
        w = numbers(name, left.pop(name), ("gates * outputs", "size")).array
        counts = ", ".join(f"{len(each.gates)} of {other!r}" for other, each in CELLS.items())
        check_shape(name, w, not w.shape[0] % gates, f"the rows of {gates} gates; `cell` says how many: {counts}")
        transposed = w.reshape(gates, w.shape[0] // gates, w.shape[1]).transpose(0, 2, 1)
        weights.append(transposed if cell.front else transposed[0])
    biases, projection = None, None
    if cell.projects and f"weight_hr_{end}" in left:
        projection = numbers(f"weight_hr_{end}", left.pop(f"weight_hr_{end}"), ("projected", "size")).array.T
    states = weights[1].shape[-1] if projection is None else projection.shape[-1]
    check_shape(f"weight_hh_{end}", w, w.shape[1] == states,
                f"[{gates} * {states}, {states}], of {gates} gates; `cell` says how many: {counts}")
    biases_there = [kind for kind in ("ih", "hh") if f"bias_{kind}_{end}" in left]
    if len(biases_there) == 1:
        raise bad_argument("state", f"bias_{biases_there[0]}_{end} alone", "both biases of a layer, or none")
    if biases_there:
        shape = (gates, weights[0].shape[-1])
        pair = [numbers(f"bias_{kind}_{end}", left.pop(f"bias_{kind}_{end}"), (shape[0] * shape[1],)).array
                for kind in ("ih", "hh")]
        pair = [b.reshape(shape) for b in pair]
        biases = np.stack(pair, 1) if form.apart else pair[0].astype(np.float32) + pair[1].astype(np.float32)
        biases = biases if cell.front else biases[0]
    return LayerWeights(weights[0], weights[1], biases, cell.torch, form.apart, projection)


def _stack(layers: Any) -> list[list[LayerWeights]]:
    """Return layers by layer and direction, or raise."""
    if not isinstance(layers, (list, tuple)) or isinstance(layers, LayerWeights):
        raise bad_type("layers", layers, "a sequence of LayerWeights, or of pairs of them")
    stack = [[one] if isinstance(one, LayerWeights) else one for one in layers]
    for ways in stack:
        if not isinstance(ways, (list, tuple)) or not all(isinstance(one, LayerWeights) for one in ways):
            raise bad_type("layers", ways, "LayerWeights, or a pair of them")
    if not stack or len({len(ways) for ways in stack}) > 1 or len(stack[0]) not in (1, 2):
        raise bad_argument("layers", [len(ways) for ways in stack], "one direction or two, of every layer alike")
    return [list(ways) for ways in stack]


def run_layers(passes: Passes, x: Any, layers: Any, *, time_steps: Any, batch_first: bool, inference_only: bool,
               **how: Any) -> LayersForward:
    """Run a stack of layers as its face was called."""
    cell = passes.cell
    stack, first, only = _stack(layers), flag("batch_first", batch_first), flag("inference_only", inference_only)
    read = numbers("x", x, ("batch", "steps", "inputs") if first else ("steps", "batch", "inputs")).array
    read = read.swapaxes(0, 1) if first else read
    steps, batch = read.shape[:2]
    given = limits(time_steps, batch, steps)
    lengths = None if given is None else np.broadcast_to(given.array.reshape(-1), (batch,)).astype(np.int64)
    ways = len(stack[0])
    init = {name: optional(name, how.pop(name), (len(stack) * ways, batch, "outputs")) for name in cell.states}
    how = {name: value for name, value in (how | {"time_steps": lengths}).items() if value is not None}
    tape = Tape(passes, stack, [], [], [], lengths, how, first)
    for number, layer in enumerate(stack):
        outputs = []
        for way, weights in enumerate(layer):
            begun = {name: held.array[number * ways + way] for name, held in init.items() if held is not None}
            sequence = _reversed(read, lengths) if way else read
            more = {"inference_only": only} if cell.whole else {}
            made = passes.forward(sequence, *weights[:3], **begun, **how, **more, **_said(cell, weights))
            outputs.append(_reversed(made.output, lengths) if way else made.output)
            tape.inputs.append(sequence)
            tape.made.append(made)
            tape.init.append(begun)
        read = outputs[0] if ways == 1 else np.concatenate(outputs, 2)
    last = [np.stack([made[1 + i] for made in tape.made]) for i in range(len(init))]
    return LayersForward(read.swapaxes(0, 1) if first else read, last[0], last[1] if cell.has_cell_state else None,
                         None if only else tape)


def _said(cell: Cell, weights: LayerWeights) -> dict[str, Any]:
    """The keywords that a layer's weights say."""
    how = {"cell_order": weights.cell_order} if cell.front and weights.cell_order is not None else {}
    how |= {"reset_after": True} if weights.reset_after else {}
    return how | ({} if weights.weights_projection is None else {"weights_projection": weights.weights_projection})


def _reversed(x: Array, lengths: Array | None) -> Array:
    """Return sequences with the steps of each row in the other order."""
    if lengths is None:
        return x[::-1]
    steps = np.arange(len(x))[:, None]
    return x[np.where(steps < lengths, lengths - 1 - steps, steps), np.arange(x.shape[1])]


def layers_bwd(grad: Any, tape: Any, *, last_output_grad: Any = None,
               last_cell_state_grad: Any = None) -> LayersBackward:
    """Return the gradients of a stack of layers.

    Parameters
    ----------
    grad : array_like
        With respect to the output, of its shape.
    tape : Tape
        What `lstm`, `gru` or `rnn` returned, without `inference_only`.
    last_output_grad, last_cell_state_grad : array_like [layers * directions, batch, outputs], optional
        With respect to the last states; by default zero.

    Returns
    -------
    input_grad : numpy.ndarray
        Of the shape of `x`.
    init_output_grad, init_cell_state_grad : numpy.ndarray [layers * directions, batch, outputs]
        The latter of an LSTM alone.
    weights : list of list of LayerGradients
        By layer and direction.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or shape.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import popnn
    >>> one = popnn.LayerWeights([[1.0]], [[1.0]])
    >>> made = popnn.rnn(np.ones((3, 1, 1), np.float32), [one], activation="relu", inference_only=False)
    >>> popnn.layers_bwd(np.ones((3, 1, 1), np.float32), made.tape).weights[0][0].weights_output_grad
    array([[4.]], dtype=float32)
    """
    instance("tape", tape, Tape, "the tape of what a stack of layers returns with inference_only=False")
    ways, shape, cell = len(tape.layers[0]), tape.made[-1].output.shape, tape.passes.cell
    wide = (shape[0], shape[1], ways * shape[2])
    given = numbers("grad", grad, (wide[1], wide[0], wide[2]) if tape.batch_first else wide).array
    given = given.swapaxes(0, 1) if tape.batch_first else given
    last = {name: optional(name, value, (len(tape.made), shape[1], "outputs")) for name, value in
            (("last_output_grad", last_output_grad), ("last_cell_state_grad", last_cell_state_grad))}
    if not cell.has_cell_state and last["last_cell_state_grad"] is not None:
        raise bad_argument("last_cell_state_grad", "an array", f"None: a {cell} has no cell state")
    states: list[Sequence[Any]] = [()] * len(tape.made)
    weights: list[list[LayerGradients]] = []
    for number in reversed(range(len(tape.layers))):
        total: Any = None
        found = []
        for way in range(ways):
            which = number * ways + way
            outputs = tape.made[which].output.shape[2]
            own = given[:, :, way * outputs : (way + 1) * outputs]
            own = _reversed(own, tape.lengths) if way else own
            ends = {name: x.array[which] for name, x in last.items() if x is not None}
            back, update = _of_layer(tape, which, tape.layers[number][way], own, ends)
            states[which] = back[1 : 1 + len(cell.states)]
            found.append(update)
            of_inputs = _reversed(back[0], tape.lengths) if way else back[0]
            total = of_inputs if total is None else total + of_inputs
        weights.insert(0, found)
        given = total
    init = [np.stack([s[i] for s in states]) for i in range(len(cell.states))]
    return LayersBackward(given.swapaxes(0, 1) if tape.batch_first else given, init[0],
                          init[1] if cell.has_cell_state else None, weights)


def _of_layer(tape: Tape, which: int, layer: LayerWeights, grad: Array, ends: dict[str, Any]) -> Any:
    """Return the gradients of a layer in one direction, and of its weights."""
    passes, cell, made, x = tape.passes, tape.passes.cell, tape.made[which], tape.inputs[which]
    said = _said(cell, layer)
    back = passes.backward(grad, x, *layer[:3], **tape.init[which], **ends, **tape.how, **said,
                           **{name: getattr(made, name) for name in cell.reads})
    begun = {name: tape.init[which][name] for name in ("init_output",) if name in tape.init[which]}
    more = {"intermediates": made.intermediates} if cell.resets else {}
    both = "out_dtype", "available_memory_proportion", "strict_memory"
    form: dict[str, Any] = {name: tape.how[name] for name in both if name in tape.how}
    form |= {name: getattr(layer, name) for name in ("weights_input", "weights_output")
             if isinstance(getattr(layer, name), BlockSparseMatrix)}
    projected = (back.weights_projection_grad,) if said.pop("weights_projection", None) is not None else ()
    update = passes.update(getattr(back, cell.grads_name), x, made.output, **begun, **more, **said, **form)
    return back, LayerGradients(*update, *projected)
