"""Hypothesis strategies for whole calls of `popnn`'s poolings."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..formats import QuarterArray
from ..popnn.pooling.kinds import KINDS
from ..popnn.pooling.request import images, windows_asked
from ..popops.elementwise.bound import numbers
from .strategies import NAMES, OUT_DTYPE, Call, arrays, formats, layouts, options, relaid, sampled

_extent = st.sampled_from([1, 2, 3, 5, 9, 17, 40])


@st.composite
def _field(draw: st.DrawFn, dims: int) -> tuple[int, ...]:
    """Extents of a field: several of one dimension are short."""
    several = st.sampled_from([1, 2, 4, 7] + [19] * (dims == 2))
    return tuple(draw(_extent if dims == 1 else several) for _ in range(dims))


@st.composite
def _geometry(draw: st.DrawFn, field: tuple[int, ...]) -> tuple[Any, dict[str, Any]]:
    """A kernel, and keywords that say windows of a field."""
    kind = draw(sampled("kernel", "kernel", "kernel", "size", "whole"))
    if kind == "whole":
        return None, {}
    if kind == "size":
        return None, {"output_size": tuple(draw(st.integers(1, n + 1)) for n in field)}
    kernel: list[int] = []
    keywords: dict[str, list[Any]] = {"stride": [], "padding": [], "dilation": []}
    for n in field:
        k, d = draw(st.integers(1, 4)), draw(sampled(1, 1, 2))
        low, high = draw(st.integers(-1, k)), draw(st.integers(-1, k))
        if (k - 1) * d + 1 > n + low + high:
            k, d, low, high = 1, 1, 0, 0
        kernel.append(k)
        for name, value in (("stride", draw(st.integers(1, 4))), ("padding", (low, high)), ("dilation", d)):
            keywords[name].append(value)
    made: dict[str, Any] = {name: tuple(value) for name, value in keywords.items()}
    ends = [True] if all(high >= 0 for _, high in made["padding"]) else [False]
    return tuple(kernel), made | draw(options({"ceil_mode": ends}))


@st.composite
def _numbers(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    fmt = draw(formats())
    x = draw(arrays(shape, fmt, moderate=draw(st.booleans())))
    if fmt.bits == 8 and draw(st.booleans()):
        return QuarterArray(x, fmt, draw(sampled(*fmt.scales)))
    return relaid(x, draw(layouts()))


@st.composite
def _fields(draw: st.DrawFn) -> tuple[Any, Any, dict[str, Any]]:
    """A field, a kernel and keywords."""
    field = draw(_field(draw(st.integers(1, 3))))
    layout = draw(sampled("NCHW", "NHWC"))
    n, c = draw(st.integers(1, 2)), draw(sampled(1, 2, 3, 17, 33))
    x = draw(_numbers((n, *field, c) if layout == "NHWC" else (n, c, *field)))
    kernel, keywords = draw(_geometry(field))
    return x, kernel, keywords | ({"layout": layout} if layout == "NHWC" else {})


@st.composite
def pool_calls(draw: st.DrawFn) -> Call:
    """Calls of `pool`."""
    x, kernel, keywords = draw(_fields())
    op = draw(st.sampled_from(list(KINDS)))
    return (x, kernel, op), keywords | draw(options({"out_dtype": NAMES, "count_include_pad": [True]}))


@st.composite
def max_pool_with_indices_calls(draw: st.DrawFn) -> Call:
    """Calls of `max_pool_with_indices`."""
    x, kernel, keywords = draw(_fields())
    return (x, kernel), keywords | draw(OUT_DTYPE)


def _pooled_shape(x: Any, kernel: Any, keywords: dict[str, Any]) -> tuple[int, ...]:
    how = {"stride": None, "padding": 0, "dilation": 1, "ceil_mode": False} | keywords
    shape = images("x", x.shape, how.pop("layout", "NCHW"))
    return shape.of(windows_asked(shape.field, kernel, how.pop("output_size", None), **how)).shape


@st.composite
def pool_input_gradient_calls(draw: st.DrawFn) -> Call:
    """Calls of `pool_input_gradient`: maxima are those that `pool` finds, of numbers of which many are equal."""
    from ..popnn import pool

    x, kernel, keywords = draw(_fields())
    op = draw(st.sampled_from(["max", *KINDS]))
    grad = draw(_numbers(_pooled_shape(x, kernel, keywords)))
    how = keywords | draw(OUT_DTYPE)
    if KINDS[op].chooses:
        values = numbers(x)
        x = np.round(np.clip(np.where(np.isfinite(values), values, 1.0), -2, 2)).astype(draw(
            st.sampled_from(["float32", "float16"])))
        how |= {"x": x, "pooled_x": pool(x, kernel, **keywords)} | draw(options({"use_scaled_gradient": [True]}))
    elif KINDS[op].divides:
        how |= draw(options({"count_include_pad": [True]}))
    return (grad, x.shape, kernel, op), how


@st.composite
def pool_indices_gradient_calls(draw: st.DrawFn) -> Call:
    """Calls of `pool_indices_gradient`: any places, or those of windows, that are told."""
    from ..popnn import max_pool_with_indices

    x, kernel, keywords = draw(_fields())
    shape, layout = _pooled_shape(x, kernel, keywords), keywords.get("layout", "NCHW")
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    indices = rng.integers(-1, images("x", x.shape, layout).elements, shape)
    how = {"layout": layout} if layout == "NHWC" else {}
    told: tuple[Any, ...] = ()
    if draw(st.booleans()):
        found = max_pool_with_indices(x, kernel, **keywords).indices
        indices = np.where(rng.random(shape) < 0.8, found, indices)
        told, how = (kernel,), keywords
    return (draw(_numbers(shape)), indices, x.shape, *told), how | draw(OUT_DTYPE)


@st.composite
def _regions(draw: st.DrawFn) -> tuple[tuple[int, ...], Any, Any, dict[str, Any]]:
    """Images' shape, regions, whose they are, and keywords."""
    n, c = draw(st.integers(1, 3)), draw(sampled(1, 3, 17))
    h, w, r = draw(st.integers(1, 9)), draw(st.integers(1, 9)), draw(st.integers(0, 4))
    edge = st.integers(-8, 48).map(lambda k: k / 4)
    rois = np.array([[draw(edge) for _ in range(4)] for _ in range(r)], np.float32).reshape(r, 4)
    index = np.array([draw(st.integers(0, n - 1)) for _ in range(r)], np.int64)
    how = draw(options({"sampling_ratio": [1, 2, 3], "spatial_scale": [0.5, 0.25], "aligned": [True],
                        "drop_outside": [True], "layout": ["NHWC"], "out_dtype": NAMES}))
    return ((n, h, w, c) if "layout" in how else (n, c, h, w)), rois, index, how


@st.composite
def roi_align_calls(draw: st.DrawFn) -> Call:
    """Calls of `roi_align`."""
    shape, rois, index, how = draw(_regions())
    return (draw(_numbers(shape)), rois, index, draw(st.integers(1, 4)), draw(st.integers(1, 4))), how


@st.composite
def roi_align_input_gradient_calls(draw: st.DrawFn) -> Call:
    """Calls of `roi_align_input_gradient`."""
    shape, rois, index, how = draw(_regions())
    bins = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    given = (len(rois), *bins, shape[-1]) if "layout" in how else (len(rois), shape[1], *bins)
    return (draw(_numbers(given)), rois, index, shape), how
