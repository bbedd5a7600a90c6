"""Elementwise operations: this library, NumPy and torch, every function in FP32, FP16 and BF16.

256 elements show the call, 16 Ki lie in the second-level cache, 1 Mi in the third, 16 Mi in memory. ``extra_info``
holds elements and bytes per second, nanoseconds an element, and for large arrays the share of what a copy of the same
bytes reaches.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np
import pytest

from poplibs_py import popops, testing
from poplibs_py.formats import BF16, FP16, FP32, Format
from poplibs_py.kernels import available_levels
from poplibs_py.ops import catalogue

SIZES = [256, 1 << 14, 1 << 20, 1 << 24]
FORMATS = (FP32, FP16, BF16)
NUMPY = {"abs": np.abs, "neg": np.negative, "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "tanh": np.tanh,
         "relu": lambda x, out: np.maximum(x, 0, out=out)}
TORCH = {"abs": "abs", "neg": "neg", "sqrt": "sqrt", "exp": "exp", "log": "log", "tanh": "tanh", "erf": "erf",
         "sigmoid": "sigmoid", "relu": "relu", "gelu_erf": "gelu"}
UNARY = [name.rpartition(".")[2] for name, op in catalogue.items() if op.draws == catalogue["popops.abs"].draws]
names = pytest.mark.parametrize("name", UNARY)
formats = pytest.mark.parametrize("fmt", FORMATS, ids=str)
sizes = pytest.mark.parametrize("count", SIZES)


def operand(fmt: Format, count: int) -> Any:
    """Numbers for which every function is busy."""
    return popops.cast(np.random.default_rng(1).uniform(0.1, 4, count).astype(np.float32), fmt)


@cache
def copy_rate(nbytes: int) -> float:
    """Bytes per second, read and written, of a copy of so many."""
    source, target = (np.ones(nbytes // 4, np.float32) for _ in range(2))
    times = []
    for _ in range(9):
        began = perf_counter()
        np.copyto(target, source)
        times.append(perf_counter() - began)
    return 2 * nbytes / float(np.median(times))


def timed(benchmark: Any, call: Callable[[], object], x: Any, **facts: Any) -> None:
    """Time a call and store its rates."""
    benchmark(call)
    benchmark.extra_info.update(facts, level=available_levels()[-1], elements=x.size)
    if benchmark.stats is not None:
        seconds = benchmark.stats.stats.median
        rate, nanoseconds = 2 * x.nbytes / seconds, 1e9 * seconds / x.size
        benchmark.extra_info.update(element_rate=x.size / seconds, ns_per_element=nanoseconds, byte_rate=rate)
        if x.nbytes >= 1 << 20:
            benchmark.extra_info.update(of_copy=rate / copy_rate(x.nbytes))


@names
@formats
@sizes
def bench_ours(name, fmt, count, benchmark):
    benchmark.group = f"{name} {fmt} {count}"
    x, function = operand(fmt, count), getattr(popops, name)
    out = np.empty(count, fmt.dtype)
    testing.check(name, x[:4096], out=out[:4096])
    timed(benchmark, lambda: function(x, out=out), x, library="poplibs_py")


@pytest.mark.parametrize("name", NUMPY)
@formats
@sizes
def bench_numpy(name, fmt, count, benchmark):
    benchmark.group = f"{name} {fmt} {count}"
    x = operand(fmt, count)
    out = np.empty(count, fmt.dtype)
    timed(benchmark, lambda: NUMPY[name](x, out=out), x, library="numpy")


@pytest.mark.parametrize("name", TORCH)
@formats
@sizes
def bench_torch(name, fmt, count, benchmark, torch):
    benchmark.group = f"{name} {fmt} {count}"
    kind = {FP32: torch.float32, FP16: torch.float16, BF16: torch.bfloat16}[fmt]
    x = torch.from_numpy(operand(FP32, count)).to(kind)
    out = torch.empty_like(x)
    call = {"relu": lambda: torch.clamp_min(x, 0, out=out), "gelu_erf": lambda: torch.ops.aten.gelu.out(x, out=out)}
    plain = getattr(torch, TORCH[name], None)
    timed(benchmark, call.get(name, lambda: plain(x, out=out)), operand(fmt, count), library="torch")


@names
def bench_call_overhead(name, benchmark):
    """A repeated call for 256 elements with a new result, beside `numpy.add` on as many."""
    benchmark.group = "call 256"
    x, function = operand(FP32, 256), getattr(popops, name)
    timed(benchmark, lambda: function(x), x, library="poplibs_py")


def bench_call_overhead_numpy(benchmark):
    benchmark.group = "call 256"
    x = operand(FP32, 256)
    timed(benchmark, lambda: np.add(x, x), x, library="numpy")
