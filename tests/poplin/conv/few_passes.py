"""The three passes of a convolution on arrays of any layout, and what they compute, in float64, by definition."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from poplibs_py.formats import format_of
from poplibs_py.poplin.conv.lower import LoweredConv, lower
from poplibs_py.poplin.conv.params import ConvCall, FieldLayout
from poplibs_py.poplin.conv.search import plan_call
from poplibs_py.poplin.gemm.options import GemmOptions
from poplibs_py.poplin.gemm.params import MatrixLayout
from poplibs_py.poplin.gemm.plan import Epilogue
from poplibs_py.poplin.tile_conv import ConvParams
from poplibs_py.program import guard_arenas
from poplibs_py.target import Target

Array = np.ndarray[Any, Any]

PASSES = ("forward", "input gradient", "weight gradient")


def guarded(made: LoweredConv, *operands: Array) -> None:
    """Run with guard words around the arenas."""
    guard_arenas(True)
    try:
        made.executable(*operands)
    finally:
        guard_arenas(False)


def images(a: Array, groups: int) -> FieldLayout:
    """How an array [N, G * C, field...] lies."""
    row, channel, *field = a.strides
    group = a.shape[1] // groups * channel
    return FieldLayout(format_of(a.dtype), row, group, channel, tuple(field), aligned=a.flags.aligned)


def kernels(a: Array) -> FieldLayout:
    """How an array [G, Co, Ci, kernel...] lies."""
    group, row, channel, *field = a.strides
    return FieldLayout(format_of(a.dtype), row, group, channel, tuple(field), aligned=a.flags.aligned)


def shapes(p: ConvParams) -> dict[str, tuple[int, ...]]:
    """Extents of x, w and y."""
    return {
        "x": (p.batch, p.groups * p.in_channels, *p.field_shape),
        "w": (p.groups, p.out_channels, p.in_channels, *p.kernel_shape),
        "y": (p.batch, p.groups * p.out_channels, *p.output_shape),
    }


OPERANDS = {"forward": "xwy", "input gradient": "ywx", "weight gradient": "xyw"}
"""What each pass reads, and what it makes."""


def lowered(p: ConvParams, which: str, a: Array, b: Array, out: Array, bias: Array | None = None,
            epilogue: Epilogue | None = None, threads: int = 1, **options: Any) -> LoweredConv:
    """Plan and lower a pass of these operands."""
    made: Any = None
    if bias is not None:
        made = MatrixLayout(format_of(bias.dtype), 0, bias.strides[1], (bias.strides[0],))
    g = p.groups
    if which == "forward":
        call = ConvCall(p, images(a, g), kernels(b), images(out, g), made)
    elif which == "input gradient":
        call = ConvCall.input_gradient(p, images(a, g), kernels(b), images(out, g))
    else:
        call = ConvCall.weight_gradient(p, images(b, g), images(a, g), kernels(out))
    return lower(plan_call(call, GemmOptions(**options), epilogue or Epilogue(), Target.host(threads)))


def laid(values: Array, layout: str, dtype: Any, spare: int = 0) -> Array:
    """The same numbers in memory of another order: channels last, first, or each line with a gap behind it."""
    last = layout == "last"
    channel = values.ndim - len(values.shape[2:]) - 1
    order = [d for d in range(values.ndim) if d != channel] + [channel] if last else list(range(values.ndim))
    shape = [values.shape[d] for d in order]
    if layout == "gap":
        shape[-1] *= 2
    whole = np.full(shape, spare, dtype)
    seen = whole[..., ::2] if layout == "gap" else whole
    seen = seen.transpose(np.argsort(order))
    seen[...] = values.astype(dtype)
    return seen


def _places(p: ConvParams) -> list[list[tuple[int, int, int]]]:
    """Of each dimension, which output element, kernel element and input element meet."""
    found = []
    for axis in p.axes:
        here = []
        o = axis.output
        for out in range(axis.out):
            raw = (out - o.padding_lower) * o.stride + o.truncation_lower
            if not o.padding_lower <= out < axis.out - o.padding_upper:
                continue
            for tap in range(axis.kernel):
                place = axis.weights.apply(tap, axis.kernel)
                x = None if place is None else axis.input.undo(raw + place, axis.field)
                if x is not None:
                    here.append((out, tap, x))
        found.append(here)
    return found


def reference(p: ConvParams, which: str, a: Array, b: Array, absolute: bool = False) -> Array:
    """The pass in float64; `absolute`: of magnitudes, what error bounds are made of."""
    n, g = p.batch, p.groups
    size = shapes(p)
    out = np.zeros(size[OPERANDS[which][2]])
    a, b = (np.asarray(v, np.float64) for v in (a, b))
    if absolute:
        a, b = np.abs(a), np.abs(b)
    held = dict(zip(OPERANDS[which], (a, b, out), strict=True))
    x = held["x"].reshape(n, g, p.in_channels, *p.field_shape)
    y = held["y"].reshape(n, g, p.out_channels, *p.output_shape)
    w = held["w"]
    for met in itertools.product(*_places(p)):
        o, t, i = ((slice(None),) * 3 + tuple(place[k] for place in met) for k in range(3))
        if which == "forward":
            y[o] += np.einsum("ngi,goi->ngo", x[i], w[t])
        elif which == "input gradient":
            x[i] += np.einsum("ngo,goi->ngi", y[o], w[t])
        else:
            w[t] += np.einsum("ngi,ngo->goi", x[i], y[o])
    return out
