"""What a step of a GRU comes to: in balls, and in the vertices and products that PopNN composes it of."""

from __future__ import annotations

import numpy as np

from ...formats import FP32
from ...formats.bounds import Ball
from .balls import activated
from .bound import Numbers, forward_bound
from .bound_gradients import BackwardBalls, backward_bound
from .bound_update import update_bound
from .cell import GRU
from .modelled import Layer

gru_fwd_bound, gru_bwd_bound, gru_wu_bound = forward_bound(GRU), backward_bound(GRU), update_bound(GRU)


def _attended(n: Numbers, t: int, u: Ball) -> Ball:
    """The update gate after attention."""
    if n.attention is None:
        return u
    a = n.attention[:, t, None]
    made: Ball = (u - u * a).rounded(FP32).rounded(n.call.params.state)
    return made


def forward_balls(n: Numbers, t: int, h: Ball) -> tuple[list[Ball], list[Ball]]:
    """The state after a step, and its planes."""
    p = n.call.params
    r, u = (n.gate(t, h, k, p.recurrent_activation) for k in range(2))
    z = _attended(n, t, u)
    planes = [r, u]
    if p.cell.apart:
        again = (n.of_state(h, 2) + n.recurrent_bias[2]).rounded(FP32).rounded(p.state)
        c = ((n.of_inputs(t, 2) + n.b[2]).rounded(FP32) + r * again).rounded(FP32)
        c = activated(c, p.activation, p.state)
        planes += [c, again]
    else:
        reset = (r * h).rounded(FP32).rounded(p.state)
        sums = (n.of_inputs(t, 2) + n.of_state(reset, 2)).rounded(FP32)
        c = activated((sums + n.b[2]).rounded(FP32), p.activation, p.state)
        planes.append(c)
    # c + z (h - c): the exact value written so that errors of the state shrink as they do
    exact = z * h + (Ball.exact(np.ones(z.shape)) - z) * c
    with np.errstate(invalid="ignore"):  # where nothing is promised
        spread = ((h - c).rounded(FP32).radius - (h - c).radius) * (np.abs(z.centre) + z.radius)
    new = Ball(exact.centre, exact.radius + spread).rounded(FP32).rounded(p.state)
    return [new], planes


def backward_balls(back: BackwardBalls, t: int, dh: Ball) -> tuple[list[Ball], list[Ball], Ball]:
    """The gradients of a step's gates, of the state before it, of its score."""
    p, n, old = back.p, back.n, back.old(t)
    r, u, c = back.planes[t][:3]
    z = _attended(n, t, u)
    d = ((old - c).rounded(FP32) * dh).rounded(FP32)
    held = (z * dh).rounded(FP32)
    dc = ((Ball.exact(np.ones(z.shape)) - z).rounded(FP32) * dh).rounded(FP32)
    score = Ball.exact(np.zeros(p.batch))
    if n.attention is not None:
        terms = (d * u).rounded(FP32)
        total = np.abs(terms.centre).sum(1) + terms.radius.sum(1)
        exact = (-terms).sum(1)
        many = p.outputs + 1
        score = Ball(exact.centre, exact.radius + many * FP32.unit_roundoff * 1.01 * total + many * 2.0**-149)
        score = Ball(score.centre, np.where(total > FP32.max / 2, np.inf, score.radius))
        d = (d - d * n.attention[:, t, None]).rounded(FP32)
    du = back.slope(d, u, p.recurrent_activation).rounded(p.state)
    dc = back.slope(dc, c, p.activation).rounded(p.state)
    if p.cell.apart:
        dr = back.gate(dc, back.planes[t][3], r).rounded(p.state)
        inner = (dc * r).rounded(FP32).rounded(p.state)
        return [dc, dr, du, inner], [(back.carried([dr, du, inner], (0, 1, 2)) + held).rounded(FP32)], score
    through = back.carried([dc], (2,))
    dr = back.gate(through, old, r).rounded(p.state)
    held = (held + through * r).rounded(FP32)
    return [dc, dr, du], [(back.carried([dr, du], (0, 1)) + held).rounded(FP32)], score


def forward_steps(layer: Layer, phase: str) -> None:
    """Add what PopNN composes a step of."""
    p, depth = layer.p, layer.p.outputs + layer.p.inputs * layer.p.weighted
    if p.cell.apart:
        if p.weighted:
            layer.product(p.batch, p.inputs, 3 * p.outputs, phase)
        layer.product(p.batch, p.outputs, 3 * p.outputs, phase)
        layer.bias(6)
        layer.each("gates", "ADD", 2, operands=2, in_place=True)
        layer.gate("gates", p.recurrent_activation, 2)
        layer.each("gates", "MULTIPLY", 1, operands=2, in_place=True)
        layer.each("gates", "ADD", 1, operands=2, in_place=True)
    else:
        layer.product(p.batch, depth, 2 * p.outputs, phase)
        layer.made.copy("rearrange", 2 * layer.state)
        layer.bias(2)
        layer.gate("gates", p.recurrent_activation, 2)
        layer.each("gates", "MULTIPLY", 1, operands=2, in_place=True)
        layer.product(p.batch, depth, p.outputs, phase)
        layer.made.copy("rearrange", layer.state)
        layer.bias(1)
    layer.gate("gates", p.activation, 1)
    for op in ("SUBTRACT", "MULTIPLY", "ADD"):
        layer.each("cell", op, 1, operands=2)


def backward_steps(layer: Layer, made: int) -> None:
    """Add what it composes a step back of, whose products give so many columns."""
    p = layer.p
    for op in ("SUBTRACT", "SUBTRACT"):
        layer.each("cell", op, 1, operands=2)
    layer.each("cell", "MULTIPLY", 2, operands=2)
    layer.slope("gates", p.activation, 1)
    layer.slope("gates", p.recurrent_activation, 1)
    layer.product(p.batch, p.outputs, made, "TRAINING_BWD")
    layer.each("cell", "MULTIPLY", 1, operands=2)
    layer.slope("gates", p.recurrent_activation, 1)
    layer.product(p.batch, 2 * p.outputs, made, "TRAINING_BWD")
    layer.each("cell", "ADD", 1, operands=2)
    for op in ("MULTIPLY", "ADD"):
        layer.each("cell", op, 1, operands=2)
