"""Normal and truncated normal numbers."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import DTypeLike

from ..errors import bad_argument
from ..formats import Format
from ..target import Target
from . import hardware
from .arguments import Array, Seed, Shape, Stream, dtype_of, finite, is_ipu, kind_of, output
from .counter import Call, draw, place

__all__ = ["normal", "truncated_normal"]

_LARGEST = 3.4028234663852886e38


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
    ipu, kind = is_ipu(stream), kind_of(dtype)
    centre, spread = finite("mean", mean, -_LARGEST, _LARGEST), finite("std", std, 0.0, _LARGEST)
    result = output(shape, dtype_of(kind), out)
    if ipu:
        machine = hardware.dealer(target, tile_mapping, offset, seed, seed_modifier)
        return hardware.store(result, machine.normal(result.size, centre, spread, result.dtype))
    assert isinstance(kind, Format)
    where = place("normal", kind.name, seed, seed_modifier, offset, result.size)
    return draw("normal", kind.name, where, Call(scale=spread, shift=centre).packed(), result)


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
    ipu, kind = is_ipu(stream), kind_of(dtype)
    centre, spread = finite("mean", mean, -_LARGEST, _LARGEST), finite("std", std, 0.0, _LARGEST)
    width = finite("alpha", alpha)
    if width <= 0:
        raise bad_argument("alpha", alpha, "a positive number")
    result = output(shape, dtype_of(kind), out)
    if ipu:
        machine = hardware.dealer(target, tile_mapping, offset, seed, seed_modifier)
        return hardware.store(result, machine.truncated_normal(result.size, centre, spread, width, result.dtype))
    assert isinstance(kind, Format)
    where = place("normal", kind.name, seed, seed_modifier, offset, result.size)
    inside, outside = math.erf(width / math.sqrt(2.0)), math.erfc(width / math.sqrt(2.0))
    if inside <= 0.5:
        narrow = Call(scale=spread, shift=centre, slope=inside * 2.0**-31)
        return draw("narrow_normal", kind.name, where, narrow.packed(), result)
    wide = Call(scale=spread, shift=centre, slope=inside, intercept=outside * 2.0**31)
    return draw("normal", kind.name, where, wide.packed(), result)
