"""Hypothesis strategies for whole calls of `poplin`'s grids and statistics of normalisation."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ..ops import WIDE
from .strategies import Call, arrays, formats, layouts, options, relaid, sampled

_DTYPES = [f.name for f in WIDE]
_extent = st.integers(0, 7)
_shapes: SearchStrategy[Any] = (st.tuples(_extent, _extent) | st.tuples(_extent, _extent, st.integers(0, 40))
                                | st.tuples(*[_extent] * 4))


@st.composite
def _numbers(draw: st.DrawFn, shape: tuple[int, ...], moderate: bool = False) -> Any:
    fmt = draw(sampled(*WIDE))
    x = draw(arrays(shape, fmt, finite=True, moderate=moderate or draw(st.booleans())))
    return relaid(x, draw(layouts()))


@st.composite
def _calls(draw: st.DrawFn, alike: int, channels: int, more: dict[str, Any] | None = None) -> Call:
    """Calls with so many operands of the shape of activations, and of channels."""
    shape = draw(_shapes)
    operands = [draw(_numbers(shape)) for _ in range(alike)] + [draw(_numbers((shape[1],))) for _ in range(channels)]
    allowed: dict[str, Any] = {"out_dtype": _DTYPES, **(more or {})}
    return tuple(operands), draw(options(allowed))


_FLAGS: dict[str, Any] = {"unbiased_var_estimate": [True]}
norm_whiten_calls = partial(_calls, 1, 2)
normalise_calls = partial(_calls, 1, 2)
norm_gradients_calls = partial(_calls, 1, 1)
norm_param_gradients_calls = partial(_calls, 2, 0)
norm_statistics_gradients_calls = partial(_calls, 2, 1, _FLAGS | {"poplibs_exact": [True]})


@st.composite
def norm_statistics_calls(draw: st.DrawFn) -> Call:
    """Calls of `norm_statistics`."""
    acts = draw(_numbers(draw(_shapes), moderate=draw(st.booleans())))
    eps = draw(sampled(1e-5, 1e-3, 1.0))
    allowed: dict[str, Any] = {"out_dtype": _DTYPES, "stable_algo": [True], **_FLAGS}
    return (acts, eps), draw(options(allowed))


def linspace_calls() -> SearchStrategy[Call]:
    """Calls of `linspace`."""
    end = st.floats(-1000, 1000) | st.floats(-(2.0**126), 2.0**126)
    return st.tuples(st.tuples(end, end, st.integers(0, 70)), options({"dtype": _DTYPES}))


@st.composite
def meshgrid2d_calls(draw: st.DrawFn) -> Call:
    """Calls of `meshgrid2d`."""
    x, y = (draw(arrays((draw(_extent),), draw(formats()))) for _ in range(2))
    return (np.asarray(x), np.asarray(y)), {}
