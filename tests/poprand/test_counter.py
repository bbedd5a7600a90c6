"""The counter stream: its definition, and that nothing but seed, modifier and index decides a value."""

from __future__ import annotations

from typing import Any

import aox_oracle as oracle
import numpy as np
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from one_kernel import run

from poplibs_py import poplin, popops, poprand
from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidArgumentError
from poplibs_py.formats import FORMATS

Array = np.ndarray[Any, Any]
Numbers = dict[str, Any]
SEEDS = st.integers(0, (1 << 64) - 1)
MODIFIERS = st.integers(0, (1 << 32) - 1)
FLOATS = [f.dtype for f in FORMATS]
DRAWS = {
    "bits": lambda n, **k: poprand.bits(n, **k),
    "bits64": lambda n, **k: poprand.bits(n, dtype=np.uint64, **k),
    "half between other limits": lambda n, **k: poprand.uniform(n, -1, 1, dtype=np.float16, **k),
    "bits8": lambda n, **k: poprand.bits(n, dtype=np.uint8, **k),
    "integers": lambda n, **k: poprand.uniform(n, -3, 10**9, dtype=np.int32, **k),
    "bernoulli": lambda n, **k: poprand.bernoulli(n, 0.3, dtype=bool, **k),
    "categorical": lambda n, **k: poprand.categorical(n, [1, 2, 3], **k),
    "dropout": lambda n, **k: poprand.dropout(np.ones(n, np.float16), 0.7, **k),
    "log_uniform int": lambda n, **k: poprand.log_uniform(n, 1, 10**6, dtype=np.int32, **k),
} | {
    f"{op} {dtype}": lambda n, op=op, dtype=dtype, **k: getattr(poprand, op)(n, dtype=dtype, **k)
    for dtype in FLOATS
    for op in ("uniform", "normal", "truncated_normal", "exponential", "gumbel")
}


@settings(max_examples=examples(10))
@given(SEEDS, MODIFIERS, st.integers(0, 1 << 40), st.integers(1, 5))
def test_the_stream_is_the_oracles(seed: int, modifier: int, row: int, rows: int) -> None:
    words = oracle.counter_words(seed, row, rows, modifier)
    drawn = poprand.bits(rows * 16, dtype=np.uint64, seed=seed, seed_modifier=modifier, offset=row * 16)
    assert (drawn.reshape(rows, 16) == words).all()


def test_lane_zero_is_the_published_vector() -> None:
    for seed, name in ((0, "F splitmix64(0)"), (42, "G splitmix64(42)")):
        expected = [int(word, 16) for word in oracle.VECTORS[name][1].split()]
        assert poprand.bits(320, dtype=np.uint64, seed=seed)[::16].tolist() == expected


def test_the_two_words_of_a_seed() -> None:
    assert (poprand.bits(9, seed=(5, 7)) == poprand.bits(9, seed=5 | 7 << 32)).all()
    assert (poprand.bits(9, seed=np.array([5, 7], np.uint32)) == poprand.bits(9, seed=(5, 7))).all()
    x = np.random.default_rng(0).standard_normal((20, 24)).astype(np.float32)
    half = x.astype(np.float16)
    rounded = {"rounding": "stochastic"}
    for call in (lambda seed: popops.cast(x, "f143", **rounded, seed=seed),
                 lambda seed: popops.cast(x, "float16", **rounded, target="gc200", seed=seed),
                 lambda seed: poplin.matmul(half, half.T, target="gc200", seed=seed)):
        first, *same = (np.asarray(getattr(y, "codes", y)).tobytes()
                        for y in map(call, ((5, 7), [5, 7], 5 | 7 << 32, np.array([5, 7], np.uint32))))
        assert all(each == first for each in same)
        other = call((7, 5))
        assert np.asarray(getattr(other, "codes", other)).tobytes() != first
        with pytest.raises(InvalidArgumentError, match="seed: got "):
            call((1, 2, 3))


@pytest.mark.parametrize("name", DRAWS)
@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 300), st.integers(0, 300), SEEDS)
def test_slices(name: str, offset: int, count: int, seed: int) -> None:
    whole = DRAWS[name](offset + count, seed=seed)
    part = DRAWS[name](count, seed=seed, offset=offset)
    assert part.tobytes() == whole[offset:].tobytes()


@pytest.mark.parametrize("name", [n for n in DRAWS if n != "dropout"])
def test_shapes(name: str) -> None:
    flat = DRAWS[name](3 * 5 * 7, seed=9)
    assert DRAWS[name]((3, 5, 7), seed=9).tobytes() == flat.tobytes()


def test_far_offsets_wrap_nothing() -> None:
    far = 1 << 50
    words = oracle.counter_words(1, far // 16, 1)[0]
    assert (poprand.bits(16, dtype=np.uint64, seed=1, offset=far) == words).all()


def calls() -> dict[str, Numbers]:
    limits = {"scale": 2.0**-24, "shift": 0.25, "low": 0.25, "high": 1.125}
    return {
        "uniform": limits,
        "normal": {"scale": 1.5, "shift": -0.25, "slope": 0.99, "intercept": 0.01 * 2**31},
        "narrow_normal": {"scale": 3.0, "slope": 0.4 * 2**-31},
        "exponential": {"scale": 0.7},
        "gumbel": {"scale": 1.1, "shift": 0.3},
        "log_uniform": {"scale": 30 * 2.0**-24, "shift": -10.0, "low": 2.0**-10, "high": 2.0**20},
        "dropout": {"scale": 1.7, "bound": 0x9999_9999, "one": 1},
        "bernoulli": {"bound": 0x1234_5678, "one": 1},
        "bits": {},
        "unit": {},
    }


SIZES = {"bytes": np.uint8, "int32": np.int32, "4 bytes": np.uint32, "2 bytes": np.uint16, "1 byte": np.uint8}


def operands(op: str, formats: str, count: int) -> tuple[Numbers, Array, Array | None]:
    named = {f.name: f.dtype for f in FORMATS}
    dtype = np.dtype(named.get(formats, SIZES.get(formats)))
    call = calls()[op]
    if formats == "int32":
        size = 3_000_000_019
        call = {"range": size, "threshold": (1 << 64) % size, "offset": -(1 << 31)}
    elif op == "uniform" and dtype.itemsize < 4:
        call = {**call, "scale": 2.0**-16}
    source = None
    if op == "dropout":
        codes = np.random.default_rng(3).integers(0, 256, count * dtype.itemsize, np.uint8)
        source = codes.view(dtype)
    return call, np.empty(count, dtype), source


def test_every_level_gives_the_same_bits(random_kernels: dict[Any, Any]) -> None:
    count = 5003
    for (op, formats), levels in random_kernels.items():
        call, out, source = operands(op, formats, count)
        results = {}
        for kernel in levels:
            assert kernel.consistent
            run(kernel, (11, 22, 333), call, out, source)
            results[kernel.level] = out.tobytes()
        assert "portable" in results
        assert len(set(results.values())) == 1, (op, formats, [k for k in results if results[k] != results["portable"]])


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 200), st.integers(0, 300), st.integers(1, 5))
def test_kernels_write_their_elements_only(random_kernels: dict[Any, Any], first: int, count: int,
                                           threads: int) -> None:
    for (op, formats), levels in random_kernels.items():
        call, guarded, source = operands(op, formats, count + 64)
        guarded.view(np.uint8)[...] = 0xAB
        inner = guarded[32:32 + count]
        given_source = None if source is None else source[32:32 + count]
        run(levels[-1], (1, 2, first), call, inner, given_source, threads)
        assert (guarded[:32].view(np.uint8) == 0xAB).all(), (op, formats)
        assert (guarded[32 + count:].view(np.uint8) == 0xAB).all(), (op, formats)


@pytest.mark.parametrize(("op", "formats"), [("uniform", "float32"), ("dropout", "float16")])
def test_results_streamed_past_the_caches(random_kernels: dict[Any, Any], op: str, formats: str) -> None:
    """100 MiB; the array begins within a cache line, and the draw within a row."""
    count, some = (25 << 20) + 77, 4096
    call, guarded, source = operands(op, formats, count + 64)
    for kernel in random_kernels[op, formats]:
        guarded.view(np.uint8)[...] = 0xAB
        out, given_source = guarded[9:9 + count], None if source is None else source[7:7 + count]
        run(kernel, (1, 2, 5), call, out, given_source, threads=2)
        assert (guarded[:9].view(np.uint8) == 0xAB).all()
        assert (guarded[9 + count:].view(np.uint8) == 0xAB).all()
        for first in (0, count // 2 // 64 * 64, count - some):
            part = slice(first, first + some)
            few_given = None if source is None else given_source[part]
            few = run(kernel, (1, 2, 5 + first), call, np.empty(some, out.dtype), few_given)
            assert few.tobytes() == out[part].tobytes(), (kernel.level, first)


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_threads_change_nothing(random_kernels: dict[Any, Any], threads: int) -> None:
    for (op, formats), levels in random_kernels.items():
        call, out, source = operands(op, formats, 70_001)
        alone = run(levels[-1], (5, 0, 7), call, out, source).tobytes()
        assert run(levels[-1], (5, 0, 7), call, out, source, threads).tobytes() == alone, (op, formats)


def test_the_setting_of_threads_changes_nothing() -> None:
    n = 1 << 20
    with thread_limit(1):
        alone = poprand.normal(n, seed=1)
    with thread_limit(4):
        assert (poprand.normal(n, seed=1) == alone).all()


@given(st.integers(0, 6), st.integers(0, 6), st.sampled_from([1, 2, -1, -3]), SEEDS)
def test_out_of_any_strides(rows: int, columns: int, stride: int, seed: int) -> None:
    base = np.zeros((rows, 3 * columns + 1), np.float32)
    out = base[:, ::stride][:, :columns]
    result = poprand.uniform(None, out=out, seed=seed)
    assert result is out
    assert (out == poprand.uniform(out.shape, seed=seed)).all()


def test_calls_without_a_seed_continue() -> None:
    poprand.set_seed((3, 4))
    first, second = poprand.uniform(100), poprand.uniform(100)
    poprand.set_seed((3, 4))
    assert (poprand.uniform(100) == first).all()
    assert (poprand.uniform(100) == second).all()
    assert not set(first.tolist()) & set(second.tolist())
    expected = poprand.uniform(100, seed=(3, 4), offset=128)
    assert (second == expected).all()
    poprand.set_seed(None)
    one = poprand.bits(8)
    poprand.set_seed(None)
    assert (poprand.bits(8) != one).any()


def test_a_seeded_call_leaves_the_default_stream_alone() -> None:
    poprand.set_seed(8)
    expected = poprand.normal(10)
    poprand.set_seed(8)
    poprand.normal(1000, seed=99)
    assert (poprand.normal(10) == expected).all()


def test_modifiers_and_seeds_separate_streams() -> None:
    draws = [poprand.bits(64, dtype=np.uint64, seed=s, seed_modifier=m) for s in range(20) for m in range(20)]
    assert len(np.unique(np.concatenate(draws))) == 64 * 400
