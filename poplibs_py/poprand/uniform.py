"""Uniform and log-uniform numbers, and raw bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..checks import finite, whole
from ..errors import bad_argument, bad_type
from ..formats import BF16, FP16, FP32, format_of
from ..memo import remembered, tabled
from .arguments import (
    INT32,
    LARGEST,
    DType,
    Seed,
    Shape,
    Stream,
    TargetLike,
    TileMapping,
    at_least,
    dtype_of,
    next_below,
    positive,
)
from .law import Law, law_of
from .where import Where, random_op


@random_op(lacks="in any form")
def bits(shape: Shape | None, *, dtype: DTypeLike = np.uint32, seed: Seed = None, seed_modifier: int = 0,
         offset: int = 0, out: Any = None, target: TargetLike = None) -> Any:
    """Draw random bits: the counter stream itself.

    Parameters
    ----------
    shape : int or tuple of int
        Shape of the result; None takes that of `out`.
    dtype : dtype-like, optional
        An integer dtype of 1, 2, 4 or 8 bytes. Element i is word i of the stream, read as such words.
    seed, seed_modifier, offset, out
        As in `uniform`.

    Returns
    -------
    ndarray

    Examples
    --------
    >>> hex(poprand.bits(1, dtype="uint64", seed=42)[0])
    '0x66a61dd950405f90'
    """
    return Where(seed, seed_modifier, "counter", offset).counted(bits_law(dtype), shape, out)


def bits_law(dtype: Any) -> Law:
    """Return the law of words of an integer dtype."""
    try:
        element = np.dtype(dtype if isinstance(dtype, (str, type, np.dtype)) else np.void)
    except Exception:  # a type may have an attribute `dtype` that is anything
        raise bad_type("dtype", dtype, "an integer dtype") from None
    if element.kind not in "ui" or not element.isnative:
        raise bad_type("dtype", dtype, "an integer dtype in the machine's byte order")
    return law_of("bits", "bytes", element)


@random_op("poprand::uniform")
def uniform(shape: Shape | None, low: float = 0.0, high: float = 1.0, *, dtype: DType = np.float32, seed: Seed = None,
            seed_modifier: int = 0, stream: Stream = "counter", offset: int = 0, out: Any = None,
            target: TargetLike = None, tile_mapping: TileMapping = None) -> Any:
    """Draw numbers that are uniform between two limits.

    Corresponds to PopLibs' ``poprand::uniform``.

    Parameters
    ----------
    shape : int or tuple of int
        Shape of the result; None takes that of `out`.
    low, high : float or int
        The limits, ``low <= high``. Floating formats: the result lies in ``[low, high)``. int32: in ``[low, high]``, as
        in PopLibs. ``stream="ipu"``: in ``[low, high]``, but by PopLibs' rule float16 may round past them, and so may
        float32 where the limits are a few ulps apart or subnormal.
    dtype : dtype-like or Format, optional
        float32 (default), float16, bfloat16, an FP8 dtype, or int32. ``stream="ipu"``: float32, float16 or int32.
    seed : (int, int) or int, optional
        Two 32-bit words (s0, s1), or the 64-bit number ``s0 + 2**32 * s1``. Without a seed the call continues the
        stream that `set_seed` starts; what it drew is not drawn again.
    seed_modifier : int, optional
        32 bits; another modifier gives an independent stream of the same seed.
    stream : {"counter", "ipu"}, optional
        ``"counter"``: element i depends on seed, modifier and i alone. ``"ipu"``: the numbers of a modelled IPU, which
        depend on which tile holds which element.
    offset : int, optional
        Logical index of the first element: ``uniform(n, offset=k)`` is ``uniform(n + k)[k:]``. Counter stream with a
        seed only.
    out : ndarray or tensor, optional
        Filled and returned, any strides.
    target : Target or str, optional
        The modelled IPU of ``stream="ipu"``; a GC200 by default.
    tile_mapping : sequence of sequences of (int, int), optional
        For ``stream="ipu"``: for each tile, the intervals [begin, end) of flattened elements that it holds. By
        default as PopLibs maps a tensor linearly.

    Returns
    -------
    ndarray

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        For limits that are not finite, out of order or beyond the dtype, and for every other bad argument; nothing is
        drawn then.

    Notes
    -----
    Counter stream, floating formats: ``u * (high - low) + low`` in FP32, each operation rounded, then rounded to the
    format, where u has 24 random bits for float32 and 16 for the others, and ``low`` was first rounded up to the
    format. What would reach ``high`` becomes the format's largest number below it. float16 and bfloat16 in [0, 1)
    take a shorter way: their 16 bits times 2**-16, rounded down. int32: the high word of ``word * (high - low + 1)``
    for a 64-bit word, redrawn where that is not exactly uniform (Lemire, arXiv 1805.10941).

    IPU: PopLibs' scale and offset rules with u in [-1/2, 1/2], in the arithmetic of the dtype; int32 by its three
    ranges (float32 product below 2**24, 16-bit partial products above, the bits themselves for all of int32).

    Examples
    --------
    >>> x = poprand.uniform(1000, -1, 1, seed=(1, 2))
    >>> bool((x[300:] == poprand.uniform(700, -1, 1, seed=(1, 2), offset=300)).all())
    True
    >>> poprand.uniform(5, 1, 6, dtype="int32", seed=7).dtype
    dtype('int32')
    """
    where = Where(seed, seed_modifier, stream, offset, target, tile_mapping)
    element = dtype_of(dtype, (INT32,))
    if element is INT32:
        first, last = _integer_limits(low, high)
        count = last - first + 1
        return where.drawn(
            lambda: law_of("uniform", "int32", INT32, range=count, threshold=(1 << 64) % count, offset=first),
            lambda dealer, n: dealer.uniform_integers(n, first, last), shape, element, out)
    begin, end = _limits(low, high, element)
    return where.drawn(lambda: _uniform(begin, end, element), lambda dealer, n: dealer.uniform(n, begin, end, element),
                       shape, element, out)


@remembered(weight=4)
def _uniform(begin: float, end: float, element: np.dtype[Any]) -> Law:
    form = format_of(element)
    start = at_least(begin, element)
    if start > end:
        raise bad_argument("low", begin, f"limits with a {form.name} number between them")
    bits_drawn = 24 if form is FP32 else 16
    name = "unit" if form in (FP16, BF16) and (begin, end) == (0.0, 1.0) else "uniform"
    return law_of(name, form.name, element, scale=float(np.float32(end - start)) * 2.0**-bits_drawn, shift=start,
                  high=max(next_below(end, element), start))


def _limits(low: object, high: object, dtype: np.dtype[Any]) -> tuple[float, float]:
    """Two finite limits in order, within the dtype, their difference within float32."""
    most = _largest(dtype)
    begin, end = finite("low", low, -most, most), finite("high", high, -most, most)
    if begin > end:
        raise bad_argument("low", low, f"at most high, which is {end:g}")
    if end - begin > LARGEST:
        raise bad_argument("high", high, "limits whose difference is a finite float32")
    return begin, end


@tabled(16)
def _largest(dtype: np.dtype[Any]) -> float:
    return next_below(math.inf, dtype)


def _integer_limits(low: object, high: object) -> tuple[int, int]:
    begin, end = _integer("low", low), _integer("high", high)
    if begin > end:
        raise bad_argument("low", low, f"at most high, which is {end}")
    return begin, end


def _integer(name: str, value: object) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return whole(name, value, -(1 << 31), (1 << 31) - 1)


@random_op("poprand::logUniform")
def log_uniform(shape: Shape | None, low: float, high: float, base: float = math.e, *, dtype: DType = np.float32,
                seed: Seed = None, seed_modifier: int = 0, stream: Stream = "counter", offset: int = 0, out: Any = None,
                target: TargetLike = None, tile_mapping: TileMapping = None) -> Any:
    """Draw numbers whose logarithm is uniform between those of two limits.

    Corresponds to PopLibs' ``poprand::logUniform``.

    Parameters
    ----------
    shape, dtype, seed, seed_modifier, stream, offset, out, target, tile_mapping
        As in `uniform`.
    low, high : float
        The limits, ``0 < low < high``; the result lies in ``[low, high]``. ``stream="ipu"``: ``low >= 1`` too.
        int32: whole numbers from 1, and the number drawn is rounded toward zero.
    base : float, optional
        Base of the logarithm, positive and not 1. It changes roundings with ``stream="ipu"``, and nothing else.

    Returns
    -------
    ndarray

    Notes
    -----
    Counter stream: ``2 ** y`` with ``y = u * (log2(high) - log2(low)) + log2(low)`` in FP32, each operation rounded,
    u of 24 random bits; 2**y by a polynomial of degree 7, relative error at most ``2**-22 + |y| * 2**-23``; kept
    within the format's numbers between the limits.

    Examples
    --------
    >>> x = poprand.log_uniform(4, 1, 1000, seed=3)
    >>> bool(((x >= 1) & (x <= 1000)).all())
    True
    """
    where = Where(seed, seed_modifier, stream, offset, target, tile_mapping)
    ipu, element = where.is_ipu, dtype_of(dtype, (INT32,))
    radix = positive("base", base)
    if radix == 1:
        raise bad_argument("base", base, "a positive number other than 1")
    begin, end = _log_limits(low, high, 1.0 if ipu or element is INT32 else 2.0**-126, element)
    return where.drawn(lambda: _log_uniform(begin, end, element),
                       lambda dealer, n: dealer.log_uniform(n, begin, end, radix, element), shape, element, out)


def _log_limits(low: object, high: object, least: float, dtype: np.dtype[Any]) -> tuple[float, float]:
    begin, end = finite("low", low), finite("high", high)
    if begin < least:
        raise bad_argument("low", low, f"at least {least:g}")
    if end <= begin:
        raise bad_argument("high", high, f"more than low, which is {begin:g}")
    if dtype is INT32:
        return _integer_limits(low, high)
    if end > _largest(dtype):
        raise bad_argument("high", high, f"at most {_largest(dtype):g}, the largest {dtype}")
    return begin, end


@remembered(weight=4)
def _log_uniform(begin: float, end: float, element: np.dtype[Any]) -> Law:
    form = FP32 if element is INT32 else format_of(element)  # float32 numbers are cut off to the integers
    assert form.dtype is not None
    smallest, largest = at_least(begin, form.dtype), -at_least(-end, form.dtype)
    if smallest > largest:
        raise bad_argument("low", begin, f"limits with a {form.name} number between them")
    lower = float(np.float32(math.log2(begin)))
    return law_of("log_uniform", "int32" if element is INT32 else form.name, element,
                  scale=float(np.float32(math.log2(end) - lower)) * 2.0**-24, shift=lower, low=smallest, high=largest)
