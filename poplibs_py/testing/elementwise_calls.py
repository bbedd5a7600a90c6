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
from .strategies import NAMES, arrays, formats, layouts, options, relaid, shapes

_INTEGERS = {"i": ("int8", "int16", "int32", "int64"), "u": ("uint8", "uint16", "uint32", "uint64"), "b": ("bool",)}
_EDGES = (0, 1, 2, 7, 31, 32, 63, 64, 127, 128, 255, 2**15, 2**31 - 1, 2**31, 2**63, 2**64 - 1, 2**64 - 2)


def __getattr__(name: str) -> Callable[[], SearchStrategy[Call]]:
    """The strategy of the operation of a name."""
    if name not in ELEMENTWISE:
        raise AttributeError(name)
    return partial(elementwise_calls, ELEMENTWISE[name])


@st.composite
def integer_arrays(draw: st.DrawFn, shape: tuple[int, ...], dtype: str) -> Any:
    """Integers or truth values of any bits, small numbers and the ends of ranges more often."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    made = rng.integers(0, 2**64, shape, np.uint64)
    edges = rng.choice(np.array(_EDGES, np.uint64), shape)
    mixed = np.where(rng.random(shape) < 0.5, made, edges)
    return np.asarray(mixed % 2 == 1 if dtype == "bool" else mixed.astype(dtype))


@st.composite
def elementwise_calls(draw: st.DrawFn, row: ElementwiseOp) -> Call:
    """Calls of an operation: types that meet, shapes that broadcast, scalars, layouts, scales."""
    shape = draw(shapes(2, "elementwise", most=40))
    kind = draw(st.sampled_from(row.kinds))
    operands: list[Any] = []
    for name in row.operands:
        kept = shape
        if len(row.operands) > 1:
            kept = tuple(draw(st.sampled_from([n, n, 1])) for n in shape)[draw(st.sampled_from([0, 0, 0, 1, 2])):]
        if name in row.conditions:
            operands.append(draw(st.booleans() | integer_arrays(kept, "bool")))
        elif operands and draw(st.sampled_from([False] * 6 + [True])):
            operands.append(draw(_other(kept, kind)))
        else:
            operands.append(draw(_operand(kept, kind, row.kinds, len(row.operands))))
    return tuple(operands), {} if row.tells or kind != "f" else draw(options({"out_dtype": NAMES}))


@st.composite
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
    return relaid(draw(integer_arrays(shape, draw(st.sampled_from(names)))), draw(layouts(broadcast=True)))


@st.composite
def _other(draw: st.DrawFn, shape: tuple[int, ...], kind: str) -> Any:
    """A number of Python's or NumPy's, or an array of a lesser kind, beside an array."""
    if kind == "f":
        numbers = [0.0, -1.5, 3, 1e-3, float("inf"), True, np.float32(0.1), [0.5]]
        integers = st.sampled_from(["int8", "uint16", "int32", "uint64", "bool"])
        return draw(st.sampled_from(numbers) | integers.flatmap(lambda name: integer_arrays(shape, name)))
    truths = st.booleans() | integer_arrays(shape, "bool")
    return draw(truths if kind == "b" else st.integers(0, 100) | truths)
