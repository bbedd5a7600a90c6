"""Hypothesis strategies of whole calls of elementwise operations, one for each under the operation's name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ..formats import QuarterArray
from ..popops.elementwise.table import ELEMENTWISE, ElementwiseOp
from .calls import Call
from .strategies import OUT_DTYPE, arrays, formats, layouts, relaid, sampled, shapes

_INTEGERS = {"i": ("int8", "int16", "int32", "int64"), "u": ("uint8", "uint16", "uint32", "uint64"), "b": ("bool",)}
_EDGES = (0, 1, 2, 7, 31, 32, 63, 64, 127, 128, 255, 2**15, 2**31 - 1, 2**31, 2**63, 2**64 - 1, 2**64 - 2)
_NUMBERS = st.sampled_from([0.0, -1.5, 3, 1e-3, float("inf"), True, np.float32(0.1), [0.5]])


def __getattr__(name: str) -> Callable[[], SearchStrategy[Call]]:
    """The strategy of the operation of a name."""
    if name not in ELEMENTWISE:
        raise AttributeError(name)
    return partial(elementwise_calls, ELEMENTWISE[name])


@st.composite
def integer_arrays(draw: st.DrawFn, shape: tuple[int, ...], dtype: str) -> Any:
    """Integers or truth values of any bits, small numbers and the ends of ranges more often."""
    return _integers(draw, shape, dtype)


def _integers(draw: st.DrawFn, shape: tuple[int, ...], dtype: str) -> Any:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    made = rng.integers(0, 2**64, shape, np.uint64)
    edges = rng.choice(np.array(_EDGES, np.uint64), shape)
    mixed = np.where(rng.random(shape) < 0.5, made, edges)
    return np.asarray(mixed % 2 == 1 if dtype == "bool" else mixed.astype(dtype))


@st.composite
def elementwise_calls(draw: st.DrawFn, row: ElementwiseOp) -> Call:
    """Calls of an operation: types that meet, shapes that broadcast, scalars, layouts, scales."""
    shape = draw(shapes(2, "elementwise", most=40))
    kind = draw(sampled(*row.kinds))
    operands: list[Any] = []
    for name in row.operands:
        kept = shape
        if len(row.operands) > 1:
            kept = tuple(draw(sampled(n, n, 1)) for n in shape)[draw(sampled(0, 0, 0, 1, 2)):]
        if name in row.conditions:
            operands.append(_truths(draw, kept))
        elif operands and draw(sampled(*[False] * 6, True)):
            operands.append(_other(draw, kept, kind))
        else:
            operands.append(_operand(draw, kept, kind, row.kinds, len(row.operands)))
    return tuple(operands), {} if row.tells or kind != "f" else draw(OUT_DTYPE)


def _operand(draw: st.DrawFn, shape: tuple[int, ...], kind: str, kinds: str, count: int) -> Any:
    """An array of a kind, or of another kind of integers, where the operation takes what both meet in."""
    if kind == "f":
        x: Any = draw(arrays(shape, formats()))
        if x.dtype.itemsize == 1 and draw(st.booleans()):
            return QuarterArray(x, x.dtype, draw(st.integers(-32, 31)))
        return relaid(x, draw(layouts(broadcast=True)))
    mixes = count > 1 and kind in "iu"
    names = [name for k in (kinds if mixes else kind) for name in _INTEGERS.get(k, ())]
    names = [name for name in names if name not in ("bool", "uint64")] if mixes else names  # uint64 does not meet int64
    return relaid(_integers(draw, shape, draw(sampled(*names))), draw(layouts(broadcast=True)))


def _other(draw: st.DrawFn, shape: tuple[int, ...], kind: str) -> Any:
    """A number of Python's or NumPy's, or an array of a lesser kind, beside an array."""
    if kind == "f":
        if draw(st.booleans()):
            return _integers(draw, shape, draw(sampled("int8", "uint16", "int32", "uint64", "bool")))
        return draw(_NUMBERS)
    return _truths(draw, shape) if kind == "b" or draw(sampled(False, True, True)) else draw(st.integers(0, 100))


def _truths(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    return _integers(draw, shape, "bool") if draw(st.booleans()) else draw(st.booleans())
