"""Stacks of recurrent layers give what torch's modules give, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from poplibs_py import popnn  # noqa: E402

MODULES = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("lengths", [None, [5, 3, 1]])
@pytest.mark.parametrize(("cell", "projected"), [*((cell, 0) for cell in MODULES), ("lstm", 3)])
def test_a_stack_in_both_directions_is_torchs(cell, projected, lengths):
    torch.manual_seed(1)
    more = {"proj_size": projected} if projected else {}
    module = MODULES[cell](4, 6, num_layers=2, bidirectional=True, **more)
    x = torch.randn(5, 3, 4, requires_grad=True)
    due, states = module(x if lengths is None else torch.nn.utils.rnn.pack_padded_sequence(x, lengths))
    due = due if lengths is None else torch.nn.utils.rnn.pad_packed_sequence(due)[0]
    last = states[0] if cell == "lstm" else states
    grad, of_last = torch.randn_like(due), torch.randn_like(last)
    ((due * grad).sum() + (last * of_last).sum()).backward()
    layers = popnn.from_torch({name: v.detach().numpy() for name, v in module.state_dict().items()}, cell)
    made = getattr(popnn, cell)(x.detach().numpy(), layers, time_steps=lengths, inference_only=False)
    back = popnn.layers_bwd(grad.numpy(), made.tape, last_output_grad=of_last.numpy())
    pairs = [(made.output, due), (made.last_output, last), (back.input_grad, x.grad)]
    for number, ways in enumerate(back.weights):
        for way, found in zip(("", "_reverse"), ways, strict=True):
            wanted = module.get_parameter(f"weight_hh_l{number}{way}").grad
            mine = found.weights_output_grad if cell != "rnn" else found.weights_output_grad[None]
            pairs.append((mine.transpose(0, 2, 1).reshape(wanted.shape), wanted))
            if projected:
                pairs.append((found.weights_projection_grad.T, module.get_parameter(f"weight_hr_l{number}{way}").grad))
    for mine, wanted in pairs:  # torch states no bound: a few roundings of numbers of this size
        np.testing.assert_allclose(mine, wanted.detach().numpy(), rtol=1e-4, atol=1e-5)
