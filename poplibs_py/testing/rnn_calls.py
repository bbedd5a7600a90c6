"""Hypothesis strategies for whole calls of recurrent layers: short sequences, all forms."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..formats import F143, F152, Format, QuarterArray
from ..ops import WIDE, operand
from ..popnn.recurrent.params import state_format
from ..popsparse import BlockSparseMatrix
from .data import as_format
from .strategies import Call, layouts, options, relaid, sampled

_DTYPES = [f.name for f in WIDE]
_ACTIVATIONS = ["tanh", "sigmoid", "relu", "hard_sigmoid"]
_GRU_ORDERS = [("candidate", "update", "reset"), ("UPDATE_GATE", "RESET_GATE", "CANDIDATE")]
_ORDERS = [("output", "candidate", "input", "forget"), ("INPUT_GATE", "FORGET_GATE", "CANDIDATE", "OUTPUT_GATE")]


class _Layer:
    """Operands of a layer, drawn one by one."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.steps, self.batch = draw(sampled(3, 2, 1, 0)), draw(sampled(1, 2, 5, 0))
        self.inputs, self.outputs = (draw(sampled(1, 2, 3, 16, 17, 5)) for _ in range(2))
        self.format: Format = draw(sampled(*WIDE))
        self.rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def numbers(self, *shape: int, size: float = 1.0) -> Any:
        """Numbers of one of the formats, most of them the layer's."""
        fmt = self.format if self.draw(st.integers(0, 3)) else self.draw(sampled(*WIDE))
        return relaid(as_format(self.rng.standard_normal(shape) * size, fmt), self.draw(layouts()))

    def weights(self, gates: int, states: int = 0) -> tuple[Any, Any]:
        """Both weights, perhaps as torch has them, perhaps 8-bit numbers."""
        depths = self.inputs, states or self.outputs
        made = [self.numbers(gates, rows, self.outputs, size=rows**-0.5) for rows in depths]
        if self.draw(st.booleans()):
            made = [np.ascontiguousarray(w.transpose(0, 2, 1)).transpose(0, 2, 1) for w in made]
        if gates > 1 and not self.draw(st.integers(0, 4)):
            fmt, scale = self.draw(st.sampled_from([F143, F152])), self.draw(sampled(0, -3))
            made = [QuarterArray.from_array(w.astype(np.float32), fmt, scale) for w in made]
        elif gates > 1 and not self.draw(st.integers(0, 4)):
            made = [self.matrix(w) if self.draw(st.integers(0, 2)) else w for w in made]
        return made[0], made[1]

    def matrix(self, dense: Any) -> BlockSparseMatrix:
        """Some blocks of weights, stored as they are or as their transpose."""
        turned, wide = self.draw(st.booleans()), self.draw(st.sampled_from([n for n in (1, 4, 16) if not
                                                                          self.outputs % n]))
        block, mask = (self.draw(sampled(1, 2, 8)), wide), self.rng.random(dense.shape) < 0.2
        made = [np.asarray(x).swapaxes(1, 2) if turned else x for x in (dense, mask)]
        matrix = BlockSparseMatrix.from_dense(np.ascontiguousarray(made[0]), block[::-1] if turned else block,
                                              mask=made[1])
        return matrix.T if turned else matrix

    def projection(self, keywords: dict[str, Any]) -> dict[str, Any]:
        """The weights of a projection, and a state that is as wide as it is."""
        wide = self.draw(st.integers(1, self.outputs))
        more = {"init_output": self.numbers(self.batch, wide)} if "init_output" in keywords else {}
        return {"weights_projection": self.numbers(self.outputs, wide, size=self.outputs**-0.5), **more}

    def limits(self) -> Any:
        """Steps of the rows, for all of them or for each."""
        kind = self.draw(st.integers(0, 3))
        if kind == 0:
            return {}
        shape = {1: (), 2: (1,), 3: (self.batch,)}[kind]
        return {"time_steps": self.rng.integers(0, self.steps + 1, shape, np.int32)}

    def scores(self) -> Any:
        """Scores of attention, some of them one."""
        scores = self.rng.random((self.batch, self.steps)) * (1 + self.rng.random())
        return as_format(np.minimum(scores, 1), self.format)

    def states(self, *names: str) -> dict[str, Any]:
        """Some of the states before the first step."""
        return {name: self.numbers(self.batch, self.outputs) for name in names if self.draw(st.booleans())}


@st.composite
def lstm_fwd_calls(draw: st.DrawFn) -> Call:
    """Calls of `lstm_fwd`."""
    layer = _Layer(draw)
    w, u = layer.weights(4)
    biases = layer.numbers(4, layer.outputs) if draw(st.booleans()) else None
    keywords = draw(options({"cell_order": _ORDERS, "activation": _ACTIVATIONS, "recurrent_activation": _ACTIVATIONS,
                             "output_full_sequence": [False], "inference_only": [True], "out_dtype": _DTYPES,
                             "recomputation_mode": ["cell_and_tanh", "full"]}))
    keywords |= layer.states("init_output", "init_cell_state") | layer.limits()
    if not draw(st.integers(0, 3)):
        keywords |= layer.projection(keywords)
        u = layer.weights(4, keywords["weights_projection"].shape[1])[1]
    x = layer.numbers(layer.steps, layer.batch, layer.inputs)
    if not draw(st.integers(0, 4)):
        x, w, keywords["do_input_weight_calc"] = layer.numbers(layer.steps, layer.batch, 4, layer.outputs), None, False
    return (x, w, u, biases), keywords


@st.composite
def gru_fwd_calls(draw: st.DrawFn) -> Call:
    """Calls of `gru_fwd`, with attention and without."""
    layer = _Layer(draw)
    (w, u), after = layer.weights(3), draw(st.booleans())
    biases = layer.numbers(3, *((2,) if after else ()), layer.outputs) if draw(st.booleans()) else None
    keywords = draw(options({"cell_order": _GRU_ORDERS, "activation": _ACTIVATIONS,
                             "recurrent_activation": _ACTIVATIONS, "output_full_sequence": [False],
                             "inference_only": [True], "out_dtype": _DTYPES, "recomputation_mode": ["full"]}))
    keywords |= layer.states("init_output") | layer.limits() | ({"reset_after": True} if after else {})
    if draw(st.booleans()):
        keywords["attention"] = layer.scores()
    x = layer.numbers(layer.steps, layer.batch, layer.inputs)
    if not draw(st.integers(0, 4)):
        x, w, keywords["do_input_weight_calc"] = layer.numbers(layer.steps, layer.batch, 3, layer.outputs), None, False
    return (x, w, u, biases), keywords


@st.composite
def rnn_fwd_calls(draw: st.DrawFn) -> Call:
    """Calls of `rnn_fwd`."""
    layer = _Layer(draw)
    w, u = (weights[0] for weights in layer.weights(1))
    biases = layer.numbers(layer.outputs) if draw(st.booleans()) else None
    keywords = draw(options({"activation": _ACTIVATIONS, "out_dtype": _DTYPES}))
    keywords |= layer.states("init_output") | layer.limits()
    return (layer.numbers(layer.steps, layer.batch, layer.inputs), w, u, biases), keywords


@st.composite
def _backward(draw: st.DrawFn, calls: Any, states: tuple[str, ...], outputs: int) -> tuple[Call, Any, Any]:
    """A forward call without what is the forward pass's alone, and perhaps what it would have kept, by planes."""
    (x, w, u, b), keywords = draw(calls)
    if w is None:  # the gradients of inputs are to be multiplied
        shape = (u.groups if isinstance(u, BlockSparseMatrix) else u.shape[0], outputs, u.shape[-1])
        w, x = np.ones(shape, x.dtype), np.ones((*x.shape[:2], outputs), x.dtype)
    keywords = {k: v for k, v in keywords.items() if k not in
                ("inference_only", "recomputation_mode", "do_input_weight_calc")}
    (steps, batch), wide = x.shape[:2], u.shape[-1]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    fmt = draw(sampled(*WIDE))
    full, fed = keywords.get("output_full_sequence", True), u.shape[-2]
    grad = as_format(rng.standard_normal((steps, batch, fed) if full else (batch, fed)), fmt)
    for name in states:
        if draw(st.booleans()):
            keywords[name] = as_format(rng.standard_normal((batch, fed if name == "last_output_grad" else wide)), fmt)
    keywords |= draw(options({"calc_input_gradients": [False], "poplibs_exact": [True]}))
    read = [("x", x), ("w", w), ("u", u), ("r", keywords.get("weights_projection", x))]
    known = (v if isinstance(v, BlockSparseMatrix) else operand(n, v) for n, v in read)
    state = state_format(keywords.get("out_dtype"), *known)

    def kept(*front: int) -> Any:
        return as_format(rng.uniform(-1, 1, (steps, batch, *front, wide)), state)

    return ((grad, x, w, u, b), keywords), kept, full


@st.composite
def lstm_bwd_calls(draw: st.DrawFn) -> Call:
    """Calls of `lstm_bwd`, with what was saved in each mode."""
    made = draw(_backward(lstm_fwd_calls(), ("last_output_grad", "last_cell_state_grad"), 2))
    (operands, keywords), kept, full = made
    planes = draw(sampled(6, 4, None))
    if planes:
        keywords["intermediates"] = kept(planes + (not full))
    return operands, keywords


@st.composite
def gru_bwd_calls(draw: st.DrawFn) -> Call:
    """Calls of `gru_bwd`."""
    (operands, keywords), kept, full = draw(_backward(gru_fwd_calls(), ("last_output_grad",), 2))
    if draw(st.booleans()):
        keywords["intermediates"] = kept(3 + keywords.get("reset_after", False) + (not full))
        keywords["output"] = kept()
    return operands, keywords


@st.composite
def rnn_bwd_calls(draw: st.DrawFn) -> Call:
    """Calls of `rnn_bwd`."""
    (operands, keywords), kept, _ = draw(_backward(rnn_fwd_calls(), ("last_output_grad",), 2))
    if draw(st.booleans()):
        keywords["output"] = kept()
    return operands, keywords


@st.composite
def lstm_wu_calls(draw: st.DrawFn, gates: int = 4, count: int = 0) -> Call:
    """Calls of a weight update: planes of gradients, and gates where there are fewer."""
    layer = _Layer(draw)
    front, fed = (layer.steps, layer.batch), layer.outputs
    grads = layer.numbers(*front, *((gates,) if gates > 1 else ()), layer.outputs)
    if gates == 4 and not count and not draw(st.integers(0, 3)):
        fed = draw(st.integers(1, layer.outputs))  # of a projection
    operands = grads, layer.numbers(*front, layer.inputs), layer.numbers(*front, fed)
    outputs, layer.outputs = layer.outputs, fed
    keywords = layer.states("init_output") | draw(options({"out_dtype": _DTYPES} | (
        {"cell_order": _ORDERS} if gates == 4 else {})))
    layer.outputs = outputs
    for name, rows in (("weights_input", layer.inputs), ("weights_output", fed)):
        if not draw(st.integers(0, 5)):
            keywords[name] = layer.matrix(np.ones((min(gates, count or gates), rows, outputs), np.float32))
    return operands, keywords


@st.composite
def gru_wu_calls(draw: st.DrawFn) -> Call:
    """Calls of `gru_wu`."""
    after = draw(st.booleans())
    operands, keywords = draw(lstm_wu_calls(3 + after, 3))
    keywords.pop("cell_order", None)
    keywords |= draw(options({"cell_order": _GRU_ORDERS}))
    if after:
        return operands, keywords | {"reset_after": True}
    return (*operands, np.tile(operands[0], (1, 1, draw(st.integers(1, 2)), 1))), keywords


def rnn_wu_calls() -> st.SearchStrategy[Call]:
    """Calls of `rnn_wu`."""
    return lstm_wu_calls(1)
