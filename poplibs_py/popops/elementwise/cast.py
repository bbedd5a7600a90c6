"""``popops::cast``: arrays from one number format to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...checks import one_of, whole
from ...errors import bad_argument, bad_type
from ...formats import FORMATS, FP32, Array, Format, QuarterArray, format_of
from ...formats.format import format_or_none
from ...formats.metadata import METADATA_SCALES
from ...formats.reference import Overflow, Rounding, checked_overflow
from ...formats.scales import auto_scale, checked_block_shape, checked_scale
from ...immutable import frozen
from ...ops import (
    RESULT,
    Operand,
    Placed,
    Receiver,
    Request,
    argument,
    new_result,
    op,
    operand,
    place_of,
    receive,
    seed_of,
)
from ...program import Wrapper, result_array_like
from ...target import Target, TargetLike
from ...target.types import type_of
from ..strided.lower import ROUNDINGS
from ..strided.request import strided_request
from ..vertices.cast import cast_lacks
from .integers import INTEGER_ROUNDINGS, integer_dtype, write_integers
from .modelled import planned

_FLOAT32 = np.dtype(np.float32)
_SOURCES = "float32, float16, bfloat16, FP8, float64, int8 or uint8 numbers, or a QuarterArray"


@op("popops::cast", bound="popops.elementwise.bound", draws="testing.calls", values=("seed",))
def cast(x: object, dtype: object, *, scale: object = None, block_shape: Sequence[int] | None = None,
         rounding: Rounding | None = None, overflow: Overflow | None = None, seed: object = None, random_bits: int = 31,
         out: Any = None, target: TargetLike = None) -> Any:
    """Cast an array to another number format (``popops::cast``).

    Parameters
    ----------
    x : array-like or QuarterArray
        float32, float16, bfloat16, FP8, float64, int8 or uint8 numbers, of any shape and strides, those of ml_dtypes'
        other narrow formats, or codes with their scale. An array of uint8 holds numbers; codes come as a
        `QuarterArray`.
    dtype : Format, dtype or str
        The target: a preset by any of its names, or a user-defined `poplibs_py.formats.Format` of at most 16 bits; or
        int8 or uint8, from anything but these two. `poplibs_py.formats.presets` has more formats.
    scale : int, array of int or "auto", optional
        Exponents s: the result's codes stand for their value times ``2**s``. ``"auto"`` takes for each block the least
        s for which nothing overflows. With a scale the result is a `QuarterArray`. Without, s is 0, and that of a
        `QuarterArray` `x` is not kept: pass ``scale=x.scale``.
    block_shape : sequence of int, optional
        Extents of the blocks that share a scale, -1 for an axis's whole extent; by default the tensor has one.
    rounding : {"nearest-even", "toward-zero", "stochastic", "up", "down", "nearest-away"}, optional
        By default to nearest even, and toward zero to an integer, the two that integers take. Up and down go toward
        plus and minus infinity; nearest away takes ties away from zero. Stochastic rounding needs `seed` and a format.
    overflow : {"saturate", "nan", "inf", "directed"}, optional
        What a finite number becomes that rounds to more than the largest finite one. By default IEEE 754's result: the
        largest number where `rounding` goes toward zero, else infinity, or NaN where the format has no infinity;
        ``"directed"`` says so of rounding up and down. Integers, and formats without NaN, always saturate.
    seed : int or (int, int), optional
        0 to 2**64 - 1, or two words of 32 bits; for stochastic rounding, and no other.
    random_bits : int, optional
        Random bits of each stochastic rounding, 1 to 31 (the default).
    out : array or QuarterArray, optional
        Where the result goes: the target's dtype and the shape of `x`, any strides. A `QuarterArray` keeps its scales.
        It may be `x`, or overlap it: the result is as if it did not.
    target : Target or str, optional
        The machine; by default this CPU. On a modelled one, such as ``"gc200"``, the numbers are the same; float32,
        float16 and PopLibs' FP8 have vertices there, which round to nearest even or stochastically.

    Returns
    -------
    numpy.ndarray or QuarterArray
        An array of the target's dtype, laid out like `x`; a `QuarterArray` where `scale` was given, where the target
        has no dtype of its own, or as `out` is.

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
    become +0. In formats without NaN an infinity becomes the largest number and NaN a zero; unsigned formats have NaN
    for negative numbers, or zero where there is none.

    To int8 and uint8, infinities saturate as finite numbers do, and NaN becomes 0.

    Examples
    --------
    >>> from poplibs_py import cast
    >>> cast(np.float32([0.3, 250, -1e-9]), "f143", overflow="saturate")
    array([0.3125, 240, 0], dtype='float8_e4m3fnuz')
    >>> cast(np.float32([[1, 1000], [3e-4, 2e-4]]), "f143", scale="auto", block_shape=(1, -1)).scale.ravel()
    array([  3, -19], dtype=int8)
    """
    if (integer := integer_dtype(dtype)) is not None:
        placed: Placed[Any] = place_of(cast, target, lambda _: f"to {integer}")
        return _to_integers(_source(x), integer, scale, block_shape, rounding, overflow, seed, out, placed)
    fmt = format_of(dtype, "dtype", "int8, uint8")
    how = checked_how(fmt, rounding, overflow, seed, random_bits)
    rounding, source = how.rounding, _source(x)
    given = source.numbers
    if rounding == "stochastic" and given.format is None:
        raise bad_argument("rounding", rounding, "any but 'stochastic' from float64; cast to float32 first")
    receiver, wrap = _receiver(x, given, fmt, scale, block_shape, out)
    auto = isinstance(scale, str)
    placed = place_of(cast, target, lambda machine: _missing(
        machine, source, receiver, rounding, auto) or planned(
            "cast", "", given.shape, type_of(given.format), type_of(fmt), given in receiver.written_over, machine))
    request = strided_request(None, (given,), receiver, how.overflow, rounding, how.random_bits, how.seed, placed)
    request = request.with_(keep=not auto, wrap=wrap)  # such a scale is of these numbers alone
    if source.integers is None:
        return request
    return request.with_(program=_widening(request.program, given.array),
                         operands=(source.integers, *request.operands[1:]))


class How(NamedTuple):
    """How numbers are rounded to a format; the seed is None where none is needed."""

    rounding: Rounding
    overflow: Overflow
    random_bits: int
    seed: int | None


def checked_how(dtype: Format, rounding: object, overflow: object, seed: object, random_bits: object) -> How:
    """Return how to round, given what a caller asked for, or raise."""
    word: Any = "nearest-even" if rounding is None else rounding
    one_of("rounding", word, tuple(ROUNDINGS))
    too_large = checked_overflow(overflow, dtype, word)
    random_bits = whole("random_bits", random_bits, 1, 31)
    if word != "stochastic":
        if seed is not None:
            raise bad_argument("seed", seed, f"None with rounding={word!r}: 'stochastic' alone draws")
        return How(word, too_large, 31, None)
    if seed is None:
        raise bad_type("seed", seed, "a whole number of 64 bits, or two of 32, which stochastic rounding needs")
    return How(word, too_large, random_bits, seed_of(seed))


def _missing(machine: Target, source: _Source, receiver: Receiver, rounding: str, auto: bool) -> str:
    """Return what of a cast no vertex does, in words; an empty string if they do it all."""
    numbers = source.integers or source.numbers
    if numbers.format is None:
        return f"from {numbers.array.dtype}"
    if lacking := cast_lacks(machine, numbers.format, receiver.format):
        return lacking
    if auto:
        return 'with scale="auto"'
    for x in (numbers, receiver):
        if x.scales is not None or (x.scale and type_of(x.format) != "quarter"):
            return "with scales but one, of an FP8 tensor"
        if x.scale not in METADATA_SCALES:
            return f"at scale {x.scale}: its own are -32 to 31"
    return "" if rounding in ("nearest-even", "stochastic") else f'with rounding="{rounding}"'


def _widening(program: Any, like: Array) -> Callable[..., None]:
    """A program of float32 numbers that lie like some as one of integers, which they hold exactly."""
    shape, strides = like.shape, like.strides

    def widened(integers: Array, *rest: Array) -> None:
        program(lying(integers.astype(np.float32), shape, strides), *rest)

    return widened


def lying(array: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """Return an array made like one of the call's, or raise where another thread has changed that one meanwhile."""
    if array.shape != shape or array.strides != strides:
        raise bad_argument("x", "an array that changed during the call", "one that stays as it is until it ends")
    return array


def _to_integers(source: _Source, dtype: np.dtype[Any], scale: object, block_shape: object, rounding: str | None,
                 overflow: object, seed: object, out: Any, placed: Placed[Any]) -> Request:
    """`cast` to int8 or uint8: by way of numbers that hold every value, so that it is rounded once."""
    for name, value in (("scale", scale), ("block_shape", block_shape)):
        if value is not None:
            raise bad_argument(name, value, f"None: {dtype} arrays carry no scale")
    rounding = "toward-zero" if rounding is None else rounding
    one_of("rounding", rounding, tuple(INTEGER_ROUNDINGS))
    if seed is not None:
        raise bad_argument("seed", seed, f"None: {dtype} takes no stochastic rounding")
    one_of("overflow", overflow, ("saturate", None))
    if source.integers is not None:
        integers = source.integers.array.dtype
        raise bad_type("x", f"dtype {integers}", f"numbers of a format: numpy.ndarray.astype casts integers to {dtype}")
    given = source.numbers
    receiver = receive("out", out, given.shape, None, dtype, like=given.array)
    operands: tuple[Any, ...] = given, RESULT
    widen: Any = None
    strides: tuple[int, ...] = ()
    if given.format is not None:
        wide = new_result(given.shape, FP32, given.array)
        widening = strided_request(None, (given,), wide, "inf")
        widen, operands, strides = widening.program, widening.operands, wide.array.strides
    shape = given.shape

    def write(codes: Array, result: Array, *exponents: Array) -> None:
        if widen is None:
            numbers = codes.copy()
        else:
            numbers = lying(result_array_like(codes, _FLOAT32), shape, strides)
            widen(codes, numbers, *exponents)
        write_integers(numbers, rounding, result)

    return Request(write, operands, receiver, lambda: (f"{shape} to {dtype}", "NumPy", None),
                   placed=placed)


class _Source(NamedTuple):
    """What is cast: numbers as an operand, and what they were made from where they were integers."""

    numbers: Operand
    integers: Operand | None = None


def _source(x: object) -> _Source:
    if isinstance(x, QuarterArray):
        return _Source(operand("x", x))
    source = argument("x", x, _SOURCES, np.float32)
    array = source.array
    if integer_dtype(array.dtype) is not None:
        return _Source(Operand(array.astype(np.float32), FP32), source)
    fmt = source.format = format_or_none(array.dtype)
    if (fmt is None and array.dtype != np.float64) or not array.dtype.isnative:
        raise bad_type("x", array.dtype.str if fmt else str(array.dtype), _SOURCES)
    return _Source(source)


Wrap = Callable[[Array, Any], Any]


def _receiver(x: object, given: Operand, target: Format, scale: object, block_shape: Sequence[int] | None,
              out: object) -> tuple[Receiver, Wrap | None]:
    """What receives the result, and what makes a new array into it."""
    if out is not None:
        if isinstance(out, QuarterArray) and (scale is not None or block_shape is not None):
            raise bad_argument("scale", scale, "None where `out` is a QuarterArray, whose own scales hold")
        if not isinstance(out, QuarterArray) and (scale is not None or target.dtype is None):
            raise bad_type("out", type(out), "a QuarterArray, which can carry the scale and the format")
        # What only casts know goes by its dtype.
        others = not isinstance(out, QuarterArray) and target not in FORMATS
        default: Any = target.dtype if others else target
        receiver = receive("out", out, given.shape, None, default, in_place=(given,), blocks=True)
        if others:
            receiver.format = target
        if receiver.format != target:
            raise bad_type("out", f"an array of {receiver.format}", f"one of {target}")
        return receiver, None
    if scale is None:
        if block_shape is not None and target.dtype is not None:
            raise bad_argument("block_shape", block_shape, "None where no scale is given")
        if target.dtype is not None:
            return receive("out", None, given.shape, None, target, like=given.array), None
    if target == FP32:
        raise bad_argument("scale", scale, "None: float32 arrays carry no scale")
    settled, blocks = not isinstance(scale, str), checked_block_shape(block_shape, given.shape)
    if isinstance(scale, str) and scale == "auto":
        numbers = given.array if given.format is None else cast(x, FP32, target="host")
        exponents = frozen(auto_scale(numbers, target, blocks))
    else:
        exponents = checked_scale(0 if scale is None else scale, target, given.shape, blocks)
    held = QuarterArray._of_parts(result_array_like(given.array, target.code_dtype), target, exponents, blocks)
    written = operand("out", held)
    receiver = Receiver(written.array, target, written.scale, scales=written.scales, block_shape=written.block_shape)
    return receiver, _wrapping(held) if settled else lambda codes, _: held


def _wrapping(held: QuarterArray) -> Wrap:
    """Return what makes codes that lie as those of an array into one of its format and scales."""
    same = {"format": held.format, "block_shape": held.block_shape, "_scale": held._scale}
    return Wrapper(QuarterArray, "_codes", (), same, held._parts[:1], held._parts[2:])
