"""Recurrent layers: forms that must agree, states carried over, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from poplibs_py import popnn, testing
from poplibs_py.config import LEVELS
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.kernels import kernels
from poplibs_py.popnn.rnn import reference
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
