"""Hypothesis strategies for whole calls of functions of rows: softmax."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ..formats import FORMATS, QuarterArray
from .strategies import arrays, formats, layouts, options, relaid

__all__ = ["log_softmax_calls", "log_softmax_grad_calls", "scaled_softmax_stable_calls", "softmax_calls",
           "softmax_grad_calls"]

Call = tuple[tuple[Any, ...], dict[str, Any]]

_NAMES = [f.name for f in FORMATS]
_extent = st.sampled_from([0, 1, 2, 3, 7, 17])
_long = st.sampled_from([1, 15, 63, 64, 65, 129, 300])
_shapes: SearchStrategy[tuple[int, ...]] = (
    st.tuples(_long) | st.tuples(_extent, _long) | st.tuples(_long, _extent) | st.tuples(_extent, _extent, _extent))


@st.composite
def _numbers(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    fmt = draw(formats())
    x = draw(arrays(shape, fmt, moderate=draw(st.booleans())))
    if fmt.bits == 8 and draw(st.booleans()):
        return QuarterArray(x, fmt, draw(st.sampled_from(fmt.scales)))
    return relaid(x, draw(layouts(broadcast=True)))


@st.composite
def _calls(draw: st.DrawFn, operands: int) -> Call:
    """Calls with so many operands, of one shape; those of one may have a mask."""
    shape = draw(_shapes)
    rank = len(shape)
    allowed: dict[str, Any] = {"out_dtype": _NAMES, "scale": [0.125, -3.0, 0.1],
                               "axis": [0, rank - 1, tuple(range(rank)), -rank]}
    how = draw(options(allowed))
    if operands == 1 and draw(st.booleans()):
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        how["mask"] = rng.random(shape[draw(st.integers(0, rank)):]) < draw(st.sampled_from([0.2, 0.8]))
    return tuple(draw(_numbers(shape)) for _ in range(operands)), how


softmax_calls = log_softmax_calls = scaled_softmax_stable_calls = partial(_calls, 1)
softmax_grad_calls = log_softmax_grad_calls = partial(_calls, 2)
