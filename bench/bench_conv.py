"""Convolutions in three passes: this library beside torch, whichever order of axes each is fastest in.

``python bench/bench_conv.py [--batch 1 8] [--formats float32 bfloat16 float16] [--only NAME ...]`` prints a Markdown
table: GFLOP/s of the direct algorithm on one thread, forward, data gradient and weight gradient, and the ratio to torch
where it is installed. ``pytest bench --benchmark-enable`` runs the same rows. Calls take turns in one process; figures
are medians of process time, and answers of one image are held to their bound before they are timed.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

from poplibs_py import poplin
from poplibs_py.config import thread_limit
from poplibs_py.formats import format_of
from poplibs_py.report.peers import installed, limited_threads
from poplibs_py.report.timing import take_turns
from poplibs_py.testing import check

Call = Callable[[], Any]
PASSES = ("forward", "data gradient", "weight gradient")


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
    "1d dw k31 256 T1000": Layer((256, 256), (1000,), (31,), padding=15, groups=256),
    "3d 3x3x3 32 @16": Layer((32, 32), (16, 16, 16), (3, 3, 3), padding=1),
}
"""Layers by name, as in the tables of the field's networks."""


def channels_last(array: Any) -> Any:
    """The same numbers with channels innermost in memory."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)


def _normal(shape: tuple[int, ...], name: str, seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, np.float32).astype(format_of(name).dtype)


def _arrays(layer: Layer, batch: int, name: str) -> tuple[Any, Any, Any]:
    into, out = layer.channels
    return (_normal((batch, into, *layer.field), name, 0), _normal((out, into // layer.groups, *layer.kernel), name, 1),
            _normal((batch, out, *layer.output), name, 2))


def ours(layer: Layer, batch: int, name: str) -> dict[str, dict[str, Call]]:
    """Our three passes in each order of axes, into arrays that are there, checked where one image says enough."""
    found: dict[str, dict[str, Call]] = {}
    for order, laid in (("NCHW", np.ascontiguousarray), ("NHWC", channels_last)):
        x, w, deltas = (laid(array) for array in _arrays(layer, batch, name))
        y, dx, dw = np.empty_like(deltas), np.empty_like(x), np.empty_like(w)
        found[order] = {
            "forward": partial(poplin.convolution, x, w, out=y, **layer.how),
            "data gradient": partial(poplin.convolution_input_gradient, deltas, w, out=dx, **layer.how),
            "weight gradient": partial(poplin.calculate_weight_deltas, deltas, x, out=dw, **layer.how),
        }
        if layer.flops(1) < 1 << 27:
            check("convolution", x[:1], w, **layer.how)
    return found


def torchs(layer: Layer, batch: int, name: str) -> dict[str, dict[str, Call]]:
    """Torch's three passes in each order of axes; none where torch is not installed."""
    if "torch" not in installed():
        return {}
    import torch

    into, out = layer.channels
    generator = torch.Generator().manual_seed(0)
    dtype = getattr(torch, name)
    ndim = len(layer.field)
    steps = [layer.stride] * ndim, [layer.padding] * ndim, [layer.dilation] * ndim
    orders = {"NCHW": torch.contiguous_format}
    if ndim > 1:
        orders["NHWC"] = torch.channels_last if ndim == 2 else torch.channels_last_3d
    found: dict[str, dict[str, Call]] = {}
    for order, memory in orders.items():
        shapes = ((batch, into, *layer.field), (out, into // layer.groups, *layer.kernel), (batch, out, *layer.output))
        drawn = (torch.randn(shape, generator=generator).to(dtype) for shape in shapes)
        x, w, deltas = (tensor.contiguous(memory_format=memory) for tensor in drawn)
        rest = (None, *steps, False, [0] * ndim, layer.groups)
        backward = partial(torch.ops.aten.convolution_backward, deltas, x, w, *rest)
        found[order] = {
            "forward": partial(torch.ops.aten.convolution, x, w, *rest),
            "data gradient": partial(backward, [True, False, False]),
            "weight gradient": partial(backward, [False, True, False]),
        }
    return found


def measure(layer: Layer, batch: int, name: str, seconds: float = 0.5) -> Iterator[tuple[str, float, float | None]]:
    """Yield each pass, our GFLOP/s in the order of axes that is best, and how many times torch's best that is."""
    own, theirs = ours(layer, batch, name), torchs(layer, batch, name)
    for pass_ in PASSES:
        calls = [passes[pass_] for passes in own.values()]
        peers = [passes[pass_] for passes in theirs.values()]
        found = take_turns([*calls, *peers], seconds=seconds, least_rounds=5, most_rounds=41, clock=time.process_time)
        best = min(t.seconds for t in found[: len(calls)])
        peer = min((t.seconds for t in found[len(calls) :]), default=None)
        yield pass_, layer.flops(batch) / best / 1e9, None if peer is None else peer / best


@pytest.mark.parametrize("pass_", PASSES)
@pytest.mark.parametrize("layer", LAYERS)
def bench_convolution(layer: str, pass_: str, benchmark: Any) -> None:
    benchmark.group = pass_
    with thread_limit(1):
        benchmark(ours(LAYERS[layer], 1, "float32")["NHWC"][pass_])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--formats", nargs="+", default=["float32", "bfloat16", "float16"])
    parser.add_argument("--only", nargs="+", default=[], help="layers whose name holds one of these")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each pass")
    arguments = parser.parse_args()
    print("| layer | batch | format | " + " | ".join(f"{pass_}, GFLOP/s | x torch" for pass_ in PASSES) + " |")
    print("|---|---|---|" + "---|---|" * len(PASSES))
    ratios: dict[tuple[str, str], list[float]] = {}
    with thread_limit(1), limited_threads(1):
        for name, layer in LAYERS.items():
            if arguments.only and not any(word in name for word in arguments.only):
                continue
            for batch in arguments.batch:
                for fmt in arguments.formats:
                    cells = []
                    for pass_, rate, ratio in measure(layer, batch, fmt, arguments.seconds):
                        cells += [f"{rate:.1f}", "" if ratio is None else f"{ratio:.2f}"]
                        if ratio is not None:
                            ratios.setdefault((fmt, pass_), []).append(ratio)
                    print(f"| {name} | {batch} | {fmt} | " + " | ".join(cells) + " |", flush=True)
    for (fmt, pass_), found in ratios.items():
        print(f"{fmt}, {pass_}: median {np.median(found):.2f} x torch, least {min(found):.2f}, of {len(found)}")


if __name__ == "__main__":
    main()
