"""A recurrent layer of the user's own: a function that makes a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...checks import flag
from ...errors import bad_argument, bad_type
from ...formats import Array
from .params import limits, numbers


class Unrolled(NamedTuple):
    """What `rnn_steps` returns."""

    outputs: Any
    states: Any


def rnn_steps(step: Callable[..., Any], inputs: Any, states: Any, *, time_steps: Any = None,
              reverse: bool = False) -> Unrolled:
    """Run a step of the caller's over a sequence (``popnn::rnn::Rnn``).

    Parameters
    ----------
    step : callable
        ``step(t, inputs, states)`` returns the step's output [batch, ...] and the new states, a tuple like `states`.
        ``inputs`` are those of step t, a tuple where several sequences are given.
    inputs : array_like [steps, batch, size], or a tuple of them
        float32, float16 or bfloat16; they have as many steps and rows.
    states : tuple of array_like [batch, size]
        Before the first step.
    time_steps : int or array_like of int [1] or [batch], optional
        How many steps there are, for all rows or for each; by default all. Past them outputs are zero, and states stay
        as they are.
    reverse : bool, optional
        Whether to go from the last step to the first.

    Returns
    -------
    outputs : numpy.ndarray [steps, batch, ...]
    states : tuple of numpy.ndarray
        After the last step that each row takes.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument, or what `step` returns, is of the wrong kind or shape.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import popnn
    >>> def add(t, x, states):
    ...     return states[0] + x, (states[0] + x,)
    >>> popnn.rnn_steps(add, np.ones((3, 1, 1), np.float32), (np.zeros((1, 1), np.float32),)).outputs.ravel()
    array([1., 2., 3.], dtype=float32)
    """
    if not callable(step):
        raise bad_type("step", step, "a function of the step's number, its inputs and the states")
    several, backwards = isinstance(inputs, tuple), flag("reverse", reverse)
    read = [numbers("inputs", x, ("steps", "batch", "size")).array for x in (inputs if several else (inputs,))]
    if not read or len({x.shape[:2] for x in read}) > 1:
        raise bad_argument("inputs", [x.shape for x in read], "sequences of as many steps and rows")
    if not isinstance(states, tuple):
        raise bad_type("states", states, "a tuple of arrays")
    steps, batch = read[0].shape[:2]
    held = tuple(numbers("states", x, (batch, "size")).array for x in states)
    given = limits(time_steps, batch, steps)
    lengths = np.full(batch, steps) if given is None else np.broadcast_to(given.array.reshape(-1), (batch,))
    outputs: list[Array] = [np.zeros((batch, 0), np.float32)] * steps
    for t in reversed(range(steps)) if backwards else range(steps):
        active = t < lengths
        seen = tuple(x[t] for x in read)
        made = step(t, seen if several else seen[0], held)
        out, new = _checked(made, held, batch)
        outputs[t] = _where(active, out, np.zeros_like(out))
        held = tuple(_where(active, one, old) for one, old in zip(new, held, strict=True))
    return Unrolled(np.stack(outputs) if steps else np.zeros((0, batch, 0), np.float32), held)


def _checked(made: Any, held: tuple[Array, ...], batch: int) -> tuple[Array, tuple[Array, ...]]:
    """Return a step's output and states, or raise."""
    if not isinstance(made, tuple) or len(made) != 2 or not isinstance(made[1], tuple):
        raise bad_type("step", made, "a function that returns an output and a tuple of states")
    out, new = np.asarray(made[0]), tuple(np.asarray(x) for x in made[1])
    if out.shape[:1] != (batch,):
        raise bad_argument("step", f"an output of shape {out.shape}", f"one of {batch} rows")
    if [x.shape for x in new] != [x.shape for x in held]:
        raise bad_argument("step", f"states of shapes {[x.shape for x in new]}", f"shapes {[x.shape for x in held]}")
    return out, new


def _where(active: Array, one: Array, other: Array) -> Array:
    return np.where(active.reshape(-1, *(1 for _ in one.shape[1:])), one, other.astype(one.dtype))
