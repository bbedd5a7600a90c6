"""``popops::cast``: arrays from one number format to another."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from time import perf_counter
from typing import Any

import numpy as np

from ..config import settings
from ..errors import bad_argument, bad_type, one_of, whole
from ..formats import FORMATS, FP32, Format, QuarterArray, format_of
from ..formats.arrays import as_array
from ..formats.reference import Overflow, Rounding, default_overflow
from ..formats.scales import auto_scale, checked_block_shape, checked_scale
from ..program import overlaps_itself, result_array_like
from ..program.record import Run, listeners, record
from ._cast_plan import OVERFLOWS, ROUNDINGS, CastPlan
from ._integers import INTEGER_ROUNDINGS, integer_dtype, write_integers

__all__ = ["cast"]

Array = np.ndarray[Any, Any]

_NO_SCALE = np.zeros(1, np.int8)
MOST_SEED = 2**64 - 1
_NO_SEED = np.zeros(1, np.uint64)
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
    seeds = _NO_SEED
    if rounding == "stochastic":
        random_bits = whole("random_bits", random_bits, 1, 31)
        seeds = np.array([whole("seed", seed, 0, MOST_SEED, ", which stochastic rounding needs")], np.uint64)
    else:
        random_bits = 31

    codes, source, in_scales, in_blocks = _source(x)
    if source is None and rounding == "stochastic":
        raise bad_argument("rounding", rounding, "'nearest-even' or 'toward-zero' from float64; cast to float32 first")
    if scale is None and out is None and target.dtype is not None:
        if block_shape is not None:
            raise bad_argument("block_shape", block_shape, "None where no scale is given")
        result = written = result_array_like(codes, target.dtype)
        out_scales, out_blocks = _NO_SCALE, None
    else:
        result, written, out_scales, out_blocks = _destination(x, codes, target, scale, block_shape, out)
        if out is not None:
            codes = _apart(codes, written)
    if codes.size:
        plan = _plan(source, codes.shape, codes.strides, in_blocks, target, written.strides, out_blocks, rounding,
                     overflow, random_bits, settings.num_threads)
        began = perf_counter()
        plan.executable(codes, written, plan.layout, in_scales, out_scales, seeds)
        if listeners:
            what = f"{codes.shape} {source or 'float64'} to {target}"
            record(Run("popops.cast", what, plan.kernel, perf_counter() - began, plan))
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
    codes, source, _, _ = _source(x)
    result = result_array_like(codes, dtype) if out is None else _checked_out(out, codes.shape, dtype)
    numbers = codes.copy() if source is None else cast(x, FP32)
    write_integers(numbers, rounding, result)
    return result if out is None else out


@lru_cache(maxsize=1024)
def _plan(source: Format | None, shape: tuple[int, ...], in_strides: tuple[int, ...], in_blocks: tuple[int, ...] | None,
          target: Format, out_strides: tuple[int, ...], out_blocks: tuple[int, ...] | None,
          rounding: str, overflow: str, random_bits: int, threads: int) -> CastPlan:
    return CastPlan.make(source, shape, in_strides, in_blocks, target, out_strides, out_blocks, rounding, overflow,
                         random_bits, threads)


@cache
def _by_dtype(dtype: np.dtype[Any]) -> Format | None:
    """The format of an array of numbers; None for float64."""
    if dtype == np.float64:
        return None
    found = next((f for f in FORMATS if f.dtype == dtype), None)
    if found is None:
        raise bad_type("x", str(dtype), _SOURCES)
    return found


def _source(x: object) -> tuple[Array, Format | None, Array, tuple[int, ...] | None]:
    """Codes, format (None for float64), exponents and their blocks."""
    if isinstance(x, QuarterArray):
        return x.codes, x.format, np.ascontiguousarray(x.scale, np.int8).reshape(-1), x.block_shape
    array = as_array("x", x, _SOURCES)
    if integer_dtype(array.dtype) is not None:
        array = array.astype(np.float32)  # which holds them exactly
    return array, _by_dtype(array.dtype), _NO_SCALE, None


def _destination(x: object, codes: Array, target: Format, scale: object, block_shape: Sequence[int] | None,
                 out: object) -> tuple[Any, Array, Array, tuple[int, ...] | None]:
    """What to return, the codes to write, their exponents and blocks."""
    if isinstance(out, QuarterArray):
        if scale is not None or block_shape is not None:
            raise bad_argument("scale", scale, "None where `out` is a QuarterArray, whose own scales hold")
        if out.format != target:
            raise bad_argument("out", f"a QuarterArray of {out.format}", f"a QuarterArray of {target}")
        written = _checked_out(out.codes, codes.shape, target.code_dtype)
        return out, written, np.ascontiguousarray(out.scale, np.int8).reshape(-1), out.block_shape
    if out is not None:
        if scale is not None or target.dtype is None:
            raise bad_type("out", type(out), "a QuarterArray, which can carry the scale and the format")
        return out, _checked_out(out, codes.shape, target.dtype), _NO_SCALE, None
    if target == FP32:
        raise bad_argument("scale", scale, "None: float32 arrays carry no scale")
    blocks = checked_block_shape(block_shape, codes.shape)
    if isinstance(scale, str) and scale == "auto":
        scale = auto_scale(cast(x, FP32) if codes.dtype != np.float64 else codes, target, blocks)
    exponents = checked_scale(0 if scale is None else scale, target, codes.shape, blocks)
    made = QuarterArray._of_parts(result_array_like(codes, target.code_dtype), target, exponents, blocks)
    return made, made.codes, exponents.reshape(-1), blocks


def _checked_out(out: object, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """A view of `out`, which stays as it is checked here whatever another thread makes of the caller's own."""
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise bad_type("out", type(out), f"an array of {dtype}")
    view = out.view(np.ndarray)
    if view.dtype != dtype:
        raise bad_type("out", str(view.dtype), f"an array of {dtype}")
    if view.shape != shape:
        raise bad_argument("out", f"an array of shape {view.shape}", f"the shape of x, {shape}")
    if not view.flags.writeable:
        raise bad_argument("out", "a read-only array", "a writeable one")
    if overlaps_itself(view):
        raise bad_argument("out", "an array with elements that share memory", "one of separate elements")
    return view


def _apart(codes: Array, written: Array) -> Array:
    """The input, copied where writing the output would destroy elements not yet read."""
    if not np.may_share_memory(codes, written):
        return codes
    same = codes.ctypes.data == written.ctypes.data and codes.strides == written.strides
    return codes if same and codes.itemsize == written.itemsize else codes.copy()
