"""Convolutions in three passes: this library beside its peers, whichever order of axes each is fastest in.

``python bench/bench_conv.py [--batch 1 8] [--formats float32 winograd bfloat16 float16] [--only NAME ...]`` prints a
Markdown table: GFLOP/s of the direct algorithm on one thread, forward, data gradient and weight gradient, and the ratio
to the best of torch, onnxruntime and OpenVINO, where they are installed, by name; below it medians over each class of
layers. ``pytest bench --benchmark-enable`` runs the same rows. Calls take turns in one process; figures are medians of
process time, and answers of one image are held to their bound before they are timed. ``--threads 2`` prints the ratio
of one thread's least wall time to that of two instead.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

from poplibs_py import poplin
from poplibs_py.config import thread_limit
from poplibs_py.formats import format_of
from poplibs_py.poplin.conv.params import Described, stated
from poplibs_py.report.peers import PASSES, convolution_routes, limited_threads
from poplibs_py.report.timing import take_turns
from poplibs_py.target import Target
from poplibs_py.testing import check

Call = Callable[[], Any]
PEERED = ("float32", "winograd", "bfloat16", "float16")
"""Formats that peers have; transforms are beside peers' FP32."""


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

    def flops(self, batch: int) -> int:
        """Of the direct algorithm, products with padding counted."""
        depth = self.channels[0] // self.groups * math.prod(self.kernel)
        return 2 * batch * self.channels[1] * depth * math.prod(self.output)


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


def ours(layer: Layer, batch: int, name: str, **how: Any) -> dict[str, dict[str, Call]]:
    """Our three passes in each order of axes, into arrays that are there, checked where one image says enough."""
    found: dict[str, dict[str, Call]] = {}
    for order, lies in (("NCHW", laid), ("NHWC", channels_last)):
        x, w, deltas = (lies(array) for array in _arrays(layer, batch, name))
        y, dx, dw = (lies(array) for array in (deltas, x, w))
        found[order] = {
            "forward": partial(poplin.convolution, x, w, out=y, **layer.how, **how),
            "data gradient": partial(poplin.convolution_input_gradient, deltas, w, out=dx, **layer.how, **how),
            "weight gradient": partial(poplin.calculate_weight_deltas, deltas, x, out=dw, **layer.how),
        }
        if layer.flops(1) < 1 << 27:
            check("convolution", x[:1], w, **layer.how, **how)
    return found


def kept_weights(layer: Layer, batch: int, name: str, **how: Any) -> list[Call]:
    """Our forward pass in each order of axes, with the weights packed once."""
    calls = []
    for layout, last in (("NCHW", False), ("NHWC", True)):
        x, w, deltas = (laid(np.moveaxis(a, 1, -1) if last else a) for a in _arrays(layer, batch, name))
        into, out = (channels // layer.groups for channels in layer.channels)
        told = Described.of(layout=layout, **layer.how)
        params = stated(told, batch, layer.field, layer.kernel, into, out, layer.groups)
        _, w, _ = _arrays(layer, batch, name)
        grouped = w.reshape(layer.groups, out, *w.shape[1:])
        if last:  # kernel elements, then input, then output channels
            grouped = np.moveaxis(grouped, (1, 2), (-1, -2))
        plan = poplin.plan_convolution(params, target=Target.host(1), dtype=name, layout=layout, **how)
        calls.append(partial(poplin.compile_convolution(plan, grouped), x, out=deltas))
    return calls


def measure(layer: Layer, batch: int, name: str,
            seconds: float = 0.5) -> Iterator[tuple[str, float, float | None, str]]:
    """Yield each pass, our GFLOP/s in the order of axes that is best, how many times the best peer's, and its name."""
    how = {"winograd": True} if name == "winograd" else {}
    dtype = "float32" if how else name
    own, theirs = ours(layer, batch, dtype, **how), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's of arrays that may not be written to, and the like
        theirs = convolution_routes(*_arrays(layer, batch, dtype), **layer.how) if name in PEERED else {}
    for pass_ in PASSES[: 2 if how else 3]:
        calls = [passes[pass_] for passes in own.values()]
        if pass_ == "forward":
            calls += kept_weights(layer, batch, dtype, **how)
        routes = theirs.get(pass_, [])
        for call in (*calls, *(route.run for route in routes)):
            call()
        found = take_turns([*calls, *(route.run for route in routes)], seconds=seconds, least_rounds=5, most_rounds=41,
                           rivals=[0] * len(calls) + [1] * len(routes), clock=time.process_time)
        best = min(t.seconds for t in found[: len(calls)])
        peers = [(t.seconds, route) for t, route in zip(found[len(calls) :], routes, strict=True)]
        taken, route = min(peers, key=lambda one: one[0], default=(None, None))
        told = "" if route is None else f"{route.library}, {route.method}"
        yield pass_, layer.flops(batch) / best / 1e9, None if taken is None else taken / best, told


def two_threads(layer: Layer, batch: int, name: str, seconds: float) -> Iterator[tuple[str, float]]:
    """Yield each pass, and one thread's least wall time over that of two.

    Another process that holds a core doubles the time of two threads and leaves that of one as it is, so that least
    times alone compare: those of the moments in which both cores were free.
    """
    def within(count: int, call: Call) -> Call:
        def run() -> Any:
            with thread_limit(count):
                return call()
        return run

    for pass_ in PASSES:
        call = ours(layer, batch, name)["NHWC"][pass_]
        one, two = take_turns([within(1, call), within(2, call)], seconds=4 * seconds, most_rounds=400, least_rounds=20)
        yield pass_, one.least / two.least


@pytest.mark.parametrize("pass_", PASSES)
@pytest.mark.parametrize("layer", LAYERS)
def bench_convolution(layer: str, pass_: str, benchmark: Any) -> None:
    benchmark.group = pass_
    with thread_limit(1):
        benchmark(ours(LAYERS[layer], 1, "float32")["NHWC"][pass_])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--formats", nargs="+", default=["float32", "winograd", "bfloat16", "float16"])
    parser.add_argument("--only", nargs="+", default=[], help="layers whose name holds one of these")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each pass")
    parser.add_argument("--threads", type=int, choices=[1, 2], default=1)
    arguments = parser.parse_args()
    cell = "GFLOP/s | x best peer" if arguments.threads == 1 else "two threads x one"
    print("| layer | batch | format | " + " | ".join(f"{pass_}, {cell}" for pass_ in PASSES) + " |")
    print("|---|---|---|" + "---|" * (len(PASSES) * (3 - arguments.threads)))
    ratios: dict[tuple[str, str, str], list[float]] = {}
    with thread_limit(arguments.threads), limited_threads(arguments.threads):
        for name, layer, batch, fmt in rows(arguments):
            cells = []
            if arguments.threads == 2:
                for pass_, ratio in two_threads(layer, batch, fmt, arguments.seconds):
                    cells.append(f"{ratio:.2f}")
                    ratios.setdefault((fmt, "all", pass_), []).append(ratio)
            else:
                for pass_, rate, ratio, peer in measure(layer, batch, fmt, arguments.seconds):
                    cells += [f"{rate:.1f}", "" if ratio is None else f"{ratio:.2f} ({peer})"]
                    if ratio is not None:
                        ratios.setdefault((fmt, class_of(name, layer), pass_), []).append(ratio)
            print(f"| {name} | {batch} | {fmt} | " + " | ".join(cells) + " |", flush=True)
    for (fmt, kind, pass_), found in ratios.items():
        print(f"{fmt}, {kind}, {pass_}: median {np.median(found):.2f}, least {min(found):.2f}, of {len(found)}")


def rows(arguments: argparse.Namespace) -> Iterator[tuple[str, Layer, int, str]]:
    """What is asked for; transforms where they may be taken."""
    for name, layer in LAYERS.items():
        if arguments.only and not any(word in name for word in arguments.only):
            continue
        for batch in arguments.batch:
            for fmt in arguments.formats:
                transforms = layer.kernel == (3, 3) and (layer.stride, layer.dilation, layer.groups) == (1, 1, 1)
                if fmt != "winograd" or transforms:
                    yield name, layer, batch, fmt


def class_of(name: str, layer: Layer) -> str:
    """The class whose median a layer counts in."""
    if layer.channels[0] <= 3 and layer.groups == 1:
        return "first"
    few = "depthwise" if layer.groups == layer.channels[0] else "grouped"
    return {1: "1-D ", 2: "", 3: "3-D "}[len(layer.field)] + (few if layer.groups > 1 else "dense")


if __name__ == "__main__":
    main()
