"""Recurrent layers of PopLibs' host models: their results in FP32 and FP16, within the ops' bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from poplibs_py import testing
from poplibs_py.formats import FP16, FP32, Format
from poplibs_py.formats.bounds import Ball
from poplibs_py.testing import as_format, assert_within_bound

from .families import Arrays


def operands(case: Arrays, fmt: Format, *names: str) -> list[Any]:
    """The case's arrays in a format."""
    return [as_format(case[name], fmt) for name in names]


def given(case: Arrays, fmt: Format, *names: str) -> dict[str, Any]:
    """Those of the case's arrays that it has, by name."""
    there = [name for name in names if name in case.spec["inputs"]]
    return dict(zip(there, operands(case, fmt, *there), strict=True))


def layer(case: Arrays) -> dict[str, Any]:
    """The params of a case as keywords."""
    p = case.params
    how = {"cell_order": tuple(p["cellOrder"]), "activation": p["activation"].lower(),
           "recurrent_activation": p["recurrentActivation"].lower(), "output_full_sequence": p["outputFullSequence"]}
    if "resetAfter" in p:
        how["reset_after"] = p["resetAfter"]
    if "time_steps" in case.spec["inputs"]:
        how["time_steps"] = case["time_steps"].astype(np.int32)
    return how


def agree(op: str, due: list[Any], *call: Any, **how: Any) -> Any:
    """Fail unless each result that is golden is within the op's bound; return the results."""
    balls, got = testing.bound(op, *call, **how), testing.check(op, *call, **how)
    for number, golden in enumerate(due):
        if golden is not None:
            assert_within_bound(got[number], Ball(golden, balls[number].radius))
    return got


def lstm(case: Arrays) -> None:
    """Outputs, states and gates."""
    state, full = case["fwd_state"], case.params["outputFullSequence"]
    planes = np.moveaxis(state[[2, 4, 3, 5]], 0, 2)  # forget, input, candidate, output
    for fmt in (FP32, FP16):
        call = operands(case, fmt, "x", "weights_input", "weights_output", "biases")
        how = layer(case) | given(case, fmt, "init_output", "init_cell_state")
        due = [state[0] if full else case["last_output"], case["last_output"], case["last_cell_state"]]
        got = agree("lstm_fwd", due, *call, **how)
        ball = testing.bound("lstm_fwd", *call, **how)[3]
        assert_within_bound(got.intermediates[:, :, :4], Ball(planes, ball.radius[:, :, :4]))


def gru(case: Arrays) -> None:
    """Outputs, states and gates of a GRU or an AUGRU."""
    state, full = case["fwd_state"], case.params["outputFullSequence"]
    for fmt in (FP32, FP16):
        x, w, u, b = operands(case, fmt, "x", "weights_input", "weights_output", "biases")
        if case.params["resetAfter"]:
            b = np.stack([b, *operands(case, fmt, "recurrent_biases")], 1)
        how = layer(case) | given(case, fmt, "init_output", "attention")
        got = agree("gru_fwd", [state[3] if full else case["last_output"], case["last_output"]], x, w, u, b, **how)
        ball = testing.bound("gru_fwd", x, w, u, b, **how)[2]
        for plane in (0, 2) if "attention" in how else (0, 1, 2):
            assert_within_bound(got.intermediates[:, :, plane], Ball(state[plane], ball.radius[:, :, plane]))


def rnn(case: Arrays) -> None:
    """Outputs of a vanilla RNN."""
    names = "x", "weights_feed_forward", "weights_feedback", "biases"
    for fmt in (FP32, FP16):
        how = given(case, fmt, "init_output") | {"activation": case.params["nonLinearity"].lower()}
        agree("rnn_fwd", [case["out"]], *operands(case, fmt, *names), **how)
