"""Casts between formats: this library, torch, NumPy with ml_dtypes, and gfloat for stochastic rounding.

64 Ki elements stay in cache, 4 Mi do not. ``extra_info`` holds elements and bytes per second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from poplibs_py.formats import BF16, F143, FORMATS, FP16, FP32, Format
from poplibs_py.formats.reference import encode
from poplibs_py.kernels import available_levels
from poplibs_py.popops import cast

SIZES = [1 << 16, 1 << 22]
PAIRS = [pair for f in FORMATS if f != FP32 for pair in ((FP32, f), (f, FP32))]
PAIRS += [(FP16, F143), (F143, FP16)]
ROUNDED = [(f, rounding) for f in (FP16, BF16, F143) for rounding in ("toward-zero", "stochastic")]
pairs = pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda f: f.name)
sizes = pytest.mark.parametrize("count", SIZES)


def operand(fmt: Format, count: int) -> Any:
    """Normal numbers, rounded to the format."""
    return cast(np.random.default_rng(1).standard_normal(count).astype(np.float32), fmt)


def check(result: Any, x: Any, target: Format, **options: Any) -> None:
    """The answer must be the reference codec's, bit for bit."""
    if target == FP32:
        np.testing.assert_array_equal(result, x.astype(np.float32))
    else:
        head = slice(0, 4096)
        want = encode(x[head].astype(np.float64), target, **options)
        np.testing.assert_array_equal(result[head].view(target.code_dtype), want)


def timed(benchmark: Any, call: Callable[[], object], x: Any, target: Format, **facts: Any) -> None:
    """Time a call and store its rates."""
    benchmark(call)
    benchmark.extra_info.update(facts, level=available_levels()[-1], elements=x.size)
    if benchmark.stats is not None:
        rate = x.size / benchmark.stats.stats.median
        benchmark.extra_info.update(element_rate=rate, byte_rate=rate * (x.itemsize + target.itemsize))


@pairs
@sizes
def bench_ours(source, target, count, benchmark):
    benchmark.group = f"{source}->{target} {count}"
    x = operand(source, count)
    out = np.empty(count, target.dtype)
    cast(x, target, out=out)
    check(out, x, target)
    timed(benchmark, lambda: cast(x, target, out=out), x, target, library="poplibs_py")


@pytest.mark.parametrize(("target", "rounding"), ROUNDED, ids=str)
@sizes
def bench_ours_rounding(target, rounding, count, benchmark):
    benchmark.group = f"{FP32}->{target} {rounding} {count}"
    x = operand(FP32, count)
    out = np.empty(count, target.dtype)
    seed = 1 if rounding == "stochastic" else None
    cast(x, target, rounding=rounding, seed=seed, out=out)
    magnitude = (1 << (target.bits - 1)) - 1
    below = encode(x, target, rounding="toward-zero").astype(np.int32) & magnitude
    ups = (out.view(target.code_dtype).astype(np.int32) & magnitude) - below
    assert set(np.unique(ups)) <= ({0, 1} if rounding == "stochastic" else {0})
    timed(benchmark, lambda: cast(x, target, rounding=rounding, seed=seed, out=out), x, target, library="poplibs_py")


@pairs
@sizes
def bench_torch(source, target, count, benchmark, torch):
    benchmark.group = f"{source}->{target} {count}"
    x = operand(source, count)
    given = torch.from_numpy(x.view(np.dtype(f"i{source.itemsize}"))).view(getattr(torch, source.dtype.name))
    out = torch.empty(count, dtype=getattr(torch, target.dtype.name))
    out.copy_(given)
    if target in (FP32, FP16, BF16):  # its FP8 casts saturate some ties otherwise than IEEE 754 does
        check(out.view(getattr(torch, f"int{8 * target.itemsize}")).numpy().view(target.dtype), x, target)
    timed(benchmark, lambda: out.copy_(given), x, target, library="torch")


@pairs
@sizes
def bench_numpy(source, target, count, benchmark):
    benchmark.group = f"{source}->{target} {count}"
    x = operand(source, count)
    check(x.astype(target.dtype), x, target)
    timed(benchmark, lambda: x.astype(target.dtype), x, target, library="numpy")


@pytest.mark.parametrize("target", [FP16, F143], ids=str)
def bench_gfloat_stochastic(target, benchmark):
    gfloat = pytest.importorskip("gfloat")
    formats = pytest.importorskip("gfloat.formats")
    count = 4096
    benchmark.group = f"{FP32}->{target} stochastic {SIZES[0]}"
    info = {FP16: formats.format_info_binary16, F143: formats.format_info_p3109(8, 4)}[target]
    x = operand(FP32, count).astype(np.float64)
    words = np.random.default_rng(2).integers(0, 1 << 16, count)
    mode = gfloat.RoundMode.StochasticFast

    def call() -> Any:
        return gfloat.round_ndarray(info, x, mode, srbits=words, srnumbits=16)

    want = encode(x, target, rounding="stochastic", words=words.astype(np.uint32) << np.uint32(16), random_bits=16)
    np.testing.assert_array_equal(cast(call().astype(np.float32), target).view(target.code_dtype), want)
    timed(benchmark, call, x, target, library="gfloat")


@pytest.mark.parametrize("library", ["poplibs_py", "numpy", "torch"])
def bench_call_overhead(library, benchmark, request):
    """Sixteen elements: the time is that of the call."""
    benchmark.group = "float32->float16 16"
    x = operand(FP32, 16)
    calls: dict[str, Callable[[], object]] = {
        "poplibs_py": lambda: cast(x, FP16),
        "numpy": lambda: x.astype(np.float16),
    }
    if library == "torch":
        torch = request.getfixturevalue("torch")
        given = torch.from_numpy(x)
        calls["torch"] = lambda: given.to(torch.float16)
    check(np.asarray(calls[library]()), x, FP16)
    timed(benchmark, calls[library], x, FP16, library=library)
