"""The modelled machines' words for number types."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InvalidTypeError, bad_argument
from ..formats import F143, F152, FP16, FP32, Format, format_of
from .machine import TYPE_SIZES, Target

_TYPES = {FP32: "float", FP16: "half", F143: "quarter", F152: "quarter"}
_FORMATS = {"float": FP32, "half": FP16, "quarter": F143}
_WORDS = {"bool": "bool", "int8": "signed char", "uint8": "unsigned char", "int16": "short", "uint16": "unsigned short",
          "int32": "int", "uint32": "unsigned int", "int64": "long long", "uint64": "unsigned long long"}  # fmt: skip
INTEGER_WORDS = {word: name for name, word in _WORDS.items()}
"""dtypes of integers and truth values by PopLibs' words."""

TYPE_BYTES = {
    "float": 4, "half": 2, "quarter": 1, "bool": 1, "char": 1, "signed char": 1, "unsigned char": 1, "short": 2,
    "unsigned short": 2, "int": 4, "unsigned int": 4, "long long": 8, "unsigned long long": 8,
}  # fmt: skip
"""Bytes of an element of each type."""


def data_type(name: str, value: object, allowed: tuple[str, ...] = tuple(TYPE_SIZES)) -> str:
    """PopLibs' word for a data type, given that word, a format's name, a `Format` or a dtype.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.target.types import data_type
    >>> data_type("dtype", "half"), data_type("dtype", np.float32), data_type("dtype", "float16")
    ('half', 'float', 'half')
    """
    found: str | None = value if isinstance(value, str) else None
    if found not in allowed:
        try:
            found = _TYPES.get(format_of(value))
        except InvalidTypeError:
            found = None
    if found not in allowed:
        got = value.name if isinstance(value, Format) else value
        raise bad_argument(name, got, f"{', '.join(map(repr, allowed))}, or the dtype of one, such as float16")
    return found


def format_of_type(word: str) -> Format:
    """Return the format of PopLibs' word for floating-point numbers; FP8 is F143 where nothing says which."""
    return _FORMATS[word]


def type_of(dtype: Format | np.dtype[Any] | None) -> str:
    """PopLibs' word for a format, or a dtype of integers or truth values; an empty string where it has none.

    Examples
    --------
    >>> from poplibs_py.formats import BF16, FP16
    >>> from poplibs_py.target.types import type_of
    >>> type_of(FP16), type_of(BF16)
    ('half', '')
    """
    if isinstance(dtype, np.dtype):
        return _WORDS.get(dtype.name, "")
    return "" if dtype is None else _TYPES.get(dtype, "")


def vector_of(target: Target, data_type: str) -> int:
    """Elements of a type in one load; at least one."""
    return target.elements_of_a_load(TYPE_BYTES[data_type])
