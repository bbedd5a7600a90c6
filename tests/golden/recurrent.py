"""Recurrent layers of PopLibs' host models: their results in FP32 and FP16, within the ops' bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from poplibs_py import popnn, testing
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


def agree(op: str, due: list[Any], *call: Any, **how: Any) -> tuple[Any, Any]:
    """Fail unless each result that is golden is within the op's bound; return the last result and its bound."""
    balls, got = testing.bound(op, *call, **how), getattr(popnn, op)(*call, **how)
    for number, golden in enumerate(due):
        if golden is not None:
            assert_within_bound(got[number], Ball(golden, balls[number].radius))
    return got[-1], balls[-1]


def agree_updates(op: str, due: list[Any], *operands: Any, **how: Any) -> None:
    """For a weight update, whose golden operands are rounded first: what that moves is among what is allowed."""
    for fmt in (FP32, FP16):
        rounded = [as_format(x, fmt) for x in operands]
        keywords = {name: as_format(x, fmt) if name == "init_output" else x for name, x in how.items()}
        got, balls = getattr(popnn, op)(*rounded, **keywords), testing.bound(op, *rounded, **keywords)
        keywords["init_output"] = abs(keywords["init_output"])
        sizes = testing.bound(op, *map(abs, rounded), **keywords)  # sums of magnitudes; three operands meet in one
        largest = max(abs(x).max(initial=1) for x in operands) ** 2
        count = 3 * operands[0].shape[0] * operands[0].shape[1]
        for part, ball, size, golden in zip(got, balls, sizes, due, strict=True):
            moved = 3.01 * fmt.unit_roundoff * size.centre + count * fmt.smallest_subnormal * largest
            assert_within_bound(part, Ball(golden, ball.radius + moved))


def output_grad(case: Arrays, fmt: Format) -> Any:
    """The gradient of a case's outputs, or of the last ones."""
    [grad] = operands(case, fmt, "out_grad")
    return grad if case.params["outputFullSequence"] else grad[0]


def lstm(case: Arrays) -> None:
    """Outputs, states and gates, and all gradients; PopLibs' of hard sigmoids."""
    state, full = case["fwd_state"], case.params["outputFullSequence"]
    planes = np.moveaxis(state[[2, 4, 3, 5]], 0, 2)  # forget, input, candidate, output
    grads = np.moveaxis(case["gate_grads"], 0, 2)
    for fmt in (FP32, FP16):
        call = operands(case, fmt, "x", "weights_input", "weights_output", "biases")
        how = layer(case) | given(case, fmt, "init_output", "init_cell_state")
        due = [state[0] if full else case["last_output"], case["last_output"], case["last_cell_state"]]
        saved, ball = agree("lstm_fwd", due, *call, **how)
        assert_within_bound(saved[:, :, :4], Ball(planes, ball.radius[:, :, :4]))
        how |= given(case, fmt, "last_output_grad", "last_cell_state_grad") | {"poplibs_exact": True}
        due = [case[name] for name in ("in_grad", "init_output_grad", "init_cell_state_grad")]
        agree("lstm_bwd", [*due, grads], output_grad(case, fmt), *call, **how)
    due = [case[name] for name in ("weights_input_grad", "weights_output_grad", "biases_grad")]
    agree_updates("lstm_wu", due, grads, case["x"], state[0], init_output=case["init_output"],
                  cell_order=tuple(case.params["cellOrder"]))


def gru(case: Arrays) -> None:
    """Outputs, states, gates and gradients of a GRU or an AUGRU."""
    state, full, after = case["fwd_state"], case.params["outputFullSequence"], case.params["resetAfter"]
    reset, update, candidate = case["gate_grads"]
    for fmt in (FP32, FP16):
        x, w, u, b = operands(case, fmt, "x", "weights_input", "weights_output", "biases")
        b = np.stack([b, *operands(case, fmt, "recurrent_biases")], 1) if after else b
        how = layer(case) | given(case, fmt, "init_output", "attention")
        due = [state[3] if full else case["last_output"], case["last_output"]]
        saved, ball = agree("gru_fwd", due, x, w, u, b, **how)
        for plane in (0, 2) if "attention" in how else (0, 1, 2):
            assert_within_bound(saved[:, :, plane], Ball(state[plane], ball.radius[:, :, plane]))
        how |= {"poplibs_exact": True}
        due = [case["in_grad"], case["init_output_grad"], *([case["attention_grad"]] if "attention" in how else [])]
        made, ball = agree("gru_bwd", due, output_grad(case, fmt), x, w, u, b, **how)
        for plane, golden in enumerate((candidate, reset, update)):
            assert_within_bound(made[:, :, plane], Ball(golden, ball.radius[:, :, plane]))
    due = [case[name] for name in ("weights_input_grad", "weights_output_grad", "biases_grad")]
    grads, more = [candidate, reset, update], [np.moveaxis(state[:3], 0, 2)]
    if after:
        due[2], grads, more = np.stack([due[2], case["recurrent_biases_grad"]], 1), [*grads, candidate * state[0]], []
    agree_updates("gru_wu", due, np.stack(grads, 2), case["x"], state[3], *more, init_output=case["init_output"],
                  cell_order=tuple(case.params["cellOrder"]), reset_after=after)


def rnn(case: Arrays) -> None:
    """Outputs and gradients of a vanilla RNN."""
    names = "x", "weights_feed_forward", "weights_feedback", "biases"
    for fmt in (FP32, FP16):
        how = given(case, fmt, "init_output") | {"activation": case.params["nonLinearity"].lower()}
        agree("rnn_fwd", [case["out"]], *operands(case, fmt, *names), **how)
        due = [case["in_grad"], None, case["step_grad"]]
        agree("rnn_bwd", due, *operands(case, fmt, "out_grad", *names), **how)
    due = [case[name] for name in ("weights_feed_forward_grad", "weights_feedback_grad", "biases_grad")]
    agree_updates("rnn_wu", due, case["step_grad"], case["x"], case["out"], init_output=case["init_output"])
