"""GRU and AUGRU: their passes, and stacks of layers."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from ...ops import op
from ...target import TargetLike
from .api import LayersForward, run_layers
from .cell import GRU
from .gradients import backward_request
from .passes import BackwardWithUpdate, Passes, backward_with_update
from .request import forward_request
from .update import update_request


class GruForward(NamedTuple):
    """What `gru_fwd` returns."""

    output: Any
    last_output: Any
    intermediates: Any


class GruBackward(NamedTuple):
    """What `gru_bwd` returns."""

    input_grad: Any
    init_output_grad: Any
    gate_grads: Any


class AugruBackward(NamedTuple):
    """What `gru_bwd` returns with attention."""

    input_grad: Any
    init_output_grad: Any
    attention_grad: Any
    gate_grads: Any


@op("popnn::gru::gruFwd", bound="popnn.recurrent.gru_formulas", draws="testing.rnn_calls", written=None,
    by=partial(forward_request, GRU, GruForward))
def gru_fwd(x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *, init_output: Any = None,
            time_steps: Any = None, attention: Any = None, cell_order: Any = GRU.gates, activation: str = "tanh",
            recurrent_activation: str = "sigmoid", reset_after: bool = False, output_full_sequence: bool = True,
            do_input_weight_calc: bool = True, inference_only: bool = False, recomputation_mode: str = "none",
            out: Any = None, out_dtype: object = None, available_memory_proportion: float | None = None,
            strict_memory: bool = False, target: TargetLike = None) -> Any:
    """Run a GRU, or an AUGRU, over a sequence (``popnn::gru::gruFwd``, ``auGruFwd``).

    Parameters
    ----------
    x, weights_input, weights_output : array_like
        As for `lstm_fwd`, of three gates.
    biases : array_like [3, outputs], or [3, 2, outputs] with `reset_after`, optional
        With `reset_after` those of inputs, then those of states. By default zero.
    init_output, time_steps
        As for `lstm_fwd`.
    attention : array_like [batch, steps], optional
        The scores of an AUGRU, which take ``a u`` from its update gates.
    cell_order : tuple of str, optional
        How weights and biases are ordered: "reset", "update", "candidate" by default, PopLibs' names too.
    activation, recurrent_activation : {"tanh", "sigmoid", "relu", "hard_sigmoid"}, optional
        Of candidates, "tanh" by default; of gates, "sigmoid".
    reset_after : bool, optional
        Whether the reset gate multiplies the state's product, as in torch, or the state before it (default).
    output_full_sequence, do_input_weight_calc : bool, optional
        As for `lstm_fwd`.
    inference_only : bool, optional
        Save nothing for a backward pass. PopLibs' default is True.
    recomputation_mode : {"none", "full"}, optional
        What a backward pass computes again, so that less is saved: nothing, or all.
    out : tuple of three arrays, optional
        Where the results go.
    out_dtype, available_memory_proportion, strict_memory, target
        As for `lstm_fwd`.

    Returns
    -------
    output : numpy.ndarray [steps, batch, outputs]
        Or [batch, outputs], the last one, without `output_full_sequence`.
    last_output : numpy.ndarray [batch, outputs]
        The state after each row's last step.
    intermediates : numpy.ndarray [steps, batch, planes, outputs]
        What a backward pass reads: reset, update (before attention) and candidate; the state's part of the candidate
        with `reset_after`; the output without `output_full_sequence`. No planes for "full" or with `inference_only`.

    Notes
    -----
    ``h = c + u (h - c)`` with the candidate ``c = act(x W + b + (r h) U)``, or ``act(x W + b + r (h U + b'))`` with
    `reset_after`: a large update gate keeps the old state. Products are sums in FP32 in any order, and all else is
    FP32; gates, ``r h`` or ``h U + b'``, candidates and states are rounded to `out_dtype` where they come to be, as
    PopLibs keeps them.

    Examples
    --------
    >>> x, w, u = np.ones((3, 1, 2), np.float32), np.ones((3, 2, 1), np.float32), np.zeros((3, 1, 1), np.float32)
    >>> popnn.gru_fwd(x, w, u).output.ravel().round(3)
    array([0.115, 0.216, 0.305], dtype=float32)
    """


@op("popnn::gru::gruBwd", bound="popnn.recurrent.gru_formulas", draws="testing.rnn_calls", written=None,
    by=partial(backward_request, GRU, (GruBackward, AugruBackward)))
def gru_bwd(grad: Any, x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *,
            intermediates: Any = None, output: Any = None, init_output: Any = None, last_output_grad: Any = None,
            time_steps: Any = None, attention: Any = None, cell_order: Any = GRU.gates, activation: str = "tanh",
            recurrent_activation: str = "sigmoid", reset_after: bool = False, output_full_sequence: bool = True,
            calc_input_gradients: bool = True, poplibs_exact: bool = False, out: Any = None, out_dtype: object = None,
            available_memory_proportion: float | None = None, strict_memory: bool = False,
            target: TargetLike = None) -> Any:
    """Return the gradients of a GRU's, or an AUGRU's, inputs, first state and gates (``popnn::gru::gruBwd``).

    Parameters
    ----------
    grad : array_like [steps, batch, outputs]
        With respect to the outputs; [batch, outputs] without `output_full_sequence`.
    x, weights_input, weights_output, biases
        As `gru_fwd` was given them.
    intermediates, output : array_like, optional
        What it saved and gave; without `output_full_sequence` the output is among what it saved. Where one of them is
        not there, or has no planes, the forward pass is run again.
    init_output, time_steps, attention, cell_order, activation, recurrent_activation, reset_after, output_full_sequence
        As for `gru_fwd`.
    last_output_grad : array_like [batch, outputs], optional
        With respect to the last state, beside `grad`; by default zero.
    out : tuple of arrays, optional
        Where the results go.
    calc_input_gradients, poplibs_exact, out_dtype, available_memory_proportion, strict_memory, target
        As for `lstm_bwd`.

    Returns
    -------
    input_grad : numpy.ndarray [steps, batch, inputs]
    init_output_grad : numpy.ndarray [batch, outputs]
    attention_grad : numpy.ndarray [batch, steps]
        With `attention` alone. PopLibs' divides by ``1 - a``; this is right at a = 1 too.
    gate_grads : numpy.ndarray [steps, batch, planes, outputs]
        With respect to what the non-linearities of candidate, reset and update gates take, and with `reset_after` to
        the state's part of the candidate: for `gru_wu`. Zero past a row's length. PopLibs has three, in `cell_order`.

    Notes
    -----
    As for `lstm_bwd`.

    Examples
    --------
    >>> x, w, u = np.ones((3, 1, 2), np.float32), np.ones((3, 2, 1), np.float32), np.zeros((3, 1, 1), np.float32)
    >>> popnn.gru_bwd(np.ones((3, 1, 1), np.float32), x, w, u).init_output_grad.round(3)
    array([[2.34]], dtype=float32)
    """


@op("popnn::gru::gruWU", bound="popnn.recurrent.gru_formulas", draws="testing.rnn_calls", written=None,
    by=partial(update_request, GRU))
def gru_wu(gate_grads: Any, x: Any, output: Any, intermediates: Any = None, *, weights_input: Any = None,
           weights_output: Any = None, init_output: Any = None, cell_order: Any = GRU.gates,
           reset_after: bool = False, out: Any = None, out_dtype: object = None,
           available_memory_proportion: float | None = None, strict_memory: bool = False,
           target: TargetLike = None) -> Any:
    """Return the gradients of the weights and biases of a GRU or an AUGRU (``popnn::gru::gruWU``).

    Parameters
    ----------
    gate_grads : array_like [steps, batch, 3, outputs], or four planes with `reset_after`
        As `gru_bwd` returned them.
    x, output
        As for `lstm_wu`.
    intermediates : array_like [steps, batch, planes, outputs], optional
        What `gru_fwd` saved, of which the reset gates are read; without `reset_after` it must be there.
    weights_input, weights_output, init_output, out, out_dtype, available_memory_proportion, strict_memory,
    target
        As for `lstm_wu`.
    cell_order : tuple of str, optional
        How the results are ordered; as for `gru_fwd`.
    reset_after : bool, optional
        As for `gru_fwd`.

    Returns
    -------
    weights_input_grad : numpy.ndarray [3, inputs, outputs]
    weights_output_grad : numpy.ndarray [3, outputs, outputs]
    biases_grad : numpy.ndarray [3, outputs], or [3, 2, outputs] with `reset_after`

    Notes
    -----
    As for `lstm_wu`; states that are multiplied by reset gates are rounded to their format, as in the forward pass.

    Examples
    --------
    >>> operands = (np.ones(shape, np.float32) for shape in ((3, 2, 4, 1), (3, 2, 5), (3, 2, 1)))
    >>> popnn.gru_wu(*operands, reset_after=True).weights_output_grad.ravel()
    array([4., 4., 4.], dtype=float32)
    """


GRU_PASSES = Passes(GRU, gru_fwd, gru_bwd, gru_wu)


def gru_bwd_with_wu(grad: Any, x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *,
                    output: Any = None, intermediates: Any = None, **how: Any) -> BackwardWithUpdate:
    """Return a GRU's, or an AUGRU's, gradients with those of its weights (``popnn::gru::gruBwdWithWU``).

    Parameters
    ----------
    grad, x, weights_input, weights_output, biases, intermediates
        As for `gru_bwd`.
    output : array_like [steps, batch, outputs], optional
        As for `lstm_bwd_with_wu`.
    **how
        Keywords of `gru_bwd` but `out`.

    Returns
    -------
    BackwardWithUpdate
        As of `lstm_bwd_with_wu`.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import popnn
    >>> x, w, u = np.ones((3, 1, 2), np.float32), np.ones((3, 2, 1), np.float32), np.zeros((3, 1, 1), np.float32)
    >>> popnn.gru_bwd_with_wu(np.ones((3, 1, 1), np.float32), x, w, u).weights.biases_grad.shape
    (3, 1)
    """
    layer = x, weights_input, weights_output, biases
    return backward_with_update(GRU_PASSES, grad, layer, output, intermediates, how)


def gru(x: Any, layers: Any, *, init_output: Any = None, time_steps: Any = None, batch_first: bool = False,
        inference_only: bool = True, out_dtype: object = None,
        available_memory_proportion: float | None = None, strict_memory: bool = False) -> LayersForward:
    """Run a stack of GRU layers, in one direction or both.

    Parameters
    ----------
    x, layers, init_output, time_steps, batch_first, inference_only, out_dtype, available_memory_proportion,
    strict_memory
        As for `lstm`; each layer says where its reset gates are.

    Returns
    -------
    LayersForward
        As of `lstm`, without cell states.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import popnn
    >>> one = popnn.LayerWeights(np.ones((3, 2, 2), np.float32), np.ones((3, 2, 2), np.float32))
    >>> popnn.gru(np.ones((5, 1, 2), np.float32), [one, one]).last_output.shape
    (2, 1, 2)
    """
    return run_layers(GRU_PASSES, x, layers, init_output=init_output, time_steps=time_steps, batch_first=batch_first,
                      inference_only=inference_only, out_dtype=out_dtype,
                      available_memory_proportion=available_memory_proportion, strict_memory=strict_memory)
