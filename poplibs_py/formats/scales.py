"""Power-of-two scales of an array: one for the tensor, or one for each block of elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import bad_argument, bad_type
from ..immutable import frozen, holding
from .arrays import Array, as_array
from .format import Format, format_of

Scale = int | Array


def checked_block_shape(block_shape: Sequence[int] | None, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return a block shape with -1 replaced by the axis's extent, or None for one scale per tensor.

    Raises
    ------
    InvalidArgumentError
        Unless there is a number for each axis, at least 1, or -1.
    """
    if block_shape is None:
        return None
    allowed = f"{len(shape)} whole numbers (one for each axis), each at least 1, or -1 for the axis's whole extent"
    try:
        if len(block_shape) > len(shape):
            raise TypeError
        blocks = [b.__index__() for b in block_shape]
    except MemoryError:
        raise
    except Exception:  # whatever an object of somebody else's raises
        raise bad_type("block_shape", block_shape, allowed) from None
    if len(blocks) != len(shape) or any(b < 1 and b != -1 for b in blocks):
        raise bad_argument("block_shape", block_shape, allowed)
    return tuple(max(n, 1) if b == -1 else min(b, max(n, 1)) for b, n in zip(blocks, shape, strict=True)) or None


def scales_shape(shape: tuple[int, ...], block_shape: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the shape of the exponents: how many blocks lie along each axis."""
    if block_shape is None:
        return ()
    return tuple(-(-n // b) for n, b in zip(shape, block_shape, strict=True))


def checked_scale(scale: object, dtype: Format, shape: tuple[int, ...], block_shape: tuple[int, ...] | None) -> Array:
    """Return the exponents as an int8 array of `scales_shape` that cannot be written to.

    Raises
    ------
    InvalidTypeError
        If they are not whole numbers.
    InvalidArgumentError
        If one is out of range for the format, or the shape is wrong.
    """
    kinds = "a whole number s (values are decoded times 2**s), an array of them, or 'auto'"
    given = as_array("scale", scale, kinds)
    if given.dtype.kind not in "iu":
        raise bad_type("scale", scale, kinds)
    wanted = scales_shape(shape, block_shape)
    if given.ndim and given.shape != wanted:
        raise bad_argument("scale", f"an array of shape {given.shape}", f"one number, or the shape {wanted}"
                           + ("" if wanted else "; block_shape says which elements share a scale"))
    allowed = dtype.scales
    if given.size and not (allowed[0] <= given.min() and given.max() <= allowed[-1]):
        raise bad_argument("scale", scale, f"whole numbers from {allowed[0]} to {allowed[-1]} for {dtype}")
    return frozen(np.broadcast_to(given, wanted).astype(np.int8))


def block_maxima(magnitudes: Array, block_shape: tuple[int, ...] | None) -> Array:
    """Return the largest number of each block."""
    if block_shape is None:
        return np.asarray(magnitudes.max(initial=0))
    for axis, block in enumerate(block_shape):
        if magnitudes.shape[axis]:
            starts = np.arange(0, magnitudes.shape[axis], block)
            magnitudes = np.maximum.reduceat(magnitudes, starts, axis=axis)
    return magnitudes


@holding
def auto_scale(values: Array, dtype: Format, block_shape: Sequence[int] | None = None) -> Array:
    """Return for each block the least s such that its largest finite magnitude does not exceed ``dtype.max * 2**s``.

    No element then overflows, and the format's finest steps serve as much of the block as they can. A block of zeros
    takes 0. One whose numbers want a lower exponent than ``dtype.scales`` has takes the lowest.

    Parameters
    ----------
    values : numpy.ndarray
        Real numbers. NaN and infinities are passed over.
    dtype : Format
        The format that they will be written in.
    block_shape : sequence of int, optional
        Extents of the blocks along each axis, -1 for an axis's whole extent; by default all values share one scale.

    Returns
    -------
    numpy.ndarray of int8
        One exponent for each block, or an array without axes.

    Raises
    ------
    InvalidArgumentError
        If a number is beyond the largest at the highest exponent, some 2**115 for the FP8 presets.

    Examples
    --------
    >>> from poplibs_py.formats import F143
    >>> int(auto_scale(np.array([1.0, -1000.0]), F143))
    3
    """
    dtype = format_of(dtype, "dtype")
    numbers = as_array("values", values, "an array of real numbers")
    if numbers.dtype.kind not in "fiub":
        format_of(numbers, "values")
        numbers = numbers.astype(np.float32)
    block_shape = checked_block_shape(block_shape, numbers.shape)
    magnitudes = np.abs(numbers.astype(np.float64) if numbers.dtype.kind in "iub" else numbers)
    amax = block_maxima(np.where(np.isfinite(magnitudes), magnitudes, 0), block_shape).astype(np.float64)
    mantissa, exponent = np.frexp(amax)
    top, top_exponent = np.frexp(dtype.max)
    least = exponent - top_exponent + (mantissa > top)
    lowest, highest = dtype.scales[0], dtype.scales[-1]
    if (least > highest).any():
        largest = np.ldexp(dtype.max, highest)
        raise bad_argument("scale", f"'auto' for numbers up to {amax.max():.4g}",
                           f"a whole number, beside overflow; {dtype} holds numbers to {largest:.4g}")
    return np.where(amax > 0, np.maximum(least, lowest), 0).astype(np.int8)


def spread(scale: Array, shape: tuple[int, ...], block_shape: tuple[int, ...] | None) -> Array:
    """Return exponents that broadcast against the elements: each block's number repeated over the block."""
    if block_shape is None:
        return scale
    for axis, (n, block) in enumerate(zip(shape, block_shape, strict=True)):
        if block < n:
            scale = np.repeat(scale, block, axis=axis).take(range(n), axis=axis)
    return scale


def uniform_scale(scale: Array) -> int | None:
    """Return the one exponent that all blocks have, if they have."""
    if scale.size == 0:
        return 0
    first = int(scale.flat[0])
    return first if scale.ndim == 0 or bool((scale == first).all()) else None
