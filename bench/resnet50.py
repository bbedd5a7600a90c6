"""The convolutions of ResNet-50 in three passes, on this CPU and on modelled machines, with a report of each.

``python bench/resnet50.py [--target host gc200 bow] [--batch 4] [--dtype float16] [--report FOLDER]`` runs all 53
convolutions of the network (its later version, whose stages stride in the 3x3), forward and both gradients, on each
machine in turn, and prints a table of their times: of the programs here, without planning, and what a modelled machine
would take. With ``--report`` it writes the page, the data and a trace of each; a modelled machine's page compares it
with the one before.

The network holds batch normalisation and activations between them, which are no convolutions and are left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

import poplibs_py
from poplibs_py import poplin
from poplibs_py.formats import format_of
from poplibs_py.report.tables import table
from poplibs_py.report.verdict import duration

PASSES = ("forward", "input gradient", "weight gradient")


@dataclass(frozen=True)
class Layer:
    """A convolution: channels in and out, side of the field and of the kernel, stride, and how often it occurs."""

    channels: tuple[int, int]
    field: int
    kernel: int
    stride: int
    count: int = 1

    def __str__(self) -> str:
        stride = f", stride {self.stride}" * (self.stride > 1)
        return f"{self.kernel}x{self.kernel} {self.channels[0]} to {self.channels[1]} at {self.field}{stride}"

    @property
    def how(self) -> dict[str, int]:
        """Keywords of its convolution."""
        return {"stride": self.stride, "padding": self.kernel // 2}

    @property
    def made(self) -> int:
        """Side of its result."""
        return -(-self.field // self.stride)


def layers() -> Iterator[Layer]:
    """The network's convolutions from its input on, those that are alike once."""
    yield Layer((3, 64), 224, 7, 2)
    channels, field = 64, 56
    for stage, blocks in enumerate((3, 4, 6, 3)):
        inner, stride = 64 << stage, 1 if stage == 0 else 2
        outer, made = 4 * inner, field // stride
        yield Layer((channels, inner), field, 1, 1)
        yield Layer((inner, inner), field, 3, stride, blocks if stride == 1 else 1)
        yield Layer((inner, outer), made, 1, 1, blocks + (stride == 1))
        if stride > 1:
            yield Layer((channels, outer), field, 1, stride)
            yield Layer((inner, inner), made, 3, 1, blocks - 1)
        yield Layer((outer, inner), made, 1, 1, blocks - 1)
        channels, field = outer, made


def run(layer: Layer, batch: int, dtype: Any, proportion: float | None, seed: int) -> None:
    """Run a convolution's passes as often as it occurs."""
    rng = np.random.default_rng(seed)

    def numbers(*shape: int) -> Any:
        return rng.standard_normal(shape, np.float32).astype(dtype)

    (ins, outs), side = layer.channels, layer.kernel
    x, w = numbers(batch, ins, layer.field, layer.field), numbers(outs, ins, side, side)
    grads = numbers(batch, outs, layer.made, layer.made)
    how = layer.how | {"available_memory_proportion": proportion}
    for _ in range(layer.count):
        poplin.convolution(x, w, **how)
        poplin.convolution_input_gradient(grads, w, field_shape=x.shape[2:], **how)
        poplin.calculate_weight_deltas(grads, x, kernel_shape=(side, side), **how)


def measured(target: str, batch: int, dtype: str, proportion: float | None) -> poplibs_py.Profile:
    """Run all convolutions on a machine."""
    with poplibs_py.profile(target=None if target == "host" else target) as report:
        for seed, layer in enumerate(layers()):
            run(layer, batch, format_of(dtype).dtype, proportion, seed)
    return report


def seconds_of(report: poplibs_py.Profile, modelled: bool) -> list[list[float]]:
    """Seconds of each pass of each layer: of its programs here, without planning, or as modelled."""
    runs, found = iter(report.runs), []
    for layer in layers():
        taken = [0.0] * len(PASSES)
        for _ in range(layer.count):
            for i in range(len(PASSES)):
                one = next(runs)
                taken[i] += one.plan.cycles / report.target.clock_hz if modelled else one.seconds
        found.append(taken)
    return found


def rows(report: poplibs_py.Profile) -> Iterator[Sequence[str]]:
    """A row for each layer, and one for all: how often it occurs, and its times."""
    kinds = (False, True) if report.target else (False,)
    each = [list(chain(*parts)) for parts in zip(*(seconds_of(report, kind) for kind in kinds), strict=True)]
    named = [*((str(layer), str(layer.count)) for layer in layers()), ("all", str(sum(x.count for x in layers())))]
    for name, times in zip(named, [*each, [sum(column) for column in zip(*each, strict=True)]], strict=True):
        yield *name, *map(duration, times)


def ratio(report: poplibs_py.Profile, host: poplibs_py.Profile) -> str:
    """How long a modelled machine's programs take here, as multiples of the host's own."""
    both = seconds_of(report, False), seconds_of(host, False)
    all_of = [sum(map(sum, seconds)) for seconds in both]
    each = {f"{layer}, {name}": here / own for layer, *pairs in zip(layers(), *both, strict=True)
            for name, here, own in zip(PASSES, *pairs, strict=True)}
    most = max(each, key=each.__getitem__)
    return f"{all_of[0] / all_of[1]:.2f} times as long here as the host's own, at most {each[most]:.2f} times ({most})"


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", nargs="+", default=["host", "gc200"], help="machines (default: host gc200)")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--dtype", default="float16", help="of operands and results (default: %(default)s)")
    parser.add_argument("--proportion", type=float, help="available_memory_proportion (default: each machine's own)")
    parser.add_argument("--report", metavar="FOLDER", type=Path, help="where pages, data and traces go")
    arguments = parser.parse_args()
    before = host = None
    for target in arguments.target:
        report = measured(target, arguments.batch, arguments.dtype, arguments.proportion)
        heads = ["convolution", "count", *(f"{name}, here" for name in PASSES)]
        heads += [f"{name}, {target}" for name in PASSES] if report.target else []
        print(f"\n{target}, batch {arguments.batch}, {arguments.dtype}\n{table(heads, rows(report))}")
        if report.target is None:
            host = report
        elif host is not None:
            print(f"\n{ratio(report, host)}")
        if arguments.report:
            arguments.report.mkdir(parents=True, exist_ok=True)
            path = arguments.report / f"resnet50-{target}"
            report.save(f"{path}.html", against=before if before and before.target else None)
            report.save(f"{path}.json")
            report.save(f"{path}.perfetto.json")
            print(f"\nreport in {path}.html")
        before = report


if __name__ == "__main__":
    main()
