"""Recurrent layers on modelled machines: PopNN's operations and products in the plan, this CPU's numbers."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from poplibs_py import popnn, profile
from poplibs_py.poplin.product.modelled import plan_modelled
from poplibs_py.poplin.products_modelled import product_steps
from poplibs_py.target import Target

STEPS, BATCH, INPUTS, OUTPUTS = 5, 4, 16, 32
GC200 = Target.gc200()
GATES = {"lstm": (4,), "gru": (3,), "rnn": ()}


def numbers(*shape, seed=4):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float16)


def layer(cell, **more):
    gates = GATES[cell]
    biases = (*gates, *((2,) if more.get("reset_after") else ()), OUTPUTS)
    weights = numbers(*gates, INPUTS, OUTPUTS), numbers(*gates, OUTPUTS, OUTPUTS), numbers(*biases)
    x, grad = numbers(STEPS, BATCH, INPUTS), numbers(STEPS, BATCH, OUTPUTS)
    forward, back, update = (getattr(popnn, f"{cell}_{kind}") for kind in ("fwd", "bwd", "wu"))
    made = forward(x, *weights, **more)
    saved = {} if cell == "rnn" else {"intermediates": made.intermediates}
    full = made.output
    given = {"output": full} if cell != "lstm" else {}
    grads = back(grad, x, *weights, **saved, **given, **more)
    last = grads[-1]
    of_reset = {"intermediates": made.intermediates} if cell == "gru" and not more.get("reset_after") else {}
    updated = update(last, x, full, **of_reset, **more)
    return [*made, *grads, *updated]


@pytest.mark.parametrize(("cell", "more"), [("lstm", {}), ("gru", {}), ("gru", {"reset_after": True}), ("rnn", {})])
def test_a_layer_runs_by_poplibs_composition_with_the_numbers_of_this_cpu(cell, more):
    due = layer(cell, **more)
    with profile(target="gc200") as report:
        made = layer(cell, **more)
    for got, expected in zip(made, due, strict=True):
        assert got.tobytes() == expected.tobytes()
    forward, backward, update = report.runs
    assert {run.lacking for run in report.runs} == {""}
    for run in report.runs:
        assert run.plan.cycles == sum(run.plan.phases.values()) > 0
        assert run.exchanged_bytes == run.plan.exchanged_bytes > 0
        assert "product" in run.plan.phases
    assert f"{STEPS}, on 1 shards" in str(forward.plan)
    if cell == "lstm":
        shapes = (BATCH, INPUTS + OUTPUTS), (INPUTS + OUTPUTS, 4 * OUTPUTS)
        plan = plan_modelled(*shapes, dtype="half", target="gc200", options={"fullyConnectedPass": "TRAINING_FWD"})
        steps = product_steps(GC200, "half", *shapes, fully_connected_pass="TRAINING_FWD").steps
        assert plan.cycles == sum(step.times * (step.exchange_cycles(GC200) + step.compute_cycles) for step in steps)
        assert forward.plan.phases["product"] == STEPS * sum(step.times * step.compute_cycles for step in steps)
        assert backward.plan.phases["product"] > 0 < update.plan.phases["accumulate"]


@pytest.mark.parametrize("proportion", [None, 0.05])
def test_a_projection_is_a_product_more_of_each_step(proportion):
    narrow, gates = OUTPUTS // 2, 4 * OUTPUTS
    x, weights = numbers(STEPS, BATCH, INPUTS), (numbers(4, INPUTS, OUTPUTS), numbers(4, narrow, OUTPUTS))
    how = {"weights_projection": numbers(OUTPUTS, narrow), "available_memory_proportion": proportion}
    due = popnn.lstm_fwd(x, *weights, weights_projection=how["weights_projection"])
    with profile(target="gc200") as report:
        made = popnn.lstm_fwd(x, *weights, **how)
        popnn.lstm_bwd(made.output, x, *weights, intermediates=made.intermediates, **how)
    assert made.output.tobytes() == due.output.tobytes()
    forward, backward = (run.plan.phases["product"] for run in report.runs)

    def cycles(phase, *shapes):
        limit = {"fully_connected_pass": phase, "proportion": proportion}
        steps = product_steps(GC200, "half", *shapes, **limit).steps
        return STEPS * sum(step.times * step.compute_cycles for step in steps)

    assert forward == (cycles("TRAINING_FWD", (BATCH, INPUTS + narrow), (INPUTS + narrow, gates))
                       + cycles("TRAINING_FWD", (BATCH, OUTPUTS), (OUTPUTS, narrow)))
    assert backward == (cycles("TRAINING_BWD", (BATCH, gates), (gates, INPUTS + narrow))
                        + cycles("TRAINING_BWD", (BATCH, narrow), (narrow, OUTPUTS))
                        + cycles("TRAINING_WU", (OUTPUTS, BATCH), (BATCH, narrow)))


@pytest.mark.parametrize(("how", "lacking"), [({"recurrent_activation": "hard_sigmoid"}, "with a hard sigmoid"),
                                              ({"out_dtype": "float32"}, "of float16 and float32")])
def test_what_has_no_vertex_is_refused_or_runs_here(how, lacking, refused_or_here):
    operands = numbers(2, 3, 4), numbers(4, 4, 8), numbers(4, 8, 8)
    refused_or_here(partial(popnn.lstm_fwd, *operands, **how), lacking)
