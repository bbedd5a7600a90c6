"""Layers of one cell: the passes of LSTM, of GRU and AUGRU, of vanilla RNN."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from ...ops import op
from ...target import TargetLike
from .gradients import backward_request
from .params import GATES
from .request import forward_request


class LstmForward(NamedTuple):
    """What `lstm_fwd` returns."""

    output: Any
    last_output: Any
    last_cell_state: Any
    intermediates: Any


class LstmBackward(NamedTuple):
    """What `lstm_bwd` returns."""

    input_grad: Any
    init_output_grad: Any
    init_cell_state_grad: Any
    gate_grads: Any


class ProjectedBackward(NamedTuple):
    """What `lstm_bwd` returns of a layer with a projection."""

    input_grad: Any
    init_output_grad: Any
    init_cell_state_grad: Any
    gate_grads: Any
    weights_projection_grad: Any


@op("popnn::lstm::lstmFwd", bound="popnn.recurrent.bound", draws="testing.rnn_calls", written=None,
    by=partial(forward_request, LstmForward))
def lstm_fwd(x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *,
             weights_projection: Any = None, init_output: Any = None, init_cell_state: Any = None,
             time_steps: Any = None, cell_order: Any = GATES["lstm"],
             activation: str = "tanh", recurrent_activation: str = "sigmoid", output_full_sequence: bool = True,
             do_input_weight_calc: bool = True, inference_only: bool = False, recomputation_mode: str = "none",
             out: Any = None, out_dtype: object = None, available_memory_proportion: float | None = None,
             strict_memory: bool = False, target: TargetLike = None) -> Any:
    """Run an LSTM over a sequence (``popnn::lstm::lstmFwd``).

    Parameters
    ----------
    x : array_like [steps, batch, inputs]
        float32, float16 or bfloat16, of any strides; lists become float32. Without `do_input_weight_calc` what the
        gates take of it, [steps, batch, 4, outputs].
    weights_input : array_like [4, inputs, outputs]
        A matrix for each gate; not read without `do_input_weight_calc`.
    weights_output : array_like [4, outputs, outputs]
        For the states. Weights may also be 8-bit numbers, with a scale or several
        (`QuarterArray`), a BlockSparseMatrix, one of whose groups is a gate, or `PreparedWeights` of
        `prepare_layers`.
    biases : array_like [4, outputs], optional
        By default zero.
    weights_projection : array_like [outputs, projected], optional
        Of an output ``h = (o act(c)) R`` of no more elements than the cell's, as torch's ``proj_size``: `init_output`,
        outputs and the rows of `weights_output` have as many then.
    init_output, init_cell_state : array_like [batch, outputs], optional
        The states before the first step; by default zero.
    time_steps : int or array_like of int [1] or [batch], optional
        How many steps there are, for all rows or for each; by default all. Past them outputs and what is saved are
        zero, and the states stay as they are.
    cell_order : tuple of str, optional
        How weights and biases are ordered: "forget", "input", "candidate", "output" by default, PopLibs' names too.
    activation, recurrent_activation : {"tanh", "sigmoid", "relu", "hard_sigmoid"}, optional
        Of candidates and cell states, "tanh" by default; of gates, "sigmoid".
    output_full_sequence : bool, optional
        Whether there is an output for each step (default), or the last one alone.
    do_input_weight_calc : bool, optional
        False where `x` is multiplied by its weights already.
    inference_only : bool, optional
        Save nothing for a backward pass.
    recomputation_mode : {"none", "cell_and_tanh", "full"}, optional
        What a backward pass computes again, so that less is saved: nothing, the cell states, or all.
    out : tuple of four arrays, optional
        Where the results go.
    out_dtype : dtype, Format or str, optional
        float32, float16 or bfloat16: of states and results; by default what `x` and the weights give.
    available_memory_proportion : float, optional
        The share of the cores' memory that temporaries may take: with less than all steps' inputs take multiplied, some
        steps at a time. By default there is no limit; on a modelled machine PopLibs' 0.6.

    Returns
    -------
    output : numpy.ndarray [steps, batch, outputs]
        Or [batch, outputs], the last one, without `output_full_sequence`.
    last_output, last_cell_state : numpy.ndarray [batch, outputs]
        The states after each row's last step.
    intermediates : numpy.ndarray [steps, batch, planes, outputs]
        What a backward pass reads: forget, input, candidate and output gates, the non-linearity of the cell state, the
        cell state before; then the output, and zeros behind a projected one, without `output_full_sequence`. The
        cell's two are left out for
        "cell_and_tanh"; there is no plane for "full" or with `inference_only`. PopLibs has planes before the batch.

    Notes
    -----
    With gates after their non-linearities, ``c = f c + i g`` and ``h = o act(c)``. Products are sums in FP32 in any
    order, and all else is FP32; gates, ``act(c)``, c and h are rounded to `out_dtype` where they come to be, as PopLibs
    keeps them. The bound carries the error of each step to the next. Past a row's length the library of PopLibs returns
    zero states; its model, and this, hold them.

    Examples
    --------
    >>> x, w, u = np.ones((3, 1, 2), np.float32), np.ones((4, 2, 1), np.float32), np.zeros((4, 1, 1), np.float32)
    >>> popnn.lstm_fwd(x, w, u).output.ravel().round(3)
    array([0.608, 0.811, 0.862], dtype=float32)
    """


@op("popnn::lstm::lstmBwd", bound="popnn.recurrent.bound_gradients", draws="testing.rnn_calls", written=None,
    by=partial(backward_request, (LstmBackward, ProjectedBackward)))
def lstm_bwd(grad: Any, x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *,
             weights_projection: Any = None, intermediates: Any = None, init_output: Any = None,
             init_cell_state: Any = None,
             last_output_grad: Any = None, last_cell_state_grad: Any = None, time_steps: Any = None,
             cell_order: Any = GATES["lstm"], activation: str = "tanh", recurrent_activation: str = "sigmoid",
             output_full_sequence: bool = True, calc_input_gradients: bool = True, poplibs_exact: bool = False,
             out: Any = None, out_dtype: object = None, available_memory_proportion: float | None = None,
             strict_memory: bool = False, target: TargetLike = None) -> Any:
    """Return an LSTM's gradients with respect to its inputs, initial states and gates (``popnn::lstm::lstmBwd``).

    Parameters
    ----------
    grad : array_like [steps, batch, outputs]
        With respect to the outputs; [batch, outputs] without `output_full_sequence`.
    x, weights_input, weights_output, biases, weights_projection
        As `lstm_fwd` was given them.
    intermediates : array_like [steps, batch, planes, outputs], optional
        What it saved. Without it, or with no planes, the forward pass is run again.
    init_output, init_cell_state, time_steps, cell_order, activation, recurrent_activation, output_full_sequence
        As for `lstm_fwd`.
    last_output_grad, last_cell_state_grad : array_like [batch, outputs], optional
        With respect to the last states, beside `grad`; by default zero.
    calc_input_gradients : bool, optional
        False for an `input_grad` of no elements.
    poplibs_exact : bool, optional
        Take 0.2 for the derivative of a hard sigmoid where it is saturated too, as PopLibs' cells do.
    out : tuple of four arrays, optional
        Where the results go.
    out_dtype : dtype, Format or str, optional
        As for `lstm_fwd`: the format of `intermediates` and of the results.
    available_memory_proportion : float, optional
        The share of the cores' memory that temporaries may take: with less than all steps' inputs take multiplied, some
        steps at a time, computed again where they were not kept. By default there is no limit; on a modelled machine
        PopLibs' 0.6.
    strict_memory : bool, optional
        As for `lstm_fwd`.

    Returns
    -------
    input_grad : numpy.ndarray [steps, batch, inputs]
    init_output_grad, init_cell_state_grad : numpy.ndarray [batch, outputs]
    gate_grads : numpy.ndarray [steps, batch, 4, outputs]
        With respect to what the non-linearities of forget, input, candidate and output gates take: for `lstm_wu`. Zero
        past a row's length. PopLibs has them in `cell_order`.
    weights_projection_grad : numpy.ndarray [outputs, projected]
        With `weights_projection` alone.

    Notes
    -----
    Derivatives are those of the results that the forward pass kept. All is FP32, products are sums in any order, and
    gradients that go from step to step stay FP32; those of the gates are rounded to `out_dtype` before they are
    multiplied, and results once.

    Examples
    --------
    >>> x, w, u = np.ones((3, 1, 2), np.float32), np.ones((4, 2, 1), np.float32), np.zeros((4, 1, 1), np.float32)
    >>> made = popnn.lstm_fwd(x, w, u)
    >>> popnn.lstm_bwd(np.ones((3, 1, 1)).astype("float32"), x, w, u, intermediates=made.intermediates).input_grad.shape
    (3, 1, 2)
    """


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


@op("popnn::gru::gruFwd", bound="popnn.recurrent.bound", draws="testing.rnn_calls", written=None,
    by=partial(forward_request, GruForward))
def gru_fwd(x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *, init_output: Any = None,
            time_steps: Any = None, attention: Any = None, cell_order: Any = GATES["gru"], activation: str = "tanh",
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


@op("popnn::gru::gruBwd", bound="popnn.recurrent.bound_gradients", draws="testing.rnn_calls", written=None,
    by=partial(backward_request, (GruBackward, AugruBackward)))
def gru_bwd(grad: Any, x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *,
            intermediates: Any = None, output: Any = None, init_output: Any = None, last_output_grad: Any = None,
            time_steps: Any = None, attention: Any = None, cell_order: Any = GATES["gru"], activation: str = "tanh",
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


class RnnForward(NamedTuple):
    """What `rnn_fwd` returns."""

    output: Any
    last_output: Any


class RnnBackward(NamedTuple):
    """What `rnn_bwd` returns."""

    input_grad: Any
    init_output_grad: Any
    step_grads: Any


@op("popnn::rnn::rnnFwdSequence", bound="popnn.recurrent.bound", draws="testing.rnn_calls", written=None,
    by=partial(forward_request, RnnForward))
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


@op("popnn::rnn::rnnBwdSequence", bound="popnn.recurrent.bound_gradients", draws="testing.rnn_calls", written=None,
    by=partial(backward_request, (RnnBackward,)))
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
