"""Dense products: this library, NumPy, MKL and torch, one thread unless said.

Squares and thin shapes of each format; ``extra_info`` holds operations per second, plan and kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from poplibs_py import poplin
from poplibs_py.config import thread_limit
from poplibs_py.formats import BF16, F143, F152, FP16, FP32, Format
from poplibs_py.testing import assert_within_bound, bound, random_operand

SHAPES = [(s, s, s) for s in (512, 1024, 2048, 4096)]
SHAPES += [(s, n, s) for s in (1024, 4096) for n in (1, 16, 64, 256)]
FORMATS = (FP32, BF16, FP16, F143, F152)
TORCH = {FP32: "float32", FP16: "float16", BF16: "bfloat16"}
shapes = pytest.mark.parametrize(("m", "n", "k"), SHAPES, ids=lambda x: str(x))
formats = pytest.mark.parametrize("fmt", FORMATS, ids=str)


def operands(m: int, n: int, k: int, fmt: Format) -> tuple[Any, Any]:
    """Normal numbers, rounded to the format."""
    return random_operand((m, k), fmt, 0), random_operand((k, n), fmt, 1)


def timed(benchmark: Any, call: Callable[[], object], m: int, n: int, k: int, **facts: Any) -> None:
    """Time a call and store its rate."""
    benchmark(call)
    benchmark.extra_info.update(facts, flops=2 * m * n * k)
    if benchmark.stats is not None:
        benchmark.extra_info["flop_rate"] = 2 * m * n * k / benchmark.stats.stats.median


@formats
@shapes
@pytest.mark.parametrize("threads", [1, 2])
def bench_ours(m, n, k, fmt, threads, benchmark):
    benchmark.group = f"{fmt} {m}x{n}x{k}"
    a, b = operands(m, n, k, fmt)
    with thread_limit(threads):
        plan = poplin.plan_matmul((m, k), (k, n), dtype=fmt, out_dtype="float32")
        got = poplin.matmul(a, b, out_dtype="float32")
        assert_within_bound(got[:2], bound("matmul", a[:2], b, out_dtype="float32"))
        timed(benchmark, lambda: poplin.matmul(a, b, out_dtype="float32"), m, n, k, threads=plan.threads,
              kernel=plan.kernel.name, level=plan.kernel.level)


@shapes
def bench_numpy(m, n, k, benchmark):
    limits = pytest.importorskip("threadpoolctl")
    benchmark.group = f"{FP32} {m}x{n}x{k}"
    a, b = operands(m, n, k, FP32)
    with limits.threadpool_limits(1):
        timed(benchmark, lambda: a @ b, m, n, k, threads=1)


@pytest.mark.parametrize("fmt", TORCH, ids=str)
@shapes
def bench_torch(m, n, k, fmt, benchmark):
    torch = pytest.importorskip("torch")
    benchmark.group = f"{fmt} {m}x{n}x{k}"
    a, b = (torch.from_numpy(x.astype(np.float32)).to(getattr(torch, TORCH[fmt])) for x in operands(m, n, k, fmt))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        timed(benchmark, lambda: a @ b, m, n, k, threads=1)
    finally:
        torch.set_num_threads(before)


def bench_overhead(benchmark):
    benchmark.group = "float32 8x8x8"
    a, b = operands(8, 8, 8, FP32)
    timed(benchmark, lambda: poplin.matmul(a, b), 8, 8, 8, threads=1)
