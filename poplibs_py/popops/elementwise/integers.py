"""Casts to whole numbers of 8 bits: rounded, then saturated."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import Array

_INT8, _UINT8 = np.dtype(np.int8), np.dtype(np.uint8)
_INTEGERS: dict[object, np.dtype[Any]] = {"int8": _INT8, "uint8": _UINT8, _INT8: _INT8, _UINT8: _UINT8}
INTEGER_ROUNDINGS = {"toward-zero": np.trunc, "nearest-even": np.rint}


def integer_dtype(what: object) -> np.dtype[Any] | None:
    """Return the 8-bit integer dtype that a name, type or dtype stands for; None if it stands for something else."""
    if isinstance(what, (str, np.dtype)):
        return _INTEGERS.get(what)
    return np.dtype(what) if what is np.int8 or what is np.uint8 else None


def write_integers(numbers: Array, rounding: str, out: Array) -> None:
    """Write real numbers, which are lost, to an array of 8-bit integers; NaN becomes zero."""
    limits = np.iinfo(out.dtype)
    INTEGER_ROUNDINGS[rounding](numbers, out=numbers)
    np.copyto(numbers, 0, where=np.isnan(numbers))
    np.clip(numbers, limits.min, limits.max, out=numbers)
    np.copyto(out, numbers, casting="unsafe")
