"""Recurrent layers: forms that must agree, states carried over, what is refused."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from poplibs_py import popnn, testing
from poplibs_py.config import LEVELS
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.kernels import kernels
from poplibs_py.popnn.recurrent import reference
from poplibs_py.testing import assert_same_bits


def numbers(*shape, seed=0, size=0.5):
    return (np.random.default_rng(seed).standard_normal(shape) * size).astype(np.float32)


def layer(gates, steps=5, batch=3, inputs=4, outputs=300):
    """Operands whose rows are longer than a kernel's chunk."""
    front = (gates,) if gates > 1 else ()
    weights = (numbers(*front, rows, outputs, seed=rows, size=rows**-0.5) for rows in (inputs, outputs))
    return numbers(steps, batch, inputs), *weights, numbers(*front, outputs, seed=5)


FACES = {"lstm": (popnn.lstm_fwd, 4), "gru": (popnn.gru_fwd, 3), "rnn": (popnn.rnn_fwd, 1)}


@pytest.mark.parametrize("cell", FACES)
def test_long_rows_are_within_their_bounds(cell):
    testing.check(f"popnn.{cell}_fwd", *layer(FACES[cell][1]))


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_states_that_may_pass_every_number_have_a_bound(cell):
    gates = {"lstm": (4,), "gru": (3,), "rnn": ()}[cell]
    x, w = np.ones((12, 1, 1), np.float16), np.full((*gates, 1, 1), 9e3, np.float16)
    testing.check(f"popnn.{cell}_fwd", x, w, w, activation="relu")


@pytest.mark.parametrize("cell", FACES)
def test_states_carried_over_give_the_rest_of_a_sequence(cell):
    face, gates = FACES[cell]
    x, *weights = layer(gates, outputs=7)
    whole = face(x, *weights)
    first = face(x[:2], *weights)
    init = {"init_output": first.last_output} | ({"init_cell_state": first.last_cell_state} if cell == "lstm" else {})
    assert_same_bits(face(x[2:], *weights, **init).output, whole.output[2:])


@pytest.mark.parametrize("cell", FACES)
def test_rows_of_a_batch_end_where_their_lengths_say(cell):
    face, gates = FACES[cell]
    x, *weights = layer(gates, outputs=7)
    made = face(x, *weights, time_steps=[5, 0, 2])
    for row, length in enumerate((5, 0, 2)):
        alone = face(x[:length], *weights)
        assert not made.output[length:, row].any()
        np.testing.assert_allclose(made.output[:length, row], alone.output[:, row], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(made.last_output[row], alone.last_output[row], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_weights_as_torch_has_them_give_the_same_bits(cell):
    face, gates = FACES[cell]
    x, w, u, b = layer(gates, outputs=7)
    turned = [np.ascontiguousarray(v.transpose(0, 2, 1)).transpose(0, 2, 1) for v in (w, u)]
    assert_same_bits(face(x, *turned, b).output, face(x, w, u, b).output)


@pytest.mark.parametrize("after", [False, True])
def test_no_attention_is_attention_of_zero(after):
    x, w, u, b = layer(3, outputs=7)
    b = np.stack([b, b[::-1]], 1) if after else b
    plain = popnn.gru_fwd(x, w, u, b, reset_after=after)
    scored = popnn.gru_fwd(x, w, u, b, reset_after=after, attention=np.zeros((3, 5), np.float32))
    assert_same_bits(scored.output, plain.output)
    full = popnn.gru_fwd(x, w, u, b, reset_after=after, attention=np.ones((3, 5), np.float32))
    assert_same_bits(full.output, full.intermediates[:, :, 2])  # nothing is left of the old state


def test_every_level_has_the_kernels():
    names = {(k.level, k.op) for k in kernels("cells")}
    ops = {op for _, op in names}
    assert names == {(level, op) for level in {level for level, _ in names} for op in ops}
    assert {level for level, _ in names} <= set(LEVELS)
    assert all(k.consistent for k in kernels("cells"))


def test_the_reference_is_the_centre_of_the_bound():
    x, w, u, b = (v.astype(np.float64) for v in layer(4, outputs=6))
    h = np.zeros((3, 6))
    due, _ = reference.lstm(x, w, u, b[:, None], h, h, np.array([5, 2, 0]), "tanh", "sigmoid")
    ball = testing.bound("popnn.lstm_fwd", *(v.astype(np.float32) for v in (x, w, u, b)), time_steps=[5, 2, 0])
    np.testing.assert_allclose(ball[0].centre, due, atol=1e-12)


@pytest.mark.parametrize(("wrong", "error", "said"), [
    ({"time_steps": [1, 2]}, InvalidArgumentError, "time_steps: got shape"),
    ({"time_steps": [1, 2, 6]}, InvalidArgumentError, "time_steps: got"),
    ({"time_steps": 1.5}, InvalidTypeError, "time_steps: got"),
    ({"cell_order": ("forget", "input")}, InvalidArgumentError, "cell_order: got"),
    ({"cell_order": "forget"}, InvalidTypeError, "cell_order: got"),
    ({"activation": "gelu"}, InvalidArgumentError, "activation: got"),
    ({"init_output": np.zeros((3, 6), np.float32)}, InvalidArgumentError, "init_output: got shape"),
    ({"recomputation_mode": "some"}, InvalidArgumentError, "recomputation_mode: got"),
    ({"out_dtype": "f143"}, InvalidArgumentError, "out_dtype: got"),
    ({"out": (1, 2)}, InvalidArgumentError, "out: got"),
])
def test_bad_input_is_named(wrong, error, said):
    with pytest.raises(error, match=said):
        popnn.lstm_fwd(*layer(4, outputs=7), **wrong)


def test_lengths_are_looked_at_in_every_call():
    operands, lengths = layer(4, outputs=7), np.array([1, 2, 5])
    for _ in range(3):
        popnn.lstm_fwd(*operands, time_steps=lengths)
    lengths[0] = 6
    with pytest.raises(InvalidArgumentError, match="time_steps: got"):
        popnn.lstm_fwd(*operands, time_steps=lengths)


STEP = 1e-100  # of a complex step: the derivative is exact to rounding


def doubles(*values):
    """What a reference computes with."""
    return [value.astype(np.float64) for value in values]


def derivative(loss, values):
    """The derivative of a real function with respect to each of some values."""
    made = np.empty(values.shape)
    for index in np.ndindex(values.shape):
        moved = values.astype(complex)
        moved[index] += STEP * 1j
        made[index] = loss(moved).imag / STEP
    return made


@pytest.mark.parametrize("lengths", [[3, 3], [1, 3], [0, 2]])
@pytest.mark.parametrize("activations", [("tanh", "sigmoid"), ("relu", "hard_sigmoid"), ("sigmoid", "tanh")])
def test_gradients_of_an_lstm_are_derivatives_of_its_reference(activations, lengths):
    x, w, u, b = layer(4, steps=3, batch=2, inputs=2, outputs=3)
    h, c, last, last_cell = (numbers(2, 3, seed=seed) for seed in (7, 8, 10, 11))
    grad = numbers(3, 2, 3, seed=9)
    how = dict(zip(("activation", "recurrent_activation"), activations, strict=True))

    exact = dict(zip("xwubhc", doubles(x, w, u, b[:, None], h, c), strict=True))

    def loss(**moved):
        out, states = reference.lstm(*(exact | moved).values(), np.array(lengths), *activations)
        return (out * grad).sum() + (states[0] * last).sum() + (states[1] * last_cell).sum()

    balls = testing.bound("popnn.lstm_bwd", grad, x, w, u, b, init_output=h, init_cell_state=c, last_output_grad=last,
                          last_cell_state_grad=last_cell, time_steps=lengths, **how)
    for ball, name in zip(balls, "xhc", strict=False):
        due = derivative(lambda v, name=name: loss(**{name: v}), exact[name])
        np.testing.assert_allclose(ball.centre, due, atol=1e-13)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("scores", [None, 0.4, 1.0])
def test_gradients_of_a_gru_are_derivatives_of_its_reference(after, scores):
    x, w, u, b = layer(3, steps=3, batch=2, inputs=2, outputs=3)
    b = np.stack([b, b[::-1]], 1) if after else b
    both = b if after else np.stack([b, np.zeros_like(b)], 1)
    h, grad = numbers(2, 3, seed=7), numbers(3, 2, 3, seed=9)
    given = np.zeros((2, 3), np.float32) if scores is None else np.full((2, 3), scores, np.float32)

    exact = dict(zip("xwubha", doubles(x, w, u, both, h, given), strict=True))

    def loss(**moved):
        *operands, a = (exact | moved).values()
        return (reference.gru(*operands, np.array([3, 2]), "tanh", "sigmoid", a, after)[0] * grad).sum()

    how = {} if scores is None else {"attention": given}
    balls = testing.bound("popnn.gru_bwd", grad, x, w, u, b, init_output=h, time_steps=[3, 2], reset_after=after, **how)
    for ball, name in zip(balls, "xh" if scores is None else "xha", strict=False):
        due = derivative(lambda v, name=name: loss(**{name: v}), exact[name])
        np.testing.assert_allclose(ball.centre, due, atol=1e-13)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "relu"])
def test_gradients_of_a_vanilla_rnn_are_derivatives_of_its_reference(activation):
    x, w, u, b = layer(1, steps=3, batch=2, inputs=2, outputs=3)
    h, grad = numbers(2, 3, seed=7), numbers(3, 2, 3, seed=9)

    exact = dict(zip("xwubh", doubles(x, w, u, b, h), strict=True))

    def loss(**moved):
        return (reference.rnn(*(exact | moved).values(), np.array([3, 1]), activation)[0] * grad).sum()

    balls = testing.bound("popnn.rnn_bwd", grad, x, w, u, b, init_output=h, time_steps=[3, 1], activation=activation)
    for ball, name in zip(balls, "xh", strict=False):
        due = derivative(lambda v, name=name: loss(**{name: v}), exact[name])
        np.testing.assert_allclose(ball.centre, due, atol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("full", [True, False])
def test_every_mode_of_recomputation_gives_the_same_bits(full, dtype):
    x, w, u, b = layer(4, outputs=20)
    how = {"init_cell_state": numbers(3, 20, seed=6), "time_steps": [5, 2, 3], "output_full_sequence": full,
           "out_dtype": dtype}
    grad = numbers(*((5,) if full else ()), 3, 20, seed=9)
    made = []
    for mode in ("none", "cell_and_tanh", "full"):
        saved = popnn.lstm_fwd(x, w, u, b, recomputation_mode=mode, **how).intermediates
        assert saved.shape[2] == {"none": 6, "cell_and_tanh": 4, "full": 0}[mode] + (mode != "full" and not full)
        made.append(popnn.lstm_bwd(grad, x, w, u, b, intermediates=saved, **how))
    for other in made[1:]:
        for part, due in zip(other, made[0], strict=True):
            assert_same_bits(part, due)


@pytest.mark.parametrize("after", [False, True])
def test_what_a_gru_saved_gives_the_gradients_of_a_pass_run_again(after):
    x, w, u, b = layer(3, outputs=20)
    how = {"reset_after": after, "attention": abs(numbers(3, 5))}
    b = np.stack([b, b], 1) if after else b
    made = popnn.gru_fwd(x, w, u, b, **how)
    last = popnn.gru_fwd(x, w, u, b, output_full_sequence=False, **how)
    grad = numbers(5, 3, 20, seed=9)
    again = popnn.gru_bwd(grad, x, w, u, b, **how)
    kept = popnn.gru_bwd(grad, x, w, u, b, intermediates=made.intermediates, output=made.output, **how)
    for part, due in zip(kept, again, strict=True):
        assert_same_bits(part, due)
    assert_same_bits(last.intermediates[:, :, -1], made.output)
    of_last = popnn.gru_bwd(grad[0], x, w, u, b, intermediates=last.intermediates, output_full_sequence=False, **how)
    due = popnn.gru_bwd(np.zeros_like(grad), x, w, u, b, last_output_grad=grad[0], **how)
    assert_same_bits(of_last.input_grad, due.input_grad)


def test_intermediates_of_another_number_of_planes_are_refused():
    x, w, u, b = layer(4, outputs=7)
    grad, saved = numbers(5, 3, 7), numbers(5, 3, 5, 7)
    with pytest.raises(InvalidArgumentError, match="intermediates: got 5 planes; allowed: 6 or 4, or none"):
        popnn.lstm_bwd(grad, x, w, u, b, intermediates=saved)
    with pytest.raises(InvalidArgumentError, match="intermediates: got dtype float16; allowed: float32, the states'"):
        popnn.lstm_bwd(grad, x, w, u, b, intermediates=saved.astype(np.float16))
    with pytest.raises(InvalidArgumentError, match="intermediates: got None; allowed: what gru_fwd saved"):
        popnn.gru_wu(saved[:, :, :3], x, grad)


_BITS = """
import hashlib, sys
import numpy as np
from poplibs_py import popnn
rng, found = np.random.default_rng(0), hashlib.sha256()
for gates, cell in ((4, "lstm"), (3, "gru"), (1, "rnn")):
    for dtype in ("float32", "float16", "bfloat16"):
        shape = (gates,) if gates > 1 else ()
        x, grad = (rng.integers(-8, 8, (1, 3, n)).astype(np.float32) / 8 for n in (4, 277))
        w, u, b = (rng.integers(-8, 8, (*shape, *n, 277)).astype(np.float32) / 8 for n in ((4,), (277,), ()))
        made = getattr(popnn, cell + "_fwd")(x, w, u, b, out_dtype=dtype)
        back = getattr(popnn, cell + "_bwd")(grad, x, w, u, b, calc_input_gradients=False, out_dtype=dtype)
        parts = [*made, back[-1]]
        if cell == "lstm":  # projected to some of what the cell gives
            how = {"weights_projection": np.eye(277, 19, dtype=np.float32), "out_dtype": dtype}
            parts += popnn.lstm_fwd(x, w, u[:, :19], b, **how)
            parts += popnn.lstm_bwd(grad[:, :, :19], x, w, u[:, :19], b, calc_input_gradients=False, **how)[3:]
        for part in parts:
            found.update(part.tobytes())
print(found.hexdigest())
"""


def test_kernels_of_every_level_give_the_same_bits():
    """One step from nothing, whose products are exact in any order."""
    levels = dict.fromkeys(k.level for k in kernels("cells"))
    made = {level: subprocess.run([sys.executable, "-c", _BITS], env=os.environ | {"POPLIBS_MAX_ISA": level}, text=True,
                                  capture_output=True, check=True).stdout for level in levels}
    assert len(set(made.values())) == 1, made


def test_layers_without_outputs_give_inputs_no_gradient():
    x, w, u = np.ones((3, 2, 4), np.float32), np.ones((4, 4, 0), np.float32), np.ones((4, 0, 0), np.float32)
    made = popnn.lstm_fwd(x, w, u)
    for _ in range(3):
        np.full(24, np.nan, np.float32)  # what a new result may lie in
        got = popnn.lstm_bwd(np.ones_like(made.output), x, w, u, intermediates=made.intermediates)
        np.testing.assert_array_equal(got.input_grad, np.zeros_like(x))
