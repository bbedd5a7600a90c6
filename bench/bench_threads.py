"""Two threads over one: elementwise operations, maps and reductions of arrays in the third-level cache.

``python bench/bench_threads.py`` prints GB/s of operands and results by one thread and by two. Each is that of the
fastest call, since other processes may want the second core; calls take turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from bench_sparse import print_table

from poplibs_py import popops
from poplibs_py.config import thread_limit
from poplibs_py.popops.expr import _1, _2

Array = np.ndarray[Any, Any]
_IN_A_ROW = 200


def made(values: Callable[..., Any], arrays: int, nbytes: int) -> Callable[[], Any]:
    """A call on arrays of so many bytes, the result among them unless it is one number."""
    reduces = values in (popops.sum, popops.max, popops.variance)
    count = nbytes // 4 // (arrays + (not reduces))
    xs = [np.random.default_rng(seed).uniform(0.1, 3, count).astype(np.float32) for seed in range(arrays)]
    if reduces:
        return lambda: values(xs[0], 0)
    out = np.empty_like(xs[0])
    return lambda: values(*xs, out=out)


CASES: dict[str, tuple[Callable[..., Any], int]] = {
    "relu": (popops.relu, 1), "add": (popops.add, 2), "exp": (popops.exp, 1), "gelu_erf": (popops.gelu_erf, 1),
    "pow": (popops.pow, 2),
    "map a*2 + b": (lambda a, b, out: popops.map(_1 * 2 + _2, a, b, out=out), 2),
    "map a*exp(-a*a) + b": (lambda a, b, out: popops.map(_1 * popops.exp(-(_1 * _1)) + _2, a, b, out=out), 2),
    "sum": (popops.sum, 1), "max": (popops.max, 1), "variance": (popops.variance, 1),
}  # fmt: skip


def fastest(call: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """Seconds of the fastest call by one thread and by two, which take turns of several calls: threads wake up once."""
    best = [np.inf, np.inf]
    for turn in range(2 * rounds):
        with thread_limit(turn % 2 + 1):
            for _ in range(_IN_A_ROW):
                began = perf_counter()
                call()
                best[turn % 2] = min(best[turn % 2], perf_counter() - began)
    return best[0], best[1]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CASES)
def bench_threads(name: str, threads: int, benchmark: Any) -> None:
    """One case of 12 MiB."""
    with thread_limit(threads):
        benchmark(made(*CASES[name], 12 << 20))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=12, help="of operands and results (default: 12)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of 200 calls (default: 5)")
    parser.add_argument("names", nargs="*", help="which operations (default: all)")
    chosen = parser.parse_args()
    rows = []
    for name in chosen.names or CASES:
        values, arrays = CASES[name]
        one, two = fastest(made(values, arrays, chosen.megabytes << 20), chosen.rounds)
        billions = (chosen.megabytes << 20) / 4 / 1e9
        rows.append([name, f"{4 * billions / one:.1f}", f"{4 * billions / two:.1f}", f"{one / two:.2f} x"])
    print_table(("operation", "one thread, GB/s", "two", "two over one"), rows)


if __name__ == "__main__":
    main()
