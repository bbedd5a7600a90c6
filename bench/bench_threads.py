"""Two threads over one: elementwise operations, maps and reductions of arrays in the third-level cache; convolutions.

``python bench/bench_threads.py`` prints microseconds by one thread and by two, and GB/s of operands and results where
they are so many; words choose rows. Answers are checked before they are timed. One thread and two take turns, a time
is the median of turns' medians, a ratio that of the ratios of neighbouring turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from itertools import product
from statistics import median
from time import perf_counter
from typing import Any

import bench_conv
import numpy as np
import pytest
from bench_sparse import print_table

from poplibs_py import popops, testing
from poplibs_py.config import thread_limit
from poplibs_py.popops.expr import _1, _2

Call = Callable[[], Any]
TURN, NBYTES = 0.02, 12 << 20  # seconds, in which threads wake up once; of operands and results


def of_arrays(name: str, arrays: int, *first: Any, reduces: bool = False, nbytes: int = NBYTES) -> Call:
    """A call on arrays of so many bytes, the result among them unless it is one number."""
    count = nbytes // 4 // (arrays + (not reduces))
    xs = [np.random.default_rng(seed).uniform(0.1, 3, count).astype(np.float32) for seed in range(arrays)]
    testing.check(name, *first, *(x[:10000] for x in xs))
    values = getattr(popops, name)
    return partial(values, xs[0], 0) if reduces else partial(values, *first, *xs, out=np.empty_like(xs[0]))


def of_layer(layer: str, fmt: str, pass_: str) -> Call:
    """A convolution's pass, batch 1, with channels last."""
    bench_conv.checked(bench_conv.LAYERS[layer], fmt, pass_)
    return bench_conv.ours(bench_conv.LAYERS[layer], 1, fmt)[pass_]["NHWC"]


CASES: dict[str, Callable[..., Call]] = {
    **{name: partial(of_arrays, name, 1) for name in ("relu", "exp", "gelu_erf")},
    **{name: partial(of_arrays, name, 2) for name in ("add", "pow")},
    "map a*2 + b": partial(of_arrays, "map", 2, _1 * 2 + _2),
    "map a*exp(-a*a) + b": partial(of_arrays, "map", 2, _1 * popops.exp(-(_1 * _1)) + _2),
    **{name: partial(of_arrays, name, 1, reduces=True) for name in ("sum", "max", "variance")},
    **{f"conv {layer} {bench_conv.FORMATS[fmt]}, {pass_}": partial(of_layer, layer, fmt, pass_)
       for layer, fmt, pass_ in product(bench_conv.LAYERS, ("float32", "bfloat16"), bench_conv.PASSES)},
}


def timed(call: Call, seconds: float) -> tuple[float, float, float]:
    """Seconds of a call by one thread and by two, and how many times as fast two are.

    The clock changes within a second: each turn of two threads is compared with the one before it.
    """
    turns: list[list[float]] = [[], []]
    ends = perf_counter() + seconds
    while len(turns[1]) < 2 or perf_counter() < ends:
        for threads in (1, 2):
            with thread_limit(threads):
                until, each = perf_counter() + TURN, []
                while (began := perf_counter()) < until:
                    call()
                    each.append(perf_counter() - began)
            turns[threads - 1].append(median(each))
    return median(turns[0]), median(turns[1]), median(np.divide(*turns))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CASES)
def bench_threads(name: str, threads: int, benchmark: Any) -> None:
    """One case."""
    with thread_limit(threads):
        benchmark(CASES[name]())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=12, help="of operands and results (default: 12)")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each row (default: 1)")
    parser.add_argument("words", nargs="*", help="of the names of rows (default: all)")
    chosen = parser.parse_args()
    rows, ratios = [], []
    for name, made in CASES.items():
        if not chosen.words or any(word in name for word in chosen.words):
            size = None if name.startswith("conv") else chosen.megabytes << 20
            one, two, ratio = timed(made() if size is None else made(nbytes=size), chosen.seconds)
            rates = ["", ""] if size is None else [f"{size / one / 1e9:.1f}", f"{size / two / 1e9:.1f}"]
            ratios.append(ratio)
            rows.append([name, f"{one * 1e6:.4g}", f"{two * 1e6:.4g}", *rates, f"{ratio:.2f} x"])
    print_table(("operation", "one thread, us", "two", "one, GB/s", "two", "two over one"), rows)
    print(f"median of {len(rows)}: {median(ratios):.2f} x")


if __name__ == "__main__":
    main()
