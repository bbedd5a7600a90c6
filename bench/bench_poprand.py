"""Random numbers against NumPy, torch and MKL's VSL: one process, calls in turn, ratios of medians.

Each case first checks its own answer. ``extra_info`` holds Gsamples/s of ours and of every peer, and the ratios. Cases
are 65,536 samples, in cache, and 4 Mi samples, beyond L2.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from poplibs_py import poprand
from poplibs_py.config import thread_limit
from poplibs_py.report.peers import load_mkl
from poplibs_py.report.timing import take_turns

SIZES = [1 << 16, 1 << 22]
SEED = 42
Call = Callable[[], Any]


def vsl_calls(n: int, *draws: tuple[str, str]) -> dict[str, Call]:
    """MKL's calls by name, for (distribution, basic generator)."""
    mkl = load_mkl()
    if mkl is None:
        return {}
    library = mkl._library
    generators = {"ARS5": 15 << 20, "SFMT19937": 13 << 20, "MCG59": 3 << 20}
    floats, ints = np.empty(n, np.float32), np.empty(n, np.int32)
    one, zero = ctypes.c_float(1), ctypes.c_float(0)

    def call(distribution: str, generator: str) -> Call:
        stream = ctypes.c_void_p()
        assert library.vslNewStream(ctypes.byref(stream), generators[generator], 1) == 0
        to_floats, to_ints = (ctypes.c_void_p(a.ctypes.data) for a in (floats, ints))
        calls: dict[str, Call] = {
            "uniform": lambda: library.vsRngUniform(0, stream, n, to_floats, zero, one),
            "icdf": lambda: library.vsRngGaussian(2, stream, n, to_floats, zero, one),
            "box_muller2": lambda: library.vsRngGaussian(1, stream, n, to_floats, zero, one),
            "bernoulli": lambda: library.viRngBernoulli(0, stream, n, to_ints, ctypes.c_double(0.3)),
            "exponential": lambda: library.vsRngExponential(0, stream, n, to_floats, zero, one),
        }
        kept = floats, ints  # the addresses stay good for as long as the call lives
        return lambda: (calls[distribution](), kept)

    return {f"mkl {d} {g}": call(d, g) for d, g in draws}


def numpy_calls(n: int, method: str, **options: Any) -> dict[str, Call]:
    """NumPy's calls by name of the bit generator, ours behind NumPy's `Generator` included."""
    out = np.empty(n, np.float32)
    generators = {g.__name__: np.random.Generator(g(1)) for g in (np.random.PCG64, np.random.SFC64)}
    generators["our bit generator"] = np.random.Generator(poprand.Xoroshiro128aox(1))
    return {f"numpy {name}": lambda g=g: getattr(g, method)(dtype=np.float32, out=out, **options)
            for name, g in generators.items()}


def torch_calls(n: int, what: str) -> dict[str, Call]:
    try:
        import torch
    except ImportError:
        return {}
    torch.manual_seed(1)
    x, halves, brains = torch.empty(n), torch.empty(n, dtype=torch.float16), torch.empty(n, dtype=torch.bfloat16)
    ones = torch.ones(n)
    calls: dict[str, Call] = {
        "uniform": lambda: x.uniform_(),
        "uniform float16": lambda: halves.uniform_(),
        "uniform bfloat16": lambda: brains.uniform_(),
        "normal": lambda: x.normal_(),
        "bernoulli": lambda: x.bernoulli_(0.3),
        "dropout": lambda: torch.nn.functional.dropout(ones, 0.3),
        "truncated": lambda: torch.nn.init.trunc_normal_(x),
        "exponential": lambda: x.exponential_(),
    }
    return {"torch": calls[what]}


@dataclasses.dataclass(frozen=True)
class Case:
    """One comparison: our call, what its mean must be, and the peers."""

    ours: Callable[[int, Any], Any]
    dtype: Any
    mean: float
    deviation: float
    peers: Callable[[int], dict[str, Call]]


half, brain = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)  # rounded down: their means are less by half a step
CASES = {
    "bits": Case(lambda n, out: poprand.bits(None, out=out, dtype=np.uint64, seed=SEED), np.uint64, 2.0**63,
                 2.0**64 / 12**0.5, lambda n: {}),
    "uniform float32": Case(
        lambda n, out: poprand.uniform(None, out=out, seed=SEED), np.float32, 0.5, 12**-0.5,
        lambda n: numpy_calls(n, "random") | torch_calls(n, "uniform")
        | vsl_calls(n, ("uniform", "ARS5"), ("uniform", "SFMT19937"))),
    "uniform float16": Case(
        lambda n, out: poprand.uniform(None, out=out, dtype=half, seed=SEED), half, 0.5 - 2.0**-10 / 6, 12**-0.5,
        lambda n: {"our float32": ours_into(poprand.uniform, n)} | torch_calls(n, "uniform float16")),
    "uniform bfloat16": Case(
        lambda n, out: poprand.uniform(None, out=out, dtype=brain, seed=SEED), brain, 0.5 - 2.0**-7 / 6, 12**-0.5,
        lambda n: {"our float32": ours_into(poprand.uniform, n)} | torch_calls(n, "uniform bfloat16")),
    "uniform float16 -1 1": Case(
        lambda n, out: poprand.uniform(None, -1, 1, out=out, dtype=half, seed=SEED), half, 0.0, 3**-0.5,
        lambda n: {"our float32": ours_into(poprand.uniform, n)}),
    "normal float32": Case(
        lambda n, out: poprand.normal(None, out=out, seed=SEED), np.float32, 0.0, 1.0,
        lambda n: numpy_calls(n, "standard_normal") | torch_calls(n, "normal")
        | vsl_calls(n, ("icdf", "ARS5"), ("icdf", "SFMT19937"), ("box_muller2", "ARS5"))),
    "truncated normal float32": Case(
        lambda n, out: poprand.truncated_normal(None, out=out, seed=SEED), np.float32, 0.0, 0.88,
        lambda n: torch_calls(n, "truncated")),
    "exponential float32": Case(
        lambda n, out: poprand.exponential(None, out=out, seed=SEED), np.float32, 1.0, 1.0,
        lambda n: numpy_calls(n, "standard_exponential") | torch_calls(n, "exponential")
        | vsl_calls(n, ("exponential", "ARS5"))),
    "bernoulli float32": Case(
        lambda n, out: poprand.bernoulli(None, 0.3, out=out, seed=SEED), np.float32, 0.3, 0.21**0.5,
        lambda n: torch_calls(n, "bernoulli") | vsl_calls(n, ("bernoulli", "ARS5"))),
    "dropout float32": Case(
        lambda n, out: poprand.dropout(ones(n), 0.7, out=out, seed=SEED), np.float32, 1.0, (0.3 / 0.7) ** 0.5,
        lambda n: torch_calls(n, "dropout")),
    "integers int32": Case(
        lambda n, out: poprand.uniform(None, 0, 999, out=out, dtype=np.int32, seed=SEED), np.int32, 499.5, 289.0,
        lambda n: {"numpy PCG64": lambda: _PCG64.integers(0, 1000, n, np.int32)}),
}
_PCG64 = np.random.default_rng(1)


@functools.cache
def ones(n: int) -> Any:
    return np.ones(n, np.float32)


def ours_into(function: Callable[..., Any], n: int) -> Call:
    out = np.empty(n, np.float32)
    return lambda: function(None, out=out, seed=SEED)


def check(case: Case, out: Any) -> None:
    """The mean within six standard errors: fixed seeds, so always or never."""
    mean = out.astype(np.float64).mean()
    assert abs(mean - case.mean) < 6 * case.deviation / out.size**0.5 + 2.0**-17, mean


def record(benchmark: Any, names: list[str], calls: list[Call], n: int, **facts: Any) -> None:
    """Time the first call for the benchmark and all in turn for the ratios."""
    benchmark(calls[0])
    timings = take_turns(calls, seconds=0.5, least_rounds=7)
    rates = {name: n / t.seconds / 1e9 for name, t in zip(names, timings, strict=True)}
    best = {name: n / t.least / 1e9 for name, t in zip(names, timings, strict=True)}
    ratios = {name: rates[names[0]] / rates[name] for name in names[1:]}
    best_ratios = {name: best[names[0]] / best[name] for name in names[1:]}
    benchmark.extra_info.update(facts, gsamples=rates, ratios=ratios, samples=n, gsamples_best=best,
                                ratios_best=best_ratios)
    print(f"\n{names[0]} {n}: {rates[names[0]]:.2f} G/s, at best {best[names[0]]:.2f}")
    for name in names[1:]:
        print(f"  {ratios[name]:7.2f} x {name} ({rates[name]:.3g} G/s); at best {best_ratios[name]:.2f} x")


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", CASES)
def bench_draw(name, n, benchmark):
    case = CASES[name]
    benchmark.group = f"{name} {n}"
    out = np.zeros(n, case.dtype)
    check(case, case.ours(n, out))
    peers = case.peers(n)
    record(benchmark, [name, *peers], [lambda: case.ours(n, out), *peers.values()], n, bytes=out.nbytes)


TWO_THREADS = ["bits", "uniform float32", "uniform float16", "normal float32", "bernoulli float32", "dropout float32",
               "integers int32"]


@pytest.mark.parametrize("n", [1 << 18, 1 << 20, 1 << 22, 1 << 24])
@pytest.mark.parametrize("name", TWO_THREADS)
def bench_two_threads(name, n, benchmark):
    """Two threads over one; meaningless where the process may use one CPU alone."""
    case = CASES[name]
    out = np.zeros(n, case.dtype)
    single = case.ours(n, out).copy()

    def on(threads: int) -> Call:
        def call() -> None:
            with thread_limit(threads):
                case.ours(n, out)

        return call

    on(2)()
    assert (out == single).all()
    record(benchmark, [f"{name}, two threads", "one thread"], [on(2), on(1)], n)


@pytest.mark.parametrize("what", ["write", "copy"])
def bench_memory_of_two_threads(what, benchmark):
    """The limit for large arrays: what two threads of NumPy's own write or copy over what one does."""
    n = 1 << 24
    x, out = np.ones(n, np.float32), np.zeros(n, np.float32)
    pool = ThreadPoolExecutor(2)

    def part(begin: int, end: int) -> None:
        if what == "write":
            out[begin:end].fill(1)
        else:
            np.copyto(out[begin:end], x[begin:end])

    def two() -> None:
        list(pool.map(part, (0, n // 2), (n // 2, n)))

    two()
    assert (out == 1).all()
    record(benchmark, [f"{what} float32, two threads", "one thread"], [two, lambda: part(0, n)], n)


def bench_call_overhead(benchmark):
    """Eight samples into a given array: what a call costs."""
    out = np.empty(8, np.float32)
    benchmark(lambda: poprand.uniform(None, out=out, seed=(1, 2)))
