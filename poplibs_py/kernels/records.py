"""Work records, choices and formats as the compiled code numbers and lays them out: each made from one list.

The lists are in ``src_cython/records`` and ``src_cython/formats/formats.def``. A record's NumPy dtype is made from the
same lines as its C struct, and compared with what the compiler made of them; the formats' facts are compared with the
presets of `poplibs_py.formats`. Where anything differs this module does not load.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, cast

import numpy as np

from ..formats import FORMATS, Format
from . import _records

Field = tuple[str, str, int, int, int]
"""A field as C has it: name, type, offset, bytes, elements (0 for what is no array)."""

Facts = tuple[int, int, dict[str, int]]
"""A format as C has it: bytes of a code, its number, and its `pop_format`."""

_TYPES: dict[str, Any] = {
    "int32_t": np.int32, "uint32_t": np.uint32, "int64_t": np.int64, "uint64_t": np.uint64,
    "float": np.float32, "double": np.float64, "pointer": np.uintp,
}  # fmt: skip


def make_dtypes(records: Mapping[str, tuple[int, Iterable[Field]]]) -> dict[str, np.dtype[Any]]:
    """Return the dtypes of records, a record after those that it holds.

    Raises
    ------
    ImportError
        If NumPy lays a field out otherwise than the compiler did; it names record and field.
    """
    made: dict[str, np.dtype[Any]] = {}
    for record, (size, listed) in records.items():
        fields = list(listed)
        known = _TYPES | made
        for field, kind, *_ in fields:
            if kind not in known:
                raise ImportError(f"record {record}, field {field}: no dtype for the C type {kind}")
        dtype = np.dtype([(field, known[kind], (count,) if count else ()) for field, kind, _, _, count in fields],
                         align=True)  # fmt: skip
        for field, _, offset, size_of_field, _ in fields:
            inside, at = cast(Any, dtype.fields)[field][:2]
            if (at, inside.itemsize) != (offset, size_of_field):
                raise ImportError(f"record {record}, field {field}: {size_of_field} bytes at {offset} in C, "
                                  f"{inside.itemsize} at {at} in NumPy")
        if dtype.itemsize != size:
            raise ImportError(f"record {record}: {size} bytes in C, {dtype.itemsize} in NumPy")
        made[record] = dtype
    return made


RECORDS: Mapping[str, np.dtype[Any]] = make_dtypes(_records.records())
"""The dtype of each record by the name of its C struct."""

STREAM_BYTES: Mapping[str, int] = _records.STREAM_BYTES
"""From how many bytes on results go past the caches: of arrays read and written once, operands and results together;
the same of tiles, whose operands neighbours read again; of rows of results alone, whose operands are read many times.
"""

ATTENTION_PIECES = _records.ATTENTION_PIECES
"""Tiles of keys whose scores attention holds side by side."""

ROWS: Mapping[str, Any] = _records.ROWS
"""What kernels of rows are told by number (`single`, modes by name), how many rows are taken at once: of up to so many
elements so many, and how many elements are added in FP32."""

_CHOICES: dict[str, dict[str, int]] = _records.choices()


def dtype_of(record: str) -> np.dtype[Any]:
    """Return the dtype of a record by the name of its C struct, such as ``"pop_sparse_item"``."""
    return RECORDS[record]


def record_of(record: str, **fields: Any) -> np.ndarray[Any, Any]:
    """Return a record, an array of no dimensions, with these fields; the others are 0.

    Examples
    --------
    >>> record_of("pop_random_item", share=1)["share"]
    array(1)
    """
    made = np.zeros((), RECORDS[record])
    for field, value in fields.items():
        made[field] = value
    return made


def numbers_of(choice: str) -> dict[str, int]:
    """Return the numbers of a choice by the words for them, in order.

    Examples
    --------
    >>> numbers_of("rounding")
    {'nearest-even': 0, 'toward-zero': 1, 'stochastic': 2, 'up': 3, 'down': 4, 'nearest-away': 5}
    """
    return dict(_CHOICES[choice])


def choice(name: str) -> Any:
    """Return a choice as an `enum.IntEnum` whose members are the words in capitals.

    Examples
    --------
    >>> choice("Sums").IN_PLACE
    <Sums.IN_PLACE: 0>
    """
    return IntEnum(name, {word.upper(): number for word, number in _CHOICES[name.lower()].items()})


ACTIVATIONS: tuple[str | None, ...] = tuple(None if word == "none" else word for word in numbers_of("activation"))
"""What an epilogue applies to sums, in the order of the numbers."""

_SPECIALS, _OVERFLOWS = numbers_of("specials"), numbers_of("overflow")


def format_facts(f: Format, scale: int = 0) -> tuple[int, ...]:
    """Return the fields of a format's `pop_format`, its values scaled by 2^scale."""
    return (f.exponent_bits, f.mantissa_bits, f.bias - scale, _SPECIALS[f.specials], int(f.subnormals),
            int(not f.signed), int(not f.zero))


def kernel_format(f: Format, scaled: bool = False) -> str:
    """Return what kernels call a format: presets by name, every other layout is data to the generic ones.

    So are presets with scales, but those of eight bits, whose kernels read them.

    Examples
    --------
    >>> from poplibs_py.formats import F143, FP16, Format
    >>> kernel_format(FP16), kernel_format(FP16, scaled=True), kernel_format(F143, scaled=True)
    ('float16', 'any', 'f143')
    >>> kernel_format(Format("mine", 3, 4, 3))
    'any'
    """
    return f.name if f in FORMATS and (not scaled or f.bits == 8) else "any"


def infinite_overflow(f: Format) -> int:
    """Return the overflow of results: infinity where the format has it, else NaN where it has that."""
    return _OVERFLOWS[f.overflow]


def check_formats(listed: Mapping[str, Facts], presets: Iterable[Format]) -> dict[str, int]:
    """Return the number that records carry for each format.

    Raises
    ------
    ImportError
        If a format is a preset alone or in the list alone, or a fact differs; it names the format and the fact.
    """
    by_name = {f.name: f for f in presets}
    for name in {*by_name} ^ {*listed}:
        where, other = "poplibs_py.formats", "src_cython/formats/formats.def"
        if name in listed:
            where, other = other, where
        raise ImportError(f"format {name}: in {where}, not in {other}")
    for name, (size, _, facts) in listed.items():
        ours = dict(zip(RECORDS["pop_format"].names or (), format_facts(by_name[name]), strict=True))
        for fact, value in ({"bytes": by_name[name].itemsize} | ours).items():
            if value != ({"bytes": size} | facts)[fact]:
                raise ImportError(f"format {name}, {fact}: {({'bytes': size} | facts)[fact]} in formats.def, "
                                  f"{value} in poplibs_py.formats")
    return {name: number for name, (_, number, _) in listed.items()}


FORMAT_NUMBERS: Mapping[str, int] = check_formats(_records.formats(), FORMATS)
"""The number that work records carry for each format."""
