"""Normal and truncated normal numbers."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..errors import bad_argument
from ..formats import Format, format_of
from ..target import Target
from . import hardware
from ._draw import Draw, finite, is_ipu, output
from .arguments import LARGEST, Array, Seed, Shape, Stream, drawing, dtype_of

__all__ = ["normal", "truncated_normal"]


def normal(shape: Shape | None, mean: float = 0.0, std: float = 1.0, *, dtype: DTypeLike | Format = np.float32,
           seed: Seed = None, seed_modifier: int = 0, stream: Stream = "counter", offset: int = 0,
           out: Array | None = None, target: Target | None = None,
           tile_mapping: hardware.TileMapping | None = None) -> Array:
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
    formula is not public): multiples of 1/32 within 5.8125, variance 0.999.

    Examples
    --------
    >>> from poplibs_py import poprand
    >>> x = poprand.normal((3, 4), dtype="float16", seed=(1, 2))
    >>> x.shape, x.dtype
    ((3, 4), dtype('float16'))
    """
    ipu, element = is_ipu(stream), dtype_of(dtype)
    centre, spread = finite("mean", mean, -LARGEST, LARGEST), finite("std", std, 0.0, LARGEST)
    if not ipu:
        return _normal(centre, spread, element).fill(shape, out, seed, seed_modifier, offset)
    result = output(shape, element, out)
    machine = hardware.dealer(target, tile_mapping, offset, seed, seed_modifier)
    return hardware.store(result, machine.normal(result.size, centre, spread, element))


@lru_cache(maxsize=256)
def _normal(mean: float, std: float, dtype: np.dtype[Any]) -> Draw:
    return drawing("normal", format_of(dtype).name, dtype, scale=std, shift=mean)


def truncated_normal(shape: Shape | None, mean: float = 0.0, std: float = 1.0, alpha: float = 2.0, *,
                     dtype: DTypeLike | Format = np.float32, seed: Seed = None, seed_modifier: int = 0,
                     stream: Stream = "counter", offset: int = 0, out: Array | None = None,
                     target: Target | None = None, tile_mapping: hardware.TileMapping | None = None) -> Array:
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
    Counter stream: exact, with no rejection: the inverse distribution function at a tail probability q that is uniform
    between ``P(|Z| > alpha)`` and 1, as in `normal`; where ``P(|Z| < alpha)`` is at most 1/2, by an odd polynomial with
    relative error 2**-21. ``|z|`` may pass alpha by z's own error.

    IPU: up to ``ceil(-4 / log10(erfc(alpha / sqrt 2)))`` redraws, and the mean for what is still outside (PopLibs'
    rule).

    Examples
    --------
    >>> from poplibs_py import poprand
    >>> x = poprand.truncated_normal(1000, alpha=1.5, seed=9)
    >>> bool(abs(x).max() < 1.501)
    True
    """
    ipu, element = is_ipu(stream), dtype_of(dtype)
    centre, spread = finite("mean", mean, -LARGEST, LARGEST), finite("std", std, 0.0, LARGEST)
    width = finite("alpha", alpha)
    if width <= 0:
        raise bad_argument("alpha", alpha, "a positive number")
    if not ipu:
        return _truncated(centre, spread, width, element).fill(shape, out, seed, seed_modifier, offset)
    result = output(shape, element, out)
    machine = hardware.dealer(target, tile_mapping, offset, seed, seed_modifier)
    return hardware.store(result, machine.truncated_normal(result.size, centre, spread, width, element))


@lru_cache(maxsize=256)
def _truncated(mean: float, std: float, alpha: float, dtype: np.dtype[Any]) -> Draw:
    name = format_of(dtype).name
    inside, outside = math.erf(alpha / math.sqrt(2.0)), math.erfc(alpha / math.sqrt(2.0))
    if inside <= 0.5:
        return drawing("narrow_normal", name, dtype, scale=std, shift=mean, slope=inside * 2.0**-31)
    return drawing("normal", name, dtype, scale=std, shift=mean, slope=inside, intercept=outside * 2.0**31)
