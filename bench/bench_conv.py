"""Convolutions in three passes: this library beside its peers, whichever order of axes each is fastest in.

Layers of the field's networks, one image and eight; the peers are torch, onnxruntime and OpenVINO, of FP8 our own BF16.
``python bench/bench_classes.py conv`` prints ratios.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from typing import Any

import numpy as np
from least_times import products, traffic

from poplibs_py import poplin
from poplibs_py.formats import format_of
from poplibs_py.poplin.conv.params import Described, stated
from poplibs_py.report.peers import PASSES, convolution_routes
from poplibs_py.target import Target
from poplibs_py.testing import check

Calls = dict[str, Callable[[], object]]
FORMATS = {"float32": "FP32", "winograd": "Winograd", "bfloat16": "BF16", "float16": "FP16", "f143": "FP8"}
"""Transforms are of FP32 and beside peers' FP32."""


@dataclass(frozen=True)
class Layer:
    """A layer: channels in and out, field, kernel, stride, padding, groups, dilation."""

    channels: tuple[int, int]
    field: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    groups: int = 1
    dilation: int = 1

    @property
    def how(self) -> dict[str, Any]:
        """Keywords of a call."""
        return {"stride": self.stride, "padding": self.padding, "groups": self.groups, "dilation": self.dilation}

    @property
    def output(self) -> tuple[int, ...]:
        """Field of the result."""
        reach = [self.dilation * (k - 1) + 1 for k in self.kernel]
        return tuple((f + 2 * self.padding - r) // self.stride + 1 for f, r in zip(self.field, reach, strict=True))

    @property
    def flops(self) -> int:
        """Of the direct algorithm and one image, products with padding counted."""
        depth = self.channels[0] // self.groups * math.prod(self.kernel)
        return 2 * self.channels[1] * depth * math.prod(self.output)

    @property
    def met(self) -> int:
        """The same without padding: products whose elements are in the field."""
        places = [np.add.outer(self.stride * np.arange(out), self.dilation * np.arange(k)) - self.padding
                  for out, k in zip(self.output, self.kernel, strict=True)]
        pairs = math.prod(int(((at >= 0) & (at < f)).sum()) for at, f in zip(places, self.field, strict=True))
        return 2 * self.channels[1] * (self.channels[0] // self.groups) * pairs


def _square(into: int, out: int, field: int, kernel: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> Layer:
    padding = dilation * (kernel // 2)
    return Layer((into, out), (field, field), (kernel, kernel), stride, padding, groups, dilation)


LAYERS: dict[str, Layer] = {
    "conv1 7x7s2 3-64 @224": _square(3, 64, 224, 7, 2),
    "3x3 64 @56": _square(64, 64, 56, 3),
    "1x1 64-256 @56": _square(64, 256, 56, 1),
    "1x1 256-64 @56": _square(256, 64, 56, 1),
    "3x3s2 128 @56": _square(128, 128, 56, 3, 2),
    "3x3 128 @28": _square(128, 128, 28, 3),
    "3x3 256 @14": _square(256, 256, 14, 3),
    "3x3 512 @7": _square(512, 512, 7, 3),
    "1x1 512-2048 @7": _square(512, 2048, 7, 1),
    "1x1s2 256-512 @56": _square(256, 512, 56, 1, 2),
    "dilated2 3x3 256 @28": _square(256, 256, 28, 3, dilation=2),
    "dw 3x3 144 @56": _square(144, 144, 56, 3, groups=144),
    "dw 3x3s2 64 @112": _square(64, 64, 112, 3, 2, groups=64),
    "dw 5x5 672 @14": _square(672, 672, 14, 5, groups=672),
    "dw 7x7 96 @56": _square(96, 96, 56, 7, groups=96),
    "group g=4ch 3x3 128 @28": _square(128, 128, 28, 3, groups=32),
    "group g=8ch 3x3 256 @14": _square(256, 256, 14, 3, groups=32),
    "group g=16ch 3x3 512 @14": _square(512, 512, 14, 3, groups=32),
    "1d k3 80-384 T3000": Layer((80, 384), (3000,), (3,), padding=1),
    "1d k3s2 512 T8000": Layer((512, 512), (8000,), (3,), 2, 1),
    "1d k10s5 1-512 T16000": Layer((1, 512), (16000,), (10,), 5),
    "1d k7 dil 64 T16000": Layer((64, 64), (16000,), (7,), 1, 9, dilation=3),
    "1d dw k31 256 T1000": Layer((256, 256), (1000,), (31,), padding=15, groups=256),
    "3d 3x3x3 64 @8x28x28": Layer((64, 64), (8, 28, 28), (3, 3, 3), padding=1),
    "3d 3x3x3 3-64 @16x56x56": Layer((3, 64), (16, 56, 56), (3, 3, 3), padding=1),
    "3d dw 3x3x3 64 @8x28x28": Layer((64, 64), (8, 28, 28), (3, 3, 3), padding=1, groups=64),
}
"""Layers by name, as in the tables of the field's networks."""


def channels_last(array: Any) -> Any:
    """The same numbers with channels innermost in memory."""
    return np.moveaxis(laid(np.moveaxis(array, 1, -1)), -1, 1)


def laid(array: Any) -> Any:
    """The same numbers in C order from the start of a line of the cache, where large results and peers' tensors lie."""
    room = np.empty(array.nbytes + 64, np.uint8)
    held = room[-room.ctypes.data % 64 :][: array.nbytes].view(array.dtype).reshape(array.shape)
    held[...] = array
    return held


def _normal(shape: tuple[int, ...], name: str, seed: int) -> Any:
    return laid(np.random.default_rng(seed).standard_normal(shape, np.float32).astype(format_of(name).dtype))


def _arrays(layer: Layer, batch: int, name: str) -> tuple[Any, Any, Any]:
    into, out = layer.channels
    return (_normal((batch, into, *layer.field), name, 0), _normal((out, into // layer.groups, *layer.kernel), name, 1),
            _normal((batch, out, *layer.output), name, 2))


@lru_cache(1)
def ours(layer: Layer, batch: int, fmt: str) -> dict[str, Calls]:
    """Our passes in each order of axes into arrays that are there, the forward one also with weights packed once."""
    name, how = ("float32", {"winograd": True}) if fmt == "winograd" else (fmt, {})
    found: dict[str, Calls] = {pass_: {} for pass_ in PASSES}
    for order, lies in (("NCHW", laid), ("NHWC", channels_last)):
        x, w, deltas = (lies(array) for array in _arrays(layer, batch, name))
        y, dx, dw = (lies(array) for array in (deltas, x, w))
        keywords = {**layer.how, **how}
        found["forward"][order] = partial(poplin.convolution, x, w, out=y, **keywords)
        found["data gradient"][order] = partial(poplin.convolution_input_gradient, deltas, w, out=dx, **keywords)
        found["weight gradient"][order] = partial(poplin.calculate_weight_deltas, deltas, x, out=dw, **layer.how)
        found["forward"][f"{order}, packed"] = kept_weights(layer, batch, name, order, **how)
    return found


def kept_weights(layer: Layer, batch: int, name: str, layout: str, **how: Any) -> Callable[[], object]:
    """Our forward pass with the weights packed once."""
    last = layout == "NHWC"
    x, w, deltas = _arrays(layer, batch, name)
    x, y = (laid(np.moveaxis(array, 1, -1) if last else array) for array in (x, deltas))
    into, out = (channels // layer.groups for channels in layer.channels)
    told = Described.of(layout=layout, **layer.how)
    params = stated(told, batch, layer.field, layer.kernel, into, out, layer.groups)
    grouped = w.reshape(layer.groups, out, *w.shape[1:])
    if last:  # kernel elements, then input, then output channels
        grouped = np.moveaxis(grouped, (1, 2), (-1, -2))
    plan = poplin.plan_convolution(params, target=Target.host(1), dtype=name, out_dtype=name, layout=layout,
                                   **how)
    return partial(poplin.compile_convolution(plan, grouped), x, out=y)


@lru_cache(1)
def peers(layer: Layer, batch: int, fmt: str) -> dict[str, Calls]:
    """The same of others."""
    if fmt == "f143":
        return {pass_: {f"BF16 {order}": call for order, call in calls.items()}
                for pass_, calls in ours.__wrapped__(layer, batch, "bfloat16").items()}
    routes = convolution_routes(*_arrays(layer, batch, "float32" if fmt == "winograd" else fmt), **layer.how)
    return {pass_: {f"{route.library} {route.method}": route.run for route in found}
            for pass_, found in routes.items()}


@lru_cache
def checked(layer: Layer, fmt: str, pass_: str) -> None:
    """Check a pass of one image, its field cut to 32 or 1,000 places."""
    small = replace(layer, field=tuple(min(extent, 1000 if len(layer.field) == 1 else 32) for extent in layer.field))
    x, w, deltas = _arrays(small, 1, "float32" if fmt == "winograd" else fmt)
    op, given, like = {"forward": ("convolution", (x, w), deltas),
                       "data gradient": ("convolution_input_gradient", (deltas, w), x),
                       "weight gradient": ("calculate_weight_deltas", (deltas, x), w)}[pass_]
    check(op, *given, out=np.empty_like(like), **layer.how, **({"winograd": True} if fmt == "winograd" else {}))


def rows() -> Iterator[tuple[str, str, Callable[[], Calls]]]:
    """Classes, rows, and what makes a row's calls; transforms where they may be taken."""
    for (name, layer), fmt, batch, pass_ in product(LAYERS.items(), FORMATS, (1, 8), PASSES):
        transforms = layer.kernel == (3, 3) and (layer.stride, layer.dilation, layer.groups) == (1, 1, 1)
        if fmt != "winograd" or (transforms and pass_ != "weight gradient"):
            yield (f"conv {class_of(layer, fmt, pass_)}, {pass_}",
                   f"{name}, batch {batch}, {FORMATS[fmt]}, {batch * layer.flops / 1e9:.3g} GFLOP",
                   partial(row, layer, batch, fmt, pass_))


def class_of(layer: Layer, fmt: str, pass_: str) -> str:
    """The class whose median a layer counts in."""
    if fmt in ("winograd", "f143"):
        return FORMATS[fmt]
    dimensions = len(layer.field)
    if layer.groups > 1:
        return f"{dimensions}-D depthwise{' and groups' * (dimensions == 2)}"
    first = layer.channels[0] == 3 and dimensions == 2 and pass_ == "data gradient"
    return f"{dimensions}-D {FORMATS[fmt]}{' first layer' * first}"


def row(layer: Layer, batch: int, fmt: str, pass_: str) -> Calls:
    """Ours in each order of axes, and others'."""
    checked(layer, fmt, pass_)
    own = {f"ours {order}": call for order, call in ours(layer, batch, fmt)[pass_].items()}
    if fmt != "winograd":  # whose transforms save products
        read_and_written = sum(array.nbytes for array in _arrays(layer, batch, fmt))
        own |= {"limit, products": products(batch * layer.met, fmt), "limit, a copy": traffic(read_and_written)}
    return own | peers(layer, batch, fmt)[pass_]
