"""How far gradients of recurrent layers may lie from the exact ones: of what the forward pass kept, or of its operands.

Where the pass is run again, its own errors are carried through the derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ...formats import FP32
from ...formats.bounds import Ball
from .balls import chosen, multiplied, slope_times, stacked, transposed
from .bound import Numbers, bound_of, forward_balls
from .cell import Cell
from .gradients import CalledBack, backward_call


class BackwardBalls:
    """A backward pass in balls."""

    def __init__(self, call: CalledBack) -> None:
        self.n = n = Numbers.of(call.layer)
        self.p = p = call.layer.params
        zeros = [Ball.exact(np.zeros((p.batch, columns))) for columns in (p.states, p.outputs)]
        self.grad = Ball.exact(np.asarray(call.grad.array).astype(np.float64))
        self.last = [zero if x is None else Ball.exact(np.asarray(x.array).astype(np.float64))
                     for x, zero in zip(call.last, zeros, strict=False)]
        self.of_states: list[tuple[int, Ball]] = []
        if not p.each:
            self.last[0] = (self.last[0] + self.grad).rounded(FP32)
        elif call.grad.format != p.state:
            self.grad = self.grad.rounded(p.state)
        if call.again:
            made = forward_balls(n)
            self.planes, self.outputs = made.planes, made.outputs
            return
        self.planes = [[] for _ in range(p.steps)]
        if call.intermediates is not None:
            saved = np.asarray(call.intermediates.array).astype(np.float64)
            self.planes = [[Ball.exact(saved[t, :, k]) for k in range(p.saved)] for t in range(p.steps)]
        self.outputs = [planes[-1] for planes in self.planes if planes]
        if call.output is not None and p.full:
            self.outputs = [Ball.exact(v) for v in np.asarray(call.output.array).astype(np.float64)]
        if not p.whole:
            self._cells_again()

    def _cells_again(self) -> None:
        cell, next_cell = self.n.states[1], self.p.cell.formulas.next_cell
        for t, planes in enumerate(self.planes):
            new, squashed = next_cell(self.n, planes, cell)
            planes[self.p.gates:] = [squashed, cell]
            cell = chosen(self.n.active[t][:, None], new, cell)

    def slope(self, g: Ball, y: Ball, activation: str) -> Ball:
        """Gradients times a derivative."""
        return slope_times(g, y, activation, self.p.constant_slope)

    def gate(self, a: Ball, b: Ball, y: Ball, candidate: bool = False) -> Ball:
        """A gate's gradient, before it is rounded to be kept."""
        name = self.p.activation if candidate else self.p.recurrent_activation
        return self.slope((a * b).rounded(FP32), y, name)

    def old(self, t: int) -> Ball:
        """The output before a step."""
        return self.outputs[t - 1] if t else self.n.states[0]

    def carried(self, grads: list[Ball], gates: tuple[int, ...]) -> Ball:
        """The product of a step's gradients with the transposed weights of these gates."""
        p, u = self.p, self.n.u
        together = Ball(*(np.concatenate([getattr(g, part) for g in grads], 1) for part in ("centre", "radius")))
        return multiplied(together, np.concatenate([u[k].T for k in gates]), p.state, p.weights_output)

    def results(self) -> tuple[Ball, ...]:
        """Go through the steps from the last one."""
        p, n, step = self.p, self.n, self.p.cell.formulas.backward_balls
        states = list(self.last)
        steps: list[list[Ball]] = []
        scores: list[Ball] = []
        for t in reversed(range(p.steps)):
            active = n.active[t][:, None]
            dh = (states[0] + self.grad[t]).rounded(FP32) if p.each else states[0]
            grads, before, score = step(self, t, dh, *states[1:])
            steps.insert(0, [chosen(active, g, 0.0) for g in grads])
            scores.insert(0, chosen(n.active[t], score, 0.0) if p.attention else score)
            states = [chosen(active, one, other) for one, other in zip(before, states, strict=True)]
        shape = p.steps, p.batch
        grads = Ball.exact(np.zeros((*shape, p.cell.grads, p.outputs)))
        grads = stacked([stacked(step, 1) for step in steps]) if steps else grads
        inputs = self._inputs(grads) if p.input_grad else Ball.exact(np.zeros((*shape, 0)))
        of_scores: tuple[Ball, ...] = ()
        if p.attention:
            of_scores = (stacked(scores, 1).rounded(p.state) if scores else Ball.exact(np.zeros((p.batch, 0))),)
        grads = grads if p.cell.front else grads[:, :, 0]
        projection = (self._projection(),) if p.projected else ()
        return inputs, *(s.rounded(FP32).rounded(p.state) for s in states), *of_scores, grads, *projection

    def _projection(self) -> Ball:
        """The gradient of a projection's weights."""
        p, n, given_of = self.p, self.n, self.p.cell.formulas.given_of
        if not (p.steps and p.batch):
            return Ball.exact(np.zeros((p.outputs, p.projected)))
        active = [n.active[t][:, None] for t, _ in self.of_states]
        grads = stacked([chosen(rows, dh, 0.0) for rows, (_, dh) in zip(active, self.of_states, strict=True)])
        given = stacked([chosen(rows, given_of(n, self.planes[t]), 0.0)
                         for rows, (t, _) in zip(active, self.of_states, strict=True)])
        turned = transposed(given.reshape(p.steps * p.batch, p.outputs), 1, 0)
        many = grads.reshape(p.steps * p.batch, p.projected)
        return multiplied(turned, many, p.state, p.state).rounded(p.state)

    def _inputs(self, grads: Ball) -> Ball:
        p, n = self.p, self.n
        rows, wide = p.steps * p.batch, p.gates * p.outputs
        together = grads[:, :, : p.gates].reshape(rows, wide)
        matrix = np.concatenate([n.w[k].T for k in p.cell.input_gates])
        made = multiplied(together, matrix, p.state, p.weights_input)
        return made.rounded(p.state).reshape(p.steps, p.batch, p.inputs)


def backward_bound(cell: Cell) -> Callable[..., tuple[Ball, ...]]:
    """Return the bound of a cell's backward pass."""
    return bound_of(lambda call: BackwardBalls(call).results(), partial(backward_call, cell))
