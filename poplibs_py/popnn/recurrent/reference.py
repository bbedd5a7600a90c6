"""Recurrent layers written plainly, in float64 or complex128: what their bounds and gradients are tested against."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...formats import Array


def _sigmoid(x: Array) -> Array:
    small = np.exp(np.where(np.real(x) > 0, -x, x))
    return np.where(np.real(x) > 0, 1 / (1 + small), small / (1 + small))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "relu": lambda x: np.where(np.real(x) > 0, x, 0 * x),
    "hard_sigmoid": lambda x: np.where(np.abs(np.real(x)) < 2.5, 0.2 * x + 0.5, np.real(x) > 0),
}
"""The non-linearities of cells."""


def _walk(x: Array, states: tuple[Array, ...], lengths: Array, step: Callable[..., tuple[Array, ...]]) -> Any:
    """Outputs of all steps, zero past a row's length, and the states that it then holds."""
    outputs = []
    for t in range(len(x)):
        active = (t < lengths)[:, None]
        made = step(t, *states)
        outputs.append(np.where(active, made[0], 0))
        states = tuple(np.where(active, new, old) for new, old in zip(made, states, strict=True))
    return np.array(outputs), states


def lstm(x: Array, w: Array, u: Array, b: Array, h: Array, c: Array, lengths: Array, activation: str,
         recurrent: str) -> Any:
    """Return the outputs, and the last output and cell state; gates are forget, input, candidate, output."""
    act, gate = FUNCTIONS[activation], FUNCTIONS[recurrent]

    def step(t: int, h: Array, c: Array) -> tuple[Array, ...]:
        f, i, g, o = (x[t] @ w[k] + h @ u[k] + b[k] for k in range(4))
        c = gate(f) * c + gate(i) * act(g)
        return gate(o) * act(c), c

    return _walk(x, (h, c), lengths, step)


def gru(x: Array, w: Array, u: Array, b: Array, h: Array, lengths: Array, activation: str, recurrent: str,
        attention: Array, reset_after: bool) -> Any:
    """Return the outputs and the last one; gates are reset, update, candidate; biases are [3, 2, outputs]."""
    act, gate = FUNCTIONS[activation], FUNCTIONS[recurrent]

    def step(t: int, h: Array) -> tuple[Array]:
        r, z = (gate(x[t] @ w[k] + h @ u[k] + b[k].sum(0)) for k in range(2))
        z = (1 - attention[:, t])[:, None] * z
        inner = r * (h @ u[2] + b[2, 1]) if reset_after else (r * h) @ u[2] + b[2, 1]
        candidate = act(x[t] @ w[2] + b[2, 0] + inner)
        return (z * h + (1 - z) * candidate,)

    return _walk(x, (h,), lengths, step)


def rnn(x: Array, w: Array, u: Array, b: Array, h: Array, lengths: Array, activation: str) -> Any:
    """Return the outputs and the last one."""
    return _walk(x, (h,), lengths, lambda t, h: (FUNCTIONS[activation](x[t] @ w + h @ u + b),))
