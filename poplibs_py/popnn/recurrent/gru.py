"""GRU and AUGRU: their passes."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...errors import flag
from ...ops import op
from ...target import Target
from .gradients import CalledBack, backward_call, backward_request
from .params import GATES
from .request import Called, called, forward_request, mode_of, saved_planes

__all__ = ["AugruBackward", "GruBackward", "GruForward", "called_back", "forward_call", "gru_bwd", "gru_fwd"]

_BOUND = "popnn.recurrent.bound:"
_BOUNDS = "popnn.recurrent.bound_gradients:"
_CALLS = "testing.rnn_calls:"


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


@op("popnn.gru_fwd", poplibs="popnn::gru::gruFwd", bound=_BOUND + "gru_fwd_bound", draws=_CALLS + "gru_fwd_calls",
    written=None)
def gru_fwd(x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *, init_output: Any = None,
            time_steps: Any = None, attention: Any = None, cell_order: Any = GATES["gru"], activation: str = "tanh",
            recurrent_activation: str = "sigmoid", reset_after: bool = False, output_full_sequence: bool = True,
            do_input_weight_calc: bool = True, inference_only: bool = False, recomputation_mode: str = "none",
            out: Any = None, out_dtype: object = None, available_memory_proportion: float | None = None,
            target: Target | str | None = None) -> Any:
    """Run a GRU, or an AUGRU, over a sequence (``popnn::gru::gruFwd``, ``auGruFwd``).

    Parameters
    ----------
    x : array_like [steps, batch, inputs]
        float32, float16 or bfloat16, of any strides; lists become float32. Without `do_input_weight_calc` what the
        gates take of it, [steps, batch, 3, outputs].
    weights_input : array_like [3, inputs, outputs]
        A matrix for each gate; not read without `do_input_weight_calc`.
    weights_output : array_like [3, outputs, outputs]
        For the states. Weights may also be 8-bit numbers, with a scale or several
        (`QuarterArray`), or a BlockSparseMatrix, one of whose groups is a gate.
    biases : array_like [3, outputs], or [3, 2, outputs] with `reset_after`, optional
        With `reset_after` those of inputs, then those of states. By default zero.
    init_output : array_like [batch, outputs], optional
        The state before the first step; by default zero.
    time_steps : int or array_like of int [1] or [batch], optional
        How many steps there are, for all rows or for each; by default all. Past them outputs and what is saved are
        zero, and the state stays as it is.
    attention : array_like [batch, steps], optional
        The scores of an AUGRU, which take ``a u`` from its update gates.
    cell_order : tuple of str, optional
        How weights and biases are ordered: "reset", "update", "candidate" by default, PopLibs' names too.
    activation, recurrent_activation : {"tanh", "sigmoid", "relu", "hard_sigmoid"}, optional
        Of candidates, "tanh" by default; of gates, "sigmoid".
    reset_after : bool, optional
        Whether the reset gate multiplies the state's product, as in torch, or the state before it (default).
    output_full_sequence : bool, optional
        Whether there is an output for each step (default), or the last one alone.
    do_input_weight_calc : bool, optional
        False where `x` is multiplied by its weights already.
    inference_only : bool, optional
        Save nothing for a backward pass. PopLibs' default is True.
    recomputation_mode : {"none", "full"}, optional
        What a backward pass computes again, so that less is saved: nothing, or all.
    out : tuple of three arrays, optional
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
    >>> import numpy as np
    >>> from poplibs_py import popnn
    >>> x, w, u = np.ones((3, 1, 2), np.float32), np.ones((3, 2, 1), np.float32), np.zeros((3, 1, 1), np.float32)
    >>> popnn.gru_fwd(x, w, u).output.ravel().round(3)
    array([0.115, 0.216, 0.305], dtype=float32)
    """
    call = forward_call(x, weights_input, weights_output, biases, init_output=init_output, time_steps=time_steps,
                        attention=attention, cell_order=cell_order, activation=activation,
                        recurrent_activation=recurrent_activation, reset_after=reset_after,
                        output_full_sequence=output_full_sequence, do_input_weight_calc=do_input_weight_calc,
                        inference_only=inference_only, recomputation_mode=recomputation_mode, out_dtype=out_dtype,
                        available_memory_proportion=available_memory_proportion)
    return forward_request("popnn.gru_fwd", call, GruForward, out, target)


def forward_call(x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *, init_output: Any = None,
                 reset_after: bool = False, output_full_sequence: bool = True, inference_only: bool = False,
                 recomputation_mode: str = "none", **more: Any) -> Called:
    """Take the arguments of `gru_fwd`, or raise."""
    full, mode = flag("output_full_sequence", output_full_sequence), mode_of("gru", recomputation_mode)
    after = flag("reset_after", reset_after)
    saved = 0 if flag("inference_only", inference_only) else saved_planes("gru", mode, full, after)
    return called("gru", x, weights_input, weights_output, biases, {"init_output": init_output}, full=full,
                  saved=saved, reset_after=after, **more)


@op("popnn.gru_bwd", poplibs="popnn::gru::gruBwd", bound=_BOUNDS + "gru_bwd_bound", draws=_CALLS + "gru_bwd_calls",
    written=None)
def gru_bwd(grad: Any, x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *,
            intermediates: Any = None, output: Any = None, init_output: Any = None, last_output_grad: Any = None,
            time_steps: Any = None, attention: Any = None, cell_order: Any = GATES["gru"], activation: str = "tanh",
            recurrent_activation: str = "sigmoid", reset_after: bool = False, output_full_sequence: bool = True,
            calc_input_gradients: bool = True, poplibs_exact: bool = False, out: Any = None, out_dtype: object = None,
            available_memory_proportion: float | None = None, target: Target | str | None = None) -> Any:
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
    calc_input_gradients : bool, optional
        False for an `input_grad` of no elements.
    poplibs_exact : bool, optional
        Take 0.2 for the derivative of a hard sigmoid where it is saturated too, as PopLibs' cells do.
    out : tuple of arrays, optional
        Where the results go.
    out_dtype : dtype, Format or str, optional
        As for `gru_fwd`: the format of `intermediates` and of the results.
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
    >>> import numpy as np
    >>> from poplibs_py import popnn
    >>> x, w, u = np.ones((3, 1, 2), np.float32), np.ones((3, 2, 1), np.float32), np.zeros((3, 1, 1), np.float32)
    >>> popnn.gru_bwd(np.ones((3, 1, 1), np.float32), x, w, u).init_output_grad.round(3)
    array([[2.34]], dtype=float32)
    """
    call = called_back(grad, x, weights_input, weights_output, biases, intermediates=intermediates, output=output,
                       init_output=init_output, last_output_grad=last_output_grad, time_steps=time_steps,
                       attention=attention, cell_order=cell_order, activation=activation,
                       recurrent_activation=recurrent_activation, reset_after=reset_after,
                       output_full_sequence=output_full_sequence, calc_input_gradients=calc_input_gradients,
                       poplibs_exact=poplibs_exact, out_dtype=out_dtype,
                       available_memory_proportion=available_memory_proportion)
    kind = GruBackward if attention is None else AugruBackward
    return backward_request("popnn.gru_bwd", call, kind, out, target)


def called_back(grad: Any, x: Any, weights_input: Any, weights_output: Any, biases: Any = None, *,
                init_output: Any = None, last_output_grad: Any = None, reset_after: bool = False,
                **more: Any) -> CalledBack:
    """Take the arguments of `gru_bwd`, or raise."""
    return backward_call("gru", grad, x, weights_input, weights_output, biases, init={"init_output": init_output},
                         last={"last_output_grad": last_output_grad}, reset_after=flag("reset_after", reset_after),
                         **more)
