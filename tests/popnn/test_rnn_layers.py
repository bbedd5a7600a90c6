"""Stacks of recurrent layers, in both directions, and torch's weights."""

from __future__ import annotations

import numpy as np
import pytest

from poplibs_py import popnn
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.testing import assert_same_bits

GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def numbers(*shape, seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) * 0.5).astype(np.float32)


def state_of(cell, layers=2, ways=2, inputs=4, outputs=6):
    """What a torch module of this kind would hold."""
    rows, state = GATES[cell] * outputs, {}
    for layer in range(layers):
        for way in ("", "_reverse")[:ways]:
            end = f"l{layer}{way}"
            state |= {f"weight_ih_{end}": numbers(rows, inputs if not layer else outputs * ways, seed=len(state)),
                      f"weight_hh_{end}": numbers(rows, outputs, seed=len(state) + 1),
                      f"bias_ih_{end}": numbers(rows, seed=len(state) + 2),
                      f"bias_hh_{end}": numbers(rows, seed=len(state) + 3)}
    return state


def run(cell, x, layers, **how):
    return getattr(popnn, cell)(x, layers, **how)


@pytest.mark.parametrize("cell", GATES)
def test_the_other_direction_is_a_sequence_reversed(cell):
    [(ahead, back)] = popnn.from_torch(state_of(cell, layers=1), cell)
    x, lengths = numbers(5, 3, 4), np.array([5, 2, 0])
    both = run(cell, x, [(ahead, back)], time_steps=lengths)
    turned = x.copy()
    for row, length in enumerate(lengths):
        turned[:length, row] = x[:length, row][::-1]
    made = run(cell, turned, [back], time_steps=lengths)
    for row, length in enumerate(lengths):
        assert_same_bits(both.output[:length, row, 6:], np.ascontiguousarray(made.output[:length, row][::-1]))
    assert_same_bits(both.last_output[1], made.last_output[0])
    assert_same_bits(both.output[:, :, :6], run(cell, x, [ahead], time_steps=lengths).output)


@pytest.mark.parametrize("cell", GATES)
def test_a_stack_is_its_layers_one_after_another(cell):
    stack = popnn.from_torch(state_of(cell, ways=1), cell)
    x, grad = numbers(5, 3, 4), numbers(5, 3, 6, seed=9)
    made = run(cell, x, stack, inference_only=False)
    first = run(cell, x, stack[:1], inference_only=False)
    second = run(cell, first.output, stack[1:], inference_only=False)
    assert_same_bits(made.output, second.output)
    whole, last = popnn.layers_bwd(grad, made.tape), popnn.layers_bwd(grad, second.tape)
    assert_same_bits(whole.input_grad, popnn.layers_bwd(last.input_grad, first.tape).input_grad)
    assert_same_bits(whole.weights[1][0].weights_input_grad, last.weights[0][0].weights_input_grad)


@pytest.mark.parametrize("cell", GATES)
def test_the_batch_may_come_first(cell):
    stack = popnn.from_torch(state_of(cell), cell)
    x, grad = numbers(5, 3, 4), numbers(5, 3, 12, seed=9)
    plain = run(cell, x, stack, inference_only=False)
    turned = run(cell, x.swapaxes(0, 1), stack, batch_first=True, inference_only=False)
    assert_same_bits(turned.output.swapaxes(0, 1), plain.output)
    back = popnn.layers_bwd(grad.swapaxes(0, 1), turned.tape)
    assert_same_bits(back.input_grad.swapaxes(0, 1), popnn.layers_bwd(grad, plain.tape).input_grad)


def test_states_of_each_layer_and_direction_are_carried():
    stack = popnn.from_torch(state_of("lstm"))
    h, c = numbers(4, 3, 6, seed=5), numbers(4, 3, 6, seed=6)
    made = popnn.lstm(numbers(0, 3, 4), stack, init_output=h, init_cell_state=c)
    assert_same_bits(made.last_output, h)
    assert_same_bits(made.last_cell_state, c)
    assert made.tape is None


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("cell", GATES)
def test_weights_go_to_torch_and_come_back(cell, bias):
    state = {name: x for name, x in state_of(cell).items() if bias or "bias" not in name}
    layers = popnn.from_torch(state, cell)
    made = popnn.to_torch(layers, cell)
    assert made.keys() == state.keys()
    for name, x in state.items():
        if "weight" in name:
            assert_same_bits(made[name], x)
            assert np.shares_memory(made[name], x)
        elif cell == "gru":
            assert_same_bits(made[name], x)
        else:
            other = name.replace("_ih", "_hh") if "_ih" in name else name
            assert_same_bits(made[name], x + state[other] if "_ih" in name else np.zeros_like(x))
    for ways, again in zip(layers, popnn.from_torch(made, cell), strict=True):
        for one, other in zip(ways, again, strict=True):
            for name in ("weights_input", "weights_output", "biases"):
                if getattr(one, name) is not None:
                    assert_same_bits(getattr(other, name), getattr(one, name))
            assert other._replace(weights_input=0, weights_output=0, biases=0) == one._replace(
                weights_input=0, weights_output=0, biases=0)


def test_gates_in_another_order_and_projections_go_to_torch():
    order = ("output", "input", "candidate", "forget")
    one = popnn.LayerWeights(numbers(4, 5, 6), numbers(4, 3, 6, seed=1), numbers(4, 6, seed=2), order,
                             weights_projection=numbers(6, 3, seed=3))
    usual = one._replace(cell_order=None)
    x = numbers(7, 2, 5, seed=4)
    for layer in (one, usual):
        state = popnn.to_torch([layer])
        assert state["weight_hr_l0"].shape == (3, 6)
        made = popnn.lstm(x, popnn.from_torch(state)).output
        np.testing.assert_allclose(made, popnn.lstm(x, [layer]).output, rtol=1e-5, atol=1e-6)


def test_biases_of_some_layers_alone_do_not_go_to_torch():
    one = popnn.LayerWeights(numbers(4, 3, 3), numbers(4, 3, 3, seed=1), numbers(4, 3, seed=2))
    with pytest.raises(InvalidArgumentError, match=r"^biases: got those of some layers alone; allowed: those of all"):
        popnn.to_torch([one, one._replace(biases=None)])


@pytest.mark.parametrize(("cell", "change", "said"), [
    ("gru", {"reset_after": False}, "reset_after: got False; allowed: True"),
    ("gru", {"biases": numbers(3, 6)}, "biases: got shape"),
    ("gru", {"weights_output": numbers(3, 5, 5)}, "weights_output: got shape"),
    ("gru", {"cell_order": ("reset", "update", "update")}, "cell_order: got"),
])
def test_layers_that_torch_has_not_are_refused(cell, change, said):
    layer = popnn.from_torch(state_of(cell, layers=1, ways=1), cell)[0][0]._replace(**change)
    with pytest.raises(InvalidArgumentError, match=said):
        popnn.to_torch([layer], cell)


def test_prepared_weights_do_not_go_to_torch():
    with pytest.raises(InvalidTypeError, match="weights_input: got PreparedWeights"):
        popnn.to_torch(popnn.prepare_layers(popnn.from_torch(state_of("lstm"))))


@pytest.mark.parametrize(("cell", "change", "said"), [
    ("lstm", {"weight_hh_l0": None}, "state: got nothing under weight_hh_l0"),
    ("gru", {"weight_hr_l0": numbers(3, 6)}, "state: got weight_hr_l0; allowed"),
    ("lstm", {"weight_ih_l0": numbers(23, 4)}, r"weight_ih_l0: got shape \(23, 4\); .* 4 gates; `cell` says"),
    ("lstm", {"weight_hh_l0": numbers(24, 5)}, r"weight_hh_l0: got shape \(24, 5\); allowed: \[4 \* 6, 6\]"),
    ("lstm", {"bias_hh_l0": None}, "state: got bias_ih_l0 alone; allowed: both biases of a layer, or none"),
])
def test_states_of_other_modules_are_refused(cell, change, said):
    state = {k: v for k, v in (state_of(cell) | change).items() if v is not None}
    with pytest.raises(InvalidArgumentError, match=said):
        popnn.from_torch(state, cell)


def test_bad_layers_and_tapes_are_named():
    [one] = popnn.from_torch(state_of("rnn", layers=1), "rnn")
    x = numbers(5, 3, 4)
    with pytest.raises(InvalidTypeError, match="layers: got"):
        popnn.rnn(x, [3])
    with pytest.raises(InvalidArgumentError, match="layers: got"):
        popnn.rnn(x, [one, one[0]])
    with pytest.raises(InvalidTypeError, match="tape: got"):
        popnn.layers_bwd(x, None)
    made = popnn.rnn(x, [one], inference_only=False)
    with pytest.raises(InvalidArgumentError, match="last_cell_state_grad: got"):
        popnn.layers_bwd(made.output, made.tape, last_cell_state_grad=numbers(2, 3, 6))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_step_in_python_is_a_vanilla_layer(reverse):
    x, w, u, h = numbers(5, 3, 4), numbers(4, 6, seed=1), numbers(6, 6, seed=2), numbers(3, 6, seed=3)

    def step(t, inputs, states):
        seen.append(t)
        made = np.maximum(inputs @ w + states[0] @ u, np.float32(0))
        return made, (made,)

    seen = []
    made = popnn.rnn_steps(step, x, (h,), time_steps=None if reverse else [5, 2, 0], reverse=reverse)
    assert seen == (list(reversed(range(5))) if reverse else list(range(5)))
    how = {} if reverse else {"time_steps": [5, 2, 0]}
    due = popnn.rnn_fwd(x[::-1] if reverse else x, w, u, init_output=h, activation="relu", **how)
    np.testing.assert_allclose(made.outputs, due.output[::-1] if reverse else due.output, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(made.states[0], due.last_output, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("step", "said"), [
    (3, "step: got"), (lambda t, x, s: x, "step: got"), (lambda t, x, s: (x, (x[:1],)), "step: got states"),
    (lambda t, x, s: (x[:1], s), "step: got an output"),
])
def test_steps_that_return_something_else_are_named(step, said):
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=said):
        popnn.rnn_steps(step, numbers(2, 3, 4), (numbers(3, 4),))
