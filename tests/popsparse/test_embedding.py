"""Rows of a sparse matrix by index: as its dense rows are, and added to where something is stored alone."""

from __future__ import annotations

import numpy as np
import pytest

from poplibs_py import profile, testing
from poplibs_py.errors import InvalidArgumentError, InvalidIndexError, UnsupportedError
from poplibs_py.planner.facts import facts_of
from poplibs_py.popsparse import BlockSparseMatrix, dynamic, random_matrix, random_pattern

DENSE = np.random.default_rng(1).standard_normal((11, 13)).astype(np.float32)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "f143"])
def test_rows_are_read_and_added_to_where_something_is_stored(transposed: bool, dtype: str) -> None:
    w = BlockSparseMatrix.from_dense(DENSE, (3, 5), density=0.5, dtype=dtype)
    w = w.T if transposed else w
    rows = np.array([[4, 0], [4, 10]])
    out = np.empty((2, 2, w.shape[1]), np.float32)
    assert testing.check("popsparse.dynamic.embedding_slice", w, rows, out=out) is out
    np.testing.assert_array_equal(out, w.to_dense()[rows])
    slices = np.ones((2, 2, w.shape[1]), np.float32)
    made = testing.check("popsparse.dynamic.embedding_update_add", w, slices, rows, 0.25)
    stored = w._with(blocks=np.ones_like(w.blocks)).to_dense() != 0
    times = np.bincount(rows.ravel(), minlength=w.shape[0])[:, None]
    wanted = BlockSparseMatrix.from_dense(np.where(stored, w.to_dense() + times / np.float32(4), 0).T if transposed else
                                          np.where(stored, w.to_dense() + times / np.float32(4), 0), (3, 5),
                                          dtype="float32")
    if dtype == "float32":
        np.testing.assert_array_equal(made.to_dense(), wanted.T.to_dense() if transposed else wanted.to_dense())
    assert made.is_transposed == transposed
    assert dynamic.embedding_update_add(w, slices, rows, 0.25, out=w) is w
    testing.assert_same_bits(w.blocks, made.blocks)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("scale", [1, "blocks"])
def test_kept_calls_are_of_any_matrix_of_their_kind(transposed: bool, scale: object) -> None:
    slices, rows = np.ones((2, 24), np.float32), np.array([5, 20])
    before = dynamic.embedding_slice.kept, dynamic.embedding_update_add.kept
    for seed, density in ((1, 0.5), (2, 0.5), (3, 0.45), (4, 0.5), (5, 0.55), (1, 0.5)):
        w = random_matrix(random_pattern(24, 24, 4, density, seed), "f143", seed, 1)
        if scale == "blocks":
            w = w.astype("f143", np.arange(w.n_blocks) % 3)
        w, dense = (w.T, w.to_dense().T) if transposed else (w, w.to_dense())
        for _ in range(2):
            rows[0] = seed
            np.testing.assert_array_equal(dynamic.embedding_slice(w, rows, out_dtype="float32"), dense[rows])
            made = dynamic.embedding_update_add(w, slices, rows)
            with profile():  # where nothing is kept
                due = dynamic.embedding_update_add(w, slices, rows)
            assert made.equals(due)
            assert made.is_transposed == transposed
            into = w._with(blocks=np.zeros_like(w.blocks))
            assert dynamic.embedding_update_add(w, slices, rows, out=into) is into
            assert into.equals(due)
    assert before[0] < dynamic.embedding_slice.kept < before[0] + 5  # by how long the longest row is
    assert before[1] < dynamic.embedding_update_add.kept
    rows[1] = 24
    for call in (dynamic.embedding_slice, lambda w, rows: dynamic.embedding_update_add(w, slices, rows, out=w)):
        held = w.blocks.copy()
        with pytest.raises(InvalidIndexError, match=r"^indices: got 24; allowed: whole numbers from 0 to 23"):
            call(w, rows)
        testing.assert_same_bits(w.blocks, held)


def test_a_row_that_comes_several_times_is_added_in_order_and_rounded_once() -> None:
    w = BlockSparseMatrix.from_dense(np.full((2, 2), 2048, np.float16), 2)
    made = dynamic.embedding_update_add(w, np.ones((3, 2), np.float16), [1, 1, 1])
    np.testing.assert_array_equal(made.to_dense(), [[2048, 2048], [2052, 2052]])  # 2051 is rounded once


def test_what_does_not_fit_is_refused_by_name() -> None:
    w = BlockSparseMatrix.from_dense(DENSE, (3, 5))
    for rows in ([11], [-1]):
        with pytest.raises(InvalidIndexError, match=r"^indices: got -?1"):
            dynamic.embedding_slice(w, rows)
    with pytest.raises(InvalidArgumentError, match=r"^slices: got"):
        dynamic.embedding_update_add(w, DENSE, [1])
    with pytest.raises(InvalidArgumentError, match=r"^out: got"):
        dynamic.embedding_update_add(w, DENSE[:1], [1], out=w.T)
    with pytest.raises(UnsupportedError, match="blocks of side"):
        dynamic.embedding_slice(w, [1], target="gc200")
    with pytest.raises(InvalidArgumentError, match=r"^batch: got"):
        dynamic.embedding_slice(w, [1], batch=0)


def test_modelled_machines_have_the_layer_s_buckets() -> None:
    w = random_matrix(random_pattern(64, 96, 8, density=0.3, seed=1), dtype="float16", seed=2)
    slices, rows = np.ones((5, 96), np.float16), np.array([3, 60, 3, 0, 9])
    with profile(target="gc200") as report:
        read = testing.check("popsparse.dynamic.embedding_slice", w, rows, batch=16)
        made = testing.check("popsparse.dynamic.embedding_update_add", w, slices, rows, 0.5, batch=16)
        dynamic.embedding_slice(w, rows, out_dtype="float32")
    one, other, wide = (run for run in report.runs if "embedding" in run.op)
    for run, passes in ((one, {"Fwd"}), (other, {"Fwd", "GradW"})):
        assert not run.lacking
        assert set(run.plan.layer.phases) == passes
        assert run.plan.layer.params.batch == 16
        assert np.count_nonzero(run.tile_bytes) == run.plan.layer.tiles_used
        assert run.exchanged_bytes == run.plan.exchanged_bytes > 0
        assert "exchange" in dict(facts_of(run.plan).decisions)
    assert "float16 to float32" in wide.lacking
    testing.assert_same_bits(dynamic.embedding_slice(w, rows, target="gc200"), read)
    testing.assert_same_bits(dynamic.embedding_update_add(w, slices, rows, 0.5, target="gc200").blocks, made.blocks)
