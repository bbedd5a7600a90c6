"""What operands of several types meet in: the promotion table of docs/reference/popops.md, written once.

The types are the formats, NumPy's integers and bool. Python's numbers, and lists of them, take the type of the arrays
beside them as far as their kind (bool, whole, real) allows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import bad_argument, bad_type
from ...formats import FP32, Array, Format, format_of
from ...formats.arrays import as_array
from ...formats.reference import encode
from ...ops import Operand, OwnNumber, argument, operand, own_numbers, result_format

Element = Format | np.dtype[Any]
"""The type of an operation's numbers: a format, or a dtype of integers or truth values."""

BOOL = np.dtype(bool)
_WHOLE = np.dtype(np.int64)

_KINDS = {"f": "float32, float16, bfloat16 or FP8 numbers, or a QuarterArray", "i": "signed integers",
          "u": "unsigned integers", "b": "truth values"}  # fmt: skip
_RANKS = "biuf"  # of Python's numbers: u is no kind of theirs


@dataclass(frozen=True)
class ElementwiseOperands:
    """Operands of a call, and the type that they meet in.

    Attributes
    ----------
    operands : tuple of Operand
        As they lie; Python's numbers as arrays of `element`.
    element : Format or numpy.dtype
    constant : tuple of bool
        Which of them are numbers of Python's or scalars of NumPy's, whose values are part of a call's key.
    own, values : tuple of OwnNumber or None, tuple of int
        Of numbers of Python's that are not, as `own_numbers` returns them; empty of one operand.
    """

    operands: tuple[Operand, ...]
    element: Element
    constant: tuple[bool, ...]
    own: tuple[OwnNumber | None, ...]
    values: tuple[int, ...]


def element_kind(element: Element) -> str:
    """The letter of an element's kind: f, i, u or b.

    Examples
    --------
    >>> element_kind(FP32), element_kind(np.dtype(np.uint8))
    ('f', 'u')
    """
    return "f" if isinstance(element, Format) else element.kind


def allowed_for(kinds: str) -> str:
    """What an operation takes, in words."""
    integers = "integers" if "i" in kinds and "u" in kinds else ""
    parts = [_KINDS[k] for k in kinds if not (integers and k in "iu")]
    if integers:
        parts.insert("f" in kinds, integers)
    return "; ".join(parts)


def element_of(name: str, what: object) -> Element:
    """Return the format, or the dtype of integers or truth values, that a name or type stands for."""
    # NumPy warns of its old name "a" of bytes; no integers' or truth values' begins so
    if isinstance(what, (str, type, np.dtype)) and not (isinstance(what, str) and what.startswith("a")):
        with contextlib.suppress(TypeError, ValueError):
            dtype = np.dtype(what)
            if dtype.kind in "biu":
                return dtype
    return format_of(what, name, "an integer type, bool")


def elementwise_operands(values: Mapping[str, Any], kinds: str, truths: tuple[str, ...] = ()) -> ElementwiseOperands:
    """Take the operands of an operation.

    Parameters
    ----------
    values : mapping
        The arguments by their names, in order.
    kinds : str
        Which kinds of elements the operation is for: letters of `element_kind`.
    truths : tuple of str, optional
        Arguments that are truth values beside the numbers, as a condition is.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        For what cannot be taken, by the argument's name.
    """
    allowed = allowed_for(kinds)
    made: dict[str, Operand] = {}
    numbers: dict[str, Array] = {}
    for name, value in values.items():
        if isinstance(value, (bool, int, float, list, tuple)):
            numbers[name] = _numbers(name, value, allowed if name not in truths else _KINDS["b"])
        elif name in truths:
            made[name] = _truth(name, value)
        else:
            made[name] = operand(name, value, allowed, "iub")
    element = meeting({n: x.format for n, x in made.items() if n not in truths},
                       {n: x for n, x in numbers.items() if n not in truths}, kinds, allowed)
    for name, array in numbers.items():
        kind = BOOL if name in truths else element
        made[name] = Operand(typed(name, array, kind), kind)
    constant = tuple(n in numbers or isinstance(v, np.generic) for n, v in values.items())
    own, words = own_numbers(*values.values()) if len(values) > 1 else ((), ())
    return ElementwiseOperands(tuple(made[name] for name in values), element, constant, own, words)


def _truth(name: str, value: Any) -> Operand:
    x = argument(name, value, _KINDS["b"])
    if x.array.dtype != BOOL:
        raise bad_type(name, f"dtype {x.array.dtype}", _KINDS["b"])
    x.format = BOOL
    return x


def _numbers(name: str, value: Any, allowed: str) -> Array:
    array = as_array(name, value, allowed)
    if array.dtype.kind not in _RANKS:
        raise bad_type(name, f"dtype {array.dtype}", allowed)
    return array


def meeting(arrays: Mapping[str, Any], numbers: Mapping[str, Array], kinds: str, allowed: str) -> Element:
    """The type that arrays and Python's numbers meet in, if the operation is for it."""
    formats = [e for e in arrays.values() if isinstance(e, Format)]
    dtypes = {n: e for n, e in arrays.items() if not isinstance(e, Format)}
    ranks = {"i" if x.dtype.kind == "u" else x.dtype.kind for x in numbers.values()}
    element: Element
    if formats:
        element = result_format(*formats)
    elif dtypes:
        element = np.result_type(*dtypes.values())
        if element.kind == "f":
            name = next(n for n, e in dtypes.items() if e.kind == "i")
            raise bad_type(name, "int64 beside uint64", "integers that one type holds: see numpy.ndarray.astype")
        if "f" in ranks:
            element = FP32
        elif element == BOOL and "i" in ranks:
            element = _WHOLE
    elif "f" in kinds or "f" in ranks:
        element = FP32
    else:
        element = _WHOLE if "i" in ranks else BOOL
    if element_kind(element) not in kinds:
        wrong = [n for n, e in arrays.items() if element_kind(e) not in kinds]
        wrong += [n for n, x in numbers.items() if x.dtype.kind == element_kind(element)]
        name = (wrong or [*arrays, *numbers])[0]
        raise bad_type(name, _described(arrays.get(name), numbers.get(name)), allowed)
    return element


def _described(element: Element | None, number: Array | None) -> str:
    if element is None:
        return f"dtype {number.dtype}" if number is not None else "numbers"
    return f"numbers of {element}" if isinstance(element, Format) else f"dtype {element}"


def typed(name: str, array: Array, element: Element) -> Array:
    """Python's numbers as an array of a type, each rounded once; whole ones that it does not hold are refused."""
    if isinstance(element, Format):
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                numbers = array.astype(np.float32 if element == FP32 else np.float64)
            except OverflowError:
                raise bad_argument(name, "a whole number beyond float64's", "numbers that float64 holds") from None
            codes = numbers if element == FP32 else encode(numbers, element)
            return codes if element == FP32 or element.dtype is None else codes.view(element.dtype)
    if element == BOOL:
        if array.dtype != BOOL and array.size:
            raise bad_type(name, f"dtype {array.dtype}", _KINDS["b"])
        return array.astype(BOOL)
    limits = np.iinfo(element)
    if array.size and array.dtype != BOOL and not limits.min <= int(array.min()) <= int(array.max()) <= limits.max:
        raise bad_argument(name, int(array.max() if int(array.max()) > limits.max else array.min()),
                           f"whole numbers that {element} holds, as the arrays beside it are")
    return array.astype(element)
