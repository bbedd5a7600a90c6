"""CTC decoders: which labels log-probabilities or logits most likely stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...checks import finite, flag, whole
from ...config import settings
from ...errors import bad_argument, bad_type
from ...ops import Operand, Request, op, place_of, wide_format
from ...ops.parts import Part, results
from ...target import MOST_TILES, Target, TargetLike, modelled_machine
from ...target.host_memory import check_memory
from ...target.types import type_of
from ..ctc.request import lengths, probabilities, row_strides
from .decode import Decoding
from .lower import lower, scratch_bytes, state_bytes
from .params import DecoderParams, InferenceParams
from .plan import InferencePlan, planned_inference

_MOST_BEAMS, _MOST_CANDIDATES = 1 << 16, 1 << 31


class CTCPaths(NamedTuple):
    """What CTC's decoders return."""

    log_probs: Any
    label_lengths: Any
    labels: Any


@op(bound="popnn.ctc_infer.bound", draws="testing.ctc_calls", written=None)
def ctc_greedy_decoder(data: Any, data_lengths: Any = None, *, blank: int = 0, logits: bool = False, out: Any = None,
                       out_dtype: object = None, target: TargetLike = None) -> Any:
    """Return the labels of the likeliest path: of each step the likeliest class (PopLibs has none).

    Parameters
    ----------
    data, data_lengths, blank, logits, target
        As for `popnn.ctc_loss`.
    out : tuple of three arrays, optional
        Where the results go.
    out_dtype : dtype, Format or str, optional
        float32, float16 or bfloat16, of the log-probability; by default that of `data`.

    Returns
    -------
    log_probs : numpy.ndarray [N, 1]
        Of the path, which is one of those that give the labels.
    label_lengths : numpy.ndarray of int32 [N, 1]
    labels : numpy.ndarray of int32 [N, 1, T]
        -1 after the last label.

    Notes
    -----
    Of equal classes the first is taken: the labels are exact. The log-probability is added up in float64, of logits
    with FP32 sums of exponentials. Of a sequence with NaN or plus infinity it is NaN, and there are no labels.

    Examples
    --------
    >>> steps = [[[0.0, 3.0, 0.0]], [[0.0, 3.0, 0.0]], [[3.0, 0.0, 0.0]], [[0.0, 0.0, 3.0]]]
    >>> popnn.ctc_greedy_decoder(steps, logits=True).labels[0, 0]
    array([ 1,  2, -1, -1], dtype=int32)
    """
    return _request(data, data_lengths, blank, logits, (0, 1, np.inf), None, out, out_dtype, target)


@op("popnn::ctc_infer::beamSearchDecoderLogProbabilities", bound="popnn.ctc_infer.bound", draws="testing.ctc_calls",
    written=None)
def ctc_beam_search_decoder(data: Any, data_lengths: Any = None, *, beams: int = 16, top_paths: int = 1,
                            blank: int = 0, logits: bool = False, threshold: float | None = None,
                            scorer: Callable[[tuple[int, ...]], Any] | None = None, out: Any = None,
                            out_dtype: object = None, target: TargetLike = None) -> Any:
    """Search for the likeliest labels (``popnn::ctc_infer::beamSearchDecoderLogProbabilities``, ``...Logits``).

    Parameters
    ----------
    data, data_lengths, blank, logits, target
        As for `popnn.ctc_loss`.
    beams : int, optional
        Prefixes of labels that are kept at each step: PopLibs' ``beamwidth``.
    top_paths : int, optional
        How many of them are returned, at most `beams`.
    threshold : float, optional
        Prefixes whose log-probability is more than this below that of the step's best are not kept either.
    scorer : callable, optional
        Given a prefix, a tuple of labels, returns C numbers below 128: what is added to the log-probability where the
        label of each class comes next. It is called once for each prefix that is kept; minus infinity forbids a label.
    out : tuple of three arrays, optional
        Where the results go.
    out_dtype : dtype, Format or str, optional
        float32, float16 or bfloat16, of the log-probabilities; by default that of `data`.

    Returns
    -------
    log_probs : numpy.ndarray [N, top_paths]
        Of all paths of the prefix that the search has met, descending; minus infinity where there are fewer prefixes.
        (PopLibs' documentation calls it negative, its functions return the same.)
    label_lengths : numpy.ndarray of int32 [N, top_paths]
    labels : numpy.ndarray of int32 [N, top_paths, T]
        -1 after the last label.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError, UnsupportedError
        As for `popnn.ctc_loss`; also where `scorer` returns anything else.

    Notes
    -----
    A prefix search: paths that end in a blank and others are kept apart, and those that come to the same prefix at a
    step are added. Probabilities are FP32 numbers with exponents of their own, so that log-probabilities have the error
    of `popnn.ctc_loss`. Which prefixes are kept is decided by FP32 logarithms relative to the step's best prefix; which
    of equal ones, is not specified. The bits are the same at every instruction-set level and for any strides and number
    of threads. Of a sequence with NaN or plus infinity log-probabilities are NaN, and there are no labels.

    Examples
    --------
    >>> logs = np.log(np.float32([[[0.6, 0.4]], [[0.6, 0.4]]]))     # the best path is of blanks; most paths are not
    >>> found = popnn.ctc_beam_search_decoder(logs)
    >>> found.labels[0, 0], np.exp(found.log_probs[0]).round(4)
    (array([ 1, -1], dtype=int32), array([0.64], dtype=float32))
    """
    beams = whole("beams", beams, 1, _MOST_BEAMS)
    top_paths = whole("top_paths", top_paths, 1, beams)
    far = np.inf if threshold is None else finite("threshold", threshold, 0.0, 1e6)
    if not (scorer is None or callable(scorer)):
        raise bad_type("scorer", scorer, "a function of a prefix, or None")
    return _request(data, data_lengths, blank, logits, (beams, top_paths, far), scorer, out, out_dtype, target)


def _request(data: Any, data_lengths: Any, blank: Any, logits: Any, search: tuple[int, int, float], scorer: Any,
             out: Any, out_dtype: object, target: Any) -> Request:
    beams, paths, threshold = search
    x: Operand = probabilities("data", data)
    steps, batch, classes = x.shape
    ends = lengths("data_lengths", data_lengths, batch, steps)
    params = DecoderParams(steps, batch, classes, row_strides(x), x.format, whole("blank", blank, 0, classes - 1),
                           flag("logits", logits), beams, paths, threshold, scorer is not None)
    if beams * classes >= _MOST_CANDIDATES or beams * steps >= _MOST_CANDIDATES:
        raise bad_argument("beams", beams, f"beams that, times classes or steps, are below {_MOST_CANDIDATES:,}")
    needed = scratch_bytes(params) + (0 if scorer is None else batch * (state_bytes(params) + 4 * beams * classes))
    check_memory("beams", f"{beams} at {steps} steps", needed)
    dtype, word = wide_format("out_dtype", out_dtype, x.format), np.dtype(np.int32)
    made = results(out, (Part((batch, paths), dtype), Part((batch, paths), word), Part((batch, paths, steps), word)),
                   CTCPaths)
    program = lower(params, settings.num_threads)
    name = str(params).partition(" ")[0].strip(",")

    def plan_on(machine: Target) -> InferencePlan | str:
        plain = beams and not logits and np.isinf(threshold) and scorer is None
        if not (plain and type_of(x.format) and dtype == x.format):
            return "but of log-probabilities by beams, without a threshold or a scorer"
        if not (steps and batch and classes > 1):
            return "of nothing"
        return planned_inference(InferenceParams(batch, classes, beams), machine).over(steps)

    placed = place_of(f"popnn.{name}", target, plan_on)
    return Request.to(made, Decoding(program, scorer), (x, ends), program.told, placed=placed)


def plan_ctc_inference(batch: int, classes: int, beams: int, *, target: Target | str = "gc200") -> InferencePlan:
    """Plan the search for the likeliest labels by beams on a modelled machine.

    Corresponds to PopLibs' ``popnn::ctc_infer::plan``: the same split over tiles.

    Parameters
    ----------
    batch : int
        Sequences.
    classes : int
        Labels that there are, and the blank.
    beams : int
        Sequences of labels that are kept at each step.
    target : Target or str, optional
        The machine.

    Returns
    -------
    InferencePlan

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value.
    UnsupportedError
        If the machine is this CPU or has more than 4,096 tiles.

    Examples
    --------
    >>> from poplibs_py import popnn
    >>> popnn.plan_ctc_inference(8, 100, 2).tiles_used
    792
    """
    return planned_inference(InferenceParams(batch, classes, beams), modelled_machine(target, MOST_TILES))
