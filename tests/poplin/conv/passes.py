"""Run the passes of a convolution from how arrays lie, and say in float64 what each has to be."""

from __future__ import annotations

from typing import Any

import numpy as np

from poplibs_py.formats import format_of
from poplibs_py.poplin.conv.lower import LoweredConv, lower
from poplibs_py.poplin.conv.params import ConvCall, FieldLayout
from poplibs_py.poplin.conv.search import plan_call
from poplibs_py.poplin.gemm.options import GemmOptions
from poplibs_py.poplin.gemm.plan import Epilogue
from poplibs_py.poplin.tile_conv import ConvParams
from poplibs_py.target import Target

Array = np.ndarray[Any, Any]
PASSES = ("forward", "input gradient", "weight gradient")


def lying(shape: tuple[int, ...], order: tuple[int, ...], dtype: Any, step: int = 1) -> Array:
    """An array of zeros whose axes lie in an order, outermost first, the innermost's elements `step` apart."""
    extents = [shape[axis] for axis in order]
    held = np.zeros((*extents[:-1], extents[-1] * step), dtype)[..., ::step]
    return held.transpose(np.argsort(order))


def images(a: Array, groups: int) -> FieldLayout:
    """How images [batch, channels, field...] lie."""
    s = a.strides
    return FieldLayout(format_of(a.dtype), s[0], a.shape[1] // groups * s[1], s[1], tuple(s[2:]))


def kernels(a: Array) -> FieldLayout:
    """How kernels [groups, output channels, input channels, kernel...] lie."""
    s = a.strides
    return FieldLayout(format_of(a.dtype), s[1], s[0], s[2], tuple(s[3:]))


def shapes(p: ConvParams) -> tuple[tuple[int, ...], ...]:
    """Of the input, the weights and the output."""
    return ((p.batch, p.groups * p.in_channels, *p.field_shape),
            (p.groups, p.out_channels, p.in_channels, *p.kernel_shape),
            (p.batch, p.groups * p.out_channels, *p.output_shape))


def run(which: str, p: ConvParams, x: Array, w: Array, y: Array, threads: int = 1, **options: Any) -> LoweredConv:
    """Run a pass: its result replaces one of the three arrays."""
    lie = images(x, p.groups), kernels(w), images(y, p.groups)
    if which == "forward":
        call, operands = ConvCall(p, *lie), (x, w, y)
    elif which == "input gradient":
        call, operands = ConvCall.input_gradient(p, lie[2], lie[1], lie[0]), (y, w, x)
    else:
        call, operands = ConvCall.weight_gradient(p, lie[2], lie[0], lie[1]), (x, y, w)
    lowered = lower(plan_call(call, GemmOptions(**options), Epilogue(), Target.host(threads)))
    lowered.executable(*operands)
    return lowered


def expected(which: str, p: ConvParams, x: Array, w: Array, y: Array) -> Array:
    """The pass' result in float64: a sum over what meets."""
    n = p.ndim
    outs, taps = list(range(2, 2 + 2 * n, 2)), list(range(3, 3 + 2 * n, 2))
    images, made = (a.reshape(p.batch, p.groups, a.shape[1] // p.groups, *a.shape[2:]).astype(float) for a in (x, y))
    found = np.zeros({"forward": made, "input gradient": images, "weight gradient": w}[which].shape)
    for g in range(p.groups):
        kernel = w[g].astype(np.float64)  # [outputs, inputs, taps...]
        if which == "input gradient":
            total = np.tensordot(made[:, g], kernel, (1, 0))  # [batch, outs..., inputs, taps...]
            for d in range(n):  # the first out and the first tap become the last field
                total = np.tensordot(total, _meetings(p, d), ((1, 2 + n - d), (0, 1)))
            found[:, g] = total
            continue
        columns = images[:, g]  # [batch, inputs, fields...] becomes [batch, inputs, (out, tap)...]
        for d in range(n):
            columns = np.tensordot(columns, _meetings(p, d), (2, 2))
        if which == "forward":
            found[:, g] = np.moveaxis(np.tensordot(columns, kernel, ((1, *taps), (1, *range(2, 2 + n)))), -1, 1)
        else:
            found[g] = np.tensordot(made[:, g], columns, ((0, *range(2, 2 + n)), (0, *outs)))
    return found.reshape({"forward": y, "input gradient": x, "weight gradient": w}[which].shape)


def _meetings(p: ConvParams, d: int) -> Array:
    """Whether an output, a tap and an element of the field meet in a dimension."""
    axis = p.axes[d]
    met = np.zeros((axis.out, axis.kernel, axis.field))
    for at in np.ndindex(axis.out, axis.kernel):
        found = axis.input_index(*at)
        if found is not None:
            met[(*at, found)] = 1
    return met
