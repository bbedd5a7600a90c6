"""What callers pass where an array is wanted: taken without a copy where that can be, or refused by name."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import bad_argument, bad_type, described
from .format import FORMATS, FP16, FP32, Format

Array = np.ndarray[Any, Any]
Floats = NDArray[np.float64]

_TORCH_CODES: dict[str, tuple[str, Format]] = {
    f"torch.{f.dtype.name}": ("uint8" if f.itemsize == 1 else "int16", f)
    for f in FORMATS if f.dtype is not None and f not in (FP32, FP16)
}
"""Torch's dtypes that DLPack does not carry to NumPy: what to see their codes as, and what those stand for."""

_DLPACK = {"bfloat16": (4, 16), "float8_e4m3fn": (10, 8), "float8_e4m3fnuz": (11, 8), "float8_e5m2": (12, 8),
           "float8_e5m2fnuz": (13, 8)}
"""DLPack's type codes and bits of the formats that NumPy itself does not have."""


def register_dlpack() -> None:
    """Tell NumPy, from 2.5 on, what DLPack calls the formats of ml_dtypes: it then exchanges their arrays too.

    Where another package has named a dtype of its own for one of them, that stays.
    """
    register = getattr(np.dtypes, "register_dlpack_dtype", None)
    if register is None:
        return
    for f in FORMATS:
        if f.dtype is not None and f.dtype.name in _DLPACK:
            with contextlib.suppress(ValueError):
                register(_DLPACK[f.dtype.name], f.dtype)


register_dlpack()


def as_array(name: str, value: Any, allowed: str, numbers: Any = None) -> Array:
    """Return what stands for an array as a plain one.

    Parameters
    ----------
    name : str
        The caller's argument, for the error message.
    value : array_like, or anything with DLPack such as a torch tensor
    allowed : str
        What the caller takes, for the error message.
    numbers : dtype, optional
        What lists and Python numbers become; NumPy's choice by default.

    Returns
    -------
    numpy.ndarray
        Of any dtype, which the caller checks. It shares memory where it can, and is a view of an array: its shape stays
        as it is whatever becomes of that one.

    Raises
    ------
    InvalidTypeError
        For masked arrays, tensors that require a gradient or are not in this machine's memory, and what is no array.

    Examples
    --------
    >>> as_array("x", [1, 2], "numbers", np.float32)
    array([1., 2.], dtype=float32)
    """
    if type(value) is np.ndarray:
        return value.view()  # the caller's own keeps no shape that another thread cannot change
    if isinstance(value, np.ma.MaskedArray):
        raise bad_type(name, "a masked array", f"{allowed}, without a mask: see numpy.ma.filled")
    if isinstance(value, np.ndarray):
        return value.view(np.ndarray)
    if hasattr(value, "__dlpack__") and not isinstance(value, type):
        return _of_tensor(name, value, allowed)
    try:
        found = np.asarray(value)
        if numbers is not None and isinstance(value, (list, tuple, int, float)) and found.dtype.kind in "fiub":
            with np.errstate(over="ignore"):
                found = found.astype(numbers)
    except Exception:  # whatever an object of somebody else's raises, or lists of different lengths
        raise bad_type(name, value, allowed) from None
    if found.dtype.kind == "O" and found.size and all(type(number) is int for number in found.flat):
        raise bad_argument(name, value, "whole numbers of at most 64 bits")
    if found.dtype.kind in "OUS":
        raise bad_type(name, value if isinstance(value, (list, tuple, str)) else _kind_of(value), allowed)
    return found


def floats(name: str, value: Any) -> Array:
    """Return real numbers of any kind, fractions too, as float64, or raise."""
    try:
        if value is None or isinstance(value, (str, bytes)):  # NumPy takes them for NaN, and for what they spell
            raise TypeError
        found: Array = np.asarray(value, np.float64)
    except Exception:  # whatever an object of somebody else's raises
        raise bad_type(name, value, "real numbers, or an array of them") from None
    return found


def float_dtype(name: str, dtype: Any) -> np.dtype[Any]:
    """Return float32 or float64 as a dtype, or raise."""
    allowed = "float32 or float64"
    if dtype is not None:  # NumPy's word for float64
        try:
            found: np.dtype[Any] = np.dtype(dtype)
        except Exception:
            raise bad_type(name, dtype, allowed) from None
        if found in (np.float32, np.float64):
            return found
    raise bad_argument(name, dtype, allowed)


def _of_tensor(name: str, tensor: Any, allowed: str) -> Array:
    if getattr(tensor, "requires_grad", False):
        raise bad_type(name, "a tensor that requires a gradient", f"{allowed}: see its detach()")
    torch: Any = sys.modules.get("torch")
    try:
        if torch is not None and isinstance(tensor, torch.Tensor) and str(tensor.dtype) in _TORCH_CODES:
            seen_as, format = _TORCH_CODES[str(tensor.dtype)]
            codes: Array = np.from_dlpack(tensor.view(getattr(torch, seen_as)))
            return codes.view(format.dtype)
        return np.from_dlpack(tensor)
    except Exception as error:  # each library has its own
        reason = str(error).partition("\n")[0]
    try:
        found = np.asarray(tensor)  # DLPack has no name for some dtypes that NumPy knows from ml_dtypes
    except Exception:
        found = None
    if found is None or found.dtype.kind == "O":
        got = described(f"{described(tensor)}, which NumPy cannot take ({reason})")
        raise bad_type(name, got, allowed)
    return found


def _kind_of(value: object) -> str:
    """The type's name, with its package where it is not Python's own."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    return kind.__name__ if package == "builtins" else f"{kind.__name__} of {package}"


def broadcast(name: str, shape: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that an argument's and another broadcast to, or raise.

    Examples
    --------
    >>> broadcast("got", (1, 3), (2, 3))
    (2, 3)
    """
    try:
        return np.broadcast_shapes(shape, other)
    except ValueError:
        raise bad_argument(name, f"shape {shape}", f"one that broadcasts with {other}") from None
