"""Counts: histograms between levels, and how often each whole number is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...checks import check_shape, flag, whole
from ...config import settings
from ...errors import bad_argument, bad_type
from ...formats import BF16, FP16, FP32, Array
from ...ops import AS_ASKED, RESULT, Operand, Request, new_result, op, place_of, receive, run_told, whole_operand
from ...ops import argument as array_argument
from ...ops.one_kernel import OneKernel
from ...ops.road import Told
from ...program import Executable, Sequence
from ...target import TargetLike
from ...target.types import type_of
from ..elementwise.binary import gt, neq
from ..reductions.lower import ReduceParams, Way
from ..reductions.modelled import plan_histogram
from ..reductions.request import counted_source, program_request, source_of
from ..sequence import SequenceBuilder
from ..strided.lower import StridedOperand
from ..strided.request import has_scale
from .lower import lower_bincount, lower_greatest, lower_histogram

_COUNTS, _COUNTED = np.dtype(np.uint32), np.dtype(np.int64)
_BINCOUNT = Way("bincount", "sum", "plain")
_MOST_BINS = 1 << 28
_WEIGHTS = "float32, float16, bfloat16 or integer numbers"
_ASCENDING = "ascending numbers"
_NUMBERS = "float32, float16, bfloat16 or FP8 numbers, or a QuarterArray"


@op("popops::histogram", bound="popops.reductions.scan_bound", draws="testing.reduce_calls")
def histogram(x: Any, levels: Any, *, absolute_of_input: bool = False, update: bool = False, out: Any = None,
              target: TargetLike = None) -> Any:
    """Count how many numbers fall between levels (``popops::histogram``).

    Parameters
    ----------
    x : array_like or QuarterArray
        float32, float16, bfloat16 or FP8 numbers, of any shape and strides. Lists become float32.
    levels : array_like [L]
        Ascending numbers that float32 holds, one or more.
    absolute_of_input : bool, optional
        Whether magnitudes are counted.
    update : bool, optional
        Whether the counts are added to what `out` holds.
    out : array of uint32 [L + 1], optional
        Where the counts go.
    target : Target or str, optional
        The machine; by default this CPU.

    Returns
    -------
    numpy.ndarray of uint32 [L + 1]
        Bin i counts ``levels[i - 1] <= x < levels[i]``; the first and the last have no end. NaN is counted in the last.

    Notes
    -----
    Exact, on modelled machines too. PopLibs' kernels count in floats, which end at 2^24 a worker.

    Examples
    --------
    >>> popops.histogram([-1.0, 0.0, 0.5, 3.0], [0.0, 1.0])
    array([1, 2, 1], dtype=uint32)
    """
    source = counted_source(x, _NUMBERS)
    held = array_argument("levels", levels, "an array of ascending numbers", np.float32)
    edges = _levels(held.array)
    if source.format is None:
        raise bad_type("x", f"dtype {source.array.dtype}", _NUMBERS)
    magnitudes, adds = flag("absolute_of_input", absolute_of_input), flag("update", update)
    if adds and out is None:
        raise bad_argument("update", update, "False without `out`, which it adds to")
    bins, form = edges.size + 1, source.format
    lacks = "" if type_of(form) in ("float", "half") and not has_scale(source) else f"of {form}" + " with a scale" * (
        has_scale(source))
    placed = place_of(histogram, target, lambda machine: lacks or plan_histogram(
        source.shape, edges.size, magnitudes, type_of(form), machine))
    receiver = receive("out", out, (bins,), None, _COUNTS, reads=adds, contiguous=True)

    def made(read: StridedOperand) -> OneKernel:
        params = ReduceParams(Way("histogram", "sum", "plain"), read.format, read.scale, source.shape, read.strides,
                              tuple(range(len(source.shape))), _COUNTS, 0, 1.0, adds)
        return lower_histogram(params, bins, magnitudes, settings.num_threads)

    request = program_request(source, made, receiver, placed, edges)
    if isinstance(request.program, Executable) and held.array.dtype == np.float32:
        held = held.in_c_order()
        program = _checked(request.program, request.tell, source.array, receiver.array, edges)
        return request.with_(program=program, operands=(source, RESULT, held))
    return request.with_(keep=False)  # the levels were looked at


def _checked(program: Executable, tell: Callable[[], Told], x: Array, counts: Array, edges: Array) -> Sequence:
    """Return what counts between levels if these ascend."""
    steps = SequenceBuilder(x, counts, edges)
    levels = steps.operands[2]
    steps.end_where(steps.call(neq, levels, levels))
    if len(edges) > 1:
        steps.end_where(steps.call(gt, levels[:-1], levels[1:]))
    steps.run(program, *steps.operands, kernel=lambda: tell()[1])
    return steps.made(lambda _, x, counts, edges: bad_argument("levels", edges, _ASCENDING))


def _levels(given: Array) -> Array:
    """Ascending levels in FP32."""
    if given.dtype.kind not in "biufV":
        raise bad_type("levels", f"dtype {given.dtype}", _ASCENDING)
    check_shape("levels", given, given.ndim == 1 and given.size, "one axis, with a level or more")
    with np.errstate(all="ignore"):
        edges = np.ascontiguousarray(given.astype(np.float32))
        if not np.array_equal(edges.astype(np.float64), given.astype(np.float64), equal_nan=True):
            raise bad_argument("levels", given, "numbers that float32 holds")
    if not (edges[1:] >= edges[:-1]).all() or np.isnan(edges).any():
        raise bad_argument("levels", given, _ASCENDING)
    return edges


@op(bound="popops.reductions.scan_bound", draws="testing.reduce_calls", written=None, lacks="in any form")
def bincount(x: Any, weights: Any = None, *, minlength: int = 0, target: TargetLike = None) -> Any:
    """Count how often each whole number is there, or add weights (NumPy's ``bincount``; PopLibs has none).

    Parameters
    ----------
    x : array_like of int [n]
        Whole numbers from 0 on.
    weights : array_like [n], optional
        float32, float16 or bfloat16 numbers, or integers: what each counts; no truth values. Lists become float32.
    minlength : int, optional
        The least number of bins.

    Returns
    -------
    numpy.ndarray
        int64 counts of 0, 1, and so on to the greatest element; float32 where there are weights.

    Notes
    -----
    Weights are added in float64 and ascending order, and rounded to float32 once.

    Examples
    --------
    >>> popops.bincount(np.array([0, 2, 2])), popops.bincount(np.array([0, 2, 2]), [1.0, 0.5, 0.25])
    (array([1, 0, 2]), array([1.  , 0.  , 0.75], dtype=float32))
    """
    least = whole("minlength", minlength, 0, _MOST_BINS)
    numbers = whole_operand("x", x)
    dtype = numbers.array.dtype
    check_shape("x", numbers, numbers.array.ndim == 1, "an array of whole numbers, of one axis")
    added = None if weights is None else _weights(weights).in_c_order()
    check_shape("weights", added, added is None or added.shape == numbers.shape, f"shape {numbers.shape}, that of x")
    made = _COUNTED if added is None else np.dtype(np.float32)
    params = ReduceParams(_BINCOUNT, dtype, 0, numbers.shape, numbers.array.strides, (0,), made, 0, 1.0, False)
    bins = max(least, _greatest(numbers.array, params) + 1)
    program = lower_bincount(params, 1 << max(0, bins - 1).bit_length(),
                             None if added is None else added.format or added.array.dtype, settings.num_threads)
    operands = numbers, RESULT, np.array([bins]), *(() if added is None else (added,))
    return Request(program.executable, operands, new_result((bins,), made), program.told, keep=False)


def _greatest(numbers: Array, params: ReduceParams) -> int:
    """The greatest of whole numbers, -1 of none; or raise where there are others than bins."""
    if not numbers.size:
        return -1
    program = lower_greatest(params, settings.num_threads)
    found = np.zeros(program.threads, np.int64)
    run_told("popops.bincount", program.told, program.executable, numbers, found, written=found, placed=AS_ASKED)
    if found.min() < 0 or found.max() >= _MOST_BINS:
        raise bad_argument("x", f"numbers from {numbers.min()} to {numbers.max()}", f"0 to {_MOST_BINS - 1}")
    return int(found.max())


def _weights(weights: Any) -> Operand:
    """Weights as an operand."""
    held = source_of(weights, "weights", _WEIGHTS)
    dtype = held.array.dtype
    if held.format not in (FP32, FP16, BF16) and dtype.kind not in "iu":
        raise bad_type("weights", f"dtype {dtype}", _WEIGHTS)
    return held
