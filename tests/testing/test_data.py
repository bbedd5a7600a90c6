"""Exact operands: no order of summation, and no accumulator that holds the partials' format, can round."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.errors import PoplibsError
from poplibs_py.formats import BF16, F143, F152, FORMATS, FP16, FP32
from poplibs_py.popsparse import BlockPattern, random_pattern
from poplibs_py.testing import (
    exact_operands,
    exact_sparse_operands,
    exact_values,
    random_operand,
    strategies,
    values_of,
)

extent = st.integers(1, 40)


@given(st.data())
def test_every_partial_sum_is_a_number_of_the_partials_format(data):
    a_format, b_format = (data.draw(strategies.formats(custom=True)) for _ in range(2))
    m, k, n = (data.draw(extent) for _ in range(3))
    made = exact_operands((m, k), (k, n), a_format, b_format, seed=data.draw(st.integers(0, 10**6)))
    quanta = np.abs(values_of(made.a, a_format)) @ np.abs(values_of(made.b, b_format)) / made.quantum
    assert np.array_equal(quanta, np.rint(quanta))
    assert (quanta <= made.limit).all()
    assert made.limit == 2 ** (FP32.precision - 1)
    assert FP32.smallest_normal <= made.quantum
    assert 2 * made.limit * made.quantum <= FP32.max


@given(st.integers(0, 10**6), st.sampled_from([f for f in FORMATS if f.bits <= 16]))
def test_float32_sums_in_any_order_equal_the_fractions(seed, fmt):
    made = exact_operands((2, 50), (50, 3), fmt, seed=seed)
    exact = exact_values(made.a) @ exact_values(made.b)
    order = np.random.default_rng(seed).permutation(50)
    a, b = made.a.astype(np.float32)[:, order], made.b.astype(np.float32)[order]
    total = np.zeros((2, 3), np.float32)
    for k in range(50):
        total = total + a[:, k, None] * b[k]
    assert (exact_values(total) == exact).all()


@given(st.integers(0, 10**6))
def test_half_partials_are_exact_too(seed):
    made = exact_operands((3, 30), (30, 3), FP16, partials_dtype=FP16, seed=seed)
    total = np.zeros((3, 3), np.float16)
    for k in range(30):
        total = (total + (made.a[:, k, None] * made.b[k]).astype(np.float16)).astype(np.float16)
    assert (exact_values(total) == exact_values(made.a) @ exact_values(made.b)).all()


def test_some_seeds_fill_every_bit_of_the_operands():
    widest = 0
    for seed in range(20):
        made = exact_operands((8, 512), (512, 8), FP16, seed=seed)
        for value in exact_values(made.a).ravel():
            odd = abs(Fraction(value))
            while odd and odd.denominator > 1:
                odd *= 2
            while odd and odd % 2 == 0:
                odd /= 2
            widest = max(widest, odd.numerator.bit_length())
    assert widest == FP16.precision


def test_gradients_may_sum_along_other_axes():
    made = exact_operands((64, 8), (8, 64), BF16, terms=64, seed=5)
    for left, right in ((made.a.T, made.a), (made.b, made.b.T)):
        values = np.abs(values_of(left)) @ np.abs(values_of(right))
        assert (values < 2 ** FP32.precision * values[values > 0].min()).all()


@given(st.integers(0, 1000), st.sampled_from([FP32, FP16, BF16]))
def test_an_addend_adds_exactly(seed, fmt):
    made = exact_operands((4, 9), (9, 4), F152, seed=seed)
    try:
        bias = made.addend((4,), fmt, seed)
    except ValueError:
        assert not fmt.smallest_subnormal <= made.quantum <= fmt.max / min(made.limit, 2**fmt.precision)
        return
    exact = exact_values(made.a) @ exact_values(made.b) + exact_values(bias)
    total = made.a.astype(np.float32) @ made.b.astype(np.float32) + bias.astype(np.float32)
    assert (exact_values(total) == exact).all()


@given(pattern=strategies.block_patterns([(1, 1), (3, 5), (8, 8)], groups=2), columns=st.integers(0, 5),
       names=st.tuples(strategies.formats(), strategies.formats()), transposed=st.booleans(), data=st.data(),
       seed=st.integers(0, 10**6))
def test_sums_of_sparse_products_are_exact_too(pattern, columns, names, transposed, data, seed):
    scale = 0
    if names[0].bits == 8:
        scale = np.array([data.draw(st.integers(-20, -16)) for _ in range(pattern.n_blocks)], np.int8)
    made = exact_sparse_operands(pattern, columns, *names, transposed=transposed, scale=scale, seed=seed)
    stored = made.a.T if transposed else made.a
    assert stored.pattern == pattern
    assert (made.a.is_transposed, made.a.format, made.b.dtype) == (transposed, names[0], names[1].dtype)
    dense = made.a.to_dense(np.float64)
    assert np.count_nonzero(dense) == np.count_nonzero(made.a.blocks)  # none beyond the edges
    quanta = np.abs(dense) @ np.abs(values_of(made.b)) / made.quantum
    assert np.array_equal(quanta, np.rint(quanta))
    assert (quanta <= made.limit).all()
    assert FP32.smallest_normal <= made.quantum
    assert 2 * made.limit * made.quantum <= FP32.max


def test_without_blocks_there_are_no_scales_to_leave_room_for():
    none = BlockPattern.from_pairs((0, 0), (1, 1), [], [])[0]
    for seed in range(300):
        made = exact_sparse_operands(none, 0, F143, BF16, scale=np.zeros(0, np.int8), seed=seed)
        assert FP32.smallest_normal <= made.quantum <= FP32.max / (2 * made.limit)


def test_every_stored_block_is_filled():
    made = exact_sparse_operands(random_pattern(64, 64, 16, 0.3), 4, FP16, seed=1)
    assert (made.a.blocks != 0).any(axis=(1, 2)).all()
    assert made.b.any()


def test_what_cannot_be_exact_is_refused():
    pattern = random_pattern(4, 4, 1, 1.0)
    for wrong, how in (("pattern", (None, 3, FP16)), ("columns", (pattern, -1, FP16)), ("w_dtype", (pattern, 3, "f1")),
                       ("x_dtype", (pattern, 3, FP16, "f1"))):
        with pytest.raises(PoplibsError, match=f"^{wrong}: got"):
            exact_sparse_operands(*how)
    with pytest.raises(ValueError, match=r"^scale: got 1; allowed: 0 for float16"):
        exact_sparse_operands(pattern, 3, FP16, scale=1)
    far = np.where(np.arange(16) % 2, 31, -32)
    with pytest.raises(ValueError, match=r"^pattern: got sums of 4 products, scales 2\^63 apart; allowed: at most "):
        exact_sparse_operands(pattern, 3, F152, scale=far)
    with pytest.raises(ValueError, match="terms: got 2000; allowed: at most 1024, for exact sums in float16"):
        exact_operands((1, 4), (4, 1), FP16, partials_dtype=FP16, terms=2000)
    for b_shape in ((5, 2), (3, 5, 2), (5,)):
        with pytest.raises(ValueError, match=r"^b_shape: got \(.*\); allowed: as many rows as a_shape has columns, 4"):
            exact_operands((3, 4), b_shape, FP16)
    assert exact_operands((3, 4), (4,), FP16).b.shape == (4,)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_random_operands_repeat_and_patterns_cover(fmt):
    assert np.array_equal(values_of(random_operand((9,), fmt, 3)), values_of(random_operand((9,), fmt, 3)))
    every = random_operand((20000,), fmt, 1, patterns=True).view(fmt.code_dtype)
    assert len(np.unique(every)) >= min(2**fmt.bits, 15000)
