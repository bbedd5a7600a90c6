"""Counts: histograms between levels and how often each whole number is there, beside NumPy, torch and numba.

A million FP32 numbers between 255 levels that are equally far apart, or lie anyhow; a million int64 below 256 and
65,536, without weights and with FP32 ones. Numba and torch's `histc` know that levels are equally far apart; ours and
torch's `histogram` take any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from poplibs_py import popops, testing
from poplibs_py.kernels import available_levels

N, BINS = 1 << 20, 256
LEVELS = {"even": np.linspace(0, 1, BINS + 1)[1:-1], "any": np.sort(np.random.default_rng(2).random(BINS - 1))}
WHOLE = {"256": 256, "65536": 65536, "256 weighted": 256, "65536 weighted": 65536}


def timed(benchmark: Any, call: Callable[[], object], library: str) -> None:
    """Time a call and store its rate."""
    benchmark(call)
    benchmark.extra_info.update(library=library, level=available_levels()[-1])
    if benchmark.stats is not None:
        benchmark.extra_info["rate"] = N / benchmark.stats.stats.median


def numba_histogram() -> Callable[..., None]:
    """The loop that numba makes of bins of equal width."""
    numba = pytest.importorskip("numba")

    def count(x: Any, counts: Any) -> None:
        counts[:] = 0
        for i in range(x.size):
            counts[min(int(x[i] * np.float32(BINS)), BINS - 1)] += 1

    made: Callable[..., None] = numba.njit(count)
    return made


@pytest.mark.parametrize("library", ["poplibs_py", "numpy", "torch", "numba"])
@pytest.mark.parametrize("kind", LEVELS)
def bench_histogram(benchmark: Any, library: str, kind: str) -> None:
    """Counts between levels; ours are checked."""
    x, levels = np.random.default_rng(1).random(N, np.float32), LEVELS[kind].astype(np.float32)
    edges, counts, even = np.r_[0, levels, 1].astype(np.float32), np.empty(BINS, np.uint32), kind == "even"
    calls = {"poplibs_py": lambda: popops.histogram(x, levels, out=counts),
             "numpy": lambda: np.histogram(x, BINS, (0, 1)) if even else np.histogram(x, edges)}
    if library == "poplibs_py":
        testing.check("histogram", x, levels)
    elif library == "torch":
        torch = pytest.importorskip("torch")
        numbers, between = torch.from_numpy(x), torch.from_numpy(edges)
        calls["torch"] = lambda: torch.histc(numbers, BINS, 0, 1) if even else torch.histogram(numbers, between)
    elif library == "numba":
        if not even:
            pytest.skip("its loop knows how far apart levels are")
        counting, wide = numba_histogram(), np.empty(BINS, np.int64)
        counting(x, wide)
        calls["numba"] = lambda: counting(x, wide)
    timed(benchmark, calls[library], library)


@pytest.mark.parametrize("library", ["poplibs_py", "numpy", "torch"])
@pytest.mark.parametrize("kind", WHOLE)
def bench_bincount(benchmark: Any, library: str, kind: str) -> None:
    """Counts of whole numbers; ours are checked."""
    rng = np.random.default_rng(1)
    x = rng.integers(0, WHOLE[kind], N)
    weights = (rng.random(N, np.float32),) if "weighted" in kind else ()
    calls: dict[str, Callable[[], object]] = {"poplibs_py": lambda: popops.bincount(x, *weights),
                                              "numpy": lambda: np.bincount(x, *weights)}
    if library == "poplibs_py":
        testing.check("bincount", x, *weights)
    elif library == "torch":
        torch = pytest.importorskip("torch")
        tensors = [torch.from_numpy(array) for array in (x, *weights)]
        calls["torch"] = lambda: torch.bincount(*tensors)
    timed(benchmark, calls[library], library)
