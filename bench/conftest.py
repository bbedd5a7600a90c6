"""Fixtures of the benchmarks: fair threads, and the record that goes with each time.

Run with ``pytest bench --benchmark-enable``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from poplibs_py.kernels import available_levels
from poplibs_py.kernels.peak import peak_flop_rate
from poplibs_py.report.peers import limited_threads, load_mkl
from poplibs_py.report.peers.mkl import Mkl

THREADS = int(os.environ.get("POPLIBS_BENCH_THREADS", "1"))


@pytest.fixture(scope="session", autouse=True)
def threads() -> Iterator[int]:
    """The number of threads of this library and of every peer: ``POPLIBS_BENCH_THREADS``, 1 by default."""
    with limited_threads(THREADS):
        yield THREADS


@pytest.fixture(scope="session")
def mkl() -> Mkl:
    """MKL through its shared library; skips where it is not installed."""
    library = load_mkl()
    if library is None:
        pytest.skip("MKL is not installed: pip install '.[bench]'")
    return library


@pytest.fixture(scope="session")
def torch() -> Any:
    """The torch module; skips where it is not installed."""
    return pytest.importorskip("torch")


@pytest.fixture
def measure(benchmark: Any, threads: int) -> Callable[..., Any]:
    """Time a call and store what it did beside the time.

    ``measure(call, flops=..., format_name="float32", **facts)`` runs `call` under pytest-benchmark and stores the rate,
    its share of the measured peak, the level and the facts in ``extra_info``.
    """

    def run(call: Callable[[], Any], *, flops: float, format_name: str = "float32", **facts: Any) -> Any:
        result = benchmark(call)
        benchmark.extra_info.update(facts, flops=flops, threads=threads, level=available_levels()[-1])
        if benchmark.stats is not None:
            rate = flops / benchmark.stats.stats.median
            peak = peak_flop_rate(format_name, threads)
            benchmark.extra_info.update(flop_rate=rate, peak_flop_rate=peak, of_peak=rate / peak)
        return result

    return run
