"""Vanilla RNN: its passes."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...ops import op
from ...target import Target
from .gradients import CalledBack, backward_call, backward_request
from .request import Called, called, forward_request

__all__ = ["RnnBackward", "RnnForward", "called_back", "forward_call", "rnn_bwd", "rnn_fwd"]

_BOUND = "popnn.recurrent.bound:"
_BOUNDS = "popnn.recurrent.bound_gradients:"
_CALLS = "testing.rnn_calls:"


class RnnForward(NamedTuple):
    """What `rnn_fwd` returns."""

    output: Any
    last_output: Any


class RnnBackward(NamedTuple):
    """What `rnn_bwd` returns."""

    input_grad: Any
    init_output_grad: Any
    step_grads: Any


@op("popnn.rnn_fwd", poplibs="popnn::rnn::rnnFwdSequence", bound=_BOUND + "rnn_fwd_bound",
    draws=_CALLS + "rnn_fwd_calls", written=None)
def rnn_fwd(x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *, init_output: Any = None,
            time_steps: Any = None, activation: str = "tanh", out: Any = None, out_dtype: object = None,
            available_memory_proportion: float | None = None, target: Target | str | None = None) -> Any:
    """Run a vanilla RNN over a sequence: ``h = act(x W + h U + b)`` (``popnn::rnn::rnnFwdSequence``).

    Parameters
    ----------
    x : array_like [steps, batch, inputs]
        float32, float16 or bfloat16, of any strides; lists become float32.
    weights_input : array_like [inputs, outputs]
        PopLibs' feed-forward weights.
    weights_output : array_like [outputs, outputs]
        PopLibs' feedback weights. Weights may also be 8-bit numbers, with a scale or several
        (`QuarterArray`), or a BlockSparseMatrix, of one group.
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
    available_memory_proportion : float, optional
        The share of the cores' memory that temporaries may take: with less than all steps' inputs take multiplied, some
        steps at a time. By default there is no limit; on a modelled machine PopLibs' 0.6.
    target : Target or str, optional
        The machine; by default this CPU. A modelled one has PopNN's plan, with the same numbers.

    Returns
    -------
    output : numpy.ndarray [steps, batch, outputs]
    last_output : numpy.ndarray [batch, outputs]
        The state after each row's last step.

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
                        activation=activation, out_dtype=out_dtype,
                        available_memory_proportion=available_memory_proportion)
    return forward_request("popnn.rnn_fwd", call, RnnForward, out, target)


def forward_call(x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *, init_output: Any = None,
                 **more: Any) -> Called:
    """Take the arguments of `rnn_fwd`, or raise."""
    return called("rnn", x, weights_input, weights_output, biases, {"init_output": init_output}, **more)


@op("popnn.rnn_bwd", poplibs="popnn::rnn::rnnBwdSequence", bound=_BOUNDS + "rnn_bwd_bound",
    draws=_CALLS + "rnn_bwd_calls", written=None)
def rnn_bwd(grad: Any, x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *, output: Any = None,
            init_output: Any = None, last_output_grad: Any = None, time_steps: Any = None, activation: str = "tanh",
            calc_input_gradients: bool = True, poplibs_exact: bool = False, out: Any = None, out_dtype: object = None,
            available_memory_proportion: float | None = None, target: Target | str | None = None) -> Any:
    """Return the gradients of a vanilla RNN's inputs, first state and steps (``popnn::rnn::rnnBwdSequence``).

    Parameters
    ----------
    grad : array_like [steps, batch, outputs]
        With respect to the outputs.
    x, weights_input, weights_output, biases, init_output, time_steps, activation
        As `rnn_fwd` was given them.
    output : array_like [steps, batch, outputs], optional
        What it gave; without it the forward pass is run again.
    last_output_grad : array_like [batch, outputs], optional
        With respect to the last state, beside `grad`; by default zero.
    calc_input_gradients : bool, optional
        False for an `input_grad` of no elements.
    poplibs_exact : bool, optional
        Take 0.2 for the derivative of a hard sigmoid where it is saturated too, as PopLibs does.
    out : tuple of three arrays, optional
        Where the results go.
    out_dtype : dtype, Format or str, optional
        As for `rnn_fwd`: the format of `output` and of the results.
    available_memory_proportion : float, optional
        The share of the cores' memory that temporaries may take: with less than all steps' inputs take multiplied, some
        steps at a time, computed again where they were not kept. By default there is no limit; on a modelled machine
        PopLibs' 0.6.
    target : Target or str, optional
        The machine; by default this CPU. A modelled one has PopNN's plan, with the same numbers.

    Returns
    -------
    input_grad : numpy.ndarray [steps, batch, inputs]
    init_output_grad : numpy.ndarray [batch, outputs]
    step_grads : numpy.ndarray [steps, batch, outputs]
        With respect to what the non-linearity takes: for `rnn_wu`. Zero past a row's length.

    Notes
    -----
    As for `lstm_bwd`.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import popnn
    >>> x, grad = np.ones((3, 1, 1), np.float32), np.ones((3, 1, 1), np.float32)
    >>> popnn.rnn_bwd(grad, x, [[1.0]], [[2.0]], activation="relu").input_grad.ravel()
    array([7., 3., 1.], dtype=float32)
    """
    call = called_back(grad, x, weights_input, weights_output, biases, output=output, init_output=init_output,
                       last_output_grad=last_output_grad, time_steps=time_steps, activation=activation,
                       calc_input_gradients=calc_input_gradients, poplibs_exact=poplibs_exact, out_dtype=out_dtype,
                       available_memory_proportion=available_memory_proportion)
    return backward_request("popnn.rnn_bwd", call, RnnBackward, out, target)


def called_back(grad: Any, x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *,
                init_output: Any = None, last_output_grad: Any = None, **more: Any) -> CalledBack:
    """Take the arguments of `rnn_bwd`, or raise."""
    return backward_call("rnn", grad, x, weights_input, weights_output, biases, init={"init_output": init_output},
                         last={"last_output_grad": last_output_grad}, **more)
