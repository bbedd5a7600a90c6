"""Vanilla RNN: the forward pass."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...ops import op
from ...target import Target
from .request import Called, called, forward_request

__all__ = ["RnnForward", "forward_call", "rnn_fwd"]

_BOUND = "popnn.rnn.bound:"
_CALLS = "testing.rnn_calls:"


class RnnForward(NamedTuple):
    """What `rnn_fwd` returns."""

    output: Any
    last_output: Any


@op("popnn.rnn_fwd", poplibs="popnn::rnn::rnnFwdSequence", bound=_BOUND + "rnn_fwd_bound",
    draws=_CALLS + "rnn_fwd_calls", written=None)
def rnn_fwd(x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *, init_output: Any = None,
            time_steps: Any = None, activation: str = "tanh", out: Any = None, out_dtype: object = None,
            target: Target | str | None = None) -> Any:
    """Run a vanilla RNN over a sequence: ``h = act(x W + h U + b)`` (``popnn::rnn::rnnFwdSequence``).

    Parameters
    ----------
    x : array_like [steps, batch, inputs]
        float32, float16 or bfloat16, of any strides; lists become float32.
    weights_input : array_like [inputs, outputs]
        PopLibs' feed-forward weights.
    weights_output : array_like [outputs, outputs]
        PopLibs' feedback weights.
    biases : array_like [outputs], optional
        By default zero.
    init_output : array_like [batch, outputs], optional
        The state before the first step; by default zero.
    time_steps : int or array_like of int [1] or [batch], optional
        How many steps there are, for all rows or for each; by default all. Past them outputs are zero, and the state
        stays as it is.
    activation : {"tanh", "sigmoid", "relu", "hard_sigmoid"}, optional
    out : tuple of two arrays, optional
        Where the results go.
    out_dtype : dtype, Format or str, optional
        float32, float16 or bfloat16: of states and results; by default what `x` and the weights give.
    target : Target or str, optional
        The machine; by default this CPU. A modelled one is refused.

    Returns
    -------
    output : numpy.ndarray [steps, batch, outputs]
    last_output : numpy.ndarray [batch, outputs]
        The state after each row's last step.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind, shape or value. Nothing has been written then.
    UnsupportedError
        If `target` is a modelled machine.

    Notes
    -----
    Products are sums in FP32 in any order, and all else is FP32; states are rounded to `out_dtype`, where PopLibs
    rounds products and their sums too.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import popnn
    >>> popnn.rnn_fwd(np.ones((3, 1, 1), np.float32), [[1.0]], [[1.0]], activation="relu").output.ravel()
    array([1., 2., 3.], dtype=float32)
    """
    call = forward_call(x, weights_input, weights_output, biases, init_output=init_output, time_steps=time_steps,
                        activation=activation, out_dtype=out_dtype)
    return forward_request("popnn.rnn_fwd", call, RnnForward, out, target)


def forward_call(x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *, init_output: Any = None,
                 **more: Any) -> Called:
    """Take the arguments of `rnn_fwd`, or raise."""
    return called("rnn", x, weights_input, weights_output, biases, {"init_output": init_output}, **more)
