"""Hypothesis strategies for whole calls of `popops`' reductions."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ..formats import FORMATS, QuarterArray
from .strategies import NAMES, Call, arrays, formats, numbers, options, sampled

_extent = st.sampled_from([0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 33])
_long = st.sampled_from([1, 127, 128, 129, 255, 257, 300, 511, 512, 513, 1030])
_shapes: SearchStrategy[tuple[int, ...]] = (
    st.just(()) | st.tuples(_extent | _long) | st.tuples(_extent, _long) | st.tuples(_long, _extent)
    | st.tuples(_extent, _extent, _extent))
_INTEGERS = [np.dtype(kind) for kind in ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "bool")]
_OPERATIONS = ["ADD", "SQUARE_ADD", "MUL", "MIN", "MAX", "LOGICAL_AND", "LOGICAL_OR", "LOG_ADD"]


@st.composite
def _operand(draw: st.DrawFn, shape: tuple[int, ...], integers: bool) -> Any:
    if integers and draw(st.integers(0, 3)) == 0:
        dtype = draw(sampled(*_INTEGERS))
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        if dtype.kind == "b":
            return rng.random(shape) < draw(sampled(0.1, 0.9))
        high = draw(sampled(3, 100))  # float64 holds all sums of these
        return rng.integers(0 if dtype.kind == "u" else -high, high, shape, dtype)
    return draw(numbers(shape))


@lru_cache
def _axes(rank: int) -> SearchStrategy[Any]:
    each = st.integers(-rank, rank - 1) if rank else st.nothing()
    several = st.lists(each, max_size=rank, unique_by=lambda axis: axis % rank).map(tuple) if rank else st.just(())
    return st.none() | each | several


@st.composite
def reduction_calls(draw: st.DrawFn, integers: bool = True, empty: bool = True, form: bool = True,
                    more: dict[str, Any] | None = None) -> Call:
    """Calls of a reduction.

    Parameters
    ----------
    integers, empty : bool, optional
        Whether it takes integers, and rows of no elements.
    form : bool, optional
        Whether its result has a format.
    more : dict, optional
        What its own options may be.
    """
    shape = draw(_shapes)
    shape = shape if empty else tuple(max(1, n) for n in shape)
    x = draw(_operand(shape, integers))
    allowed: dict[str, Any] = {"keepdims": [True], **(more or {})}
    if form and (isinstance(x, QuarterArray) or x.dtype.kind not in "biu"):
        allowed["out_dtype"] = NAMES
    return (x, draw(_axes(len(shape)))), draw(options(allowed))


@st.composite
def reduce_calls(draw: st.DrawFn) -> Call:
    """Calls of `reduce`."""
    op = draw(sampled(*_OPERATIONS))
    (x, axes), keywords = draw(reduction_calls(integers=op != "LOG_ADD", form=not op.startswith("LOGICAL")))
    if op in ("ADD", "SQUARE_ADD", "LOG_ADD") and (isinstance(x, QuarterArray) or x.dtype.kind not in "biu"):
        keywords |= draw(options({"scale": [0.5, -1.5, 3.0]}))
        if draw(st.booleans()):
            keywords.pop("out_dtype", None)
            shape = np.sum(np.empty(x.shape, bool), axis=axes, keepdims=keywords.get("keepdims", False)).shape
            keywords |= {"update": True, "out": draw(arrays(shape, draw(formats()), moderate=True))}
    return (x, axes, op), keywords


@st.composite
def scan_calls(draw: st.DrawFn) -> Call:
    """Calls of a running reduction."""
    (x, _), keywords = draw(reduction_calls())
    keywords.pop("keepdims", None)
    axis = draw(st.none() | st.integers(-len(x.shape), len(x.shape) - 1)) if x.shape else None
    return (x, axis), keywords


@st.composite
def histogram_calls(draw: st.DrawFn) -> Call:
    """Calls of `histogram`."""
    x = draw(_operand(draw(_shapes), False))
    levels = np.sort(draw(arrays((draw(st.integers(1, 70)),), "float32", finite=True)))
    keywords: dict[str, Any] = draw(options({"absolute_of_input": [True]}))
    if draw(st.booleans()):
        keywords |= {"update": True, "out": np.arange(levels.size + 1, dtype=np.uint32)}
    return (x, levels), keywords


@st.composite
def bincount_calls(draw: st.DrawFn) -> Call:
    """Calls of `bincount`."""
    n = draw(_extent | _long)
    x = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).integers(0, 40, n, draw(st.sampled_from(_INTEGERS[:-1])))
    weights = draw(st.none() | arrays((n,), st.sampled_from(FORMATS[:3])))
    return ((x,) if weights is None else (x, weights)), draw(options({"minlength": [3, 50]}))


_COMPENSATED: dict[str, Any] = {"compensated": [True]}
_DDOF: dict[str, Any] = {"ddof": [1, 2]}
sum_calls = partial(reduction_calls, more=_COMPENSATED)
mean_calls = sum_calls
square_sum_calls = partial(reduction_calls, integers=False, more=_COMPENSATED)
norm_calls = partial(reduction_calls, integers=False, more={"ord": [1, math.inf]})
logsumexp_calls = partial(reduction_calls, integers=False)
prod_calls = partial(reduction_calls)
max_calls = partial(reduction_calls, empty=False)
min_calls = max_with_indices_calls = min_with_indices_calls = max_calls
variance_calls = partial(reduction_calls, more=_DDOF)
standard_deviation_calls = variance_calls
any_calls = partial(reduction_calls, form=False)
all_calls = has_nan_calls = has_nan_or_inf_calls = any_calls
argmax_calls = partial(reduction_calls, form=False, empty=False)
argmin_calls = argmax_calls
