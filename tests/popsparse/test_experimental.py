"""PopLibs' experimental block-sparse products: on this CPU those of the other modules, on tiles those of the plan."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import profile, testing
from poplibs_py.errors import InvalidOptionError, MemoryLimitError, PoplibsError, UnsupportedError
from poplibs_py.planner.facts import facts_of
from poplibs_py.popsparse import (
    BlockSparseMatrix,
    banded_pattern,
    bs_softmax,
    bs_softmax_grad,
    experimental,
    random_matrix,
    random_pattern,
    static,
)
from poplibs_py.popsparse.experimental import plan_bs_matmul, plan_bs_matmul_sampled
from poplibs_py.popsparse.experimental.model import balance_of, strip_tiles
from poplibs_py.popsparse.experimental.modelled import interpret_product, interpret_sampled
from poplibs_py.target import Target

OP = "popsparse.experimental.bs_matmul"


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def matrix(groups: int, grid: tuple[int, int], side: int, density: float, dtype: str, seed: int) -> BlockSparseMatrix:
    mask = np.random.default_rng(seed).random((groups, *grid)) < density
    w = BlockSparseMatrix.from_mask(mask if groups > 1 else mask[0], side, dtype=dtype)
    w.update(numbers(w.blocks.shape, dtype, seed))
    return w


@given(grid=st.tuples(st.integers(1, 3), st.integers(1, 2)), rows=st.just(1), groups=st.integers(1, 2),
       density=st.floats(0, 1), tiles=st.integers(2, 24), dtype=st.sampled_from(["float16", "float32"]),
       partials=st.sampled_from(["half", "float"]), method=st.sampled_from(["strip", "block-naive"]),
       passes=st.integers(1, 3), transposed=st.booleans(), seed=st.integers(0, 99))
def test_the_numbers_are_those_of_the_plan(grid: tuple[int, int], rows: int, groups: int, density: float, tiles: int,
                                           dtype: str, partials: str, method: str, passes: int, transposed: bool,
                                           seed: int) -> None:
    side = 16 if dtype == "float16" else 8
    w = matrix(groups, grid, side, density, dtype, seed)
    w = w.T if transposed else w
    (k, n), front = w.shape, (groups,) if groups > 1 else ()
    m, how = rows * side, {"partialsType": partials, "partitionMethod": method}
    x, target = numbers((*front, m, k), dtype, seed), Target.small(tiles)
    once = how | ({} if groups > 1 else {"numberOfPass": passes})
    y = testing.check(OP, x, w, target=target, options=once)
    plan = plan_bs_matmul(w, m, target=target, options=once)
    made = interpret_product(plan, w.copy() if transposed else w, x.reshape(groups, m, k))
    testing.assert_same_bits(y.reshape(groups, m, n), np.ascontiguousarray(made))
    assert plan.tile_loads()[1].sum() == w.nnz * m
    a, b = numbers((*front, k, m), dtype, seed), numbers((*front, m, n), dtype, seed + 1)
    scores = testing.check(f"{OP}_sampled", w, a, b, target=target, options=how)
    sampled = plan_bs_matmul_sampled(w, m, target=target, options=how)
    made = interpret_sampled(sampled, a.reshape(groups, k, m), b.reshape(groups, m, n))
    testing.assert_same_bits(scores.blocks, made)
    assert sampled.tile_loads()[1].sum() == w.nnz * m


def test_on_this_cpu_they_are_the_other_modules_products() -> None:
    w, x = matrix(1, (3, 5), 4, 0.5, "float32", 1), numbers((7, 12), "float32", 2)
    testing.assert_same_bits(experimental.bs_matmul(x, w), static.dense_sparse_matmul(x, w))
    a, b = numbers((12, 6), "float32", 3), numbers((6, 20), "float32", 4)
    out = BlockSparseMatrix(w.pattern, np.zeros_like(w.blocks))
    for _ in range(3):
        made = experimental.bs_matmul_sampled(w, a, b)
        assert made.pattern is w.pattern
        assert experimental.bs_matmul_sampled(w, a, b, out=out) is out
        testing.assert_same_bits(made.blocks, static.sparse_grad_w(w, a, b.T))
        assert out.equals(made)
    turned = experimental.bs_matmul_sampled(w.T, b.T, a.T)
    assert not turned.is_transposed
    np.testing.assert_array_equal(turned.to_dense(), made.to_dense().T)


@pytest.mark.parametrize("target", [None, "gc200"])
@pytest.mark.parametrize("mask", ["zero_upper_triangle", "zero_lower_triangle"])
def test_masks_leave_elements_of_diagonal_blocks_out(mask: str, target: str | None) -> None:
    lower = mask == "zero_upper_triangle"
    grid = np.tri(4, dtype=bool)
    place = BlockSparseMatrix.from_mask(grid if lower else grid.T, 16, dtype="float16")
    q, k = numbers((64, 32), "float16", 1), numbers((32, 64), "float16", 2)
    q[0, 0] = np.inf  # what is masked is zero, whatever it was
    scores = experimental.bs_matmul_sampled(place, q, k, mask=mask, target=target)
    whole = experimental.bs_matmul_sampled(place, q, k, target=target)
    stays = np.tri(64, dtype=bool) if lower else np.tri(64, dtype=bool).T
    np.testing.assert_array_equal(scores.to_dense(), np.where(stays, whole.to_dense(), 0))


def test_strips_are_balanced_and_every_block_is_somewhere() -> None:
    counts = np.array([9, 0, 3, 1, 1, 20, 2])
    for tiles in (1, 2, 5, 6, 7, 40, 400):
        tile = strip_tiles(counts, tiles)
        assert tile.size == counts.sum()
        assert 0 <= tile.min() <= tile.max() < tiles
        for column in np.split(tile, np.cumsum(counts)[:-1]):
            assert (np.diff(column) >= 0).all()
            pieces = np.unique(column, return_counts=True)[1]
            assert pieces.size == 0 or pieces.max() - pieces.min() <= 1
    assert np.bincount(strip_tiles(np.full(8, 4), 8)).tolist() == [4] * 8
    assert balance_of(np.array([2, 4, 0])) == (1.5, 1)
    assert balance_of(np.zeros(3, np.int64)) == (1.0, 3)
    banded = plan_bs_matmul(banded_pattern(1024, 1024, 16, 3, 3), 64)
    assert banded.balance[0] < 1.5
    assert banded.tiles_used == np.count_nonzero(banded.tile_loads()[1])
    assert "balance" in str(banded)


def test_a_record_tells_plan_and_balance() -> None:
    w = random_matrix(random_pattern(256, 256, 16, density=0.2, seed=1), dtype="float16", seed=2)
    x = numbers((32, 256), "float16", 3)
    with profile(target="gc200") as report:
        experimental.bs_matmul(x, w)
        experimental.bs_matmul_sampled(w, x.T, x)
        experimental.bs_matmul(x[:5], w)
        weights = bs_softmax(w)
        bs_softmax_grad(weights, w, out_dtype="float32")
        bs_softmax_grad(weights, w)
    product, sampled, odd, softmax, wide, gradient = report.runs
    for run in (product, sampled):
        assert not run.lacking
        assert run.tile_macs is not None
        assert run.tile_macs.sum() == w.nnz * 32
        assert run.exchanged_bytes == run.plan.exchanged_bytes > 0
    assert "multiples of 16" in odd.lacking
    assert "float16 to float32" in wide.lacking
    for run, matrices in ((softmax, 2), (gradient, 3)):
        assert not run.lacking
        assert run.plan.tile_blocks().sum() == w.n_blocks
        assert run.tile_bytes is not None
        assert run.tile_bytes.sum() == matrices * w.blocks.nbytes
    testing.assert_same_bits(bs_softmax(w, target="gc200").blocks, bs_softmax(w).blocks)
    assert "multiply-accumulates of a tile" in facts_of(product.plan).loads
    assert "stored blocks of a tile" in facts_of(softmax.plan).loads
    assert "balance" in dict(facts_of(gradient.plan).decisions)


def test_what_poplibs_has_not_is_refused_by_name() -> None:
    w = random_matrix(random_pattern(64, 64, 16, density=1), dtype="float16")
    x = np.ones((32, 64), np.float16)
    for options, why in (({"partitionMethod": "block"}, "partitionMethod"), ({"numberOfPass": 0}, "numberOfPass"),
                         ({"memoryCycleRatio": 0}, "memoryCycleRatio"), ({"passes": 1}, "passes")):
        with pytest.raises(InvalidOptionError, match=why):
            experimental.bs_matmul(x, w, options=options)
    with pytest.raises(UnsupportedError, match="multiple of 16"):
        experimental.bs_matmul(x, random_matrix(random_pattern(64, 64, 8, density=1), dtype="float16"), target="gc200")
    with pytest.raises(UnsupportedError, match="masked triangle"):
        experimental.bs_matmul_sampled(w, x.T, x, mask="zero_upper_triangle", target="gc200")
    with pytest.raises(UnsupportedError, match="masked triangle"):
        bs_softmax(w, mask="zero_lower_triangle", target="gc200")
    with pytest.raises(MemoryLimitError, match="more passes"):
        plan_bs_matmul(w, 1 << 20, target=Target.small(1))
    with pytest.raises(PoplibsError, match=re.escape("out: got")):
        experimental.bs_matmul_sampled(w, x.T, x, out=w.T)
