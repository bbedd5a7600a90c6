"""Made-up patterns: exact counts, uniform draws, bands."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.popsparse import balanced_pattern, banded_pattern, random_matrix, random_pattern

extents = st.integers(0, 60)
sides = st.one_of(st.integers(1, 9), st.tuples(st.integers(1, 9), st.integers(1, 9)))
densities = st.sampled_from([Fraction(0), Fraction(1)] + [Fraction(1, 2**i) for i in range(1, 8)])
seeds = st.integers(0, 2**32 - 1)


def test_extents_are_refused_by_their_own_names() -> None:
    for name, extents in (("rows", (-1, 8)), ("columns", (8, "many"))):
        with pytest.raises((InvalidArgumentError, InvalidTypeError), match=rf"^{name}: got "):
            random_pattern(*extents, 4, 0.5)


@pytest.mark.parametrize("density", [1e-320, 1e-9, np.float32(1e-9)])
def test_a_density_above_zero_is_a_block(density: float) -> None:
    assert random_pattern(8, 8, 4, density).n_blocks == 1
    assert random_pattern(0, 8, 4, density).n_blocks == 0
    assert np.diff(balanced_pattern(8, 8, 4, density).row_offsets).tolist() == [1, 1]


@given(extents, extents, sides, densities, seeds)
def test_counts(rows: int, columns: int, block: Any, density: Fraction, seed: int) -> None:
    pattern = random_pattern(rows, columns, block, float(density), seed)
    assert pattern.n_blocks == math.ceil(density * pattern.block_rows * pattern.block_columns)
    assert pattern == random_pattern(rows, columns, block, float(density), seed)
    balanced = balanced_pattern(rows, columns, block, float(density), seed)
    assert np.all(np.diff(balanced.row_offsets) == math.ceil(density * pattern.block_columns))


def test_a_percentage_is_not_rounded_up_for_its_binary_error() -> None:
    assert 0.07 * 100 > 7
    assert random_pattern(10, 10, 1, 0.07).n_blocks == 7


def test_every_block_is_as_likely() -> None:
    # 2,000 draws of 3 of 12 blocks: each count is binomial (2000, 1/4); six deviations, false alarm below 1e-7.
    draws = 2000
    counts = np.zeros(12)
    for seed in range(draws):
        pattern = random_pattern(3, 4, 1, 0.25, seed)
        counts[pattern.row_indices * 4 + pattern.column_indices] += 1
    assert counts.sum() == 3 * draws
    assert np.all(np.abs(counts - draws / 4) < 6 * math.sqrt(draws * 3 / 16))


@given(extents, extents, sides, st.integers(0, 12), st.integers(0, 12))
def test_band(rows: int, columns: int, block: Any, below: int, above: int) -> None:
    pattern = banded_pattern(rows, columns, block, below, above)
    i, j = np.indices((pattern.block_rows, pattern.block_columns))
    expected = np.nonzero((j - i >= -below) & (j - i <= above))
    np.testing.assert_array_equal(pattern.row_indices, expected[0])
    np.testing.assert_array_equal(pattern.column_indices, expected[1])


@given(extents, extents, sides, densities, seeds, st.sampled_from(["float32", "bfloat16", "f143"]))
def test_values_give_products_of_unit_variance(rows: int, columns: int, block: Any, density: Fraction, seed: int,
                                               format: str) -> None:
    pattern = random_pattern(rows, columns, block, float(density), seed)
    w = random_matrix(pattern, format, seed)
    assert w.equals(random_matrix(pattern, format, seed))
    if w.nnz:
        per_row = w.nnz / rows
        limit = math.sqrt(3 / per_row) * (1 + w.format.unit_roundoff) + w.format.smallest_subnormal
        assert np.abs(w.to_dense()).max() <= limit


@pytest.mark.parametrize("call", [
    lambda: random_pattern(-1, 4, 1, 0.5), lambda: random_pattern(4, 4, 0, 0.5), lambda: random_pattern(4, 4, 1, 2),
    lambda: random_pattern(4, 4, 1, "half"), lambda: random_pattern(4, 4, 1, 0.5, -1),
    lambda: random_pattern(4, 4, 1, 0.5, 1.5), lambda: banded_pattern(4, 4, 1, -1, 0),
    lambda: balanced_pattern(4, 4, 1, float("nan")), lambda: random_matrix(random_pattern(4, 4, 1, 0.5), "float64"),
])  # fmt: skip
def test_bad_arguments_are_refused(call: Any) -> None:
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=r"^[a-z_]+: got"):
        call()
