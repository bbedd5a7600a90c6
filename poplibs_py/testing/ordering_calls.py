"""Hypothesis strategies for whole calls of what puts rows in order."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from .strategies import Call, arrays, formats, layouts, options, relaid, sampled

_extent = st.sampled_from([0, 1, 2, 3, 7, 9, 16, 17, 33])
_shapes: SearchStrategy[tuple[int, ...]] = (
    st.tuples(_extent) | st.tuples(st.integers(1, 5), _extent) | st.tuples(_extent, st.integers(1, 5))
    | st.sampled_from([(130,), (300,), (2, 520)]))
_INTEGERS = [np.dtype(kind) for kind in ("int8", "uint8", "int16", "int32", "uint32", "int64", "bool")]


@st.composite
def numbers(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """Numbers of any type that has an order."""
    if draw(st.integers(0, 2)) == 0:
        dtype = draw(sampled(*_INTEGERS))
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        high = draw(sampled(2, 100))
        x = rng.integers(-high if dtype.kind == "i" else 0, high, shape).astype(dtype)
    else:
        x = draw(arrays(shape, draw(formats())))
    return relaid(x, draw(layouts(broadcast=True)))


def _axes(rank: int) -> SearchStrategy[Any]:
    return st.none() | st.integers(-rank, rank - 1)


@st.composite
def sort_calls(draw: st.DrawFn) -> Call:
    """Calls of `sort`."""
    x = draw(numbers(draw(_shapes)))
    return (x, draw(_axes(x.ndim))), draw(options({"descending": [True]}))


@st.composite
def partition_calls(draw: st.DrawFn) -> Call:
    """Calls of `partition`."""
    x = draw(numbers(tuple(max(1, n) for n in draw(_shapes))))
    axis = draw(_axes(x.ndim))
    n = x.size if axis is None else x.shape[axis]
    return (x, draw(st.integers(-n, n - 1)), axis), {}


@st.composite
def sort_key_value_calls(draw: st.DrawFn) -> Call:
    """Calls of `sort_key_value`."""
    (keys, axis), keywords = draw(sort_calls())
    return (keys, draw(numbers(keys.shape)), axis), keywords


@st.composite
def top_k_calls(draw: st.DrawFn) -> Call:
    """Calls of `top_k`."""
    x = draw(numbers(draw(_shapes)))
    axis = draw(_axes(x.ndim))
    n = x.size if axis is None else x.shape[axis]
    k = draw(st.integers(0, n) | st.sampled_from([min(1, n), n]))
    return (x, k, axis), draw(options({"largest": [False], "sort_order": ["ascending", "descending"]}))


@st.composite
def top_k_key_value_calls(draw: st.DrawFn) -> Call:
    """Calls of `top_k_key_value`."""
    (keys, k, axis), keywords = draw(top_k_calls())
    return (keys, draw(numbers(keys.shape)), k, axis), keywords


@st.composite
def transpose_calls(draw: st.DrawFn) -> Call:
    """Calls of `transpose`."""
    shape = draw(_shapes | st.tuples(_extent, st.integers(1, 3), _extent))
    return (draw(numbers(shape)), draw(st.none() | st.permutations(range(len(shape))).map(tuple))), {}
