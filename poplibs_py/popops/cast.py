"""``popops::cast``: arrays from one number format to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..config import settings
from ..errors import bad_argument, bad_type, one_of, whole
from ..formats import FP32, Format, QuarterArray, format_of
from ..formats.arrays import as_array
from ..formats.reference import Overflow, Rounding, default_overflow
from ..formats.scales import auto_scale
from ..program import Bound, Hold, LayoutMemo, result_array, result_array_like
from ..program.record import listeners
from ._formats import format_by_dtype
from ._integers import INTEGER_ROUNDINGS, integer_dtype, write_integers
from ._operands import (
    Operand,
    apart,
    checked_array,
    checked_out,
    destination,
    execute,
    quarter,
    scaled,
)
from ._strided import OVERFLOWS, ROUNDINGS, StridedParams

__all__ = ["cast"]

Array = np.ndarray[Any, Any]

_MEMO = LayoutMemo()
MOST_SEED = 2**64 - 1
_SOURCES = "float32, float16, bfloat16, FP8, float64, int8 or uint8 numbers, or a QuarterArray"


def cast(
    x: object,
    format: object,
    *,
    scale: object = None,
    block_shape: Sequence[int] | None = None,
    rounding: Rounding | None = None,
    overflow: Overflow | None = None,
    seed: int | None = None,
    random_bits: int = 31,
    out: Any = None,
) -> Any:
    """Cast an array to another number format (``popops::cast``).

    Parameters
    ----------
    x : array-like or QuarterArray
        float32, float16, bfloat16, FP8, float64, int8 or uint8 numbers, of any shape and strides, or codes with their
        scale. An array of uint8 holds numbers; only a `QuarterArray` holds codes.
    format : Format, dtype or str
        The target: a preset by any of its names, or a user-defined `poplibs_py.formats.Format` of at most 16 bits; or
        int8 or uint8, from anything but these two.
    scale : int, array of int or "auto", optional
        Exponents s: the result's codes stand for their value times ``2**s``. ``"auto"`` takes for each block the least
        s for which nothing overflows. With a scale the result is a `QuarterArray`.
    block_shape : sequence of int, optional
        Extents of the blocks that share a scale, -1 for an axis's whole extent; by default the tensor has one.
    rounding : {"nearest-even", "toward-zero", "stochastic"}, optional
        By default to nearest even, and toward zero to an integer. Stochastic rounding needs `seed` and a format.
    overflow : {"saturate", "nan", "inf"}, optional
        What a finite number becomes whose rounded value passes the largest finite one. By default IEEE 754's result:
        the largest number where `rounding` is toward zero, else infinity, or NaN where the format has no infinity.
        Integers always saturate.
    seed : int, optional
        0 to 2**64 - 1, for stochastic rounding.
    random_bits : int, optional
        Random bits of each stochastic rounding, 1 to 31 (the default).
    out : numpy.ndarray or QuarterArray, optional
        Where the result goes: the target's dtype and the shape of `x`, any strides. A `QuarterArray` keeps its scales.
        It may be `x` itself where both have the same item size.

    Returns
    -------
    numpy.ndarray or QuarterArray
        An array of the target's dtype, laid out like `x`; a `QuarterArray` where `scale` was given, where the target
        has no dtype of its own, or as `out` is.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value. Nothing has been written then.

    Notes
    -----
    Each element is rounded once, from its exact value. Scales are powers of two and cost no rounding. All
    instruction-set levels, thread counts and strides give the same bits.

    With f the fraction of a step that truncation would discard and R an integer of `random_bits` bits, stochastic
    rounding moves away from zero if and only if ``f + (R + 1/2) / 2**random_bits >= 1`` (Fitzgibbon and Felix, ARITH
    2025: without the half, few bits bias the mean downwards). The chance is f rounded to a multiple of
    ``2**-random_bits``: with 31 bits it is exactly f, and the mean exactly `x`, unless `x` is subnormal in the target
    and far below its step. R belongs to the element's place in C order and to the seed alone.

    NaN stays NaN. Infinities stay where the target has them and become NaN elsewhere, also with
    ``overflow="saturate"``, as on the IPU. F143 and F152 have no minus zero: negative numbers that round to zero
    become +0.

    To int8 and uint8, infinities saturate as finite numbers do, and NaN becomes 0.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import cast
    >>> cast(np.float32([0.3, 250, -1e-9]), "f143", overflow="saturate")
    array([0.3125, 240, 0], dtype='float8_e4m3fnuz')
    >>> cast(np.float32([[1, 1000], [3e-4, 2e-4]]), "f143", scale="auto", block_shape=(1, -1)).scale.ravel()
    array([  3, -19], dtype=int8)
    """
    options = (format, rounding, overflow, settings.num_threads)
    plain = scale is None and seed is None
    if plain and not listeners and (found := _MEMO.find(x, out, options)) is not None:
        dtype, run = found
        result = result_array(x.shape, dtype) if out is None else out  # type: ignore[attr-defined]
        if run(x, result):
            return result  # else another thread has just changed one of them
    if (integer := integer_dtype(format)) is not None:
        return _to_integers(x, integer, scale, block_shape, rounding, overflow, out)
    target = format if type(format) is Format else format_of(format)
    rounding = "nearest-even" if rounding is None else rounding
    one_of("rounding", rounding, tuple(ROUNDINGS))
    if overflow is None:
        overflow = default_overflow(target, rounding)
    elif not isinstance(overflow, str) or overflow not in OVERFLOWS or (overflow == "inf" and not target.has_infinity):
        allowed = "'saturate', 'nan'" + (" or 'inf'" if target.has_infinity else f"; {target} has no infinity")
        raise bad_argument("overflow", overflow, allowed)
    seeds = []
    if rounding == "stochastic":
        random_bits = whole("random_bits", random_bits, 1, 31)
        seeds = [np.array([whole("seed", seed, 0, MOST_SEED, ", which stochastic rounding needs")], np.uint64)]
    else:
        random_bits = 31

    given = _source(x)
    keep = Hold(given.codes)  # while NumPy looks for a scale, or copies it
    if given.format is None and rounding == "stochastic":
        raise bad_argument("rounding", rounding, "'nearest-even' or 'toward-zero' from float64; cast to float32 first")
    result, written = _destination(x, given.codes, target, scale, block_shape, out)
    if out is not None:
        given = apart(given, written.codes)
    if given.codes.size:
        params = StridedParams(None, given.codes.shape, (given.laid,), (written.laid,), rounding, overflow, random_bits)
        program = execute("popops.cast", params, (given, written), *seeds)
        alike = given.codes.base is x and (given.codes.flags.c_contiguous if out is None else written.codes.base is out)
        if plain and alike and isinstance(result, np.ndarray):
            dtype = written.codes.dtype
            _MEMO.keep(x, out, options, (dtype, Bound(program.executable, given.codes, written.codes)))
    del keep
    return result


def _to_integers(x: object, dtype: np.dtype[Any], scale: object, block_shape: object, rounding: str | None,
                 overflow: object, out: Any) -> Array:
    """`cast` to int8 or uint8: by way of numbers that hold every value, so that it is rounded once."""
    for name, value in (("scale", scale), ("block_shape", block_shape)):
        if value is not None:
            raise bad_argument(name, value, f"None: {dtype} arrays carry no scale")
    rounding = "toward-zero" if rounding is None else rounding
    one_of("rounding", rounding, tuple(INTEGER_ROUNDINGS))
    one_of("overflow", overflow, ("saturate", None))
    x = x if isinstance(x, QuarterArray) else as_array("x", x, _SOURCES)
    if isinstance(x, np.ndarray) and integer_dtype(x.dtype) is not None:
        raise bad_type("x", x, f"numbers of a format: numpy.ndarray.astype casts integers to {dtype}")
    given = _source(x)
    result = result_array_like(given.codes, dtype) if out is None else checked_array(out, given.codes.shape, dtype)
    keep = Hold(given.codes, result)  # NumPy does it all
    numbers = given.codes.copy() if given.format is None else cast(x, FP32)
    write_integers(numbers, rounding, result)
    del keep
    return result if out is None else out


def _source(x: object) -> Operand:
    if isinstance(x, QuarterArray):
        return quarter(x)
    array = as_array("x", x, _SOURCES)
    if integer_dtype(array.dtype) is not None:
        array = array.astype(np.float32)  # which holds them exactly
    fmt = format_by_dtype(array.dtype)
    if fmt is None and array.dtype != np.float64:
        raise bad_type("x", str(array.dtype), _SOURCES)
    return Operand(array, fmt)


def _destination(x: object, codes: Array, target: Format, scale: object, block_shape: Sequence[int] | None,
                 out: object) -> tuple[Any, Operand]:
    """What to return, and the operand that is written."""
    if out is not None:
        if isinstance(out, QuarterArray) and (scale is not None or block_shape is not None):
            raise bad_argument("scale", scale, "None where `out` is a QuarterArray, whose own scales hold")
        if not isinstance(out, QuarterArray) and scale is not None:
            raise bad_type("out", type(out), "a QuarterArray, which can carry the scale and the format")
        return out, checked_out(out, target, codes.shape)
    if scale is None and target.dtype is not None:
        if block_shape is not None:
            raise bad_argument("block_shape", block_shape, "None where no scale is given")
        return destination(codes, target, None, None)
    if target == FP32:
        raise bad_argument("scale", scale, "None: float32 arrays carry no scale")
    if isinstance(scale, str) and scale == "auto":
        scale = auto_scale(cast(x, FP32) if codes.dtype != np.float64 else codes, target, block_shape)
    return destination(codes, target, *scaled(scale, target, codes.shape, block_shape))
