"""CTC losses with their gradients on this CPU, and what plans of CTC cost on machines."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...errors import MemoryLimitError
from ...ops import Receiver, Request, op, place_of, receive, wide_format
from ...ops.parts import Part, Results, results
from ...planner import POPLIBS_PROPORTION, Memory
from ...popops.reductions.compose import StepsBuilder
from ...target import MOST_TILES, Target, TargetLike, modelled_machine
from ...target.types import data_type, type_of
from ..rows.modelled import softmax_steps
from .params import LossParams
from .plan import LossPlan, planned_loss
from .request import Checked, LossCall, loss_call

_TYPES = ("float", "half")


class CTCLoss(NamedTuple):
    """What `ctc_loss_and_gradient` returns."""

    loss: Any
    grad: Any


@op("popnn::ctc::calcCTCLossLogProbabilities", bound="popnn.ctc.bound", draws="testing.ctc_calls")
def ctc_loss(data: Any, labels: Any, data_lengths: Any = None, label_lengths: Any = None, *, blank: int = 0,
             logits: bool = False, zero_infinity: bool = False, reduction: str = "none", out: Any = None,
             out_dtype: object = None, target: TargetLike = None) -> Any:
    """Return minus the log-probability of labels (``popnn::ctc::calcCTCLossLogProbabilities``, ``calcCTCLossLogits``).

    Parameters
    ----------
    data : array_like [T, N, C]
        Log-probabilities, or logits, of C classes at T steps of N sequences: float32, float16 or bfloat16, of any
        strides. Lists become float32. A log-probability may be minus infinity.
    labels : array_like of int [N, L]
        Each sequence's classes, none of them the blank. What comes after a sequence's length may be anything.
    data_lengths : array_like of int [N], optional
        Steps of each sequence; by default all T.
    label_lengths : array_like of int [N], optional
        Labels of each sequence, 0 too; by default all L.
    blank : int, optional
        The class that stands for no label.
    logits : bool, optional
        Whether `data` is to be normalised by a log-softmax over the classes, as ``calcCTCLossLogits`` does.
    zero_infinity : bool, optional
        Whether a loss is 0 where the labels are impossible.
    reduction : {"none", "sum", "mean"}, optional
        What becomes of the losses: nothing, their sum, or as torch has it the mean of each divided by its labels.
    out : array [N], or [] where they are reduced, optional
        Where the result goes.
    out_dtype : dtype, Format or str, optional
        float32, float16 or bfloat16; by default that of `data`.
    target : Target or str, optional
        The machine; by default this CPU. Modelled ones have PopLibs' plan of `ctc_loss_and_gradient`, with the same
        numbers, and none of a loss alone.

    Returns
    -------
    numpy.ndarray [N] or []
        Infinite where the labels are impossible: too long for the steps, or of no probability. (PopLibs' logarithm of
        0 is -65504, so that its loss is about 65504 there.)

    Notes
    -----
    Probabilities of paths are FP32 numbers with exponents of their own: of each step's sum, product and exponential
    only the relative errors count, at most ``5 2^-24`` together, and for logits ``2^-24 abs(x - max(x))``. Their sum
    over the steps bounds the loss's error, which is rounded once more. The bits are the same at every instruction-set
    level and for any strides and number of threads. NaN where an element of the sequence's labels is NaN or from 128
    on, or of logits any is NaN or plus infinity; a log-probability below -2^20 counts as minus infinity.

    Examples
    --------
    >>> even = np.full((2, 1, 2), np.log(0.5), np.float32)
    >>> popnn.ctc_loss(even, [[1]])                     # of four paths three
    array([0.2876821], dtype=float32)
    """
    asked = loss_call(data, labels, data_lengths, label_lengths, blank=blank, logits=logits,
                      zero_infinity=zero_infinity, reduction=reduction, out_dtype=out_dtype)
    receiver = receive("out", out, asked.losses, out_dtype, asked.data.format)
    wide_format("out", receiver.format)
    return _request(asked, receiver, target)


@op("popnn::ctc::calcLossAndGradientLogProbabilities", bound="popnn.ctc.bound", draws="testing.ctc_calls", written=None)
def ctc_loss_and_gradient(data: Any, labels: Any, data_lengths: Any = None, label_lengths: Any = None, *,
                          blank: int = 0, logits: bool = False, zero_infinity: bool = False, reduction: str = "none",
                          include_softmax_gradient: bool = True, out: Any = None, out_dtype: object = None,
                          target: TargetLike = None) -> Any:
    """Return a loss and its gradient (``calcLossAndGradientLogProbabilities``, ``calcLossAndGradientLogits``).

    Parameters
    ----------
    data, labels, data_lengths, label_lengths, blank, logits, reduction, target
        As for `ctc_loss`.
    zero_infinity : bool, optional
        Whether a loss and its gradient are 0 where the labels are impossible; the gradient is NaN there otherwise.
    include_softmax_gradient : bool, optional
        True (default): the gradient is that of the logits whose log-softmax the log-probabilities are, for both kinds
        of `data`, as PopLibs and torch have it. False: that of the log-probabilities themselves, which PopLibs refuses.
    out : tuple of two arrays, optional
        Where the loss and the gradient go.
    out_dtype : dtype, Format or str, optional
        float32, float16 or bfloat16, of both; by default that of `data`.

    Returns
    -------
    loss : numpy.ndarray [N] or []
        As `ctc_loss` returns it.
    grad : numpy.ndarray [T, N, C]
        Of the reduced loss, or of each sequence's own: the softmax, less the probability that the step is in a state of
        the class, given the labels. Zero from a sequence's end on, where PopLibs leaves the softmax.

    Notes
    -----
    As for `ctc_loss`; a posterior's relative error is at most twice that of a path.

    Examples
    --------
    >>> even = np.full((2, 1, 2), np.log(0.5), np.float32)
    >>> popnn.ctc_loss_and_gradient(even, [[1]]).grad[0, 0]     # half of the paths less a third and two
    array([ 0.16666666, -0.16666669], dtype=float32)
    """
    asked = loss_call(data, labels, data_lengths, label_lengths, blank=blank, logits=logits,
                      zero_infinity=zero_infinity, reduction=reduction, out_dtype=out_dtype,
                      softmax=include_softmax_gradient)
    dtype = asked.program.params.result
    made = results(out, (Part(asked.losses, dtype), Part(asked.data.shape, dtype)), CTCLoss)
    return _request(asked, made, target)


def _request(asked: LossCall, to: Receiver | Results, target: Any) -> Request:
    p = asked.program
    name = f"popnn.{str(p.params).partition(' ')[0]}"

    def plan_on(machine: Target) -> LossPlan | str:
        """PopLibs makes the loss with its gradient, of log-probabilities; those of logits come first."""
        own, word = p.params, type_of(p.params.format)
        if word not in _TYPES or own.result != own.format:
            return f"of {own.format} to {own.result}"
        if not own.gradient:
            return "without its gradient, which PopLibs' planner counts"
        if own.zero_infinity or not own.softmax:
            return "with zero_infinity, or but the gradient of a softmax"
        if not (own.time and own.batch and own.labels):
            return "of nothing"
        try:
            plan = planned_loss(LossParams(own.batch, own.time, own.labels, own.classes, word, "float"), machine)
        except MemoryLimitError as error:
            return f"within its memory: {error}"
        made = StepsBuilder(machine, word)
        if own.logits:
            made.take(softmax_steps("log_softmax", (own.time * own.batch, own.classes), (1,), word, machine))
        made.take(plan.steps)
        if asked.reduction != "none":
            made.reduce("sum", "ADD", (own.batch,), (0,), scaled=asked.reduction == "mean")
        if asked.reduction == "mean":
            made.broadcast("share", "MULTIPLY", (own.time, own.batch, own.classes), (own.batch, 1), in_place=True)
        return plan.with_steps(made.steps)

    placed = place_of(name, target, plan_on)
    return Request.to(to, Checked(asked), asked.operands, lambda: (str(p.params), p.kernel, p),
                      placed=placed)


def plan_ctc_loss(batch: int, time: int, labels: int, classes: int, *, dtype: object = "float16",
                  partials_type: str = "float", reduced_classes: bool = False,
                  available_memory_proportion: float | None = None, target: Target | str = "gc200") -> LossPlan:
    """Plan a CTC loss with its gradient on a modelled machine.

    Corresponds to PopLibs' ``popnn::ctc::plan``: the same split over tiles, the same cycles and bytes.

    Parameters
    ----------
    batch : int
        Sequences.
    time, labels : int
        Steps of the longest sequence, and labels of the longest one.
    classes : int
        Labels that there are, and the blank.
    dtype : Format, dtype or str, optional
        Of the probabilities: float32 or float16.
    partials_type : str, optional
        Of the sums of paths: ``"float"`` or ``"half"``.
    reduced_classes : bool, optional
        PopLibs' ``enableReducedClassesInLabel``: gradients are kept for the classes of a sequence's labels only.
    available_memory_proportion : float, optional
        The share of each tile's memory that temporaries may take; PopLibs' 0.6 by default.
    target : Target or str, optional
        The machine.

    Returns
    -------
    LossPlan
        Its `explain` tells the split, cycles and bytes.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value.
    MemoryLimitError
        If no plan keeps to the limit: PopLibs has no plan then.
    UnsupportedError
        If the machine is this CPU or has more than 4,096 tiles.

    Examples
    --------
    >>> from poplibs_py import popnn
    >>> plan = popnn.plan_ctc_loss(16, 45, 16, 64, partials_type="half", available_memory_proportion=0.02)
    >>> plan.cycles, plan.tiles_used
    (26496, 544)
    """
    types = data_type("dtype", dtype, _TYPES), data_type("partials_type", partials_type, _TYPES)
    proportion = POPLIBS_PROPORTION if available_memory_proportion is None else available_memory_proportion
    params = LossParams(batch, time, labels, classes, *types, reduced_classes)
    return planned_loss(params, modelled_machine(target, MOST_TILES), Memory(proportion))
