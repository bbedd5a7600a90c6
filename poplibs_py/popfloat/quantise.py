"""Arrays rounded to the values of a format, in their own dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..config import settings
from ..errors import bad_argument, bad_type
from ..formats import BF16, FP16, FP32, Format, QuarterArray, format_of
from ..formats.bounds import Ball
from ..formats.format import preset_of
from ..formats.reference import Overflow, Rounding
from ..ops import RESULT, VALUES, Operand, Receiver, Request, argument, new_result, op, receive
from ..popops.elementwise.bound import cast_bound
from ..popops.elementwise.cast import checked_how
from ..popops.strided.lower import StridedOperand, StridedParams, lower
from ..popops.strided.request import strided_request
from ..popops.strided.steps import Chain, Step
from ..program import Executable, Room, Sequence
from ..target import TargetLike

_NATIVE = (FP32, FP16, BF16)
_ALLOWED = "an array of float32, float16 or bfloat16"


@op("popfloat::experimental::castNativeToGfloat", bound="popfloat.quantise", draws="testing.calls", values=("seed",),
    lacks="whose cycles are known")
def quantise(x: object, dtype: object, *, rounding: Rounding | None = None, overflow: Overflow | None = None,
             seed: object = None, random_bits: int = 31, out: Any = None, target: TargetLike = None) -> Any:
    """Round an array to the values of a format, in its own dtype (``popfloat::experimental::castNativeToGfloat``).

    What a model would compute if its numbers were stored in that format, with no other change to it.

    Parameters
    ----------
    x : array-like
        float32, float16 or bfloat16 numbers, of any shape and strides.
    dtype : Format, dtype or str
        Any format of at most 16 bits: a preset, one of `poplibs_py.formats.presets`, or a user-defined one.
    rounding, overflow, seed, random_bits
        As for `poplibs_py.cast`.
    out : array, optional
        Where the result goes: dtype and shape of `x`, any strides. It may be `x` (``castNativeToGfloatInPlace``), or
        overlap it.

    Returns
    -------
    numpy.ndarray
        Of the dtype of `x`, laid out like it.


    See Also
    --------
    poplibs_py.cast : The codes themselves, with scales of blocks where they are asked for.

    Notes
    -----
    The numbers are those of a `cast` to the format and back, bit for bit. The way back is exact where the dtype holds
    the format's values, as float32 always does; else it rounds to nearest even once more, and what is too large becomes
    an infinity.

    Infinities and NaN become what `cast` makes of them, but in formats that hold neither they stay, as in PopFloat. The
    codes, one or two bytes an element, are kept while it runs.

    Examples
    --------
    >>> from poplibs_py.popfloat import quantise
    >>> quantise(np.float32([0.3, 2.6, -9, np.inf]), "e2m1")
    array([ 0.5,  3. , -6. ,  inf], dtype=float32)
    >>> quantise(np.float16([0.3, 2.6]), "e2m1", rounding="down")
    array([0., 2.], dtype=float16)
    """
    fmt = format_of(dtype, "dtype")
    if fmt == FP32:
        raise bad_argument("dtype", fmt.name, "a format of at most 16 bits")
    how = checked_how(fmt, rounding, overflow, seed, random_bits)
    if isinstance(x, QuarterArray):
        raise bad_type("x", x, f"{_ALLOWED}; cast it to one of them first")
    given = argument("x", x, _ALLOWED, np.float32)
    own = given.format = preset_of(given.array.dtype)
    if own not in _NATIVE or not given.array.dtype.isnative:
        raise bad_type("x", str(given.array.dtype), _ALLOWED)
    receiver = receive("out", out, given.shape, None, own, in_place=(given,), like=given.array)
    if receiver.format != own:
        raise bad_type("out", f"an array of {receiver.format}", f"one of {own}, as x is")
    codes = new_result(given.shape, fmt, given.array)
    narrowing = strided_request(None, (given,), codes, how.overflow, how.rounding, how.random_bits, how.seed)
    wide = receiver if fmt.has_nan else new_result(given.shape, own, given.array)
    widening = strided_request(None, (Operand(codes.array, fmt),), wide, own.overflow)
    operands: tuple[Any, ...] = (given, RESULT, *(VALUES,) * len(narrowing.values))
    room = Room(len(operands))
    narrow = room.take(codes.array.nbytes)
    parts: list[Any] = [(narrowing.program, (0, narrow, *range(2, len(operands))))]
    if fmt.has_nan:
        parts.append((widening.program, (narrow, 1)))
    else:  # infinities and NaN stay as they were
        numbers = room.take(wide.array.nbytes)
        parts += [(widening.program, (narrow, numbers)), (_finite_ones(wide, given, receiver), (numbers, 0, 1))]
    return Request(Sequence(parts, len(operands), room.bytes), operands, receiver, narrowing.tell, narrowing.values)


def _finite_ones(first: Receiver, second: Operand, result: Receiver) -> Executable:
    """Return what takes elements of the first where those of the second are finite, and else the second's."""
    lies, lane = [StridedOperand(x.format, x.array.strides) for x in (first, second, result)], first.format.name
    chain = Chain((Step("is_finite", (1,), (3,)), Step("select", (0, 1, 3), (2,))), (lane, lane, lane, "bool"))
    params = StridedParams("finite ones", second.shape, tuple(lies[:2]), (lies[2],), "nearest-even", "inf", chain=chain)
    return lower(params, settings.num_threads).executable


def quantise_bound(x: Any, dtype: Any, *, rounding: Rounding | None = None, overflow: Overflow | None = None,
                   seed: Any = None, random_bits: int = 31, out: Any = None, target: Any = None) -> Ball:
    """Return exact results and radii of a `quantise` call.

    Parameters
    ----------
    x, dtype, rounding, overflow, seed, random_bits, out, target
        As `quantise` takes them.
    """
    fmt, held = format_of(dtype), np.asarray(x, np.float32 if isinstance(x, (list, tuple, float, int)) else None)
    own: Format = format_of(held)
    made = cast_bound(held, fmt, rounding=rounding, overflow=overflow)
    with np.errstate(invalid="ignore"):
        numbers = held.astype(np.float64)
    if fmt.has_nan:
        special = np.isinf(made.centre)
        numbers = np.where(special, made.centre, numbers)
    else:
        special = ~np.isfinite(numbers)
    native = made.rounded(own)
    holds = (fmt.max <= own.max and fmt.mantissa_bits <= own.mantissa_bits
             and fmt.smallest_subnormal >= own.smallest_subnormal)
    ball = made if holds else native
    return Ball(np.where(special, numbers, ball.centre), np.where(special, 0.0, ball.radius))
