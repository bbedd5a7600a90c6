"""How far gradients of a recurrent layer's weights may be from the exact ones: FP32 sums in any order, rounded once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...formats import FP32
from ...formats.bounds import Ball
from .balls import multiplied
from .bound import bound_of
from .cell import Cell
from .sparse import at_blocks
from .update import CalledUpdate, update_call


def _update(call: CalledUpdate) -> tuple[Ball, ...]:
    x, grads, output = (np.asarray(v.array).astype(np.float64) for v in (call.x, call.grads, call.output))
    (steps, batch, planes, outputs), cell = grads.shape, call.cell
    rows, fed = steps * batch, output.shape[2]
    flat = grads.reshape(rows, planes * outputs)
    before = np.zeros_like(output)
    if steps:
        before[1:] = output[:-1]
        if call.init is not None:
            before[0] = np.asarray(call.init.array).astype(np.asarray(call.output.array).dtype)

    own: Any = call.grads.format

    def product(left: Ball, dtype: Any) -> Ball:
        columns = Ball(left.centre.T, left.radius.T)
        return multiplied(columns, flat, dtype, own).rounded(call.result).reshape(columns.shape[0], planes, outputs)

    def ordered(made: Ball, which: tuple[int, ...]) -> Ball:
        found = np.empty(len(which), int)
        found[list(call.order)] = which
        return Ball(made.centre[:, found].swapaxes(0, 1), made.radius[:, found].swapaxes(0, 1))

    of_inputs = ordered(product(Ball.exact(x.reshape(rows, x.shape[2])), call.x.format), cell.input_planes)
    states = Ball.exact(before.reshape(rows, fed))
    of_states = ordered(product(states, call.output.format), cell.state_planes)
    if call.reset is not None:
        reset = Ball.exact(np.asarray(call.reset.array)[:, :, 0].astype(np.float64).reshape(rows, outputs))
        scaled = (states * reset).rounded(FP32).rounded(call.output.format)
        made = product(scaled, call.output.format)
        for part in ("centre", "radius"):
            for gate in cell.products[1]:
                getattr(of_states, part)[call.order[gate]] = getattr(made, part)[:, cell.state_planes[gate]]
    sums = product(Ball.exact(np.ones((rows, 1))), call.grads.format)
    biases = [ordered(sums, which) for which in cell.bias_planes]
    added = Ball(*(np.concatenate([getattr(b, part) for b in biases], 1) for part in ("centre", "radius")))
    added = added if cell.apart else added[:, 0]
    made_all = of_inputs, of_states
    stored = [v if w is None else Ball(at_blocks(w, v.centre), at_blocks(w, v.radius))
              for v, w in zip(made_all, call.matrices, strict=False)]
    return tuple(v if cell.front or w is not None else v[0]
                 for v, w in zip((*stored, added), (*call.matrices, None), strict=True))


def update_bound(cell: Cell) -> Callable[..., tuple[Ball, ...]]:
    """Return the bound of the gradients of a cell's weights."""
    return bound_of(_update, partial(update_call, cell))
