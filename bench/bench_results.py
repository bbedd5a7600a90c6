"""What the pool of results is worth: calls that return large arrays, with the pool and without.

``python bench/bench_results.py`` prints the figures as Markdown. Each call's result lives until the next one is there,
as in a loop ``y = f(x)``; between calls arrays of NumPy's own, 4 KiB to 32 MiB, come and go, so that the heap is a
program's and not an idle one. Blocks of calls with and without the pool take turns in one process; the first two of
each block are not counted. The spread is from the tenth to the ninetieth percentile of single calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import pytest

from poplibs_py import cast, poplin, poprand
from poplibs_py.config import settings
from poplibs_py.popsparse import random_matrix, random_pattern, static
from poplibs_py.popsparse.spmm.bound import sparse_dense_matmul_bound
from poplibs_py.program import clear_result_pool, result_pool_limit
from poplibs_py.report.peers import limited_threads
from poplibs_py.testing import bound

Call = Callable[[], Any]
BLOCK, WARM, ROUNDS = 12, 2, 8


def sparse(size: int, columns: int) -> Call:
    """A product with blocks of 16 x 16 at density 1/128, held to its bound."""
    w = random_matrix(random_pattern(size, size, 16, 1 / 128, 3))
    x = np.random.default_rng(4).standard_normal((size, columns)).astype(np.float32)
    assert np.all(sparse_dense_matmul_bound(w, x).contains(static.sparse_dense_matmul(w, x)))
    return lambda: static.sparse_dense_matmul(w, x)


def dense(size: int) -> Call:
    """A dense product, held to its bound."""
    a = np.random.default_rng(5).standard_normal((size, size)).astype(np.float32)
    assert np.all(bound("matmul", a, a).contains(poplin.matmul(a, a)))
    return lambda: poplin.matmul(a, a)


def rounding(count: int) -> Call:
    """A cast from FP32 to FP16, held to NumPy's."""
    x = np.random.default_rng(6).standard_normal(count).astype(np.float32)
    np.testing.assert_array_equal(cast(x, "float16"), x.astype(np.float16))
    return lambda: cast(x, "float16")


def uniform(count: int) -> Call:
    """Uniform numbers, which do not depend on where they are written."""
    np.testing.assert_array_equal(poprand.uniform(count, seed=1),
                                  poprand.uniform(count, seed=1, out=np.empty(count, np.float32)))
    return lambda: poprand.uniform(count, seed=1)


CASES: dict[str, Callable[[], Call]] = {
    "static 4096 x 4096, 16 x 16, 1/128, N = 1024, FP32 (16 MiB)": lambda: sparse(4096, 1024),
    "static 4096 x 4096, 16 x 16, 1/128, N = 256, FP32 (4 MiB)": lambda: sparse(4096, 256),
    "static 1024 x 1024, 16 x 16, 1/128, N = 256, FP32 (1 MiB)": lambda: sparse(1024, 256),
    "static 4096 x 4096, 16 x 16, 1/128, N = 3072, FP32 (48 MiB)": lambda: sparse(4096, 3072),
    "uniform, 64 Ki FP32 (256 KiB)": lambda: uniform(1 << 16),
    "uniform, 4 Mi FP32 (16 MiB)": lambda: uniform(1 << 22),
    "uniform, 12 Mi FP32 (48 MiB)": lambda: uniform(3 << 22),
    "cast, 4 Mi FP32 to FP16 (8 MiB)": lambda: rounding(1 << 22),
    "matmul 512, FP32 (1 MiB)": lambda: dense(512),
    "matmul 1024, FP32 (4 MiB)": lambda: dense(1024),
}


@dataclass(frozen=True)
class Spread:
    """Seconds of single calls: median, tenth and ninetieth percentile."""

    median: float
    low: float
    high: float


def alternate(call: Call, rounds: int = ROUNDS) -> dict[str, Spread]:
    """Time blocks of calls with the pool and without it, in turns."""
    limits = {"pool": settings.result_pool, "none": 0}
    seconds: dict[str, list[float]] = {name: [] for name in limits}
    rng, others = np.random.default_rng(7), [np.empty(0, np.float32)] * 8
    for turn in range(rounds):
        for name in sorted(limits, reverse=bool(turn % 2)):
            with result_pool_limit(limits[name]):
                clear_result_pool()
                result = None
                for i in range(BLOCK):
                    others[int(rng.integers(8))] = np.ones(int(2 ** rng.uniform(10, 23)), np.float32)
                    began = perf_counter()
                    result = call()
                    ended = perf_counter()
                    if i >= WARM:
                        seconds[name].append(ended - began)
                del result
    return {name: Spread(*np.percentile(found, (50, 10, 90))) for name, found in seconds.items()}


@pytest.mark.parametrize("pool", [True, False], ids=["pool", "none"])
@pytest.mark.parametrize("case", CASES)
def bench_results(case, pool, benchmark):
    benchmark.group = case
    call, held = CASES[case](), [None]

    def run() -> None:
        held[0] = call()

    with result_pool_limit(settings.result_pool if pool else 0):
        benchmark(run)


def main() -> None:
    """Print the table."""
    print("| result of | with the pool, ms (spread) | without, ms (spread) | times faster |\n|---|---|---|---|")
    for case, make in CASES.items():
        found = alternate(make())
        cells = [f"{1e3 * s.median:.3g} ({1e3 * s.low:.3g} to {1e3 * s.high:.3g})" for s in found.values()]
        print(f"| {case} | {cells[0]} | {cells[1]} | {found['none'].median / found['pool'].median:.2f} |", flush=True)


if __name__ == "__main__":
    with limited_threads(1):
        main()
