"""LSTM: its passes, and stacks of layers."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from ...ops import op
from ...target import TargetLike
from .api import LayersForward, run_layers
from .cell import LSTM
from .gradients import backward_request
from .passes import BackwardWithUpdate, Passes, backward_with_update
from .request import forward_request
from .update import update_request


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


@op("popnn::lstm::lstmFwd", bound="popnn.recurrent.lstm_formulas", draws="testing.rnn_calls", written=None,
    by=partial(forward_request, LSTM, LstmForward))
def lstm_fwd(x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *,
             weights_projection: Any = None, init_output: Any = None, init_cell_state: Any = None,
             time_steps: Any = None, cell_order: Any = LSTM.gates,
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


@op("popnn::lstm::lstmBwd", bound="popnn.recurrent.lstm_formulas", draws="testing.rnn_calls", written=None,
    by=partial(backward_request, LSTM, (LstmBackward, ProjectedBackward)))
def lstm_bwd(grad: Any, x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *,
             weights_projection: Any = None, intermediates: Any = None, init_output: Any = None,
             init_cell_state: Any = None,
             last_output_grad: Any = None, last_cell_state_grad: Any = None, time_steps: Any = None,
             cell_order: Any = LSTM.gates, activation: str = "tanh", recurrent_activation: str = "sigmoid",
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


@op("popnn::lstm::lstmWU", bound="popnn.recurrent.lstm_formulas", draws="testing.rnn_calls", written=None,
    by=partial(update_request, LSTM))
def lstm_wu(gate_grads: Any, x: Any, output: Any, *, weights_input: Any = None, weights_output: Any = None,
            init_output: Any = None, cell_order: Any = LSTM.gates, out: Any = None, out_dtype: object = None,
            available_memory_proportion: float | None = None, strict_memory: bool = False,
            target: TargetLike = None) -> Any:
    """Return the gradients of an LSTM's weights and biases (``popnn::lstm::lstmWU``).

    Parameters
    ----------
    gate_grads : array_like [steps, batch, 4, outputs]
        As `lstm_bwd` returned them.
    x : array_like [steps, batch, inputs]
        The inputs; finite past a row's length too.
    output : array_like [steps, batch, outputs]
        The outputs of all steps, as `lstm_fwd` returned or saved them.
    weights_input, weights_output : BlockSparseMatrix, optional
        As `lstm_fwd` was given them: their gradients are block-sparse too, of the same pattern, and only what is stored
        is computed. Dense weights are not read.
    init_output : array_like [batch, outputs], optional
        The output before the first step; by default zero.
    cell_order : tuple of str, optional
        How the results are ordered; as for `lstm_fwd`.
    out : tuple of three arrays, optional
        Where the results go.
    out_dtype : dtype, Format or str, optional
        float32, float16 or bfloat16; by default what the operands give.
    available_memory_proportion : float, optional
        The share of the cores' memory that temporaries may take: with less, products of some steps or of some gates are
        summed. By default there is no limit; on a modelled machine PopLibs' 0.6.

    Returns
    -------
    weights_input_grad : numpy.ndarray [4, inputs, outputs]
    weights_output_grad : numpy.ndarray [4, outputs, outputs]
        Or a BlockSparseMatrix, each.
    biases_grad : numpy.ndarray [4, outputs]

    Notes
    -----
    Sums over steps and batch in FP32, in any order, rounded once; PopLibs adds in the weights' type step by step
    (``weightAccumulatorsType``).

    Examples
    --------
    >>> popnn.lstm_wu(*(np.ones(shape, np.float32) for shape in ((3, 2, 4, 1), (3, 2, 5), (3, 2, 1)))).biases_grad[0]
    array([6.], dtype=float32)
    """


LSTM_PASSES = Passes(LSTM, lstm_fwd, lstm_bwd, lstm_wu)


def lstm_bwd_with_wu(grad: Any, x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *,
                     output: Any = None, intermediates: Any = None, **how: Any) -> BackwardWithUpdate:
    """Return an LSTM's gradients with those of its weights (``popnn::lstm::lstmBwdWithWU``).

    Parameters
    ----------
    grad, x, weights_input, weights_output, biases, intermediates
        As for `lstm_bwd`.
    output : array_like [steps, batch, outputs], optional
        The outputs of all steps, as `lstm_fwd` returned them; without it, or where what it saved is not there, the
        forward pass is run again, once.
    **how
        Keywords of `lstm_bwd` but `out`.

    Returns
    -------
    backward
        As of `lstm_bwd`.
    weights : WeightGradients
        As of `lstm_wu`; of block-sparse weights at their stored blocks.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        As by `lstm_bwd`.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import popnn
    >>> x, w, u = np.ones((3, 1, 2), np.float32), np.ones((4, 2, 1), np.float32), np.zeros((4, 1, 1), np.float32)
    >>> popnn.lstm_bwd_with_wu(np.ones((3, 1, 1), np.float32), x, w, u).weights.weights_input_grad.shape
    (4, 2, 1)
    """
    layer = x, weights_input, weights_output, biases
    return backward_with_update(LSTM_PASSES, grad, layer, output, intermediates, how)


def lstm(x: Any, layers: Any, *, init_output: Any = None, init_cell_state: Any = None, time_steps: Any = None,
         batch_first: bool = False, inference_only: bool = True, out_dtype: object = None,
         available_memory_proportion: float | None = None, strict_memory: bool = False) -> LayersForward:
    """Run a stack of LSTM layers, in one direction or both.

    Parameters
    ----------
    x : array_like [steps, batch, inputs]
        [batch, steps, inputs] with `batch_first`.
    layers : sequence of LayerWeights, or of pairs of them
        A layer each; a pair is that of the steps from the first on, then that from the last. See `from_torch`.
    init_output, init_cell_state : array_like [layers * directions, batch, outputs], optional
        The states before the first step of each; by default zero.
    time_steps : int or array_like of int [1] or [batch], optional
        How many steps there are, for all rows or for each; by default all. The other direction begins at each row's
        last step.
    batch_first : bool, optional
        Whether the batch is the first axis of `x` and of the output.
    inference_only : bool, optional
        True by default; False for a tape, of which `layers_bwd` makes gradients.
    out_dtype : dtype, Format or str, optional
        The format of states and results; by default what `x` and the weights give.
    available_memory_proportion : float, optional
        The share of the cores' memory that temporaries of a pass may take; by default there is no limit.
    strict_memory : bool, optional
        Raise `MemoryLimitError` where no plan keeps to the limit; otherwise the limit is raised with a
        `MemoryLimitWarning`.

    Returns
    -------
    output : numpy.ndarray [steps, batch, directions * outputs]
        Of the last layer; the directions side by side.
    last_output, last_cell_state : numpy.ndarray [layers * directions, batch, outputs]
    tape : Tape or None

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind, shape or value.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import popnn
    >>> one = popnn.LayerWeights(np.ones((4, 2, 3), np.float32), np.ones((4, 3, 3), np.float32))
    >>> popnn.lstm(np.ones((5, 1, 2), np.float32), [(one, one)]).output.shape
    (5, 1, 6)
    """
    return run_layers(LSTM_PASSES, x, layers, init_output=init_output, init_cell_state=init_cell_state,
                      time_steps=time_steps, batch_first=batch_first, inference_only=inference_only,
                      out_dtype=out_dtype, available_memory_proportion=available_memory_proportion,
                      strict_memory=strict_memory)
