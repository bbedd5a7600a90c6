"""Numbers by inverse distribution functions: normal ones, and exponential and Gumbel ones, which PopLibs lacks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..checks import finite
from ..formats import format_of
from .arguments import LARGEST, DType, Seed, Shape, Stream, TargetLike, TileMapping, dtype_of, positive
from .law import Law, law_of
from .where import Where, counter_only, random_op


@random_op("poprand::normal")
def normal(shape: Shape | None, mean: float = 0.0, std: float = 1.0, *, dtype: DType = np.float32, seed: Seed = None,
           seed_modifier: int = 0, stream: Stream = "counter", offset: int = 0, out: Any = None,
           target: TargetLike = None, tile_mapping: TileMapping = None) -> Any:
    """Draw normal numbers.

    Corresponds to PopLibs' ``poprand::normal``.

    Parameters
    ----------
    shape, seed, seed_modifier, stream, offset, out, target, tile_mapping
        As in `uniform`.
    mean, std : float, optional
        Mean and standard deviation, ``std >= 0``.
    dtype : dtype-like or Format, optional
        float32 (default), float16, bfloat16 or an FP8 dtype. ``stream="ipu"``: float32 or float16.

    Returns
    -------
    ndarray

    Notes
    -----
    Counter stream: ``z * std + mean`` in FP32, each operation rounded, then rounded to the format (beyond its range:
    infinity, or the largest number where it has none). z is the inverse distribution function of a 32-bit word: one
    bit the sign, 31 bits the tail probability, odd multiples of 2**-31, so ``|z| < 6.34``; error of z at most 2**-21
    (polynomials of degree 7 on each octave of the tail probability, in FP32).

    IPU: the sum of twelve 5-bit fields of a draw, less 186, over 32 (PopLibs' model of the hardware's Gaussian, whose
    formula is not public): multiples of 1/32 within 5.8125, variance 0.999. These numbers are discrete, so a
    Kolmogorov-Smirnov test of some 50,000 of them tells them from a normal distribution.

    Examples
    --------
    >>> x = poprand.normal((3, 4), dtype="float16", seed=(1, 2))
    >>> x.shape, x.dtype
    ((3, 4), dtype('float16'))
    """
    where = Where(seed, seed_modifier, stream, offset, target, tile_mapping)
    element, (centre, spread) = dtype_of(dtype), _moments(mean, std)
    return where.drawn(lambda: law_of("normal", format_of(element).name, element, scale=spread, shift=centre),
                       lambda dealer, n: dealer.normal(n, centre, spread, element), shape, element, out)


def _moments(mean: object, std: object) -> tuple[float, float]:
    return finite("mean", mean, -LARGEST, LARGEST), finite("std", std, 0.0, LARGEST)


@random_op("poprand::truncatedNormal")
def truncated_normal(shape: Shape | None, mean: float = 0.0, std: float = 1.0, alpha: float = 2.0, *,
                     dtype: DType = np.float32, seed: Seed = None, seed_modifier: int = 0, stream: Stream = "counter",
                     offset: int = 0, out: Any = None,
                     target: TargetLike = None, tile_mapping: TileMapping = None) -> Any:
    """Draw normal numbers within ``mean +- alpha * std``.

    Corresponds to PopLibs' ``poprand::truncatedNormal``.

    Parameters
    ----------
    shape, mean, std, dtype, seed, seed_modifier, stream, offset, out, target, tile_mapping
        As in `normal`.
    alpha : float, optional
        Standard deviations on either side, positive.

    Returns
    -------
    ndarray

    Notes
    -----
    Counter stream: nothing is rejected. z is the inverse distribution function at a tail probability that is uniform
    between ``P(|Z| > alpha)`` and 1, as in `normal`. Where ``P(|Z| < alpha)`` is at most 1/2 it is computed by an odd
    polynomial with relative error 2**-21. ``|z|`` may pass alpha by its own error.

    IPU: up to ``ceil(-4 / log10(erfc(alpha / sqrt 2)))`` redraws, and the mean for what is still outside (PopLibs'
    rule).

    Examples
    --------
    >>> x = poprand.truncated_normal(1000, alpha=1.5, seed=9)
    >>> bool(abs(x).max() < 1.501)
    True
    """
    where = Where(seed, seed_modifier, stream, offset, target, tile_mapping)
    element, (centre, spread), width = dtype_of(dtype), _moments(mean, std), positive("alpha", alpha)
    return where.drawn(lambda: _truncated(centre, spread, width, element),
                       lambda dealer, n: dealer.truncated_normal(n, centre, spread, width, element),
                       shape, element, out)


def _truncated(centre: float, spread: float, width: float, element: np.dtype[Any]) -> Law:
    inside, outside = math.erf(width / math.sqrt(2.0)), math.erfc(width / math.sqrt(2.0))
    narrow = inside <= 0.5
    odds = {"slope": inside * 2.0**-31} if narrow else {"slope": inside, "intercept": outside * 2.0**31}
    return law_of("narrow_normal" if narrow else "normal", format_of(element).name, element, scale=spread,
                  shift=centre, **odds)


@random_op(lacks="in any form")
def exponential(shape: Shape | None, scale: float = 1.0, *, dtype: DType = np.float32, seed: Seed = None,
                seed_modifier: int = 0, stream: Stream = "counter", offset: int = 0, out: Any = None,
                target: TargetLike = None) -> Any:
    """Draw exponential numbers.

    Parameters
    ----------
    shape, seed, seed_modifier, offset, out
        As in `uniform`.
    scale : float, optional
        The mean, positive.
    dtype : dtype-like or Format, optional
        float32 (default), float16, bfloat16 or an FP8 dtype.
    stream : "counter"
        PopLibs has no such distribution, so a modelled IPU has no numbers of its own for it.

    Returns
    -------
    ndarray

    Notes
    -----
    ``z * scale`` in FP32, then rounded to the format. z is the inverse distribution function of a 32-bit word, with a
    polynomial for each octave of the tail probability in either half of the distribution: relative error at most
    2**-21, ``2**-32 < z < 22.2``.

    Examples
    --------
    >>> bool((poprand.exponential(100, 2.5, seed=1) > 0).all())
    True
    """
    law = _law("exponential", stream, 0.0, scale, dtype)
    return Where(seed, seed_modifier, stream, offset).counted(law, shape, out)


@random_op(lacks="in any form")
def gumbel(shape: Shape | None, loc: float = 0.0, scale: float = 1.0, *, dtype: DType = np.float32, seed: Seed = None,
           seed_modifier: int = 0, stream: Stream = "counter", offset: int = 0, out: Any = None,
           target: TargetLike = None) -> Any:
    """Draw Gumbel numbers: ``argmax(logits + gumbel)`` is a categorical draw.

    Parameters
    ----------
    shape, dtype, seed, seed_modifier, stream, offset, out
        As in `exponential`.
    loc, scale : float, optional
        Mode and scale, ``scale > 0``.

    Returns
    -------
    ndarray

    Notes
    -----
    ``z * scale + loc`` in FP32, each operation rounded, then rounded to the format; z the inverse distribution
    function of a 32-bit word, ``-3.11 < z < 22.2``, error at most ``2**-21 * max(1, |z|)``.

    Examples
    --------
    >>> poprand.gumbel(3, seed=1).dtype
    dtype('float32')
    """
    law = _law("gumbel", stream, loc, scale, dtype)
    return Where(seed, seed_modifier, stream, offset).counted(law, shape, out)


def _law(name: str, stream: Stream, loc: object, scale: object, dtype: DType) -> Law:
    counter_only(name, stream)
    element, centre, spread = dtype_of(dtype), finite("loc", loc, -LARGEST, LARGEST), positive("scale", scale)
    return law_of(name, format_of(element).name, element, scale=spread, shift=centre)
