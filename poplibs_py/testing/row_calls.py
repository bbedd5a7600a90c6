"""Hypothesis strategies for whole calls of functions of rows: softmax and norms."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ..ops import WIDE
from .strategies import NAMES, OUT_DTYPE, Call, numbers, options, sampled

_WIDE = [f.name for f in WIDE]
_extent = st.sampled_from([0, 1, 2, 3, 7, 17])
_long = st.sampled_from([1, 15, 63, 64, 65, 129, 300])
_shapes: SearchStrategy[tuple[int, ...]] = (
    st.tuples(_long) | st.tuples(_extent, _long) | st.tuples(_long, _extent) | st.tuples(_extent, _extent, _extent))


@st.composite
def _calls(draw: st.DrawFn, operands: int) -> Call:
    """Calls with so many operands, of one shape; those of one may have a mask."""
    shape = draw(_shapes)
    rank = len(shape)
    allowed: dict[str, Any] = {"out_dtype": NAMES, "scale": [0.125, -3.0, 0.1],
                               "axis": [0, rank - 1, tuple(range(rank)), -rank]}
    how = draw(options(allowed))
    if operands == 1 and draw(st.booleans()):
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        how["mask"] = rng.random(shape[draw(st.integers(0, rank)):]) < draw(sampled(0.2, 0.8))
    return tuple(draw(numbers(shape)) for _ in range(operands)), how


softmax_calls = log_softmax_calls = scaled_softmax_stable_calls = partial(_calls, 1)
softmax_grad_calls = log_softmax_grad_calls = partial(_calls, 2)


@st.composite
def _maps(draw: st.DrawFn) -> tuple[int, ...]:
    """Shapes of maps with their places."""
    return draw(st.tuples(st.integers(0, 3), st.integers(0, 6), st.sampled_from([0, 1, 2, 5, 17])))


@st.composite
def spatial_softmax_2d_calls(draw: st.DrawFn) -> Call:
    """Calls of `spatial_softmax_2d`."""
    shape = draw(_maps())
    how = draw(options({"out_dtype": _WIDE, "temperature": [0.125, 3.0], "disable_softmax": [True]}))
    return (draw(numbers(shape)),), how


@st.composite
def spatial_softmax_2d_grad_calls(draw: st.DrawFn) -> Call:
    """Calls of `spatial_softmax_2d_grad`."""
    shape = draw(_maps())
    how = draw(options({"out_dtype": _WIDE, "temperature": [0.125, 3.0]}))
    return (draw(numbers((shape[0], 2))), draw(numbers(shape))), how


@st.composite
def _norm_calls(draw: st.DrawFn, kind: str, back: bool) -> Call:
    """Calls of norms, of axes or of channels, or of their gradients."""
    by_axes = kind in ("layer", "rms")
    extent = st.integers(0, 6)
    shape = draw(_shapes if by_axes else st.tuples(extent, extent) | st.tuples(extent, extent, st.integers(0, 70)))
    allowed: dict[str, Any] = {"eps": [0.25, 1e-3], "out_dtype": NAMES}
    own: tuple[int, ...] = shape[1:2]
    groups: tuple[int, ...] = ()
    if by_axes:
        axes = draw(st.sampled_from([(-1,), tuple(range(len(shape))), (0,)]))
        own = tuple(shape[d] for d in axes)
    else:
        allowed["unbiased_var_estimate"] = [True]
    if not by_axes and back:
        allowed["poplibs_exact"] = [True]
    if kind == "group":
        groups = (draw(st.sampled_from([d for d in range(1, 7) if shape[1] % d == 0 and d <= max(1, shape[1])])),)
        allowed["strided_channel_grouping"] = [True]
    how = draw(options(allowed)) | ({"axes": axes} if by_axes else {})
    for name in ("gamma",) if back or kind == "rms" else ("gamma", "beta"):
        if draw(st.booleans()):
            how[name] = draw(numbers(own))
    return (*(draw(numbers(shape)) for _ in range(1 + back)), *groups), how

layer_norm_calls, layer_norm_grad_calls = (partial(_norm_calls, "layer", back) for back in (False, True))
rms_norm_calls, rms_norm_grad_calls = (partial(_norm_calls, "rms", back) for back in (False, True))
group_norm_calls, group_norm_grad_calls = (partial(_norm_calls, "group", back) for back in (False, True))
instance_norm_calls, instance_norm_grad_calls = (partial(_norm_calls, "instance", back) for back in (False, True))
batch_norm_calls, batch_norm_grad_calls = (partial(_norm_calls, "batch", back) for back in (False, True))


@st.composite
def _activations(draw: st.DrawFn) -> tuple[int, ...]:
    """Shapes of activations."""
    extent = st.integers(0, 6)
    return draw(st.tuples(extent, _long) | st.tuples(extent, extent, st.integers(0, 70)))


@st.composite
def batch_norm_statistics_calls(draw: st.DrawFn) -> Call:
    """Calls of `batch_norm_statistics`."""
    return (draw(numbers(draw(_activations()))),), draw(options({"stable_algo": [False]}))


@st.composite
def batch_norm_training_calls(draw: st.DrawFn) -> Call:
    """Calls of `batch_norm_training`."""
    shape = draw(_activations())
    how = draw(options({"eps": [0.25, 1e-3], "out_dtype": NAMES, "momentum": [0.0, 0.25, 1.0],
                        "unbiased_var_estimate": [True], "stable_algo": [False]}))
    for name in ("gamma", "beta", "running_mean", "running_variance"):
        if draw(st.booleans()):
            how[name] = draw(numbers(shape[1:2]))
    return (draw(numbers(shape)),), how


@st.composite
def batch_norm_inference_calls(draw: st.DrawFn) -> Call:
    """Calls of `batch_norm_inference`; variances are those of other numbers."""
    shape = draw(_activations())
    how = draw(options({"eps": [0.25, 1e-3], "out_dtype": NAMES}))
    for name in ("gamma", "beta"):
        if draw(st.booleans()):
            how[name] = draw(numbers(shape[1:2]))
    return tuple(draw(numbers(own)) for own in (shape, shape[1:2], shape[1:2])), how


@st.composite
def fold_batch_norm_calls(draw: st.DrawFn) -> Call:
    """Calls of `fold_batch_norm`."""
    shape = draw(_shapes)
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    how = draw(options({"eps": [0.25, 1e-3], "out_dtype": NAMES})) | {"axis": axis}
    own = shape[axis:][:1]
    for name in ("gamma", "beta", "bias"):
        if draw(st.booleans()):
            how[name] = draw(numbers(own))
    return tuple(draw(numbers(of)) for of in (shape, own, own)), how


@st.composite
def batch_normalise_calls(draw: st.DrawFn) -> Call:
    """Calls of `batch_normalise`."""
    shape = draw(_activations())
    how = draw(OUT_DTYPE)
    return tuple(draw(numbers(own)) for own in (shape, shape[1:2], shape[1:2])), how


@st.composite
def _labels(draw: st.DrawFn, rows: int, classes: int) -> Any:
    """Labels, some of them none."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(sampled(np.int32, np.uint32, np.int64))
    made = rng.integers(0, max(1, classes) + 1, rows).astype(dtype)
    made[rng.random(rows) < 0.2] = np.array(2**32 - 1).astype(dtype)
    return made


@st.composite
def calc_loss_calls(draw: st.DrawFn) -> Call:
    """Calls of `calc_loss`."""
    shape = draw(st.tuples(st.integers(0, 5), st.sampled_from([1, 2, 7, 64, 70])))
    kind = draw(sampled("SUM_SQUARED_LOSS", "CROSS_ENTROPY_LOSS"))
    how: dict[str, Any] = {"out_dtype": NAMES}
    if kind == "CROSS_ENTROPY_LOSS":
        how |= {"deltas_scale": [1000.0], "model_output_scaling": [62000.0]}
    expected = draw(_labels(*shape) | numbers(shape))
    return (draw(numbers(shape)), expected, kind), draw(options(how))


@st.composite
def calc_accuracy_calls(draw: st.DrawFn) -> Call:
    """Calls of `calc_accuracy`."""
    shape = draw(st.tuples(st.integers(0, 5), st.sampled_from([1, 2, 7, 64, 70])))
    return (draw(numbers(shape)), draw(_labels(*shape))), {}


@st.composite
def cross_entropy_calls(draw: st.DrawFn) -> Call:
    """Calls of `cross_entropy`."""
    rows, classes = draw(st.lists(st.integers(0, 5), min_size=1, max_size=3)), draw(sampled(1, 2, 7, 64, 70))
    allowed: dict[str, Any] = {"out_dtype": NAMES, "label_smoothing": [0.125, 1.0], "ignored_index": [0],
                               "deltas_scale": [0.1], "axis": list(range(-1, len(rows) + 1))}
    how = draw(options(allowed))
    if draw(st.booleans()):
        how["weights"] = draw(numbers((classes,)))
    axis = how.get("axis", -1) % (len(rows) + 1)
    shape = (*rows[:axis], classes, *rows[axis:])
    return (draw(numbers(shape)), draw(_labels(math.prod(rows), classes)).reshape(rows)), how


@st.composite
def _element_loss_calls(draw: st.DrawFn, kind: str) -> Call:
    """Calls of losses of elements; what should be probabilities is."""
    shape = draw(_shapes)
    rank = len(shape)
    allowed: dict[str, Any] = {"out_dtype": NAMES, "deltas_scale": [0.1, -3.0], "reduction": ["mean"],
                               "axis": [0, tuple(range(rank))]}
    how = draw(options(allowed | ({"delta": [0.1, 2.0]} if kind == "huber" else {})))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    probable = [rng.choice([0.0, 1.0, 0.5, 1e-7, rng.random()], shape).astype(np.float32) for _ in range(2)]
    x = probable[0] if kind == "binary" else draw(numbers(shape))
    expected = draw(numbers(shape)) if kind in ("mse", "huber") else probable[1]
    if draw(st.booleans()):
        how["weights"] = draw(numbers(shape[draw(st.integers(0, rank)):]))
    if draw(st.booleans()):
        how["mask"] = rng.random(shape[draw(st.integers(0, rank)):]) < 0.7
    if kind == "logits" and draw(st.booleans()):
        how["positive_weights"] = rng.random(shape[-1]).astype(np.float16)
    return (x, expected), how


mse_loss_calls, huber_loss_calls, kl_divergence_calls = (
    partial(_element_loss_calls, kind) for kind in ("mse", "huber", "divergence"))
binary_cross_entropy_calls, binary_cross_entropy_with_logits_calls = (
    partial(_element_loss_calls, kind) for kind in ("binary", "logits"))
