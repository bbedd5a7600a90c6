"""What a step of an LSTM comes to: in balls, and in the vertices and products that PopNN composes it of."""

from __future__ import annotations

from collections.abc import Sequence

from ...formats import FP32
from ...formats.bounds import Ball
from .balls import activated, multiplied
from .bound import Numbers, forward_bound
from .bound_gradients import BackwardBalls, backward_bound
from .bound_update import update_bound
from .cell import LSTM
from .modelled import Layer

lstm_fwd_bound, lstm_bwd_bound, lstm_wu_bound = forward_bound(LSTM), backward_bound(LSTM), update_bound(LSTM)


def next_cell(n: Numbers, planes: Sequence[Ball], c: Ball) -> tuple[Ball, Ball]:
    """The new cell state, and its non-linearity, of gates and the state before."""
    p, (f, i, g) = n.call.params, planes[:3]
    c = ((f * c).rounded(FP32) + i * g).rounded(FP32).rounded(p.state)
    return c, activated(c, p.activation, p.state)


def given_of(n: Numbers, planes: Sequence[Ball]) -> Ball:
    """What a cell gives, of its planes."""
    made: Ball = (planes[3] * planes[4]).rounded(FP32).rounded(n.call.params.state)
    return made


def forward_balls(n: Numbers, t: int, h: Ball, c: Ball) -> tuple[list[Ball], list[Ball]]:
    """The states after a step, and its planes."""
    p = n.call.params
    gates = [n.gate(t, h, k, p.activation if k == 2 else p.recurrent_activation) for k in range(4)]
    new, squashed = next_cell(n, gates, c)
    planes = [*gates, squashed, c]
    out = given_of(n, planes)
    if p.projected:
        out = multiplied(out, n.r, p.state, p.weights_projection).rounded(p.state)
    return [out, new], planes


def backward_balls(back: BackwardBalls, t: int, dh: Ball, dc: Ball) -> tuple[list[Ball], list[Ball], Ball]:
    """The gradients of a step's gates, of the states before it, and nothing for attention."""
    p = back.p
    f, i, g, o, squashed, old = back.planes[t][:6]
    if p.projected:
        dh = dh.rounded(p.state)
        back.of_states.insert(0, (t, dh))
        dh = multiplied(dh, back.n.r.T, p.state, p.weights_projection)
    dc = (dc + back.slope((o * dh).rounded(FP32), squashed, p.activation)).rounded(FP32)
    grads = [back.gate(old, dc, f), back.gate(g, dc, i), back.gate(i, dc, g, True), back.gate(squashed, dh, o)]
    grads = [x.rounded(p.state) for x in grads]
    return grads, [back.carried(grads, (0, 1, 2, 3)), (f * dc).rounded(FP32)], dc


def forward_steps(layer: Layer, phase: str) -> None:
    """Add what PopNN composes a step of."""
    p = layer.p
    layer.product(p.batch, p.states + p.inputs * p.weighted, 4 * p.outputs, phase)
    if not p.weighted:
        layer.each("gates", "ADD", 4, operands=2, in_place=True)
    layer.made.copy("rearrange", 4 * layer.state)
    layer.bias(4)
    layer.gate("gates", p.recurrent_activation, 3)
    layer.gate("gates", p.activation, 1)
    layer.each("cell", "MULTIPLY", 2, operands=2, in_place=not p.saved)
    layer.each("cell", "ADD", 1, operands=2, in_place=True)
    layer.gate("cell", p.activation, 1, in_place=False)
    layer.each("cell", "MULTIPLY", 1, operands=2)
    if p.projected:
        layer.product(p.batch, p.outputs, p.projected, phase)


def backward_steps(layer: Layer, made: int) -> None:
    """Add what it composes a step back of, whose products give so many columns."""
    p = layer.p
    if p.projected:
        layer.product(p.batch, p.projected, p.outputs, "TRAINING_BWD")
        layer.product(p.outputs, p.batch, p.projected, "TRAINING_WU")
        layer.made.elementwise("accumulate", "ADD", p.outputs * p.projected, operands=2, in_place=True)
    layer.each("cell", "MULTIPLY", 2, operands=2)
    layer.slope("gates", p.activation, 1)
    layer.slope("gates", p.recurrent_activation, 1)
    layer.each("cell", "ADD", 1, operands=2, in_place=True)
    layer.each("cell", "MULTIPLY", 4, operands=2)
    layer.slope("gates", p.recurrent_activation, 2)
    layer.slope("gates", p.activation, 1)
    layer.product(p.batch, 4 * p.outputs, made, "TRAINING_BWD")
