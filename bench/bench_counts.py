"""Counts: histograms between levels and how often each whole number is there, beside NumPy, torch and numba.

A million FP32 numbers between 255 levels that are equally far apart, or lie anyhow; a million int64 below 256 and
65,536, without weights and with FP32 ones. Numba and torch's `histc` know that levels are equally far apart; ours and
torch's `histogram` take any. ``python bench/bench_classes.py histogram bincount`` prints ratios.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from poplibs_py import popops, testing

N, BINS = 1 << 20, 256
LEVELS = {"even": np.linspace(0, 1, BINS + 1)[1:-1], "any": np.sort(np.random.default_rng(2).random(BINS - 1))}
WHOLE = {"256": 256, "65536": 65536, "256 weighted": 256, "65536 weighted": 65536}
Calls = dict[str, Callable[[], object]]


def numba_histogram() -> Callable[..., None]:
    """The loop that numba makes of bins of equal width."""
    import numba

    def count(x: Any, counts: Any) -> None:
        counts[:] = 0
        for i in range(x.size):
            counts[min(int(x[i] * np.float32(BINS)), BINS - 1)] += 1

    made: Callable[..., None] = numba.njit(count)
    return made


def rows() -> Iterator[tuple[str, str, Callable[[], Calls]]]:
    """Classes, rows, and what makes a row's calls."""
    for kind in LEVELS:
        yield "histogram", kind, partial(histogram, kind)
    for kind in WHOLE:
        yield "bincount", kind, partial(bincount, kind)


def histogram(kind: str) -> Calls:
    """Counts between levels."""
    x, levels = np.random.default_rng(1).random(N, np.float32), LEVELS[kind].astype(np.float32)
    edges, counts, even = np.r_[0, levels, 1].astype(np.float32), np.empty(BINS, np.uint32), kind == "even"
    testing.check("histogram", x, levels)
    found: Calls = {"ours": lambda: popops.histogram(x, levels, out=counts),
                    "numpy": lambda: np.histogram(x, BINS, (0, 1)) if even else np.histogram(x, edges)}
    if find_spec("torch"):
        import torch

        numbers, between = torch.from_numpy(x), torch.from_numpy(edges)
        found["torch"] = lambda: torch.histc(numbers, BINS, 0, 1) if even else torch.histogram(numbers, between)
    if find_spec("numba") and even:
        found["numba"] = partial(numba_histogram(), x, np.empty(BINS, np.int64))
    return found


def bincount(kind: str) -> Calls:
    """Counts of whole numbers."""
    rng = np.random.default_rng(1)
    given = (rng.integers(0, WHOLE[kind], N), *((rng.random(N, np.float32),) if "weighted" in kind else ()))
    testing.check("bincount", *given)
    found: Calls = {"ours": lambda: popops.bincount(*given), "numpy": lambda: np.bincount(*given)}
    if find_spec("torch"):
        import torch

        tensors = [torch.from_numpy(array) for array in given]
        found["torch"] = lambda: torch.bincount(*tensors)
    return found
