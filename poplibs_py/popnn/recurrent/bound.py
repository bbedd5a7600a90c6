"""How far recurrent layers' results may lie from the exact ones: their contract in balls, step by step.

The errors of a step are carried to the next: through products by the magnitudes of the weights; through
non-linearities, each of which grows with its argument, by the ends of the interval that the argument may be in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ...formats import FP32, Floats
from ...formats.bounds import Ball
from .balls import activated, chosen, multiplied, stacked
from .cell import Cell
from .params import SparseWeights
from .request import Called, forward_call
from .sparse import dense_of


def _numbers(x: Any) -> Any:
    if x is None:
        return None
    if isinstance(x, SparseWeights):
        return dense_of(x.matrix).astype(np.float64)
    dtype: Any = x.format.dtype
    return np.ldexp(np.asarray(x.array).view(dtype).astype(np.float64), x.scale)


@dataclass(frozen=True)
class Numbers:
    """A layer's operands in float64, its gates in the kernels' order, zeros for those that are not given."""

    call: Called
    x: Floats
    w: Any
    u: Floats
    r: Any
    b: Floats
    recurrent_bias: Floats
    states: list[Ball]
    active: Any
    attention: Any

    @classmethod
    def of(cls, call: Called) -> Numbers:
        """Read a call's operands."""
        p = call.params
        order = list(p.order)
        w, u, b, r = (_numbers(v) for v in (call.weights_input, call.weights_output, call.biases, call.projection))
        inner = np.zeros((p.gates, p.outputs))
        if b is not None and p.cell.apart:
            b, inner = b[:, 0], b[:, 1]
        shapes = [(p.batch, columns) for columns in (p.states, p.outputs)]
        given = [_numbers(s) for s in call.init]
        states = [Ball.exact(np.zeros(shape)) if s is None else Ball.exact(s).rounded(p.state)
                  for s, shape in zip(given, shapes, strict=False)]
        for i, (s, read) in enumerate(zip(given, call.init, strict=True)):
            if read is not None and read.format == p.state:
                states[i] = Ball.exact(s)
        lengths = np.full(p.batch, p.steps) if call.time_steps is None else np.broadcast_to(
            call.time_steps.array.reshape(-1), (p.batch,))
        active = np.arange(p.steps)[:, None] < lengths.astype(np.int64)
        x = _numbers(call.x) if p.weighted else _numbers(call.x)[:, :, order]
        return cls(call, x, None if w is None else w[order], u[order], None if r is None else r[0],
                   np.zeros((p.gates, p.outputs)) if b is None else b[order], inner[order], states, active,
                   _numbers(call.attention))

    def of_inputs(self, t: int, gate: int) -> Ball:
        """The input's part of what a gate's non-linearity takes."""
        p = self.call.params
        if not p.weighted:
            return Ball.exact(self.x[t, :, gate])
        return multiplied(Ball.exact(self.x[t]), self.w[gate], p.x, p.weights_input)

    def of_state(self, h: Ball, gate: int) -> Ball:
        """The state's product with a gate's weights."""
        p = self.call.params
        return multiplied(h, self.u[gate], p.state, p.weights_output)

    def gate(self, t: int, h: Ball, gate: int, activation: str) -> Ball:
        """A gate after its non-linearity."""
        sums = (self.of_inputs(t, gate) + self.of_state(h, gate)).rounded(FP32)
        bias = Ball.exact(self.b[gate])
        if self.call.params.cell.apart:
            bias = (bias + Ball.exact(self.recurrent_bias[gate])).rounded(FP32)
        return activated((sums + bias).rounded(FP32), activation, self.call.params.state)


@dataclass
class Steps:
    """What a forward pass comes to: outputs, what it keeps, by step and plane, and its last states."""

    outputs: list[Ball]
    planes: list[list[Ball]]
    states: list[Ball]


def forward_balls(n: Numbers) -> Steps:
    """Go through the steps of a forward pass."""
    p = n.call.params
    states, made, step = list(n.states), Steps([], [], []), p.cell.formulas.forward_balls
    for t in range(p.steps):
        active = n.active[t][:, None]
        new, planes = step(n, t, *states)
        made.outputs.append(chosen(active, new[0], 0.0))
        made.planes.append([chosen(active, plane, 0.0) for plane in planes])
        states = [chosen(active, one, old) for one, old in zip(new, states, strict=True)]
    made.states = states
    return made


def _forward(call: Called) -> tuple[Ball, ...]:
    """Return the results of a forward pass: outputs, last states, what is kept."""
    p = call.params
    made = forward_balls(Numbers.of(call))
    sequence = (p.steps, p.batch)
    outputs = stacked(made.outputs) if p.steps else Ball.exact(np.zeros((*sequence, p.states)))
    kept = [planes[: p.kept] + ([] if p.full else [_padded(out, p.outputs)])
            for planes, out in zip(made.planes, made.outputs, strict=True)]
    saved = Ball.exact(np.zeros((*sequence, p.saved, p.outputs)))
    if p.steps and p.saved:
        saved = stacked([stacked(planes, 1) for planes in kept])
    kept_of = (saved,) if p.cell.whole else ()
    return (outputs if p.full else made.states[0], *made.states, *kept_of)


def _padded(x: Ball, columns: int) -> Ball:
    """Balls with zeros behind each row."""
    rest = [(0, 0), (0, columns - x.shape[1])]
    return Ball(np.pad(x.centre, rest), np.pad(x.radius, rest))


def bound_of(balls: Callable[[Any], tuple[Ball, ...]], take: Callable[..., Any]) -> Callable[..., tuple[Ball, ...]]:
    """Return what gives exact results and radii of an op's calls, whose arguments `take` reads."""
    return lambda *operands, out=None, target=None, **how: balls(take(*operands, **how))


def forward_bound(cell: Cell) -> Callable[..., tuple[Ball, ...]]:
    """Return the bound of a cell's forward pass."""
    return bound_of(_forward, partial(forward_call, cell))
