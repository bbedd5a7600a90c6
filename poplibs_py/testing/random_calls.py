"""Hypothesis strategies for whole calls of `poprand`, with a seed each: what such a call gives is known."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ..formats import format_of
from .strategies import NAMES, Call, arrays, formats, layouts, options, relaid, sampled, shapes

_WORD = st.integers(0, 2**32 - 1)
_SEEDS = st.integers(0, 2**64 - 1) | st.tuples(_WORD, _WORD)
_SHAPES = st.integers(0, 70) | st.lists(st.integers(0, 9), max_size=3).map(tuple)
_WRITABLE = ["plain", "fortran", "reversed", "stepped", "misaligned"]
_INTEGERS = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"]
_numbers = st.floats(-100, 100, width=32)
_chances = st.sampled_from([0.0, 1.0, 0.5]) | st.floats(0, 1)


@st.composite
def _places(draw: st.DrawFn, offsets: bool = True) -> dict[str, Any]:
    """Where in the stream a call draws."""
    more: dict[str, Any] = {"seed_modifier": st.integers(0, 2**32 - 1)}
    if offsets:
        more["offset"] = st.integers(0, 200) | st.integers(0, 2**40)
    return {"seed": draw(_SEEDS)} | draw(options(more))


@st.composite
def _law(draw: st.DrawFn, numbers: SearchStrategy[tuple[Any, ...]], dtypes: list[str] = NAMES) -> Call:
    """A shape, numbers of a distribution, and perhaps an array to fill."""
    shape: Any = draw(_SHAPES)
    given = draw(numbers)
    keywords = draw(_places()) | draw(options({"dtype": dtypes}))
    if draw(st.booleans()):
        name = keywords.get("dtype", "float32")
        dtype = np.dtype(name if name in (*_INTEGERS, "int32", "bool") else format_of(name).dtype)
        extents = shape if isinstance(shape, tuple) else (shape,)
        keywords["out"] = relaid(np.zeros(extents, dtype), draw(sampled(*_WRITABLE)) if extents else "plain")
        shape = draw(st.sampled_from([shape, None]))
    return (shape, *given), keywords


def _ordered(elements: SearchStrategy[Any]) -> SearchStrategy[tuple[Any, ...]]:
    """Two limits in order."""
    return st.tuples(elements, elements).map(lambda pair: tuple(sorted(pair)))


def bits_calls() -> SearchStrategy[Call]:
    """Calls of `bits`."""
    return _law(st.just(()), _INTEGERS).filter(lambda call: "dtype" in call[1] or "out" not in call[1])


def uniform_calls() -> SearchStrategy[Call]:
    """Calls of `uniform`, of formats and of integers."""
    whole = _ordered(st.integers(-(2**31), 2**31 - 1))
    wide = st.floats(-100, 100, width=16).filter(lambda x: x == int(x))  # every format has a number between two of them
    floating = _law(st.just(()) | _ordered(wide).filter(lambda pair: pair[1] - pair[0] >= 32))
    integers = _law(whole, ["int32"]).filter(lambda call: "dtype" in call[1])
    return floating | integers


def log_uniform_calls() -> SearchStrategy[Call]:
    """Calls of `log_uniform`."""
    limits = st.tuples(st.floats(1, 8, width=16), st.floats(16, 200, width=16))
    whole = st.tuples(st.integers(1, 9), st.integers(10, 2**31 - 1))
    return _law(limits) | _law(whole, ["int32"]).filter(lambda call: "dtype" in call[1])


_std = st.floats(0, 1e6, width=32)
_positive = st.floats(2**-10, 1e6, width=32)

# A shape, perhaps with numbers of the distribution.
normal_calls = partial(_law, st.just(()) | st.tuples(_numbers, _std))
truncated_normal_calls = partial(_law, st.just(()) | st.tuples(_numbers, _std, st.floats(2**-10, 8)))
exponential_calls = partial(_law, st.just(()) | st.tuples(_positive))
gumbel_calls = partial(_law, st.just(()) | st.tuples(_numbers, _positive))
bernoulli_calls = partial(_law, st.just(()) | st.tuples(_chances), [*NAMES, "int32", "bool"])


@st.composite
def dropout_calls(draw: st.DrawFn) -> Call:
    """Calls of `dropout`: any bit patterns, any layout, perhaps in place."""
    x = relaid(draw(arrays(shapes(2, "random", most=40), formats())), draw(layouts()))
    keywords = draw(_places()) | draw(options({"scale": st.floats(-4, 4, width=16)}))
    if draw(st.booleans()):
        in_place = x.flags.writeable and draw(st.booleans())
        keywords["out"] = x if in_place else np.zeros(x.shape, x.dtype)
    return (x, draw(_chances)), keywords


@st.composite
def shaped_dropout_calls(draw: st.DrawFn) -> Call:
    """Calls of `shaped_dropout`."""
    (x, chance), keywords = draw(dropout_calls())
    mask = tuple(draw(sampled(1, extent)) for extent in x.shape)
    return (x, mask[draw(st.integers(0, len(mask))):], chance), keywords


@st.composite
def categorical_calls(draw: st.DrawFn) -> Call:
    """Calls of `categorical`."""
    weights = draw(st.lists(st.just(0.0) | st.floats(2.0**-20, 2.0**20), min_size=1, max_size=9).filter(any))
    return (draw(_SHAPES), weights), draw(_places())


@st.composite
def permutation_calls(draw: st.DrawFn) -> Call:
    """Calls of `permutation`: of numbers, and of an array along an axis."""
    keywords = draw(_places(offsets=False))
    if draw(st.booleans()):
        return (draw(st.integers(0, 70)),), keywords
    x = draw(arrays(shapes(2, "random", most=20).filter(len), formats(), finite=True))
    return (x,), keywords | {"axis": draw(st.integers(-x.ndim, x.ndim - 1))}
