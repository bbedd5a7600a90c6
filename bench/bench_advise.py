"""How near `popsparse.advise` comes: predicted over measured time, static and dense, in ``extra_info``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from poplibs_py import poplin
from poplibs_py.popsparse import advise, random_matrix, random_pattern, static

CASES = [
    (format, block, density, side, n)
    for format in ("float32", "bfloat16", "f143")
    for block, density in ((1, 1 / 16), (8, 1 / 8), (16, 1 / 32), (32, 1 / 2))
    for side, n in ((512, 64), (2048, 64), (4096, 256))
]


@pytest.mark.parametrize("method", ["static", "dense"])
@pytest.mark.parametrize(("format", "block", "density", "side", "n"), CASES)
def bench_advise(benchmark: Any, threads: int, method: str, format: str, block: int, density: float, side: int,
                 n: int) -> None:
    w = random_matrix(random_pattern(side, side, block, density), format)
    x = np.random.default_rng(0).random((side, n), np.float32).astype(w.blocks.dtype)
    y = np.empty((side, n), np.float32)
    dense = w.to_dense().astype(w.blocks.dtype)
    calls: dict[str, Callable[[], Any]] = {
        "static": lambda: static.sparse_dense_matmul(w, x, out=y),
        "dense": lambda: poplin.matmul(dense, x, out=y),
    }
    predicted = getattr(advise(w, n), method)
    benchmark(calls[method])
    if benchmark.stats is not None:
        measured = benchmark.stats.stats.median
        benchmark.extra_info.update(predicted_s=predicted, of_measured=predicted / measured, threads=threads)
