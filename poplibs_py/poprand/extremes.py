"""Exponential and Gumbel numbers, which PopLibs lacks."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from ..errors import UnsupportedError, bad_argument
from ..formats import Format
from .arguments import Array, Seed, Shape, Stream, dtype_of, finite, is_ipu, kind_of, output
from .counter import Call, draw, place

__all__ = ["exponential", "gumbel"]

_LARGEST = 3.4028234663852886e38


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
    spread = finite("scale", scale, 0.0, _LARGEST)
    if spread == 0:
        raise bad_argument("scale", scale, "a positive number")
    return _drawn("exponential", shape, Call(scale=spread), dtype, seed, seed_modifier, stream, offset, out)


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
    spread, centre = finite("scale", scale, 0.0, _LARGEST), finite("loc", loc, -_LARGEST, _LARGEST)
    if spread == 0:
        raise bad_argument("scale", scale, "a positive number")
    return _drawn("gumbel", shape, Call(scale=spread, shift=centre), dtype, seed, seed_modifier, stream, offset, out)


def _drawn(op: str, shape: Shape | None, call: Call, dtype: DTypeLike | Format, seed: Seed, seed_modifier: int,
           stream: Stream, offset: int, out: Array | None) -> Array:
    if is_ipu(stream):
        raise UnsupportedError(f"stream: got 'ipu'; allowed for {op}: 'counter', for PopLibs does not have it")
    kind = kind_of(dtype)
    assert isinstance(kind, Format)
    result = output(shape, dtype_of(kind), out)
    where = place(op, kind.name, seed, seed_modifier, offset, result.size)
    return draw(op, kind.name, where, call.packed(), result)
