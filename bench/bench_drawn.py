"""Calls of drawn shapes, axes, kernels and layouts beside torch: what the classes' tidy shapes do not show.

``python bench/bench_drawn.py`` prints medians of families and the calls in which torch is fastest; ``--seed`` draws
others, words choose families. Calls of few elements are checked before they are timed, of all the results' shape is.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import pytest
from bench_popnn import DTYPES
from bench_sparse import print_table

import poplibs_py
from poplibs_py import testing
from poplibs_py.report.peers import limited_threads
from poplibs_py.report.timing import take_turns

MOST = 4 << 20  # elements of an operand
CHECKED = 1 << 15  # elements of a call that is checked


@dataclass(frozen=True)
class Drawn:
    """A call: the face's name, the operands' shapes, what else it is given; torch's call of tensors."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    torch: Callable[..., Any]
    keywords: dict[str, Any] = field(default_factory=dict)
    more: tuple[Any, ...] = ()  # by position
    turned: bool = False  # the first operand is a view of its transpose

    def label(self, dtype: str) -> str:
        """Name, shapes and keywords."""
        told = ", ".join(f"{key}={value}" for key, value in self.keywords.items())
        shapes = " ".join("x".join(map(str, shape)) for shape in self.shapes)
        return " ".join([self.name, shapes, *map(str, self.more), "transposed " * self.turned + told, dtype])

    def operands(self, dtype: str) -> list[Any]:
        """Normal numbers."""
        rng, found = np.random.default_rng(0), []
        for number, shape in enumerate(self.shapes):
            turned = self.turned and not number
            x = rng.standard_normal(shape[::-1] if turned else shape).astype(np.float32).astype(DTYPES[dtype])
            found.append(x.T if turned else x)
        return found


def _shape(draw: random.Random, least: int = 1, most: int = 4) -> tuple[int, ...]:
    """Extents of a few thousand elements or more."""
    while True:
        shape = tuple(round(math.exp(draw.uniform(0, math.log(2048)))) for _ in range(draw.randint(least, most)))
        if 4096 <= math.prod(shape) <= MOST:
            return shape


def _some(draw: random.Random, rank: int) -> tuple[int, ...]:
    return tuple(sorted(draw.sample(range(rank), draw.randint(1, rank))))


def elementwise(draw: random.Random) -> Drawn:
    """One operand, or two of which one may be repeated along some axes; or a transpose."""
    import torch

    shape = _shape(draw)
    if draw.random() < 0.4:
        name, own = draw.choice([("exp", torch.exp), ("relu", torch.relu), ("tanh", torch.tanh), ("sqrt", torch.sqrt)])
        return Drawn(f"popops.{name}", (shape,), own, turned=draw.random() < 0.5)
    name, both = draw.choice([("add", torch.add), ("mul", torch.mul), ("maximum", torch.maximum)])
    repeated = _some(draw, len(shape)) if draw.random() < 0.7 else ()
    other = tuple(1 if axis in repeated else extent for axis, extent in enumerate(shape))
    return Drawn(f"popops.{name}", (shape, other), both, turned=draw.random() < 0.2)


def reductions(draw: random.Random) -> Drawn:
    """Over any axes."""
    import torch

    shape = _shape(draw)
    axes = _some(draw, len(shape))
    name, own = draw.choice([("sum", torch.sum), ("mean", torch.mean), ("max", torch.amax)])
    return Drawn(f"popops.{name}", (shape,), lambda x: own(x, axes), {"axes": axes})


def transposes(draw: random.Random) -> Drawn:
    """Into any other order."""
    shape = _shape(draw, 2)
    order = tuple(range(len(shape)))
    while order == tuple(range(len(shape))):
        order = tuple(draw.sample(order, len(shape)))
    return Drawn("popops.transpose", (shape,), lambda x: x.permute(order).contiguous(), {"axes": order})


def softmax(draw: random.Random) -> Drawn:
    """Along any axis."""
    import torch

    shape = _shape(draw, 2)
    axis = draw.randrange(len(shape))
    name, own = draw.choice([("softmax", torch.softmax), ("log_softmax", torch.log_softmax)])
    return Drawn(f"popnn.{name}", (shape,), lambda x: own(x, axis), {"axis": axis})


def norms(draw: random.Random) -> Drawn:
    """Layer norms over last axes, group norms of fields."""
    import torch

    functional = torch.nn.functional
    if draw.random() < 0.5:
        shape = _shape(draw, 2)
        last = draw.randint(1, len(shape) - 1)
        kept, own = shape[-last:], tuple(range(len(shape) - last, len(shape)))
        return Drawn("popnn.layer_norm", (shape,), lambda x: functional.layer_norm(x, kept), {"axes": own})
    groups = draw.choice([1, 2, 4, 8, 32])
    shape = (draw.choice([1, 2, 8]), groups * draw.choice([1, 2, 3, 8, 16]), draw.randint(4, 60), draw.randint(4, 60))
    return Drawn("popnn.group_norm", (shape,), lambda x: functional.group_norm(x, groups), {"groups": groups})


def pooling(draw: random.Random) -> Drawn:
    """Maxima and averages of fields, channels first or last."""
    import torch

    functional = torch.nn.functional
    kernel, stride = draw.randint(2, 5), draw.randint(1, 4)
    padding, layout = draw.randint(0, kernel // 2), draw.choice(["NCHW", "NHWC"])
    n, channels, side = draw.choice([1, 4]), draw.choice([3, 16, 64, 100]), draw.randint(12, 80)
    shape = (n, channels, side, side) if layout == "NCHW" else (n, side, side, channels)
    how = {"stride": stride, "padding": padding, "layout": layout}
    kind = draw.choice(["max", "avg"])

    def own(x: Any) -> Any:
        x = x if layout == "NCHW" else x.permute(0, 3, 1, 2)
        if kind == "max":
            return functional.max_pool2d(x, kernel, stride, padding)
        return functional.avg_pool2d(x, kernel, stride, padding, count_include_pad=False)

    return Drawn("popnn.pool", (shape,), own, how, (kernel, kind))


def convolutions(draw: random.Random) -> Drawn:
    """Of fields, channels first or last, weights as they are."""
    import torch

    functional = torch.nn.functional
    groups = draw.choice([1, 1, 1, 2, 16])
    into, out = (draw.choice([1, 3, 16, 24, 64] if groups == 1 else [1, 2, 4]) for _ in range(2))
    kernel, stride, layout = draw.choice([1, 2, 3, 3, 5, 7]), draw.randint(1, 2), draw.choice(["NCHW", "NHWC"])
    how = {"stride": stride, "padding": kernel // 2, "groups": groups}
    n, side = draw.choice([1, 4]), draw.randint(10, 60)
    last = layout == "NHWC"
    x = (n, side, side, groups * into) if last else (n, groups * into, side, side)
    w = (kernel, kernel, into, groups * out) if last else (groups * out, into, kernel, kernel)

    def own(x: Any, w: Any) -> Any:
        x, w = (x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1)) if last else (x, w)
        return functional.conv2d(x, w, None, **how)

    return Drawn("poplin.convolution", (x, w), own, {**how, "layout": layout})


FAMILIES: dict[str, Callable[[random.Random], Drawn]] = {
    made.__name__: made for made in (elementwise, reductions, transposes, softmax, norms, pooling, convolutions)}


def calls(drawn: Drawn, dtype: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Ours and torch's, each with a new result."""
    import torch

    room, name = drawn.name.split(".")
    face, operands = getattr(getattr(poplibs_py, room), name), drawn.operands(dtype)
    tensors = [torch.from_numpy(x.astype(np.float32)).to(getattr(torch, dtype)) for x in operands]
    if sum(x.size for x in operands) <= CHECKED:
        testing.check(drawn.name, *operands, *drawn.more, **drawn.keywords)
    return lambda: face(*operands, *drawn.more, **drawn.keywords), lambda: drawn.torch(*tensors)


def timed(family: str, count: int, seed: int, seconds: float) -> Iterator[tuple[float, float, str]]:
    """Torch's time over ours, our seconds, and what was called."""
    draw = random.Random(f"{family} {seed}")
    for number in range(count):
        drawn, dtype = FAMILIES[family](draw), list(DTYPES)[number % len(DTYPES)]
        pair = calls(drawn, dtype)
        ours, theirs = (call() for call in pair)
        assert ours.size == theirs.numel(), drawn.label(dtype)
        own, other = take_turns(pair, seconds=seconds, least_rounds=5, most_rounds=25, clock=process_time)
        yield other.seconds / own.seconds, own.seconds, drawn.label(dtype)


@pytest.mark.parametrize("family", FAMILIES)
def bench_drawn(family: str, benchmark: Any) -> None:
    """Our calls, one after another."""
    pytest.importorskip("torch")
    draw = random.Random(family)
    all_of = [calls(FAMILIES[family](draw), "float32")[0] for _ in range(20)]
    benchmark(lambda: [call() for call in all_of])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="of the names of families (default: all)")
    parser.add_argument("--count", type=int, default=60, help="of calls of each family (default: 60)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.05, help="about how long a call takes (default: 0.05)")
    parser.add_argument("--worst", type=int, default=8, help="calls that are printed of each family (default: 8)")
    chosen = parser.parse_args()
    medians, slowest = [], []
    with limited_threads(1), np.errstate(all="ignore"):
        for family in FAMILIES:
            if chosen.words and not any(word in family for word in chosen.words):
                continue
            found = sorted(timed(family, chosen.count, chosen.seed, chosen.seconds))
            ratios = [ratio for ratio, _, _ in found]
            behind = sum(ratio < 1 for ratio in ratios)
            figures = f"{median(ratios):.2f}", f"{ratios[len(ratios) // 10]:.2f}"
            medians.append([family, str(len(found)), *figures, str(behind)])
            slowest += [[label, f"{own * 1e6:.0f}", f"{ratio:.2f}"]
                        for ratio, own, label in found[:chosen.worst] if ratio < 1]
    print_table(("family", "calls", "median over torch", "a tenth is below", "behind torch"), medians)
    print()
    print_table(("call", "ours, us", "torch over ours"), slowest)


if __name__ == "__main__":
    main()
