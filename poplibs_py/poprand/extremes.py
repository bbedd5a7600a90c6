"""Exponential and Gumbel numbers, which PopLibs lacks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import finite
from ..formats import format_of
from .arguments import LARGEST, DType, Seed, Shape, Stream, counter_only, dtype_of, positive, result
from .law import Law, Place, law_of
from .where import random_op

__all__ = ["exponential", "gumbel"]


@random_op()
def exponential(shape: Shape | None, scale: float = 1.0, *, dtype: DType = np.float32, seed: Seed = None,
                seed_modifier: int = 0, stream: Stream = "counter", offset: int = 0, out: Any = None) -> Any:
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
    law = _law("exponential", 0.0, scale, dtype)
    return law.request(result(shape, law.dtype, out), Place.of(seed, seed_modifier, offset))


@random_op()
def gumbel(shape: Shape | None, loc: float = 0.0, scale: float = 1.0, *, dtype: DType = np.float32, seed: Seed = None,
           seed_modifier: int = 0, stream: Stream = "counter", offset: int = 0, out: Any = None) -> Any:
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
    law = _law("gumbel", loc, scale, dtype)
    return law.request(result(shape, law.dtype, out), Place.of(seed, seed_modifier, offset))


def _law(name: str, loc: object, scale: object, dtype: DType) -> Law:
    element, centre, spread = dtype_of(dtype), finite("loc", loc, -LARGEST, LARGEST), positive("scale", scale)
    return law_of(name, format_of(element).name, element, scale=spread, shift=centre)
