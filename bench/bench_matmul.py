"""Dense products in every format: this library beside NumPy, MKL and torch.

``python bench/bench_matmul.py`` prints every figure as Markdown: squares and thin shapes on one thread, operands
prepared, two threads over one, the AVX2 level in a process of its own, the cost of a call. ``pytest bench
--benchmark-enable`` runs the same rows one by one. In each row all calls take turns in one process; figures are
medians, and every answer, the peers' too, is held to its bound before it is timed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poplibs_py import poplin
from poplibs_py.config import thread_limit
from poplibs_py.formats import BF16, E4M3, E5M2, FP16, FP32, Format
from poplibs_py.kernels import available_levels
from poplibs_py.kernels.peak import peak_of, peak_probes
from poplibs_py.report.peers import dense_routes, installed, limited_threads, restraints
from poplibs_py.report.timing import Timing, take_turns
from poplibs_py.testing import assert_within_bound, bound, random_operand

SHAPES = [(s, s, s) for s in (512, 1024, 2048, 4096)]
SHAPES += [(s, n, s) for s in (1024, 4096) for n in (1, 16, 64, 256)]
FORMATS = (FP32, BF16, FP16, E4M3, E5M2)
WIDE = (BF16, FP16)  # formats that torch multiplies and rounds the result to
CHECKED_ROWS = 4
LONGEST = 5.0  # seconds that a peer's call may take

Call = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """What a shape and format gave: seconds of each call, and the measured peak in operations per second."""

    shape: tuple[int, int, int]
    format: Format
    timings: dict[str, Timing]
    peak: float

    def seconds(self, name: str) -> float | None:
        return self.timings[name].seconds if name in self.timings else None

    @property
    def rate(self) -> float:
        """Operations per second of our product, its result in FP32 or in the 16-bit operands' own format."""
        m, n, k = self.shape
        return 2 * m * n * k / self.timings["own"].seconds

    def ratio(self, other: str, ours: str = "own") -> float | None:
        """Seconds of another over ours: more than one means that ours is faster."""
        there = self.seconds(other)
        return None if there is None else there / self.timings[ours].seconds

    def facts(self) -> dict[str, float | None]:
        """The row's figures. MKL gives FP32 results, so ours with an FP32 result meets it."""
        wide = "float32" if "float32" in self.timings else "own"
        return {"GFLOP/s": self.rate / 1e9, "of peak": self.rate / self.peak, "x NumPy": self.ratio("numpy"),
                "x MKL": self.ratio("mkl", wide), "x torch": self.ratio("torch"),
                "x our FP32": self.ratio("our float32")}


@cache
def operands(shape: tuple[int, int, int], fmt: Format) -> tuple[Any, Any]:
    """Normal numbers, rounded to the format."""
    m, n, k = shape
    return random_operand((m, k), fmt, 0), random_operand((k, n), fmt, 1)


def ours(shape: tuple[int, int, int], fmt: Format, out_format: Format) -> Call:
    """Our product into an array that is there, checked."""
    a, b = operands(shape, fmt)
    out = np.empty((shape[0], shape[1]), out_format.dtype)
    call = partial(poplin.matmul, a, b, out=out)
    call()
    assert_within_bound(out[:CHECKED_ROWS], bound("matmul", a[:CHECKED_ROWS], b, out_dtype=out_format))
    return call


def peers(shape: tuple[int, int, int], fmt: Format) -> dict[str, Call]:
    """Every peer's product of the same operands, checked; what is wrong or takes seconds is left out with a word."""
    a, b = operands(shape, fmt)
    found: dict[str, Call] = {}
    rows = min(32, shape[0])
    for route, few in zip(dense_routes(a, b), dense_routes(a[:rows], b), strict=True):
        began = time.process_time()
        few.run()
        if (time.process_time() - began) * shape[0] / rows > LONGEST:
            print(f"{route.library} {fmt} {shape}: it would take more than {LONGEST} s", file=sys.stderr)
            continue
        got, out_format = route.result()
        ball = bound("matmul", a[:CHECKED_ROWS], b, out_dtype=out_format)
        if np.all(ball.contains(got[:CHECKED_ROWS])):
            found[route.library] = route.run
        else:
            print(f"{route.library} {fmt} {shape}: its answer is out of bound", file=sys.stderr)
    return found


def measure(shape: tuple[int, int, int], fmt: Format, seconds: float = 1.0) -> Row:
    """Check, then time our product, our FP32 product, the peers and the peak in turns, on one thread."""
    own = fmt if fmt in WIDE else FP32
    calls: dict[str, Call] = {"own": ours(shape, fmt, own)}
    if own != FP32:
        calls["float32"] = ours(shape, fmt, FP32)
    if fmt != FP32:
        calls["our float32"] = ours(shape, FP32, FP32)
    if available_levels()[-1] != "avx2":
        calls |= peers(shape, fmt)
    probes = peak_probes()
    operations = {unit: probe() for unit, probe in probes.items()}
    flops = 2 * np.prod(shape, dtype=np.int64)
    found = take_turns(
        [*calls.values(), *probes.values()], seconds=max(seconds, flops / 1e10), least_rounds=7, most_rounds=41,
        clock=time.process_time,
    )  # fmt: skip
    rates = {unit: operations[unit] / t.seconds for unit, t in zip(probes, found[len(calls) :], strict=True)}
    return Row(shape, fmt, dict(zip(calls, found, strict=False)), peak_of(fmt.name, rates))


@contextmanager
def own_cores() -> Iterator[None]:
    """Within the block this thread keeps one core and the others another, where Linux can say so.

    Otherwise a machine with other work may run both of two threads on the core that it finds less busy.
    """
    cores, tasks = sorted(os.sched_getaffinity(0)), Path("/proc/self/task")
    others = [int(t.name) for t in tasks.iterdir() if int(t.name) != os.getpid()] if tasks.exists() else []
    for thread, allowed in ((0, cores[-1:]), *((t, cores[:1]) for t in others)):
        os.sched_setaffinity(thread, allowed)
    try:
        yield
    finally:
        for thread in (0, *others):
            os.sched_setaffinity(thread, cores)


def measure_threads(shape: tuple[int, int, int], fmt: Format, seconds: float = 1.0) -> tuple[float, float]:
    """Return how many times faster two threads are than one: by medians, and by the best calls of each.

    Any other work on the machine takes a core from the two, so on a shared one the second says more.
    """
    one = ours(shape, fmt, FP32)

    def two() -> None:
        with thread_limit(2):
            one()

    with thread_limit(2):
        ours(shape, fmt, FP32)
    with own_cores():
        first, second = take_turns([one, two], seconds=seconds, least_rounds=7)
    return first.seconds / second.seconds, first.least / second.least


def measure_prepared(shape: tuple[int, int, int], fmt: Format, seconds: float = 1.0) -> dict[str, float]:
    """Return the rates of W X and X W, and how many times faster they are with the square W prepared."""
    m, n, k = shape
    w, x = operands(shape, fmt)
    turned = np.ascontiguousarray(x.T)
    left, right = poplin.prepare(w, side="left"), poplin.prepare(w)
    calls: list[Call] = []
    for a, b, ball in ((w, x, bound("matmul", w[:CHECKED_ROWS], x, out_dtype="float32")),
                       (left, x, bound("matmul", w[:CHECKED_ROWS], x, out_dtype="float32")),
                       (turned, w, bound("matmul", turned[:CHECKED_ROWS], w, out_dtype="float32")),
                       (turned, right, bound("matmul", turned[:CHECKED_ROWS], w, out_dtype="float32"))):
        out = np.empty((a.shape[0], b.shape[1]), np.float32)
        calls.append(partial(poplin.matmul, a, b, out=out))
        calls[-1]()
        assert_within_bound(out[:CHECKED_ROWS], ball)
    found = take_turns(calls, seconds=seconds, least_rounds=9, clock=time.process_time)
    plain, with_left, mirrored, with_right = (t.seconds for t in found)
    flops = 2e-9 * m * n * k
    return {
        "W X, GFLOP/s": flops / plain, "x with W prepared": plain / with_left,
        "X W, GFLOP/s": flops / mirrored, "x with W prepared ": mirrored / with_right,
    }  # fmt: skip


def measure_call() -> dict[str, float]:
    """Return microseconds of an 8 x 8 product, the result made by the call."""
    a, b = operands((8, 8, 8), FP32)
    assert_within_bound(poplin.matmul(a, b), bound("matmul", a, b))
    calls: dict[str, Call] = {"poplibs_py": lambda: poplin.matmul(a, b), "numpy": lambda: a @ b}
    if "torch" in installed():
        import torch

        ta, tb = torch.from_numpy(a), torch.from_numpy(b)
        calls["torch"] = lambda: ta @ tb
    found = take_turns(list(calls.values()), seconds=0.5)
    return {name: t.seconds * 1e6 for name, t in zip(calls, found, strict=True)}


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
def bench_product(shape, fmt, benchmark):
    m, n, k = shape
    benchmark.group = f"{m}x{n}x{k}"
    row = measure(shape, fmt)
    plan = poplin.plan_matmul((m, k), (k, n), dtype=fmt)
    benchmark(ours(shape, fmt, fmt if fmt in WIDE else FP32))
    benchmark.extra_info.update(row.facts(), kernel=plan.kernel.name, level=plan.kernel.level, flops=2 * m * n * k)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def bench_two_threads(fmt, benchmark):
    benchmark.group = "two threads"
    median, best = measure_threads((2048, 2048, 2048), fmt)
    benchmark.extra_info.update(speed_up=median, speed_up_of_best=best)
    benchmark(lambda: None)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@pytest.mark.parametrize("shape", [s for s in SHAPES if s[1] in (16, 64, 256)], ids=lambda s: "x".join(map(str, s)))
def bench_prepared(shape, fmt, benchmark):
    benchmark.group = "prepared"
    benchmark.extra_info.update(measure_prepared(shape, fmt))
    benchmark(lambda: None)


def bench_call(benchmark):
    benchmark.group = "call of 8 x 8"
    benchmark.extra_info.update(measure_call())
    a, b = operands((8, 8, 8), FP32)
    benchmark(lambda: poplin.matmul(a, b))


def print_table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    def cell(value: object) -> str:
        if value is None:
            return ""
        return (f"{value:.0f}" if value >= 99.5 else f"{value:.2f}") if isinstance(value, float) else str(value)

    for line in (heads, ["---"] * len(heads), *rows):
        print("| " + " | ".join(cell(value) for value in line) + " |", flush=True)
    print()


def print_products(shapes: Sequence[tuple[int, int, int]], formats: Sequence[Format], seconds: float) -> None:
    print(f"Level {available_levels()[-1]}, one thread.\n")
    for fmt in formats:
        rows = []
        for shape in shapes:
            rows.append((f"{shape[0]}, {shape[1]}", *measure(shape, fmt, seconds).facts().values()))
            operands.cache_clear()
        print_table([f"{fmt}: m = k, n", "GFLOP/s", "of peak", "x NumPy", "x MKL", "x torch", "x our FP32"], rows)


def print_threads(shapes: Sequence[tuple[int, int, int]], formats: Sequence[Format], seconds: float) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        print("Two threads: not measured, this process may use one CPU.\n")
        return
    rows = []
    for shape in shapes:
        found = [measure_threads(shape, fmt, seconds) for fmt in formats]
        rows.append((shape[0], *(f"{median:.2f} ({best:.2f})" for median, best in found)))
    print_table(["two threads over one (best calls), m = k = n", *map(str, formats)], rows)


def print_prepared(shapes: Sequence[tuple[int, int, int]], formats: Sequence[Format], seconds: float) -> None:
    for fmt in formats:
        rows = []
        for shape in shapes:
            found = measure_prepared(shape, fmt, seconds)
            rows.append((f"{shape[0]}, {shape[1]}", *found.values()))
            operands.cache_clear()
        print_table([f"{fmt}: W's size, columns of X", *found], rows)


def main() -> None:
    """Print the figures; see the head of this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="about how long the calls of a row take turns")
    parser.add_argument("--most", type=int, default=4096, help="largest m = k")
    parser.add_argument("--formats", default=",".join(map(str, FORMATS)), help="default: %(default)s")
    parser.add_argument("--part", choices=("products", "prepared", "threads", "level", "call"), action="append")
    given = parser.parse_args()
    shapes = [s for s in SHAPES if s[0] <= given.most]
    formats = [f for f in FORMATS if f.name in given.formats.split(",")]
    parts = given.part or ("products", "prepared", "threads", "level", "call")
    for setting in restraints():
        print(f"{setting} is set: a peer may not run its fastest kernels")
    with limited_threads(1):
        if "products" in parts:
            print_products(shapes, formats, given.seconds)
        if "prepared" in parts:
            print_prepared([s for s in shapes if s[0] != s[1] and s[1] < 512], formats, given.seconds)
        if "threads" in parts:
            print_threads([s for s in shapes if s[0] == s[1]], formats, given.seconds)
        if "call" in parts:
            found = measure_call()
            print_table([f"call of 8 x 8, µs: {name}" for name in found], [list(found.values())])
    if "level" in parts and available_levels()[-1] != "avx2":
        command = [sys.executable, __file__, "--part", "products", "--most", str(min(given.most, 2048))]
        command += ["--seconds", str(given.seconds), "--formats", given.formats]
        subprocess.run(command, env=dict(os.environ, POPLIBS_MAX_ISA="avx2"), check=True)


if __name__ == "__main__":
    main()
