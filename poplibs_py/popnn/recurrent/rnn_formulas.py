"""What a step of a vanilla RNN comes to: in balls, and in the vertices and products that PopNN composes it of."""

from __future__ import annotations

from ...formats.bounds import Ball
from .bound import Numbers, forward_bound
from .bound_gradients import BackwardBalls, backward_bound
from .bound_update import update_bound
from .cell import RNN
from .modelled import Layer

rnn_fwd_bound, rnn_bwd_bound, rnn_wu_bound = forward_bound(RNN), backward_bound(RNN), update_bound(RNN)


def forward_balls(n: Numbers, t: int, h: Ball) -> tuple[list[Ball], list[Ball]]:
    """The state after a step, and no planes."""
    return [n.gate(t, h, 0, n.call.params.activation)], []


def backward_balls(back: BackwardBalls, t: int, dh: Ball) -> tuple[list[Ball], list[Ball], Ball]:
    """The gradients of a step, of the state before it, and nothing for attention."""
    grads = [back.slope(dh, back.outputs[t], back.p.activation).rounded(back.p.state)]
    return grads, [back.carried(grads, (0,))], dh


def forward_steps(layer: Layer, phase: str) -> None:
    """Add what PopNN composes a step of."""
    p = layer.p
    layer.product(p.batch, p.outputs, p.outputs, phase)
    layer.each("gates", "ADD", 1, operands=2, in_place=True)
    layer.bias(1)
    layer.gate("gates", p.activation, 1)


def backward_steps(layer: Layer, made: int) -> None:
    """Add what it composes a step back of, whose product gives so many columns."""
    layer.slope("gates", layer.p.activation, 1)
    layer.product(layer.p.batch, layer.p.outputs, made, "TRAINING_BWD")
