"""Hypothesis strategies for whole calls of what makes or rearranges arrays, of images and of splines."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..formats import FORMATS, Array
from .ordering_calls import numbers
from .strategies import Call, arrays, options, sampled

_NAMES = [*(f.name for f in FORMATS), "int32", "uint8", "bool"]
_FLOATS = [f.name for f in FORMATS[:3]]
_extent = st.integers(0, 5)


def _rng(draw: st.DrawFn) -> np.random.Generator:
    return np.random.default_rng(draw(st.integers(0, 2**32 - 1)))


@st.composite
def encode_one_hot_calls(draw: st.DrawFn) -> Call:
    """Calls of `encode_one_hot`."""
    length = draw(_extent)
    shape = draw(st.tuples(_extent) | st.tuples(_extent, _extent))
    kind = draw(sampled("int32", "uint32", "int64", "int8"))
    indices = _rng(draw).integers(0 if kind[0] == "u" else -2, length + 2, shape).astype(kind)
    indices[indices > length] = np.iinfo(kind).max
    keywords = draw(options({"dtype": _NAMES}))
    if keywords.get("dtype") in (None, *_FLOATS):
        keywords |= draw(options({"on": [0.1, -3.5], "off": [0.3]}))
    return (indices, length), keywords


@st.composite
def iota_calls(draw: st.DrawFn) -> Call:
    """Calls of `iota`."""
    kind = draw(sampled("int8", "uint8", "int32", "uint32", "int64"))
    start = draw(st.integers(0 if kind[0] == "u" else -20, 100))
    return (draw(st.integers(0, 20)), start), {"dtype": kind}


@st.composite
def fill_calls(draw: st.DrawFn) -> Call:
    """Calls of `fill`."""
    kind = draw(sampled(*_NAMES))
    if kind == "bool":
        value: Any = draw(st.booleans())
    else:
        value = draw(st.integers(0, 9)) if "int" in kind else draw(st.floats(-4, 4, width=32))
    return (draw(st.lists(_extent, max_size=3).map(tuple)), value), {"dtype": kind}


def with_ends(vector: Array, widths: tuple[int, int], axis: int, more: dict[str, Any]) -> None:
    """A function that `pad` takes as its mode: writes the number of the axis, or what it is given, at both ends."""
    vector[:widths[0]] = more.get("end", axis)
    vector[vector.size - widths[1]:] = more.get("end", axis)


def _in_forms(draw: st.DrawFn, numbers: st.SearchStrategy[Any], rank: int) -> Any:
    """A number, a pair for before and after, or a pair for each axis."""
    pair = st.tuples(numbers, numbers)
    return draw(numbers | pair | st.lists(pair, min_size=rank, max_size=rank).map(tuple))


def _pad_keywords(draw: st.DrawFn, mode: Any, x: Array) -> dict[str, Any]:
    """What a mode takes besides, or nothing."""
    if draw(st.booleans()):
        return {}
    if mode in ("reflect", "symmetric"):
        return {"reflect_type": draw(sampled("even", "odd"))}
    if mode in ("maximum", "minimum", "mean", "median"):
        return {"stat_length": _in_forms(draw, st.integers(1, 6), x.ndim)}
    if mode == "linear_ramp":
        ends = st.sampled_from([0, 1] if x.dtype.kind == "b" else [0, 1, 7, 99.5])
        return {"end_values": _in_forms(draw, ends, x.ndim)}
    if mode == "constant":
        return {"constant_values": _in_forms(draw, st.integers(0, 1 if x.dtype.kind == "b" else 9), x.ndim)}
    return {"end": 1} if callable(mode) else {}


@st.composite
def pad_calls(draw: st.DrawFn) -> Call:
    """Calls of `pad`."""
    shape = draw(st.lists(_extent, min_size=1, max_size=3).map(tuple))
    mode = draw(st.sampled_from(["constant", "edge", "reflect", "symmetric", "wrap", "maximum", "minimum", "mean",
                                 "median", "linear_ramp", "empty", with_ends]))
    widths = []
    for n in shape:
        before = draw(st.integers(-n, 7))
        after = draw(st.integers(-n - min(before, 0), 7))
        left = n + min(before, 0) + min(after, 0)
        widths.append((before, after) if left or mode in ("constant", "empty") else (min(before, 0), min(after, 0)))
    x = draw(numbers(shape))
    if x.dtype.kind == "b" and mode in ("mean", "median", "linear_ramp"):
        mode = "wrap"
    pad_width = dict(enumerate(widths)) if draw(st.integers(0, 3)) == 0 else tuple(widths)
    return (x, pad_width, mode), _pad_keywords(draw, mode, x)


@st.composite
def normalise_image_calls(draw: st.DrawFn) -> Call:
    """Calls of `normalise_image`."""
    shape = (*draw(st.lists(_extent, max_size=3)), 3)
    kind = draw(sampled("uint8", "float16", "float32"))
    if kind == "uint8":
        x = _rng(draw).integers(0, 256, shape, np.uint8)
    else:
        x = draw(arrays(shape, kind, moderate=draw(st.booleans())))
    constants = [draw(arrays((3,), draw(sampled(*_FLOATS)), moderate=True)) for _ in range(2)]
    return (x, *constants, draw(sampled(1.0, 1 / 255, -2.0))), {}


@st.composite
def spline_basis_calls(draw: st.DrawFn) -> Call:
    """Calls of `spline_basis`."""
    dimensions = draw(st.integers(1, 3))
    rng = _rng(draw)
    kind = draw(sampled("float32", "float16"))
    points = rng.uniform(draw(sampled(0, -3)), 1, (draw(_extent), dimensions)).astype(kind)
    points[rng.random(points.shape) < 0.1] = draw(sampled(0, 1, np.nan, np.inf))
    sizes = rng.integers(1, 6, dimensions).astype(np.int32)
    return (points, sizes, rng.integers(0, 2, dimensions).astype(np.uint8), draw(st.integers(1, 3))), {}


@st.composite
def spline_weighting_calls(draw: st.DrawFn) -> Call:
    """Calls of `spline_weighting`."""
    e, i, o, s = (draw(_extent) for _ in range(4))
    k, moderate = draw(st.integers(1, 5)), draw(st.booleans())
    x, weight, basis = (draw(arrays(shape, draw(sampled(*_FLOATS)), moderate=moderate))
                        for shape in ((e, i), (k, i, o), (e, s)))
    nodes = _rng(draw).integers(0, k, (e, s)).astype(draw(sampled("int32", "uint32")))
    return (x, weight, basis, nodes), draw(options({"out_dtype": _FLOATS}))
