"""What ``available_memory_proportion`` decides: plans and cycles of a modelled machine, and what is allocated here.

``python bench/bench_proportions.py`` prints the figures as Markdown, for convolutions and a product in FP16. The calls
of a problem take turns in one process on one thread; times are over that of PopLibs' default, 0.6. Bytes of this CPU
are those that the allocator of temporaries counted, and may not pass the limit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pytest

import poplibs_py
from poplibs_py import poplin
from poplibs_py.errors import MemoryLimitWarning
from poplibs_py.program import memory_peak
from poplibs_py.report.peers import limited_threads
from poplibs_py.report.timing import take_turns

PROPORTIONS = (0.05, 0.1, 0.2, 0.4, 0.6, 0.9)
TARGET = "gc200"


class Problem(NamedTuple):
    """A convolution: batch, channels in and out, side of the field and of the kernel, stride; or a product's sizes."""

    batch: int
    channels: tuple[int, int]
    field: int = 1
    kernel: int = 1
    stride: int = 1

    def __str__(self) -> str:
        ins, outs = self.channels
        if self.field == 1:
            return f"product [{self.batch}, {ins}] x [{ins}, {outs}]"
        stride = f", stride {self.stride}" * (self.stride > 1)
        return f"{self.kernel}x{self.kernel}, {ins} to {outs} channels at {self.field}{stride}, batch {self.batch}"

    def call(self) -> Callable[..., Any]:
        """The op on operands of its own; it takes keywords."""
        rng = np.random.default_rng(1)
        ins, outs = self.channels

        def numbers(*shape: int) -> Any:
            return rng.standard_normal(shape, np.float32).astype(np.float16)

        if self.field == 1:
            a, b = numbers(self.batch, ins), numbers(ins, outs)
            return lambda **how: poplin.matmul(a, b, **how)
        x, w = numbers(self.batch, ins, self.field, self.field), numbers(outs, ins, self.kernel, self.kernel)
        return lambda **how: poplin.convolution(x, w, stride=self.stride, padding=self.kernel // 2, **how)


PROBLEMS = (Problem(16, (256, 256), 14, 3), Problem(16, (64, 64), 56, 3), Problem(4, (3, 64), 224, 7, 2),
            Problem(2048, (2048, 2048)))


@pytest.mark.filterwarnings("ignore::poplibs_py.errors.MemoryLimitWarning")
@pytest.mark.parametrize("proportion", PROPORTIONS)
@pytest.mark.parametrize("target", ["host", TARGET])
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def bench_proportion(problem, target, proportion, benchmark):
    benchmark.group = f"{problem}, {target}"
    call = problem.call()
    benchmark(lambda: call(target=target, available_memory_proportion=proportion))


def modelled(call: Callable[..., Any], proportion: float) -> tuple[str, ...]:
    """Of a modelled machine: the plan, cycles, and KiB of the fullest tile, as planned and as laid out in a run."""
    with poplibs_py.profile(target=TARGET) as report:
        call(available_memory_proportion=proportion)
    run = report.runs[0]
    plan, cut = run.plan, run.plan.partition
    parts = {"batch": cut.batch_split, "field": prod(cut.field_split), "kernel": prod(cut.kernel_split),
             "in": cut.in_chan_split.parallel, "out": cut.out_chan_split.parallel}
    split = " x ".join(f"{name} {count}" for name, count in parts.items() if count > 1)
    turns = f", {plan.serial_splits} turns" * (plan.serial_splits > 1)
    over = "" if plan.fits else " (more than allowed)"
    return (f"{plan.method.type}: {split}{turns}", f"{plan.cycles:,}", f"{plan.temp_bytes / 1024:.1f}{over}",
            f"{int(run.tile_bytes.max()) / 1024:.1f}")


def here(call: Callable[..., Any], proportion: float) -> tuple[str, ...]:
    """Of this CPU: the kernel, the blocks, bytes allowed and allocated."""
    memory_peak(reset=True)
    with poplibs_py.profile() as report:
        call(available_memory_proportion=proportion)
    run, peak = report.runs[0], memory_peak(reset=True)
    decisions = run.plan.explain().decisions
    assert peak <= run.plan.limit, (peak, run.plan.limit)
    cut = decisions.get("blocks") or f"{decisions['boxes'].split()[0]} boxes"
    return f"{run.kernel.split()[0]}: {cut}", f"{run.plan.limit / 1024:.0f}", f"{peak / 1024:.0f}"


def rows(problem: Problem) -> Iterator[tuple[str, ...]]:
    """A row for each proportion."""
    call = problem.call()
    times = [t.seconds for t in take_turns([
        lambda p=p: call(available_memory_proportion=p) for p in PROPORTIONS], seconds=2.0)]
    for proportion, seconds in zip(PROPORTIONS, times, strict=True):
        own = seconds / times[PROPORTIONS.index(0.6)]
        yield f"{proportion:g}", *modelled(call, proportion), *here(call, proportion), f"{own:.2f}"


def main() -> None:
    """Print the tables."""
    heads = ("proportion", f"{TARGET}: tiles by", "cycles", "KiB of a tile, planned", "KiB, laid out", "plan here",
             "KiB allowed", "KiB allocated", "time")
    for problem in PROBLEMS:
        print(f"\n{problem}:\n\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
        for row in rows(problem):
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    with limited_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", MemoryLimitWarning)
        main()
