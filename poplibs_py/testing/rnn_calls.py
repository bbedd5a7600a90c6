"""Hypothesis strategies for whole calls of recurrent layers: short sequences, all forms."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..formats import BF16, FP16, FP32, Format
from .data import as_format
from .strategies import layouts, options, relaid

__all__ = ["gru_fwd_calls", "lstm_fwd_calls", "rnn_fwd_calls"]

Call = tuple[tuple[Any, ...], dict[str, Any]]

_FORMATS = (FP32, FP16, BF16)
_DTYPES = [f.name for f in _FORMATS]
_ACTIVATIONS = ["tanh", "sigmoid", "relu", "hard_sigmoid"]
_GRU_ORDERS = [("candidate", "update", "reset"), ("UPDATE_GATE", "RESET_GATE", "CANDIDATE")]
_ORDERS = [("output", "candidate", "input", "forget"), ("INPUT_GATE", "FORGET_GATE", "CANDIDATE", "OUTPUT_GATE")]


class _Layer:
    """Operands of a layer, drawn one by one."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.steps, self.batch = draw(st.integers(0, 4)), draw(st.sampled_from([0, 1, 2, 5]))
        self.inputs, self.outputs = (draw(st.sampled_from([1, 2, 3, 16, 17, 5])) for _ in range(2))
        self.format: Format = draw(st.sampled_from(_FORMATS))
        self.rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def numbers(self, *shape: int, size: float = 1.0) -> Any:
        """Numbers of one of the formats, most of them the layer's."""
        fmt = self.format if self.draw(st.integers(0, 3)) else self.draw(st.sampled_from(_FORMATS))
        return relaid(as_format(self.rng.standard_normal(shape) * size, fmt), self.draw(layouts()))

    def weights(self, gates: int) -> tuple[Any, Any]:
        """Both weights, perhaps as torch has them."""
        made = [self.numbers(gates, rows, self.outputs, size=rows**-0.5) for rows in (self.inputs, self.outputs)]
        if self.draw(st.booleans()):
            made = [np.ascontiguousarray(w.transpose(0, 2, 1)).transpose(0, 2, 1) for w in made]
        return made[0], made[1]

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
