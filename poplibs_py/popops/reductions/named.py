"""PopOps' reductions, and NumPy's: each over any axes, of numbers of any format.

A row, the elements that make one result, is taken in C order of the reduced axes. Blocks of 512 elements are reduced in
FP32: lane r mod 16 of part r / 16 mod 4 takes its elements r one after another, then parts are joined by twos, then
lanes by halves, so that an element meets at most 13 roundings, and no more than 2 log2 n. What blocks come to is merged
in float64, and rounded to FP32 once. The order is the row's alone: all levels, thread counts, strides and axes give the
same bits. The bodies are in ``src_cython/kernels/reduce``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...checks import finite, flag, whole
from ...errors import bad_argument
from ...ops import Request, op
from ...ops.record import Function
from ...target import TargetLike
from .lower import Way
from .request import OPERATIONS, TRUTH, Reduction, by_numpy, reduction_request

__all__ = ["all", "any", "argmax", "argmin", "has_nan", "has_nan_or_inf", "logsumexp", "max", "mean", "min", "norm",
           "prod", "square_sum", "standard_deviation", "sum", "variance"]

Axes = int | Sequence[int] | None

OfCount = Callable[[int], Reduction]

_COMMON = {"keepdims", "out", "out_dtype", "target"}
_INDEX = np.dtype(np.int64)

_FIRST = """
    Parameters
    ----------
    x : array_like or QuarterArray
        {allowed}, of any shape and strides. Lists become float32.
    axes : int or sequence of int, optional
        The axes that are reduced; all by default. Negative ones count from the last.
    keepdims : bool, optional
        Whether reduced axes stay, with an extent of 1.
"""
_COMPENSATED = """    compensated : bool, optional
        Whether what roundings take away is kept and added at the end (Knuth's exact sum of two): the result is then as
        good as one of twice the precision, rounded once.
"""
_LAST = """    out : array or QuarterArray, optional
        Where the result goes, of any strides; it may overlap `x`.
{dtype}    target : Target or str, optional
        The machine; by default this CPU.

    Returns
    -------
    numpy.ndarray
        `out`, or a new array{shape}.
"""
_OUT_DTYPE = """    out_dtype : Format, dtype or str, optional
        The result's format; by default that of `out`. Without one: that of `x`, or float16 where that is FP8.
"""
_NUMBERS = "float32, float16, bfloat16, FP8 or integer numbers"
_ANY = "float32, float16, bfloat16 or FP8 numbers, integers or truth values"


def _reduction(poplibs: str, made: Reduction | Callable[..., Reduction | OfCount], *own: str, allowed: str = _NUMBERS,
               form: bool = True, shape: str = "", compensated: bool = False) -> Callable[[Function], Function]:
    """Make a function that has a docstring alone the reduction of its name. What all share goes into the docstring.

    Parameters
    ----------
    poplibs : str
    made : Reduction or callable
        What it is, or what makes that of its own parameters, perhaps of how many elements make one result.
    *own : str
        What its own parameters are, for the docstring.
    allowed : str
        What it takes.
    form : bool
        Whether its result has a format.
    shape : str
        What the result is, for the docstring.
    compensated : bool
        Whether it may be compensated.
    """
    def describe(name: str, /, x: Any, axes: Axes, **named: Any) -> Request:
        values = {key: named.pop(key) for key in tuple(named) if key not in _COMMON}
        of = made if isinstance(made, Reduction) else made(**values)
        return reduction_request(name, x, axes, of if callable(of) else lambda _: of, **named)

    last = _LAST.format(dtype=_OUT_DTYPE * form, shape=shape)
    return op(poplibs, bound="popops.reductions.bound", draws="testing.reduce_calls", by=describe,
              shared=_FIRST.format(allowed=allowed) + "".join(own) + _COMPENSATED * compensated + last)


def _mean_of_integers(x: Any, axes: Any) -> Any:
    return np.asarray(np.mean(x, axis=axes, dtype=np.float64)).astype(np.float32)


def _mean(compensated: object) -> OfCount:
    way = _sum_way("sum", compensated)
    return lambda n: Reduction(way, math.nan, _mean_of_integers, scale=1 / n if n else 1.0)


def _variance_of_integers(scale: float, root: bool) -> Callable[..., Any]:
    def spread(x: Any, axes: Any) -> Any:
        apart = x - np.mean(x, axis=axes, dtype=np.float64, keepdims=True)
        made = np.sum(apart * apart, axis=axes) * scale
        return np.asarray(np.sqrt(made) if root else made).astype(np.float32)

    return spread


def _sum_way(kernel: str, compensated: object, finish: str = "plain") -> Way:
    if flag("compensated", compensated):
        return Way(f"compensated_{kernel}", "compensated", finish)
    return Way(kernel, "sum", finish)


@_reduction("popops::reduce (ADD)", lambda compensated: Reduction(_sum_way("sum", compensated), 0.0, by_numpy(np.sum)),
            compensated=True, allowed=_ANY)
def sum(x: Any, axes: Axes = None, *, keepdims: bool = False, compensated: bool = False, out: Any = None,
        out_dtype: object = None, target: TargetLike = None) -> Any:
    """Sum (``popops::reduce`` of ``ADD``; NumPy's ``sum``).

    Within ``min(13, 2 log2 n) u sum(abs(x))``, u being 2^-24, and one rounding; `compensated`: one rounding and about
    ``340 u^2 sum(abs(x))``. Of nothing 0. Integers and truth values are added by NumPy, in its widest type.

    Examples
    --------
    >>> popops.sum(np.ones((2, 3), np.float32), axes=0)
    array([2., 2., 2.], dtype=float32)
    >>> float(popops.sum([1e8, 1.0, -1e8], compensated=True))
    1.0
    """


@_reduction("popops::reduce (SQUARE_ADD)", lambda compensated: Reduction(_sum_way("square_sum", compensated), 0.0,
            None), compensated=True, allowed="float32, float16, bfloat16 or FP8 numbers")
def square_sum(x: Any, axes: Axes = None, *, keepdims: bool = False, compensated: bool = False, out: Any = None,
               out_dtype: object = None, target: TargetLike = None) -> Any:
    """Sum of squares (``popops::reduce`` of ``SQUARE_ADD``).

    As `sum`, of exact squares: each is rounded with its sum. Of nothing 0.

    Examples
    --------
    >>> float(popops.square_sum([3.0, 4.0]))
    25.0
    """


@_reduction("popops::reduce (ADD)", _mean, compensated=True, allowed=_ANY)
def mean(x: Any, axes: Axes = None, *, keepdims: bool = False, compensated: bool = False, out: Any = None,
         out_dtype: object = None, target: TargetLike = None) -> Any:
    """Mean (NumPy's ``mean``).

    The sum as `sum` has it, before it is rounded, divided by the number of elements. Of nothing NaN. Of integers and
    truth values float32, rounded once from NumPy's float64.

    Examples
    --------
    >>> float(popops.mean([1.0, 2.0, 6.0]))
    3.0
    """


@_reduction("popops::reduce (MUL)", replace(OPERATIONS["MUL"], integers=by_numpy(np.prod)), allowed=_ANY)
def prod(x: Any, axes: Axes = None, *, keepdims: bool = False, out: Any = None, out_dtype: object = None,
         target: TargetLike = None) -> Any:
    """Product (``popops::reduce`` of ``MUL``; NumPy's ``prod``).

    Within ``n u`` of the product, where no part of it is too large or too small. Of nothing 1. Integers and truth
    values are multiplied by NumPy, in its widest type.

    Examples
    --------
    >>> float(popops.prod([1.0, 2.0, 6.0]))
    12.0
    """


@_reduction("popops::reduce (MAX)", replace(OPERATIONS["MAX"], empty=None), allowed=_ANY)
def max(x: Any, axes: Axes = None, *, keepdims: bool = False, out: Any = None, out_dtype: object = None,
        target: TargetLike = None) -> Any:
    """Greatest element, exact (``popops::reduce`` of ``MAX``; NumPy's ``max``).

    NaN where an element is, as in NumPy: PopLibs' kernels may pass over it. Of nothing it is refused; see `reduce`.

    Examples
    --------
    >>> popops.max([[1.0, 2.0], [6.0, 0.0]], axes=1)
    array([2., 6.], dtype=float32)
    """


@_reduction("popops::reduce (MIN)", replace(OPERATIONS["MIN"], empty=None), allowed=_ANY)
def min(x: Any, axes: Axes = None, *, keepdims: bool = False, out: Any = None, out_dtype: object = None,
        target: TargetLike = None) -> Any:
    """Least element, exact (``popops::reduce`` of ``MIN``; NumPy's ``min``).

    As `max`.

    Examples
    --------
    >>> popops.min([[1.0, 2.0], [6.0, 0.0]], axes=1)
    array([1., 0.], dtype=float32)
    """


@_reduction("popops::reduce (LOGICAL_OR)", OPERATIONS["LOGICAL_OR"], allowed=_ANY, form=False,
            shape=" of truth values")
def any(x: Any, axes: Axes = None, *, keepdims: bool = False, out: Any = None, target: TargetLike = None) -> Any:
    """Whether an element is not zero (``popops::reduce`` of ``LOGICAL_OR``; NumPy's ``any``).

    NaN is not zero. Of nothing False.

    Examples
    --------
    >>> popops.any([[0.0, 2.0], [0.0, -0.0]], axes=1)
    array([ True, False])
    """


@_reduction("popops::reduce (LOGICAL_AND)", OPERATIONS["LOGICAL_AND"], allowed=_ANY, form=False,
            shape=" of truth values")
def all(x: Any, axes: Axes = None, *, keepdims: bool = False, out: Any = None, target: TargetLike = None) -> Any:
    """Whether no element is zero (``popops::reduce`` of ``LOGICAL_AND``, ``popops::allTrue``; NumPy's ``all``).

    NaN is not zero. Of nothing True.

    Examples
    --------
    >>> popops.all([[0.0, 2.0], [1.0, -1.0]], axes=1)
    array([False,  True])
    """


def _never(x: Any, axes: Any) -> Any:
    """Integers are finite."""
    return np.zeros([n for d, n in enumerate(x.shape) if d not in axes], np.bool_)


@_reduction("popops::hasNaN", Reduction(Way("nan", "max", "nonzero"), 0.0, _never, TRUTH),
            allowed=_ANY, form=False, shape=" of truth values")
def has_nan(x: Any, axes: Axes = None, *, keepdims: bool = False, out: Any = None, target: TargetLike = None) -> Any:
    """Whether an element is NaN (``popops::hasNaN``).

    Of nothing, and of integers, False.

    Examples
    --------
    >>> bool(popops.has_nan([1.0, float("nan")]))
    True
    """


@_reduction("popops::hasNaNOrInf", Reduction(Way("not_finite", "max", "nonzero"), 0.0, _never, TRUTH),
            allowed=_ANY, form=False, shape=" of truth values")
def has_nan_or_inf(x: Any, axes: Axes = None, *, keepdims: bool = False, out: Any = None,
                   target: TargetLike = None) -> Any:
    """Whether an element is NaN or infinite (``popops::hasNaNOrInf``).

    Of nothing, and of integers, False.

    Examples
    --------
    >>> bool(popops.has_nan_or_inf([1.0, 2.0]))
    False
    """


def _spread(finish: str, ddof: Any) -> OfCount:
    less, way = whole("ddof", ddof, 0, 1 << 31), Way("moments", "moments", finish)

    def made(n: int) -> Reduction:
        scale = 1 / (n - less) if n > less else math.inf
        return Reduction(way, math.nan, _variance_of_integers(scale, finish == "deviation"), scale=scale)

    return made


_DDOF = """    ddof : int, optional
        What is taken from the number of elements before the division: 1 for the unbiased estimate.
"""


@_reduction("popops::reduce (SQUARE_ADD)", partial(_spread, "spread"), _DDOF, allowed=_ANY)
def variance(x: Any, axes: Axes = None, *, ddof: int = 0, keepdims: bool = False, out: Any = None,
             out_dtype: object = None, target: TargetLike = None) -> Any:
    """Variance (NumPy's ``var``).

    Notes
    -----
    Of each block of 512 elements the mean, then the sums of what lies apart from it and of the squares of that, in
    FP32; blocks are merged in float64 (Chan, Golub and LeVeque). Within ``50 u`` of the variance and a rounding,
    however large the mean: a mean square m adds at most ``16000 u^3 m``. Of nothing NaN; NaN or infinity where `ddof`
    leaves nothing to divide by. Of integers and truth values float32, rounded once from NumPy's float64.

    Examples
    --------
    >>> float(popops.variance([10001.0, 10003.0])), float(popops.variance([1.0, 3.0], ddof=1))
    (1.0, 2.0)
    """


@_reduction("popops::reduce (SQUARE_ADD)", partial(_spread, "deviation"), _DDOF, allowed=_ANY)
def standard_deviation(x: Any, axes: Axes = None, *, ddof: int = 0, keepdims: bool = False, out: Any = None,
                       out_dtype: object = None, target: TargetLike = None) -> Any:
    """Standard deviation (NumPy's ``std``).

    The root of the `variance`, taken before that is rounded.

    Examples
    --------
    >>> float(popops.standard_deviation([10001.0, 10003.0]))
    1.0
    """


_ORD = """    ord : {1, 2, inf}, optional
        Which norm: the sum of magnitudes, the Euclidean one (default), or the greatest magnitude.
"""
_NORMS = {1: Way("abs_sum", "sum", "plain"), 2: Way("square_sum", "sum", "sqrt"),
          math.inf: Way("abs_max", "max", "plain")}


def _norm(ord: Any, compensated: object) -> Reduction:
    kind = math.inf if isinstance(ord, float) and ord == math.inf else finite("ord", ord)
    if kind not in _NORMS:
        raise bad_argument("ord", ord, "1, 2 or math.inf")
    way = _NORMS[kind]
    if flag("compensated", compensated):
        if kind != 2:
            raise bad_argument("compensated", compensated, "False where `ord` is not 2")
        way = _sum_way("square_sum", compensated, "sqrt")
    return Reduction(way, 0.0, None)


@_reduction("popops::reduce (SQUARE_ADD)", _norm,
            _ORD, allowed="float32, float16, bfloat16 or FP8 numbers", compensated=True)
def norm(x: Any, axes: Axes = None, *, ord: float = 2, keepdims: bool = False, compensated: bool = False,
         out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Norm of the elements as one vector (NumPy's ``linalg.norm`` of it).

    Sums as `sum` and `square_sum` have them; the root is taken before they are rounded. Squares that overflow FP32 make
    infinity. Of nothing 0. `compensated` is for `ord` 2.

    Examples
    --------
    >>> float(popops.norm([3.0, -4.0])), float(popops.norm([3.0, -4.0], ord=1))
    (5.0, 7.0)
    """


@_reduction("popops::reduce (LOG_ADD)", OPERATIONS["LOG_ADD"],
            allowed="float32, float16, bfloat16 or FP8 numbers")
def logsumexp(x: Any, axes: Axes = None, *, keepdims: bool = False, out: Any = None, out_dtype: object = None,
              target: TargetLike = None) -> Any:
    """log(sum(exp(x))), without overflow (``popops::reduce`` of ``LOG_ADD``; SciPy's ``logsumexp``).

    Notes
    -----
    Of each block the greatest element, then the sum of exponentials of what the others lie below it, in FP32; blocks
    are merged in float64. Within ``(16 + t) u`` and one rounding, t being the mean distance to the greatest element,
    weighted by the exponentials: at most log n. Minus infinity of nothing and of minus infinities alone, where PopLibs'
    kernels give their least finite number.

    Examples
    --------
    >>> float(popops.logsumexp([1000.0, 1000.0]))
    1000.6931762695312
    """


def _flat_place(function: Any) -> Callable[..., Any]:
    """The place of an extreme over several axes, in their C order."""
    def places(x: Any, axes: Any) -> Any:
        kept = [d for d in range(x.ndim) if d not in axes]
        rows = x.transpose(*kept, *axes).reshape(*(x.shape[d] for d in kept), -1)
        return np.asarray(function(rows, axis=-1), np.int64)

    return places


@_reduction("popnn::argMax", Reduction(Way("argmax", "argmax", "index"), None, _flat_place(np.argmax), _INDEX),
            allowed=_ANY, form=False, shape=" of int64")
def argmax(x: Any, axes: Axes = None, *, keepdims: bool = False, out: Any = None, target: TargetLike = None) -> Any:
    """Place of the first greatest element (``popnn::argMax``; NumPy's ``argmax``).

    In C order of the axes that are reduced. The first NaN where there is one, as in NumPy. Of nothing it is refused.

    Examples
    --------
    >>> popops.argmax([[1.0, 7.0, 7.0], [6.0, 0.0, 2.0]], axes=1)
    array([1, 0])
    """


@_reduction("popnn::argMin", Reduction(Way("argmin", "argmin", "index"), None, _flat_place(np.argmin), _INDEX),
            allowed=_ANY, form=False, shape=" of int64")
def argmin(x: Any, axes: Axes = None, *, keepdims: bool = False, out: Any = None, target: TargetLike = None) -> Any:
    """Place of the first least element (``popnn::argMin``; NumPy's ``argmin``).

    As `argmax`.

    Examples
    --------
    >>> int(popops.argmin([1.0, 7.0, 0.0, 0.0]))
    2
    """
