"""Hypothesis strategies for whole calls of convolutions: any transforms, groups, formats, layouts and bit patterns."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..formats import FP32
from ..poplin.conv.params import Described, images_shape, weights_shape
from ..poplin.tile_conv import ConvParams, FieldTransform, OutputTransform
from .strategies import NAMES, Call, arrays, formats, layouts, options, relaid, sampled, scaled

_HOW: dict[str, Any] = {"partials_type": ["half"], "reproducible": [True], "available_memory_proportion": [0.0, 0.3]}
_few = st.sampled_from([0, 0, 0, 1, 2])
_step = st.sampled_from([1, 1, 1, 2, 3])


@st.composite
def _transform(draw: st.DrawFn, size: int) -> FieldTransform:
    lower = draw(st.integers(0, min(size - 1, 1))) if draw(_few) == 2 else 0
    upper = draw(st.integers(0, min(size - 1 - lower, 1))) if draw(_few) == 2 else 0
    flip = draw(sampled(False, False, True))
    return FieldTransform(lower, upper, draw(_step), draw(_few), draw(_few), flip)


@st.composite
def conv_params(draw: st.DrawFn, *, most_dims: int = 3, most_channels: int = 20) -> ConvParams:
    """Params of convolutions with any transforms of input, kernel and output."""
    ndim = draw(st.integers(1, most_dims))
    fields, kernels, inputs, weights, outputs = [], [], [], [], []
    for _ in range(ndim):
        kernels.append(draw(st.integers(1, 4)))
        weights.append(draw(_transform(kernels[-1])))
        fields.append(draw(st.integers(1, 9)))
        spread = draw(_transform(fields[-1]))
        lack = weights[-1].transformed(kernels[-1]) - spread.transformed(fields[-1])
        spread = spread._replace(padding_upper=spread.padding_upper + max(0, lack))
        inputs.append(spread)
        raw = spread.transformed(fields[-1]) + 1 - weights[-1].transformed(kernels[-1])
        lower = draw(st.integers(0, min(raw - 1, 1))) if draw(_few) else 0
        upper = draw(st.integers(0, min(raw - 1 - lower, 1))) if draw(_few) else 0
        padding = (draw(sampled(0, 0, 0, 1)) for _ in range(2))
        outputs.append(OutputTransform(lower, upper, draw(_step), *padding))
    channels = st.sampled_from([0, 1, 1, 2, 3, 4, 5, 8, 16, most_channels])
    return ConvParams.create(
        batch=draw(st.integers(0, 3)), field=fields, kernel=kernels,
        in_channels=draw(channels), out_channels=draw(channels), groups=draw(sampled(1, 1, 1, 2, 3)),
        input_transform=inputs, kernel_transform=weights, output_transform=outputs,
    )  # fmt: skip


@st.composite
def _described(draw: st.DrawFn) -> tuple[ConvParams, dict[str, Any]]:
    """Params, and the keywords that describe them."""
    keywords: dict[str, Any] = {"layout": draw(sampled("NCHW", "NHWC"))}
    if draw(st.booleans()):
        p = draw(conv_params())
        return p, keywords | {"params": p}
    ndim, groups = draw(st.integers(1, 3)), draw(sampled(1, 1, 2, 4))
    stride, dilation, padding = draw(_step), draw(_step), draw(_few)
    kernel = [draw(st.integers(1, 3)) for _ in range(ndim)]
    field = [max(1, (k - 1) * dilation + 1 - 2 * padding) + draw(st.integers(0, 8)) for k in kernel]
    p = ConvParams.create(
        batch=draw(st.integers(1, 3)), field=field, kernel=kernel, in_channels=draw(st.integers(1, 20)),
        out_channels=draw(st.integers(1, 40)), groups=groups,
        input_transform=[FieldTransform(padding_lower=padding, padding_upper=padding)] * ndim,
        kernel_transform=[FieldTransform(dilation=dilation)] * ndim,
        output_transform=[OutputTransform(stride=stride)] * ndim,
    )  # fmt: skip
    return p, keywords | {"stride": stride, "dilation": [dilation] * ndim, "padding": padding, "groups": groups}


@st.composite
def _numbers(draw: st.DrawFn, shape: tuple[int, ...], written: bool = False) -> Any:
    """An operand, which may hold codes at a scale or at many, in any layout in memory."""
    fmt = draw(formats())
    array = np.array(draw(arrays(shape, fmt)))
    if fmt.bits == 8 and draw(st.booleans()):
        return draw(scaled(array, fmt, -6, 6, one=written))
    return array if written else relaid(array, draw(layouts()))


def _images(p: ConvParams, keywords: dict[str, Any], result: bool, written: bool = False) -> st.SearchStrategy[Any]:
    how = Described(layout=keywords["layout"])
    channels, field = (p.out_channels, p.output_shape) if result else (p.in_channels, p.field_shape)
    return _numbers(images_shape(how, p.batch, p.groups * channels, field), written)


@st.composite
def _kernels(draw: st.DrawFn, p: ConvParams, keywords: dict[str, Any], written: bool = False) -> Any:
    grouped = draw(st.booleans()) or p.groups * p.out_channels == 0
    return draw(_numbers(weights_shape(Described(layout=keywords["layout"]), p, grouped), written))


@st.composite
def convolution_calls(draw: st.DrawFn, *, given: bool = False) -> Call:
    """Calls of `poplin.convolution`."""
    p, keywords = draw(_described())
    x, weights = draw(_images(p, keywords, False)), draw(_kernels(p, keywords))
    more: dict[str, Any] = {"winograd": [True], "activation": ["relu", "gelu", "silu"]}
    how = draw(options(_HOW | more | ({} if given else {"out_dtype": NAMES})))
    if draw(st.booleans()):
        how["bias"] = draw(arrays((p.groups * p.out_channels,), FP32))
    if given:
        return (x, weights, draw(_images(p, keywords, True, True))), keywords | how
    return (x, weights), keywords | how


@st.composite
def convolution_input_gradient_calls(draw: st.DrawFn) -> Call:
    """Calls of `poplin.convolution_input_gradient`."""
    p, keywords = draw(_described())
    deltas, weights = draw(_images(p, keywords, True)), draw(_kernels(p, keywords))
    if "params" not in keywords:
        keywords["field_shape"] = p.field_shape
    return (deltas, weights), keywords | draw(options(_HOW | {"winograd": [True], "out_dtype": NAMES}))


@st.composite
def calculate_weight_deltas_calls(draw: st.DrawFn) -> Call:
    """Calls of `poplin.calculate_weight_deltas`."""
    p, keywords = draw(_described())
    deltas, x = draw(_images(p, keywords, True)), draw(_images(p, keywords, False))
    if "params" not in keywords:
        keywords["kernel_shape"] = p.kernel_shape
    return (deltas, x), keywords | draw(options(_HOW | {"out_dtype": NAMES}))


@st.composite
def convolution_weight_update_calls(draw: st.DrawFn) -> Call:
    """Calls of `poplin.convolution_weight_update`."""
    p, keywords = draw(_described())
    deltas, x = draw(_images(p, keywords, True)), draw(_images(p, keywords, False))
    scale = draw(sampled(0.0, 1.0, -0.125, 3.0))
    return (deltas, draw(_kernels(p, keywords, True)), x, scale), keywords | draw(options(_HOW))


@st.composite
def _biased(draw: st.DrawFn) -> tuple[Any, Any, dict[str, Any]]:
    layout = draw(sampled("NCHW", "NHWC"))
    field = draw(st.lists(st.integers(1, 5), min_size=1, max_size=2))
    shape = (draw(st.integers(0, 3)), draw(st.integers(1, 20)), *field)
    channels = shape[-1] if layout == "NHWC" else shape[1]
    return draw(_numbers(shape, True)), draw(arrays((channels,), draw(formats()))), {"layout": layout}


@st.composite
def add_bias_calls(draw: st.DrawFn) -> Call:
    """Calls of `poplin.add_bias`."""
    acts, bias, keywords = draw(_biased())
    return (acts, bias), keywords


@st.composite
def convolution_bias_update_calls(draw: st.DrawFn) -> Call:
    """Calls of `poplin.convolution_bias_update`."""
    deltas, bias, keywords = draw(_biased())
    return (deltas, np.array(bias), draw(sampled(0.0, 1.0, -0.125))), keywords


convolution_with_output_calls = partial(convolution_calls, given=True)


@st.composite
def _several(draw: st.DrawFn, one: st.SearchStrategy[Call]) -> Call:
    """Calls that are one: up to three, some of convolutions with an array for the result."""
    return (draw(st.lists(one.map(lambda call: (*call[0], call[1])), min_size=1, max_size=3)),), {}


def several_convolution_calls() -> st.SearchStrategy[Call]:
    """Calls of `poplin.multiconv.convolution`."""
    given = convolution_with_output_calls().map(lambda call: (call[0][:2], call[1] | {"out": call[0][2]}))
    return _several(convolution_calls() | given)


def several_calculate_weight_deltas_calls() -> st.SearchStrategy[Call]:
    """Calls of `poplin.multiconv.calculate_weight_deltas`."""
    return _several(calculate_weight_deltas_calls())


def several_convolution_weight_update_calls() -> st.SearchStrategy[Call]:
    """Calls of `poplin.multiconv.convolution_weight_update`."""
    return _several(convolution_weight_update_calls())
