"""Hypothesis strategies for whole calls of slices by index: tables of any kind, indices good and bad, any layouts."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..popops.expr import placeholder
from .strategies import Call, arrays, formats, layouts, options, relaid, sampled

_POLICIES = ("clip", "skip", "wrap", "zero", "poplibs")
_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_extent = st.integers(1, 6) | st.sampled_from([9, 17, 33])
_shapes = st.lists(_extent, min_size=1, max_size=3).map(tuple)


@st.composite
def _numbers(draw: st.DrawFn, shape: tuple[int, ...], like: Any = None, computed: bool = False) -> Any:
    """A table, or what may update one like it."""
    floats = draw(st.integers(0, 3)) > 0 if like is None else like.dtype.kind not in "biu"
    if floats:
        fmt = like.dtype if like is not None and not computed else draw(formats())
        return relaid(draw(arrays(shape, fmt, moderate=computed)), draw(layouts()))
    integers = _INTEGERS if computed else (*_INTEGERS, "bool")
    dtype = np.dtype(draw(st.sampled_from(integers))) if like is None else like.dtype
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return relaid(rng.integers(0, 2, shape).astype(dtype), draw(layouts()))


@st.composite
def _indices(draw: st.DrawFn, shape: tuple[int, ...], limits: Any) -> tuple[Any, dict[str, Any]]:
    """Indices whose last axis has these limits, and a policy that they fit."""
    dtype: Any = np.dtype(draw(sampled(*_INTEGERS)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    most = np.minimum(np.maximum(limits, 1), min(np.iinfo(dtype).max, 1 << 30))
    made = rng.integers(0, most, shape).astype(dtype)
    policy = draw(options({"index_policy": _POLICIES})) if min(limits, default=1) > 0 else {"index_policy": "zero"}
    if policy and made.size:
        bad = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, min(limits, default=0) % np.iinfo(dtype).max], dtype)
        flat = made.reshape(-1)
        flat[rng.integers(0, made.size, 1 + made.size // 4)] = rng.choice(bad)
    return made, policy


@st.composite
def dynamic_slice_calls(draw: st.DrawFn) -> Call:
    """Calls of `dynamic_slice`."""
    shape = draw(_shapes)
    axes = draw(st.lists(st.integers(0, len(shape) - 1), unique=True, max_size=3))
    sizes = [draw(st.integers(0, shape[axis])) for axis in axes]
    offsets, policy = draw(_indices((len(axes),), [shape[axis] for axis in axes]))
    return (draw(_numbers(shape)), offsets, tuple(axes), tuple(sizes)), policy


@st.composite
def dynamic_update_calls(draw: st.DrawFn) -> Call:
    """Calls of `dynamic_update`."""
    (x, offsets, axes, sizes), policy = draw(dynamic_slice_calls())
    shape = list(x.shape)
    for axis, size in zip(axes, sizes, strict=True):
        shape[axis] = size
    return (x, draw(_numbers(tuple(shape), x)), offsets, axes), policy


@st.composite
def _rows(draw: st.DrawFn, groups: bool, computed: bool = False) -> tuple[Any, Any, dict[str, Any]]:
    shape = draw(_shapes)
    shape = (draw(st.integers(1, 3)), *shape[:2]) if groups else shape
    axis = draw(st.integers(int(groups), len(shape) - 1))
    count = draw(st.integers(0, 8))
    front = (shape[0], count) if groups else (count,)
    indices, keywords = draw(_indices((*front, 1), [shape[axis]]))
    keywords["axis"] = axis
    return draw(_numbers(shape, computed=computed)), indices if draw(st.booleans()) else indices[..., 0], keywords


@st.composite
def _slice_calls(draw: st.DrawFn, groups: bool = False) -> Call:
    x, indices, keywords = draw(_rows(groups))
    return (x, indices), keywords


@st.composite
def _update_calls(draw: st.DrawFn, groups: bool = False, computed: bool = False, scaled: bool = False) -> Call:
    x, indices, keywords = draw(_rows(groups, computed))
    front = indices.shape[:2 if groups else 1]
    sizes = [1 if d == keywords["axis"] else n for d, n in enumerate(x.shape)][int(groups):]
    updates = draw(_numbers((*front, *sizes), x, computed))
    scale = {"scale": draw(sampled(*{"i": (-2, 3), "u": (2, 3)}.get(x.dtype.kind, (0.5, -3.0))))}
    return (x, updates, indices), keywords | (scale if scaled and draw(st.booleans()) else {})


multi_slice_calls, grouped_multi_slice_calls = _slice_calls, partial(_slice_calls, True)
multi_update_calls, grouped_multi_update_calls = _update_calls, partial(_update_calls, True)
multi_update_add_calls = partial(_update_calls, computed=True, scaled=True)
grouped_multi_update_add_calls = partial(_update_calls, True, computed=True, scaled=True)
multi_update_mul_calls = multi_update_max_calls = partial(_update_calls, computed=True)
grouped_multi_update_mul_calls = grouped_multi_update_max_calls = partial(_update_calls, True, computed=True)


@st.composite
def _vectors(draw: st.DrawFn, shape: tuple[int, ...], offset: str, dropped: str, named: str) -> Any:
    """Slices by index vectors: indices, keywords, sizes, and the shape of the other array."""
    rank = len(shape)
    axes = draw(st.lists(st.integers(0, rank - 1), unique=True, max_size=rank))
    sizes = [draw(st.integers(1, n)) for n in shape]
    collapsed = draw(st.lists(st.integers(0, rank - 1), unique=True, max_size=rank))
    for d in collapsed:
        sizes[d] = 1
    front = tuple(draw(st.lists(st.integers(1, 4), max_size=2)))
    indices, keywords = draw(_indices((*front, len(axes)), [shape[d] - sizes[d] + 1 for d in axes]))
    vector = draw(st.integers(0, len(front)))
    indices = np.moveaxis(indices, -1, vector)
    if len(axes) == 1 and draw(st.booleans()):
        indices, vector = np.squeeze(indices, vector), len(front)
    kept = [d for d in range(rank) if d not in collapsed]
    at = sorted(draw(st.permutations(range(len(front) + len(kept))))[:len(kept)])
    inner, outer = iter(sizes[d] for d in kept), iter(front)
    other = tuple(next(inner) if d in at else next(outer) for d in range(len(front) + len(kept)))
    keywords |= {"index_vector_dim": vector, offset: at, dropped: collapsed, named: axes}
    return indices, keywords, sizes, other


@st.composite
def gather_calls(draw: st.DrawFn) -> Call:
    """Calls of `gather`, in both forms."""
    shape = draw(_shapes)
    x = draw(_numbers(shape))
    if draw(st.booleans()):
        axis, count = draw(st.integers(0, len(shape) - 1)), draw(st.lists(st.integers(0, 5), max_size=2))
        indices, keywords = draw(_indices((*count, 1), [shape[axis]]))
        return (x, relaid(indices[..., 0], draw(layouts())), axis), keywords
    indices, keywords, sizes, _ = draw(_vectors(shape, "offset_dims", "collapsed_slice_dims", "start_index_map"))
    return (x, indices), keywords | {"slice_sizes": sizes}


_DOUBLED = placeholder(1) * 2 - placeholder(2)
"""An update function, of any numbers."""


@st.composite
def scatter_calls(draw: st.DrawFn) -> Call:
    """Calls of `scatter`, in both forms."""
    shape, operation = draw(_shapes), draw(st.sampled_from(["set", "add", "mul", "max", "min", _DOUBLED]))
    computed = not isinstance(operation, str) or operation != "set"
    x = draw(_numbers(shape, computed=computed))
    if draw(st.booleans()):
        axis, count = draw(st.integers(0, len(shape) - 1)), draw(st.lists(st.integers(0, 5), max_size=2))
        indices, keywords = draw(_indices((*count, 1), [shape[axis]]))
        other = (*shape[:axis], *count, *shape[axis + 1:])
        indices, place = indices[..., 0], [axis]
    else:
        indices, keywords, _, other = draw(_vectors(shape, "update_window_dims", "inserted_window_dims",
                                                    "scatter_dims_to_operand_dims"))
        place = []
    return (x, indices, draw(_numbers(other, x, computed)), *place), keywords | {"operation": operation}


# Sequences, scalars, bags ----------------------------------------------------------------------------


@st.composite
def sequence_slice_calls(draw: st.DrawFn) -> Call:
    """Calls of `sequence_slice`."""
    shape = (draw(_extent), *draw(_shapes)[:2])
    rows, count = draw(_extent), draw(st.integers(0, 4))
    x = draw(_numbers(shape))
    y = draw(_numbers((rows, *shape[1:]), x))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = rng.integers(0, min(rows, shape[0]), count, endpoint=True)
    policy = draw(options({"index_policy": _POLICIES}))
    reach = 2 if policy else 0
    offsets = [rng.integers(-reach, n - lengths + reach, count, endpoint=True) for n in (shape[0], rows)]
    return (x, y, lengths, *offsets), policy | draw(options({"zero_unused": [True]}))


@st.composite
def select_scalar_from_rows_calls(draw: st.DrawFn) -> Call:
    """Calls of `select_scalar_from_rows`."""
    shape = draw(st.tuples(_extent, _extent))
    indices, keywords = draw(_indices((shape[0], 1), [shape[1]]))
    masks = indices[:, 0].astype(draw(st.sampled_from([indices.dtype, np.dtype("uint32")])))
    if "index_policy" not in keywords and draw(st.booleans()) and masks.dtype.itemsize == 4:
        masks[0] = masks.dtype.type(-1) if masks.dtype.kind == "i" else 2**32 - 1
    x = draw(arrays(shape, draw(formats()), moderate=True))
    return (relaid(x, draw(layouts())), masks), keywords


update_scalar_in_rows_calls = select_scalar_from_rows_calls


@st.composite
def embedding_bag_calls(draw: st.DrawFn) -> Call:
    """Calls of `embedding_bag`."""
    shape, (bags, n) = draw(st.tuples(_extent, _extent)), draw(st.tuples(st.integers(0, 4), st.integers(0, 5)))
    x = relaid(draw(arrays(shape, draw(formats()), moderate=True)), draw(layouts()))
    indices, keywords = draw(_indices((bags, n, 1), [shape[0]]))
    indices, operands = indices[..., 0], []
    if draw(st.booleans()):
        indices = indices.reshape(-1)
        operands = [draw(_drawn_offsets(indices.size))]
    keywords |= draw(options({"mode": ["mean", "max"], "out_dtype": ["float32", "float16"]}))
    if "mode" not in keywords and draw(st.booleans()):
        keywords["weights"] = draw(arrays(indices.shape, "float32", moderate=True))
    return (x, indices, *operands), keywords


def _drawn_offsets(most: int) -> st.SearchStrategy[Any]:
    """Where bags begin, if there are any: the first with the indices."""
    return st.lists(st.integers(0, most), max_size=4).map(
        lambda offsets: np.array([0, *sorted(offsets)[1:]][:len(offsets)], np.int32))


@st.composite
def embedding_gradient_calls(draw: st.DrawFn) -> Call:
    """Calls of `embedding_gradient`."""
    entries, width, count = draw(st.tuples(_extent, _extent, st.integers(0, 9)))
    indices, keywords = draw(_indices((count, 1), [entries]))
    updates = relaid(draw(arrays((count, width), draw(formats()), moderate=True)), draw(layouts()))
    return (updates, indices[:, 0], entries), keywords
