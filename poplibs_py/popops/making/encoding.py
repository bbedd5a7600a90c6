"""Arrays that are made of few numbers: one-hot rows, numbers one after another, one number everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...checks import as_shape, whole
from ...errors import bad_argument, bad_type
from ...formats import FP32, Array, Format
from ...ops import RESULT, Request, op, place_of, receive, whole_operand
from ...ops.numpy_ops import told
from ...target import TargetLike
from .made import code_of, element_of, made_request
from .modelled import fill_plan, iota_plan, one_hot_plan

_MOST = 1 << 48


@op("popops::encodeOneHot", bound="popops.making.bound", draws="testing.encoding_calls")
def encode_one_hot(indices: Any, length: int, *, on: float = 1, off: float = 0, out: Any = None,
                   dtype: object = None, target: TargetLike = None) -> Any:
    """Rows that have one number at an index, and another elsewhere (``popops::encodeOneHot``).

    Parameters
    ----------
    indices : array_like of int
        Of any shape and integer type. One that is negative, or `length` and more, gives a row of `off`; PopLibs'
        ``MASKED_LABEL_CODE`` is such an index.
    length : int
        Elements of a row.
    on, off : float, optional
        The numbers, rounded to the result's format once; whole ones for a result of integers.
    out : array [..., length], optional
        Where the result goes.
    dtype : Format, dtype or str, optional
        The result's: any format, integer type or bool; by default that of `out`, or float32.

    Returns
    -------
    numpy.ndarray [..., length]
        `out`, or a new array.

    Examples
    --------
    >>> popops.encode_one_hot(np.array([2, 0, 7]), 3)
    array([[0., 0., 1.],
           [1., 0., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    x = whole_operand("indices", indices)
    wide, element = whole("length", length, 0, _MOST), element_of(dtype, out, FP32)
    one, other = code_of("on", on, element), code_of("off", off, element)
    shape = (*x.shape, wide)
    receiver = receive("out", out, shape, None, element, contiguous=True)
    plain, signed = (on, off) == (1, 0), x.array.dtype.kind == "i"
    placed = place_of(encode_one_hot, target, lambda machine: one_hot_plan(
        machine, element, signed, x.array.size, wide, plain))

    def run(places: Array, result: Array) -> None:
        rows = result.view(one.dtype).reshape(-1)
        flat = places.reshape(-1).astype(np.int64, copy=False)  # greater ones become negative
        rows[...] = other
        at = np.arange(0, flat.size * wide, wide, dtype=np.int64)
        at += flat
        if flat.size and (flat.min() < 0 or flat.max() >= wide):
            at = at[(flat >= 0) & (flat < wide)]
        rows[at] = one

    return Request(run, (x, RESULT), receiver, told("encode_one_hot", shape, element), placed=placed)


@op("popops::iota", bound="popops.making.bound", draws="testing.encoding_calls")
def iota(n: int, start: int = 0, *, out: Any = None, dtype: object = None, target: TargetLike = None) -> Any:
    """Whole numbers one after another (``popops::iota``).

    Parameters
    ----------
    n : int
        How many.
    start : int, optional
        The first.
    out : array [n], optional
        Where they go.
    dtype : dtype or str, optional
        The result's: an integer type that holds them all; by default that of `out`, or int32.

    Returns
    -------
    numpy.ndarray [n]
        `out`, or a new array.

    Examples
    --------
    >>> popops.iota(4, 3)
    array([3, 4, 5, 6], dtype=int32)
    """
    count, element = whole("n", n, 0, _MOST), element_of(dtype, out, np.dtype(np.int32))
    if isinstance(element, Format) or element.kind not in "iu":
        raise bad_type("dtype" if out is None else "out", element.name, "an integer type")
    limits = np.iinfo(element)
    first = whole("start", start, int(limits.min), int(limits.max))
    if count and first + count - 1 > limits.max:
        raise bad_argument("n", count, f"at most {limits.max - first + 1} from {first} on, which {element} holds")
    receiver = receive("out", out, (count,), None, element)
    placed = place_of(iota, target, lambda machine: iota_plan(machine, element, count))

    def make(result: Array) -> None:
        result[...] = np.arange(count, dtype=element)
        if first:
            result += np.asarray(first, element)

    return made_request(make, receiver, "iota", (count,), placed)


@op("popops::fill", bound="popops.making.bound", draws="testing.encoding_calls")
def fill(shape: Any, value: float, *, out: Any = None, dtype: object = None, target: TargetLike = None) -> Any:
    """One number everywhere (``popops::fill``, NumPy's ``full``).

    Parameters
    ----------
    shape : int or tuple of int
        Of the result.
    value : float
        The number, rounded to the result's format once; a whole one that it holds for a result of integers.
    out : array or QuarterArray, optional
        Where it goes, of any strides. A `QuarterArray` with a scale receives the number at that scale.
    dtype : Format, dtype or str, optional
        The result's: any format, integer type or bool; by default that of `out`, or float32.

    Returns
    -------
    numpy.ndarray
        `out`, or a new array.

    Examples
    --------
    >>> popops.fill((2, 2), 0.5, dtype="float16")
    array([[0.5, 0.5],
           [0.5, 0.5]], dtype=float16)
    """
    sizes, element = as_shape("shape", shape), element_of(dtype, out, FP32)
    receiver = receive("out", out, sizes, None, element)
    scaled = value * 2.0**-receiver.scale if receiver.scale and isinstance(value, (int, float)) else value
    code = code_of("value", scaled, element)
    placed = place_of(fill, target, lambda machine: fill_plan(machine, element, sizes))

    kind, number = code.dtype, code[()]

    def make(result: Array) -> None:
        result.view(kind).fill(number)

    return made_request(make, receiver, "fill", sizes, placed)
