"""Which format an elementwise result has."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ..errors import bad_argument, bad_type
from ..formats import FORMATS, FP16, FP32, Format, QuarterArray, format_of

__all__ = ["default_format", "format_by_dtype", "result_format"]


@cache
def format_by_dtype(dtype: np.dtype[Any]) -> Format | None:
    """Return the format of an array of numbers, or None."""
    return next((f for f in FORMATS if f.dtype == dtype), None)


def default_format(formats: Sequence[Format]) -> Format:
    """Return the format of a result where none is asked for.

    float32 where an operand is or where two formats of more than 8 bits meet; else the 16-bit format that is there;
    FP16 for formats of at most 8 bits alone.
    """
    wide = {fmt for fmt in formats if fmt.bits > 8}
    if not wide:
        return FP16
    return wide.pop() if len(wide) == 1 else FP32


def result_format(formats: Sequence[Format], out: object, out_dtype: object) -> Format:
    """Return the format of a result: that of `out`, the one asked for, or the operands' default.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If `out` has no format, or another one than `out_dtype`.
    """
    asked = None if out_dtype is None else format_of(out_dtype, "out_dtype")
    if out is None:
        return asked or default_format(formats)
    if isinstance(out, QuarterArray):
        held: Format | None = out.format
    else:
        held = format_by_dtype(out.dtype) if isinstance(out, np.ndarray) else None
    if held is None:
        got = str(out.dtype) if isinstance(out, np.ndarray) else type(out)
        raise bad_type("out", got, "an array of " + ", ".join(map(str, FORMATS)) + ", or a QuarterArray")
    if asked is not None and asked != held:
        raise bad_argument("out", f"dtype {held}", f"out_dtype, which is {asked}")
    return held
