"""The values of blocks: which formats they may have, and in and out of FP32."""

from __future__ import annotations

import math

import numpy as np

from ..checks import check_shape
from ..errors import RangeWarning, bad_argument, bad_type, warn
from ..formats import FORMATS, FP32, Array, Format, QuarterArray, auto_scale, format_of
from ..formats.arrays import as_array
from ..immutable import frozen
from ..ops import Seed, seed_of
from ..popops import cast
from .pattern import as_extent

_EXPONENTS = [s for f in FORMATS if f.bits == 8 for s in f.scales]
SCALE_LIMITS = min(_EXPONENTS), max(_EXPONENTS)
"""The exponents that one 8-bit format or another takes."""

_EACH_BLOCK = (1, -1, -1)
_AUTO = {"auto": None, "auto_per_block": _EACH_BLOCK}


def as_format(dtype: object, values: object = None, name: str = "dtype") -> Format:
    """Return the format asked for under a name, or where none is, that of the values' dtype, or else FP32."""
    if dtype is None:
        own = getattr(values, "dtype", None)  # ml_dtypes' E5M2 is of the kind of NumPy's own numbers
        held = None if own is None else next((f for f in FORMATS if f.dtype == own), None)
        return held or (FP32 if own is None or own.kind in "fiub" else format_of(own))
    found = format_of(dtype, name)
    if found not in FORMATS:
        raise bad_argument(name, found.name, ", ".join(f.name for f in FORMATS))
    return next(f for f in FORMATS if f == found)


def as_scale(scale: object, dtype: Format, n_blocks: int, values: Array | None = None) -> int | Array:
    """Return exponents of two: one for the matrix, or int8 for each block; only 8-bit formats have them.

    ``"auto"`` stands for the least for which none of the `values` overflows, ``"auto_per_block"`` for that of each
    block. None is ``"auto"`` where there are values to round, and 0 where they are of the format already.
    """
    if scale is None:
        scale = 0 if values is None or values.dtype == dtype.dtype else "auto"
    low, high = (dtype.scales[0], dtype.scales[-1]) if dtype.bits <= 8 else SCALE_LIMITS
    if isinstance(scale, str) and scale in _AUTO and values is not None:
        if dtype.bits > 8:
            return 0
        found = auto_scale(values.astype(np.float64), dtype, _AUTO[scale])
        return int(found) if scale == "auto" else found.ravel()
    allowed = f"whole numbers from {low} to {high}, one for the matrix or one for each block"
    given = as_array("scale", scale, allowed)
    if given.dtype.kind not in "iu":
        raise bad_type("scale", scale, allowed)
    if given.ndim == 0:
        number = as_extent("scale", given[()], low, high)
        if number and dtype.bits > 8:
            raise bad_argument("scale", number, f"0 for {dtype.name}: only 8-bit formats carry a scale")
        return number
    check_shape("scale", given, given.shape == (n_blocks,), f"{allowed}: shape ({n_blocks},)")
    if given.size and (given.min() < low or given.max() > high):
        raise bad_argument("scale", f"numbers from {given.min()} to {given.max()}", allowed)
    check_shape("scale", given, dtype.bits <= 8 or not given.any(),
                f"0 for {dtype.name}: only 8-bit formats carry a scale")
    return given.astype(np.int8) if dtype.bits <= 8 else 0


def numeric_array(name: str, values: object) -> Array:
    """Return an array of real numbers, or raise."""
    if isinstance(values, QuarterArray):
        return values.to_array()
    array = as_array(name, values, "an array of real numbers, all rows of one length")
    if array.dtype.kind in "fiub" and array.dtype.itemsize <= 8:
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    try:
        format_of(array)
    except TypeError:
        raise bad_type(name, f"dtype {array.dtype}", "real numbers") from None
    return array


def encode(values: Array, dtype: Format, scale: int | Array = 0) -> Array:
    """Round numbers, divided by 2^scale, to a format, to nearest even: a new C-contiguous array."""
    if values.dtype.kind in "iub" or values.dtype.itemsize > 8:
        values = values.astype(np.float64)
    if values.dtype == dtype.dtype and not np.any(scale):
        return np.array(values, order="C", copy=True)
    if not np.any(scale):
        made: Array = np.ascontiguousarray(cast(values, dtype))
    else:
        quarter = cast(np.ascontiguousarray(values), dtype, scale=_aligned(scale), block_shape=_sharing(scale))
        made = np.ascontiguousarray(quarter.codes).view(dtype.dtype)
    if dtype.bits <= 8:
        _tell_of_range(values, made, dtype, bool(np.any(scale)))
    return made


def _tell_of_range(values: Array, made: Array, dtype: Format, scaled: bool) -> None:
    """Warn where numbers became NaN or infinite in an 8-bit format, which holds few of them, or all zero at a scale."""
    special = ~np.isfinite(made)
    if special.any() and (lost := np.count_nonzero(np.isfinite(values[special]))):
        warn(f"scale: {lost} of {made.size} finite values are too large for {dtype} at this scale, and "
             'become NaN or infinite; scale="auto" holds all', RangeWarning)
    if scaled and not (made != 0).any() and (lost := np.count_nonzero(values)):
        warn(f"scale: all {lost} values that are not zero are too small for {dtype} at this scale, and become zero; "
             'scale="auto" keeps the largest', RangeWarning)


def decode(blocks: Array, scale: int | Array = 0) -> Array:
    """Return the numbers that blocks stand for as FP32, which is exact: a new C-contiguous array."""
    if blocks.dtype == np.float32:
        return np.array(blocks, order="C", copy=True)
    if not np.any(scale):
        return np.ascontiguousarray(cast(blocks, FP32))
    return np.ascontiguousarray(cast(as_quarter(blocks, scale), FP32))


def stored_blocks(values: Array, dtype: object, scale: object, order: Array | None,
                  copy: bool) -> tuple[Array, Format, int | Array]:
    """Return blocks as a matrix stores them, in this order, with their format and scale.

    Codes of 8 bits are values at `scale`; other numbers are divided by it. Blocks that are so already are copied only
    if that is asked for.
    """
    target, is_coded = as_format(dtype, values), values.dtype.itemsize == 1 and values.dtype.kind not in "iub"
    exponents = as_scale(scale, format_of(values) if is_coded else target, len(values), None if is_coded else values)
    if is_coded and values.dtype != target.dtype:
        numbers = decode(values, exponents)
        exponents = as_scale(None, target, len(values), numbers)
        values = encode(numbers, target, exponents)
    elif values.dtype != target.dtype:
        values = encode(values, target, exponents)
    elif order is None:
        values = np.array(values, order="C", copy=True) if copy else np.require(values, None, ["C", "A"])
    if order is None:
        return values, target, exponents
    return values[order], target, exponents if isinstance(exponents, int) else exponents[order]


def as_quarter(blocks: Array, scale: int | Array) -> QuarterArray:
    """Return blocks of an 8-bit format as a `QuarterArray` that shares them."""
    return QuarterArray(blocks, format_of(blocks), _aligned(scale), _sharing(scale))


def parts_of_quarter(quarter: QuarterArray) -> tuple[Array, int | Array]:
    """Return blocks of a format's dtype, and their scale: one, or one for each block."""
    if quarter.format.dtype is None:
        raise bad_argument("blocks", f"format {quarter.format.name}", "a format whose values have a NumPy dtype")
    blocks = quarter.codes.view(quarter.format.dtype)
    if isinstance(quarter.scale, int):
        return blocks, quarter.scale
    if quarter.scale.shape != (len(blocks), *(1,) * (blocks.ndim - 1)):
        raise bad_argument("blocks", f"scales of shape {quarter.scale.shape}", "one scale, or one for each block")
    return blocks, quarter.scale.ravel()


def frozen_scale(scale: int | Array) -> int | Array:
    """Return exponents that cannot be written to."""
    return scale if isinstance(scale, int) else frozen(scale)


def _aligned(scale: int | Array) -> int | Array:
    return scale if isinstance(scale, int) else scale.reshape(-1, 1, 1)


def _sharing(scale: int | Array) -> tuple[int, int, int] | None:
    return None if isinstance(scale, int) else _EACH_BLOCK


def random_values(shape: int | tuple[int, ...], per_row: float, seed: Seed) -> Array:
    """Return FP32 numbers uniform between plus and minus ``sqrt(3 / per_row)``.

    `per_row` is the mean number of non-zeros in a row, d k in the PopSparse benchmark's words: products with inputs of
    unit variance then have about unit variance.
    """
    generator = np.random.default_rng(seed_of(seed))
    limit = np.float32(math.sqrt(3 / per_row)) if per_row else np.float32(0)
    return (generator.random(shape, np.float32) * 2 - 1) * limit
