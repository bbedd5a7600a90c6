"""Vanilla RNN: its passes, and stacks of layers."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from ...ops import op
from ...target import TargetLike
from .api import LayersForward, run_layers
from .cell import RNN
from .gradients import backward_request
from .passes import Passes
from .request import forward_request
from .update import update_request


class RnnForward(NamedTuple):
    """What `rnn_fwd` returns."""

    output: Any
    last_output: Any


class RnnBackward(NamedTuple):
    """What `rnn_bwd` returns."""

    input_grad: Any
    init_output_grad: Any
    step_grads: Any


@op("popnn::rnn::rnnFwdSequence", bound="popnn.recurrent.rnn_formulas", draws="testing.rnn_calls", written=None,
    by=partial(forward_request, RNN, RnnForward))
def rnn_fwd(x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *, init_output: Any = None,
            time_steps: Any = None, activation: str = "tanh", out: Any = None, out_dtype: object = None,
            available_memory_proportion: float | None = None, strict_memory: bool = False,
            target: TargetLike = None) -> Any:
    """Run a vanilla RNN over a sequence: ``h = act(x W + h U + b)`` (``popnn::rnn::rnnFwdSequence``).

    Parameters
    ----------
    x : array_like [steps, batch, inputs]
        float32, float16 or bfloat16, of any strides; lists become float32.
    weights_input : array_like [inputs, outputs]
        PopLibs' feed-forward weights.
    weights_output : array_like [outputs, outputs]
        PopLibs' feedback weights. Weights may also be 8-bit numbers, with a scale or several
        (`QuarterArray`), a BlockSparseMatrix, of one group, or `PreparedWeights` of `prepare_layers`.
    biases : array_like [outputs], optional
        By default zero.
    init_output, time_steps
        As for `lstm_fwd`.
    activation : {"tanh", "sigmoid", "relu", "hard_sigmoid"}, optional
    out : tuple of two arrays, optional
        Where the results go.
    out_dtype, available_memory_proportion, strict_memory, target
        As for `lstm_fwd`.

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
    >>> popnn.rnn_fwd(np.ones((3, 1, 1), np.float32), [[1.0]], [[1.0]], activation="relu").output.ravel()
    array([1., 2., 3.], dtype=float32)
    """


@op("popnn::rnn::rnnBwdSequence", bound="popnn.recurrent.rnn_formulas", draws="testing.rnn_calls", written=None,
    by=partial(backward_request, RNN, (RnnBackward,)))
def rnn_bwd(grad: Any, x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *, output: Any = None,
            init_output: Any = None, last_output_grad: Any = None, time_steps: Any = None, activation: str = "tanh",
            calc_input_gradients: bool = True, poplibs_exact: bool = False, out: Any = None, out_dtype: object = None,
            available_memory_proportion: float | None = None, strict_memory: bool = False,
            target: TargetLike = None) -> Any:
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
    out : tuple of three arrays, optional
        Where the results go.
    calc_input_gradients, poplibs_exact, out_dtype, available_memory_proportion, strict_memory, target
        As for `lstm_bwd`; the format is that of `output` too.

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
    >>> x, grad = np.ones((3, 1, 1), np.float32), np.ones((3, 1, 1), np.float32)
    >>> popnn.rnn_bwd(grad, x, [[1.0]], [[2.0]], activation="relu").input_grad.ravel()
    array([7., 3., 1.], dtype=float32)
    """


@op("popnn::rnn::paramDeltaUpdate", bound="popnn.recurrent.rnn_formulas", draws="testing.rnn_calls", written=None,
    by=partial(update_request, RNN))
def rnn_wu(step_grads: Any, x: Any, output: Any, *, weights_input: Any = None, weights_output: Any = None,
           init_output: Any = None, out: Any = None, out_dtype: object = None,
           available_memory_proportion: float | None = None, strict_memory: bool = False,
           target: TargetLike = None) -> Any:
    """Return the gradients of a vanilla RNN's weights and biases (``popnn::rnn::paramDeltaUpdate``).

    Parameters
    ----------
    step_grads : array_like [steps, batch, outputs]
        As `rnn_bwd` returned them.
    x, output, weights_input, weights_output, init_output, out, out_dtype, available_memory_proportion, strict_memory,
    target
        As for `lstm_wu`.

    Returns
    -------
    weights_input_grad : numpy.ndarray [inputs, outputs]
    weights_output_grad : numpy.ndarray [outputs, outputs]
    biases_grad : numpy.ndarray [outputs]

    Notes
    -----
    As for `lstm_wu`.

    Examples
    --------
    >>> popnn.rnn_wu(*(np.ones((3, 2, 1), np.float32) for _ in range(3))).weights_output_grad
    array([[4.]], dtype=float32)
    """


RNN_PASSES = Passes(RNN, rnn_fwd, rnn_bwd, rnn_wu)


def rnn(x: Any, layers: Any, *, init_output: Any = None, time_steps: Any = None, activation: str = "tanh",
        batch_first: bool = False, inference_only: bool = True, out_dtype: object = None,
        available_memory_proportion: float | None = None, strict_memory: bool = False) -> LayersForward:
    """Run a stack of vanilla RNN layers, in one direction or both.

    Parameters
    ----------
    x, layers, init_output, time_steps, batch_first, inference_only, out_dtype, available_memory_proportion,
    strict_memory
        As for `lstm`.
    activation : {"tanh", "sigmoid", "relu", "hard_sigmoid"}, optional

    Returns
    -------
    LayersForward
        As of `lstm`, without cell states.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import popnn
    >>> one = popnn.LayerWeights([[1.0]], [[1.0]])
    >>> popnn.rnn(np.ones((3, 1, 1), np.float32), [one], activation="relu").output.ravel()
    array([1., 2., 3.], dtype=float32)
    """
    return run_layers(RNN_PASSES, x, layers, init_output=init_output, time_steps=time_steps, activation=activation,
                      batch_first=batch_first, inference_only=inference_only, out_dtype=out_dtype,
                      available_memory_proportion=available_memory_proportion, strict_memory=strict_memory)
