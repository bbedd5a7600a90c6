"""Exponential and Gumbel numbers, which PopLibs lacks."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from ..formats import Format, format_of
from ._draw import Draw, Remembered, finite
from .arguments import LARGEST, Array, Seed, Shape, Stream, counter_only, drawing, dtype_of, positive

__all__ = ["exponential", "gumbel"]


def exponential(shape: Shape | None, scale: float = 1.0, *, dtype: DTypeLike | Format = np.float32, seed: Seed = None,
                seed_modifier: int = 0, stream: Stream = "counter", offset: int = 0, out: Array | None = None) -> Array:
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
    ``z * scale`` in FP32, then rounded to the format. z is the inverse distribution function of a 32-bit word, its
    upper half and its lower half each by octaves of the tail probability: relative error at most 2**-21,
    ``2**-32 < z < 22.2``.

    Examples
    --------
    >>> from poplibs_py import poprand
    >>> bool((poprand.exponential(100, 2.5, seed=1) > 0).all())
    True
    """
    counter_only("exponential", stream)
    return _law("exponential", 0.0, scale, dtype).fill(shape, out, seed, seed_modifier, offset)


def gumbel(shape: Shape | None, loc: float = 0.0, scale: float = 1.0, *, dtype: DTypeLike | Format = np.float32,
           seed: Seed = None, seed_modifier: int = 0, stream: Stream = "counter", offset: int = 0,
           out: Array | None = None) -> Array:
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
    >>> from poplibs_py import poprand
    >>> poprand.gumbel(3, seed=1).dtype
    dtype('float32')
    """
    counter_only("gumbel", stream)
    return _law("gumbel", loc, scale, dtype).fill(shape, out, seed, seed_modifier, offset)


@Remembered
def _law(op: str, loc: object, scale: object, dtype: DTypeLike) -> Draw:
    element, centre, spread = dtype_of(dtype), finite("loc", loc, -LARGEST, LARGEST), positive("scale", scale)
    return drawing(op, format_of(element).name, element, scale=spread, shift=centre)
