"""Scores of blocks, matrices with fewer and with more of them, and what belongs to blocks carried along."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.popsparse import BlockSparseMatrix, dynamic, pruning
from poplibs_py.testing.calls import block_sparse_matrices


@given(w=block_sparse_matrices(moderate=True, groups=st.integers(1, 2)), share=st.floats(0, 1))
@settings(max_examples=examples(25))
def test_what_stays_is_what_scores_most_and_is_as_it_was(w: BlockSparseMatrix, share: float) -> None:
    count = int(share * w.n_blocks)
    thin = pruning.prune(w, count / (w.groups * w.pattern.block_rows * w.pattern.block_columns))
    dense, kept = w.to_dense(), thin.to_dense()
    assert (thin.shape, thin.format, thin.groups) == (w.shape, w.format, w.groups)
    assert ((kept == dense) | (kept == 0)).all()
    scores = np.sort(pruning.magnitude_scores(w))[::-1]
    np.testing.assert_array_equal(np.sort(pruning.magnitude_scores(thin))[::-1], scores[:thin.n_blocks])
    assert thin.n_blocks == count
    places = np.random.default_rng(1).random((*((w.groups,) * (w.groups > 1)), *grid(w)))
    full = pruning.regrow(thin, 1, places)
    np.testing.assert_array_equal(full.to_dense(), kept)
    assert full.pattern.density == 1 or not full.n_blocks
    moved = pruning.carried(w.pattern, thin.pattern, w.blocks)
    np.testing.assert_array_equal(moved.view(np.uint8), thin.blocks.view(np.uint8))
    np.testing.assert_array_equal(pruning.carried(thin.pattern, full.pattern, thin.blocks).view(np.uint8),
                                  full.blocks.view(np.uint8))


def grid(w: BlockSparseMatrix) -> tuple[int, int]:
    rows, columns = (-(-extent // side) for extent, side in zip(w.shape, w.block_shape, strict=True))
    return rows, columns


def test_elements_are_pruned_inside_blocks() -> None:
    dense = np.arange(1, 31, dtype=np.float32).reshape(5, 6)
    w = BlockSparseMatrix.from_dense(dense, 4)
    thin = pruning.prune(w, 0.4, scores=abs(w.blocks))
    np.testing.assert_array_equal(thin.to_dense(), np.where(dense > 18, dense, 0))
    least = pruning.prune(w, 1 / 30, scores=-w.blocks)
    assert least.n_blocks == 1
    np.testing.assert_array_equal(least.to_dense(), np.where(dense == 1, dense, 0))
    assert pruning.prune(w, 0, scores=abs(w.blocks)).n_blocks == 0


def test_scores_are_those_of_the_dense_matrix_and_its_gradient() -> None:
    rng = np.random.default_rng(3)
    w = BlockSparseMatrix.from_dense(rng.standard_normal((10, 12)).astype("float32"), (3, 4), density=0.6)
    grads, acts = rng.standard_normal((7, 10)).astype("float32"), rng.standard_normal((7, 12)).astype("float32")
    full = grads.T.astype(np.float64) @ acts
    padded = np.pad(full, ((0, 2), (0, 0))).reshape(4, 3, 3, 4)
    norms = np.sqrt((padded**2).sum(axis=(1, 3)))
    np.testing.assert_allclose(pruning.dense_gradient_scores(grads, acts, (3, 4)), norms, rtol=1e-5)
    pruning_strip, pruning._STRIP = pruning._STRIP, 1
    try:
        np.testing.assert_allclose(pruning.dense_gradient_scores(grads, acts, (3, 4)), norms, rtol=1e-5)
    finally:
        pruning._STRIP = pruning_strip
    moved = pruning.movement_scores(w, dynamic.fully_connected_sparse_grad_w(w, grads, acts))
    rows, columns = w.pattern.row_indices, w.pattern.column_indices
    slope = np.pad(full * w.to_dense(), ((0, 2), (0, 0))).reshape(4, 3, 3, 4).sum(axis=(1, 3))
    np.testing.assert_allclose(moved, -slope[rows, columns], rtol=1e-4, atol=1e-5)
    for norm, of in (("l1", np.sum), ("max", np.max)):
        want = of(np.abs(w.blocks.astype(np.float64)), axis=(1, 2))
        np.testing.assert_array_equal(pruning.magnitude_scores(w, norm), want)


@pytest.mark.parametrize(("call", "argument"), [
    (lambda w: pruning.prune(w, 0.9), "density"), (lambda w: pruning.prune(w, -1), "density"),
    (lambda w: pruning.prune(w, 0.1, scores=[1]), "scores"), (lambda w: pruning.regrow(w, 1, np.ones(4)), "scores"),
    (lambda w: pruning.regrow(w, 0.1, np.ones((2, 2))), "density"),
    (lambda w: pruning.magnitude_scores(w, "l3"), "norm"), (lambda w: pruning.prune(w.to_dense(), 0.1), "w"),
    (lambda w: pruning.movement_scores(w, np.ones(3)), "gradient"),
    (lambda w: pruning.carried(w.pattern, w.pattern, np.ones(7)), "values"),
    (lambda w: pruning.carried(w.pattern, w.pattern, np.zeros(())), "values"),
    (lambda w: pruning.carried(w, w.pattern, w.blocks), "before"),
    (lambda w: pruning.dense_gradient_scores(np.ones((2, 3)), np.ones((2, 3)), 2), "grads"),
    (lambda w: pruning.dense_gradient_scores(np.ones((2, 3), "f4"), np.ones((3, 3), "f4"), 2), "acts")])
def test_what_does_not_fit_is_refused_by_name(call: Any, argument: str) -> None:
    w = BlockSparseMatrix.from_dense(np.diag([1.0, 2, 3, 4]), 2)
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=f"^{argument}: got"):
        call(w)
