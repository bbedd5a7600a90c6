"""How wrong casts and elementwise operations may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...formats import FP32, Floats, Format, QuarterArray, format_of
from ...formats.bounds import Ball
from ...formats.reference import Rounding, decode, default_overflow
from ...formats.scales import auto_scale, checked_block_shape, checked_scale, spread
from ...ops import Operand, result_format
from .integers import integer_dtype, write_integers
from .promotion import Element, elementwise_operands


def cast_bound(x: Any, dtype: Any, *, scale: Any = None, block_shape: Any = None, rounding: Rounding | None = None,
               overflow: str | None = None, seed: Any = None, random_bits: int = 31, out: Any = None,
               target: Any = None) -> Ball:
    """Return exact results and radii of a `cast` call.

    Parameters
    ----------
    x, dtype, scale, block_shape, rounding, overflow, seed, random_bits, out, target
        As `cast` takes them.
    """
    integer = integer_dtype(dtype)
    if integer is not None:  # one right result each
        numbers = np.array(x.to_array(np.float64) if isinstance(x, QuarterArray) else x, np.float64)
        whole = np.empty(numbers.shape, integer)
        write_integers(numbers, rounding or "toward-zero", whole)
        return Ball.exact(whole)
    target, rounding = format_of(dtype), rounding or "nearest-even"
    held = x.to_array(np.float64) if isinstance(x, QuarterArray) else np.asarray(x)
    with np.errstate(invalid="ignore"):
        values = held.astype(np.float64)
        power = 2.0 ** _exponents(values, target, scale, block_shape, out)
        ball = Ball.exact(_admitted(values / power, target))
    made = ball.rounded(target, rounding, overflow or default_overflow(target, rounding))
    if target.has_infinity:  # `overflow` speaks of finite numbers alone
        endless = np.isinf(ball.centre)
        made = Ball(np.where(endless, ball.centre, made.centre), np.where(endless, 0.0, made.radius))
    return made * power


def _admitted(values: Floats, target: Format) -> Floats:
    """What a format makes of numbers that are not too large and that it has not."""
    lacks = np.nan if target.has_nan else 0.0
    if not target.has_nan:
        values = np.clip(np.nan_to_num(values, nan=0.0, posinf=target.max, neginf=-target.max), -target.max, target.max)
    elif not target.has_infinity:
        values = np.where(np.isinf(values), np.nan, values)
    if not target.signed:
        values = np.where(values < 0, lacks, values)
    if not target.zero:
        values = np.where(values == 0, lacks, np.maximum(values, target.smallest_normal))
    return values


def _exponents(values: Any, target: Format, scale: Any, block_shape: Any, out: Any) -> Floats:
    """The exponent of each element's scale."""
    if isinstance(out, QuarterArray):
        return out.element_scales().astype(np.float64)
    blocks = checked_block_shape(block_shape, values.shape)
    chosen = auto_scale(values, target, blocks) if isinstance(scale, str) else 0 if scale is None else scale
    return spread(checked_scale(chosen, target, values.shape, blocks), values.shape, blocks).astype(np.float64)


def array_of(value: Any) -> Any:
    """Return an operand as an array: lists and Python's numbers become float32."""
    return np.asarray(value, np.float32) if isinstance(value, (list, tuple, int, float)) else np.asarray(value)


def numbers(value: Any) -> Floats:
    """Return an operand's numbers in float64."""
    if isinstance(value, QuarterArray):
        return value.to_array(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        made: Floats = array_of(value).astype(np.float64)
        return made


def format_of_operand(value: Any) -> Format:
    """Return the format of an operand: lists and numbers become FP32."""
    return FP32 if isinstance(value, (list, tuple, int, float)) else format_of(value)


def finished(ball: Ball, out: Any, out_dtype: Any, *operands: Any) -> Ball:
    """Return results of FP32 rounded to a call's format: that of `out`, or `out_dtype`, or what the operands' give."""
    if isinstance(out, QuarterArray):
        power = 2.0 ** out.element_scales().astype(np.float64)
        return (ball * (1 / power)).rounded(out.format) * power
    if out is not None or out_dtype is not None:
        made = format_of(out if out is not None else out_dtype)
    else:
        made = result_format(*map(format_of_operand, operands))
    return ball if made == FP32 else ball.rounded(made)


def fp32_ball(exact: Any, ulp: float) -> Ball:
    """Return what an FP32 function within so many units of the last place may give; 0 for an exact one."""
    with np.errstate(all="ignore"):
        magnitude = np.abs(np.asarray(exact, np.float64))
        exponent = np.maximum(np.frexp(np.where(np.isfinite(magnitude), magnitude, 0.0))[1] - 1, -126)
        unit = np.ldexp(1.0, exponent - FP32.mantissa_bits)
        radius = ulp * unit + magnitude * 2.0**-40 * (ulp > 0)  # the reference's own error
        overflows = np.isfinite(exact) & (magnitude - radius > FP32.max)
        may = ~overflows & np.isfinite(exact) & (magnitude + radius > FP32.max)
        centre = np.where(overflows, np.copysign(np.inf, exact), exact)
    return Ball(centre, np.where(may, np.inf, np.where(np.isfinite(centre), radius, 0.0)))


def elementwise_bound(values: Mapping[str, Any], reference: Callable[..., Any], ulp: float, *, kinds: str = "f",
                      tells: bool = False, conditions: tuple[str, ...] = (), more: Callable[..., Any] | None = None,
                      out: Any = None, out_dtype: Any = None) -> Ball:
    """Return exact results and radii of an elementwise operation: the FP32 function's error, then one rounding.

    Parameters
    ----------
    values : mapping
        The operands by their names, as the operation takes them.
    reference, ulp, kinds, tells, conditions, more
        As an `ElementwiseOp` has them.
    out, out_dtype
        As the operation takes them.
    """
    found = elementwise_operands(values, kinds, conditions)
    numbers = [_exact(value, x, found.element, name in conditions)
               for (name, value), x in zip(values.items(), found.operands, strict=True)]
    with np.errstate(all="ignore"):
        exact = np.asarray(reference(*numbers))
        if tells or not isinstance(found.element, Format):
            return Ball.exact(exact)
        ball = function_ball(exact, ulp, more, numbers)
        return finished(ball, out, found.element if out_dtype is None else out_dtype)


def function_ball(exact: Any, ulp: float, more: Callable[..., Any] | None, numbers: Sequence[Any]) -> Ball:
    """Return exact results and radii of an FP32 function; `ulp` and `more` as an `ElementwiseOp` has them."""
    ball = fp32_ball(exact, ulp)
    if more is None:
        return ball
    besides = more(*numbers)  # infinite where nothing is promised
    counts = np.isfinite(ball.centre) | np.isposinf(besides)
    return Ball(ball.centre, ball.radius + np.where(counts, besides, 0.0))


def _exact(value: Any, x: Operand, element: Element, condition: bool) -> np.ndarray[Any, Any]:
    """The numbers that an operand stands for where it is computed with: in float64, or of the integers' own type."""
    if isinstance(value, QuarterArray):
        return value.to_array(np.float64)
    if condition:
        return x.array
    if not isinstance(element, Format):
        return x.array.astype(element)
    if not isinstance(x.format, Format):
        return x.array.astype(np.float32).astype(np.float64)
    with np.errstate(invalid="ignore"):  # signalling NaNs, which a conversion of FP16 keeps; a product makes them quiet
        return decode(x.array, x.format) if x.format.dtype is None else x.array.astype(np.float64) * 1.0
