"""The convolutions of ResNet-50 in three passes, on this CPU and on modelled machines, with a report of each.

``python bench/resnet50.py [--target host gc200 bow] [--batch 4] [--dtype float16] [--rounds 3] [--report FOLDER]`` runs
all 53 convolutions of the network (its later version, whose stages stride in the 3x3), forward and both gradients, on
each machine in turn. A table for this CPU has the seconds of its programs, without planning; one for a modelled machine
the seconds of its programs here, what multiple of this CPU's own they are, and the machine's cycles. Of several rounds
a convolution's least time counts: others run on the machine too. With ``--report`` it writes the page, the data and a
trace of the first round; a modelled machine's page compares it with the one before.

The network holds batch normalisation and activations between them, which are no convolutions and are left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import poplibs_py
from poplibs_py import poplin
from poplibs_py.errors import PoplibsError, UnsupportedError
from poplibs_py.formats import format_of
from poplibs_py.report.tables import table
from poplibs_py.report.verdict import duration

PASSES = ("forward", "input gradient", "weight gradient")
ALLOWED = 2.5
Cells = list[list[float]]
"""A number for each pass of each layer."""


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
    lacking = sorted({one.lacking for one in report.runs if one.lacking})
    if lacking:
        raise UnsupportedError(f"{target}: {'; '.join(lacking)}")
    return report


def seconds_of(reports: Sequence[poplibs_py.Profile]) -> Cells:
    """Seconds of each pass of each layer, of its programs here without planning: the least of the rounds."""
    rounds = [_by_pass([run.seconds for run in report.runs]) for report in reports]
    return [[min(cells) for cells in zip(*passes, strict=True)] for passes in zip(*rounds, strict=True)]


def cycles_of(report: poplibs_py.Profile) -> Cells:
    """Modelled cycles of each pass of each layer."""
    return _by_pass([run.plan.cycles for run in report.runs])


def _by_pass(numbers: Sequence[float]) -> Cells:
    """Sums over a layer's convolutions of one number for each run."""
    runs, found = iter(numbers), []
    for layer in layers():
        taken = [0.0] * len(PASSES)
        for _ in range(layer.count):
            for i in range(len(PASSES)):
                taken[i] += next(runs)
        found.append(taken)
    return found


def whole(cells: Cells) -> Cells:
    """With a row for all layers."""
    return [*cells, [sum(column) for column in zip(*cells, strict=True)]]


def rows(columns: Sequence[tuple[Cells, Callable[[float], str]]]) -> Iterator[Sequence[str]]:
    """A row for each layer, and one for all: how often it occurs, and for each pass a cell of each kind."""
    named = [*((str(layer), str(layer.count)) for layer in layers()), ("all", str(sum(x.count for x in layers())))]
    for i, name in enumerate(named):
        yield *name, *(words(cells[i][j]) for j in range(len(PASSES)) for cells, words in columns)


def compared(ratios: Cells, here: Cells) -> str:
    """How long a modelled machine's programs take here, in words."""
    each = {f"{layer}, {name}": ratio for layer, cells in zip(layers(), ratios, strict=False)
            for name, ratio in zip(PASSES, cells, strict=True)}
    most, over = max(each, key=each.__getitem__), sum(ratio > ALLOWED for ratio in each.values())
    return (f"{sum(here[-1]):.2f} s here; at most {each[most]:.2f} times as long as the host's own ({most}), "
            f"more than {ALLOWED} times in {over} of {len(each)}")


def printed(target: str, reports: Sequence[poplibs_py.Profile], own: Cells | None) -> Cells:
    """Print the table of a machine, and return its seconds."""
    here = whole(seconds_of(reports))
    kinds, columns = ["here"], [(here, duration)]
    if reports[0].target is not None:
        ratios = [] if own is None else [[a / b for a, b in zip(*pair, strict=True)]
                                         for pair in zip(here, own, strict=True)]
        if own is not None:
            kinds, columns = [*kinds, "over host"], [*columns, (ratios, lambda x: f"{x:.2f}")]
        kinds, columns = [*kinds, "cycles"], [*columns, (whole(cycles_of(reports[0])), lambda x: f"{int(x):,}")]
    heads = ["convolution", "count", *(f"{name}, {kind}" for name in PASSES for kind in kinds)]
    print(f"\n{target}\n{table(heads, rows(columns))}")
    if reports[0].target is not None and own is not None:
        print(compared(ratios, here))
    return here


def count(text: str) -> int:
    """Return a number of the command line that counts things."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", nargs="+", default=["host", "gc200"], help="machines (default: host gc200)")
    parser.add_argument("--batch", type=count, default=4, help="images (default: %(default)s)")
    parser.add_argument("--dtype", default="float16", help="of operands and results (default: %(default)s)")
    parser.add_argument("--proportion", type=float, help="available_memory_proportion (default: each machine's own)")
    parser.add_argument("--rounds", type=count, default=3, help="of which the least times count (default: %(default)s)")
    parser.add_argument("--report", metavar="FOLDER", type=Path, help="where pages, data and traces go")
    arguments = parser.parse_args()
    try:
        answer(arguments)
    except PoplibsError as error:
        parser.error(str(error))


def answer(arguments: argparse.Namespace) -> None:
    """Run the machines in turn, and print and write what they took."""
    reports: dict[str, list[poplibs_py.Profile]] = {target: [] for target in arguments.target}
    for _, (target, made) in product(range(arguments.rounds), reports.items()):
        began = perf_counter()
        made.append(measured(target, arguments.batch, arguments.dtype, arguments.proportion))
        print(f"{target}, batch {arguments.batch}, {arguments.dtype}: {perf_counter() - began:.1f} s, with planning")
    own, before = None, None
    for target, (report, *others) in reports.items():
        seconds = printed(target, (report, *others), own)
        own = seconds if report.target is None else own
        if arguments.report:
            arguments.report.mkdir(parents=True, exist_ok=True)
            path = arguments.report / f"resnet50-{target}"
            report.save(f"{path}.html", against=before)
            report.save(f"{path}.json")
            report.save(f"{path}.perfetto.json")
            print(f"report in {path}.html")
        before = report if report.target is not None else before


if __name__ == "__main__":
    main()
