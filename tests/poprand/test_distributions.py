"""Each distribution of the counter stream against its definition: exact, or within its bound."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import aox_oracle as oracle
import numpy as np
import pytest
from examples import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from one_kernel import run
from scipy.special import erf, erfc, ndtr, ndtri

from poplibs_py import poprand
from poplibs_py.formats import BF16, FORMATS, FP16, FP32
from poplibs_py.formats.reference import encode
from poplibs_py.poprand.arguments import at_least, next_below
from poplibs_py.poprand.law import law_of

NARROW = [f for f in FORMATS if f is not FP32]
SEEDS = st.integers(0, (1 << 64) - 1)
LIMITS = st.floats(-100, 100, width=16)
single = np.float32


def words32(n: int, seed: int) -> np.ndarray[Any, Any]:
    return poprand.bits(n, dtype=np.uint32, seed=seed)


def words16(n: int, seed: int) -> np.ndarray[Any, Any]:
    """Elements j and 32 + j of a row of 64 are the halves of word j."""
    words = words32(-(-n // 64) * 32, seed).reshape(-1, 32)
    return np.concatenate([words & 0xFFFF, words >> 16], axis=1).reshape(-1)[:n]


@given(LIMITS, LIMITS, SEEDS)
def test_uniform_float32_is_its_formula(a: float, b: float, seed: int) -> None:
    low, high = single(min(a, b)), single(max(a, b))
    u = (words32(200, seed) >> 8).astype(single)
    scale = single(high - low) * single(2.0**-24)
    expected = np.minimum(u * scale + low, max(np.nextafter(high, single(-np.inf)), low))
    drawn = poprand.uniform(200, float(low), float(high), seed=seed)
    assert (drawn == expected).all()
    assert ((low <= drawn) & ((drawn < high) | (low == high))).all()


@pytest.mark.parametrize("form", NARROW, ids=str)
@settings(max_examples=examples(25))
@given(a=LIMITS, b=LIMITS, seed=SEEDS)
def test_uniform_of_narrow_formats_is_its_formula(form: Any, a: float, b: float, seed: int) -> None:
    a, b = (float(np.clip(limit, -form.max, form.max)) for limit in (a, b))
    low, high = at_least(min(a, b), form.dtype), at_least(max(a, b), form.dtype)
    assume(form not in (FP16, BF16) or (low, high) != (0.0, 1.0))
    u = words16(300, seed).astype(single)
    x = u * (single(high - low) * single(2.0**-16)) + single(low)
    expected = np.minimum(x, single(max(next_below(high, form.dtype), low))).astype(form.dtype)
    drawn = poprand.uniform(300, low, high, dtype=form, seed=seed)
    assert (drawn == expected).all()
    values = drawn.astype(np.float64)
    assert ((low <= values) & ((values < high) | (low == high))).all()


@pytest.mark.parametrize("form", [FP16, BF16], ids=str)
def test_every_draw_of_sixteen_bits_between_zero_and_one(form: Any) -> None:
    """All 65,536 draws, rounded down, subnormal numbers among them."""
    words = poprand.bits(1 << 20, dtype=np.uint16, seed=1)
    assert len(np.unique(words)) == 1 << 16
    expected = encode(words / 65536, form, rounding="toward-zero").view(form.dtype)
    assert (poprand.uniform(1 << 20, dtype=form, seed=1) == expected).all()


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 31), (1 << 31) - 1), SEEDS)
def test_integers_are_their_formula(a: int, b: int, seed: int) -> None:
    low, high = min(a, b), max(a, b)
    size = high - low + 1
    words = poprand.bits(64, dtype=np.uint64, seed=seed).tolist()
    assert all(word * size % (1 << 64) >= (1 << 64) % size for word in words), "a refusal has its own test"
    expected = [(word * size >> 64) + low for word in words]
    assert poprand.uniform(64, low, high, dtype=np.int32, seed=seed).tolist() == expected


def test_refused_integers_are_drawn_from_the_next_substream(random_kernels: dict[Any, Any]) -> None:
    """Refusals are too rare to wait for, so the threshold is raised: half of all words are refused."""
    size, threshold, n = 1000, 1 << 63, 48
    rows = [oracle.counter_words(9, 0, n // 16, 0, substream).reshape(-1).tolist() for substream in range(40)]
    expected = []
    for i in range(n):
        word = next(row[i] for row in rows if row[i] * size % (1 << 64) >= threshold)
        expected.append((word * size >> 64) - 5)
    call = {"range": size, "threshold": threshold, "offset": -5}
    for kernel in random_kernels["uniform", "int32"]:
        out = run(kernel, (9, 0, 0), call, np.empty(n, np.int32))
        assert out.tolist() == expected, kernel.level


@given(st.floats(0, 1), SEEDS)
def test_bernoulli_is_its_formula(prob: float, seed: int) -> None:
    threshold = round(Fraction(prob) * 2**32)
    expected = words32(300, seed).astype(np.int64) < threshold
    for dtype in (bool, np.int32, *(f.dtype for f in FORMATS)):
        drawn = poprand.bernoulli(300, prob, dtype=dtype, seed=seed)
        assert (drawn.astype(np.float32) == expected).all()


@pytest.mark.parametrize("form", FORMATS, ids=str)
@settings(max_examples=examples(15))
@given(prob=st.floats(0, 1), scale=st.floats(-4, 4, width=16), seed=SEEDS)
def test_dropout_is_its_formula(form: Any, prob: float, scale: float, seed: int) -> None:
    codes = np.random.default_rng(seed).integers(0, 1 << form.bits, 300, np.uint64).astype(form.code_dtype)
    x = codes.view(form.dtype)
    kept = poprand.bernoulli(300, prob, dtype=bool, seed=seed)
    drawn = poprand.dropout(x, prob, scale, seed=seed)
    assert (drawn[~kept].view(form.code_dtype) == 0).all()
    with np.errstate(invalid="ignore", over="ignore"):
        product = x[kept].astype(single) * single(scale)
        expected = product.astype(form.dtype)
        finite = np.isfinite(product) & np.isfinite(expected.astype(single))
    assert (drawn[kept][finite] == expected[finite]).all()
    assert np.isnan(drawn[kept].astype(single)[np.isnan(product)]).all()
    assert poprand.dropout_gradient(x, prob, scale, seed=seed).tobytes() == drawn.tobytes()


def test_dropout_edges() -> None:
    x = np.array([np.nan, np.inf, 1.0, -0.0], np.float32)
    assert (poprand.dropout(x, 0.0, seed=1).view(np.uint32) == 0).all()
    kept = poprand.dropout(x, 1.0, 3.0, seed=1)
    assert kept.tobytes() == (x * single(3)).tobytes(), "the scale holds at probability one too"
    inplace = np.ones(1000, np.float32)
    expected = poprand.dropout(inplace, 0.5, seed=3)
    assert poprand.dropout(inplace, 0.5, seed=3, out=inplace) is inplace
    assert (inplace == expected).all()
    base = np.arange(2001, dtype=np.float32)
    overlapping = poprand.dropout(base[:-1].copy(), 0.5, seed=3)
    assert (poprand.dropout(base[:-1], 0.5, seed=3, out=base[1:]) == overlapping).all()
    strided = np.arange(600, dtype=np.float32).reshape(20, 30).T
    assert (poprand.dropout(strided, 0.5, seed=3) == poprand.dropout(strided.copy(), 0.5, seed=3)).all()


@pytest.mark.parametrize("shape", [(4, 1), (1, 5), (5,), (4, 5), (), 1])
def test_shaped_dropout_broadcasts_its_mask(shape: Any) -> None:
    x = np.arange(1, 21, dtype=np.float16).reshape(4, 5)
    mask = poprand.bernoulli(shape, 0.5, dtype=bool, seed=2)
    expected = np.where(mask, x * np.float16(2), np.float16(0))
    assert (poprand.shaped_dropout(x, shape, 0.5, seed=2) == expected).all()
    assert (poprand.shaped_dropout_gradient(x, shape, 0.5, seed=2) == expected).all()


def at(op: str, kernel: Any, x: float, scale: float = 1.0) -> np.ndarray[Any, Any]:
    """The kernel's values on both sides of the median at tail probability x * 2**-31."""
    call = {"scale": scale, "slope": 0.0, "intercept": x}
    return run(kernel, (4, 0, 0), call, np.empty(32, np.float32))


# The polynomials' own error is below 2**-22 (make_tables.py's fit); seven products and sums in float32, whose terms
# decay threefold, add less than two roundings of the result.
QUANTILE_ERROR = 2.0**-21


@pytest.mark.parametrize(
    ("op", "low", "high", "relative"),
    [
        ("normal", lambda q: ndtri(q / 2), lambda q: -ndtri(q / 2), False),
        ("exponential", lambda q: -np.log1p(-q / 2), lambda q: -np.log(q / 2), True),
        ("gumbel", lambda q: -np.log(-np.log(q / 2)), lambda q: -np.log(-np.log1p(-q / 2)), False),
    ],
)
def test_quantiles_over_every_octave(random_kernels: dict[Any, Any], op: str, low: Any, high: Any,
                                     relative: bool) -> None:
    kernel = random_kernels[op, "float32"][-1]
    worst = 0.0
    for octave in range(31):
        for m in np.linspace(1, 2, 40, endpoint=False).astype(single).tolist():
            x = m * 2.0**octave
            values, q = np.unique(at(op, kernel, x)), x * 2.0**-31
            for value, exact in zip(values, sorted((low(q), high(q))), strict=True):
                size = abs(exact) if relative else max(1.0, abs(exact))
                worst = max(worst, abs(value - exact) / size)
    assert worst <= QUANTILE_ERROR, worst


def test_normal_of_given_words() -> None:
    words = words32(1 << 16, 12)
    q = np.minimum(((words & 0x7FFFFFFF) | 1).astype(single), single(2.0**31 - 128)).astype(np.float64) * 2.0**-31
    exact = np.where(words >> 31, ndtri(q / 2), -ndtri(q / 2))
    drawn = poprand.normal(1 << 16, seed=12)
    assert (np.abs(drawn - exact) <= QUANTILE_ERROR * np.maximum(1, np.abs(exact))).all()
    shifted = poprand.normal(1 << 16, 3.0, 0.5, seed=12)
    assert (shifted == drawn * single(0.5) + single(3)).all()


@pytest.mark.parametrize("form", NARROW, ids=str)
def test_narrow_formats_are_the_rounded_float32(form: Any) -> None:
    for op in ("normal", "truncated_normal", "exponential", "gumbel"):
        wide = getattr(poprand, op)(2000, seed=6)
        assert (getattr(poprand, op)(2000, dtype=form, seed=6) == wide.astype(form.dtype)).all()


@pytest.mark.parametrize("alpha", [1e-6, 0.01, 0.5, 0.67, 0.68, 1.0, 2.0, 3.5, 6.0, 40.0])
def test_truncated_normal_is_its_quantile(alpha: float) -> None:
    n = 20_000
    words = words32(n, 3)
    t = ((words & 0x7FFFFFFF) | 1).astype(single).astype(np.float64) * 2.0**-31
    inside, outside = erf(alpha / math.sqrt(2)), erfc(alpha / math.sqrt(2))
    drawn = poprand.truncated_normal(n, alpha=alpha, seed=3).astype(np.float64)
    bound = alpha * (1 + 2 * QUANTILE_ERROR) + (QUANTILE_ERROR if inside > 0.5 else 0)
    assert (np.abs(drawn) <= bound).all()
    # In probability: z's own error, and one rounding each of the slope, the product and the sum.
    y = t * inside if inside <= 0.5 else 1 - (t * inside + outside)
    probability = 2 * ndtr(np.abs(drawn)) - 1 if inside > 0.5 else erf(np.abs(drawn) / math.sqrt(2))
    error = 4 * 2.0**-24 + (QUANTILE_ERROR * np.maximum(1, np.abs(drawn)) * 0.8 if inside > 0.5 else QUANTILE_ERROR * y)
    assert (np.abs(probability - y) <= error).all()


@pytest.mark.parametrize(("low", "high"), [(1, 10), (0.001, 1000), (1e-30, 1e30), (2.0**-126, 3e38), (5, 5.5)])
def test_log_uniform_is_its_formula(low: float, high: float) -> None:
    u = (words32(20_000, 8) >> 8).astype(np.float64) * 2.0**-24
    y = math.log2(low) + u * (math.log2(high) - math.log2(low))
    drawn = poprand.log_uniform(20_000, low, high, seed=8).astype(np.float64)
    assert ((low <= drawn) & (drawn <= high)).all()
    assert (np.abs(drawn / np.exp2(y) - 1) <= 2.0**-22 + np.maximum(np.abs(y), abs(math.log2(low))) * 2.0**-22).all()
    assert (poprand.log_uniform(20_000, low, high, 10, seed=8) == drawn).all()


def test_log_uniform_of_other_dtypes() -> None:
    for form in FORMATS:
        drawn = poprand.log_uniform(5000, 0.3, 9.7, dtype=form, seed=2).astype(np.float64)
        assert drawn.min() >= 0.3
        assert drawn.max() <= 9.7
    integers = poprand.log_uniform(5000, 1, 100, dtype=np.int32, seed=2)
    assert (integers == np.trunc(poprand.log_uniform(5000, 1, 100, seed=2))).all()


def test_categorical_looks_words_up() -> None:
    words = poprand.bits(5000, dtype=np.uint64, seed=3)
    drawn = poprand.categorical(5000, [1, 0, 2, 1, 0], seed=3)
    expected = np.select([words < 1 << 62, words < 3 << 62], [0, 2], 3)
    assert (drawn == expected).all()
    assert (poprand.categorical(100, [0, 0, 5], seed=1) == 2).all()
    assert (poprand.categorical(100, [1, 1e-300], seed=1) == 0).all()
    assert set(poprand.categorical(1000, [1e308, 1e308], seed=1).tolist()) == {0, 1}


@given(st.integers(0, 200), SEEDS)
def test_permutations(n: int, seed: int) -> None:
    words = poprand.bits(n, dtype=np.uint64, seed=seed)
    order = poprand.permutation(n, seed=seed)
    assert order.tolist() == sorted(range(n), key=lambda i: (int(words[i]), i))
    rows = np.arange(2 * n).reshape(2, n)
    assert (poprand.permutation(rows, axis=1, seed=seed) == rows[:, order]).all()


def test_equal_words_of_a_permutation_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of words whose bytes are zeros and ones there are 256."""
    module = sys.modules["poplibs_py.poprand.categorical"]  # its function has the same name
    law = law_of("bernoulli", "1 byte", np.dtype(bool), bound=(1 << 31) - 1, one=1)
    of_bytes = SimpleNamespace(program=lambda n: law.program(8 * n), words=lambda n, place: law.words(8 * n, place))
    monkeypatch.setattr(module, "bits_law", lambda _: of_bytes)
    words = poprand.bernoulli(8 * 1001, 0.5, dtype=bool, seed=1).view(np.uint64)
    assert len(set(words.tolist())) < 300
    assert poprand.permutation(1001, seed=1).tolist() == np.argsort(words, kind="stable").tolist()
