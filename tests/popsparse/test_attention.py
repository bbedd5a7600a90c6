"""Block-sparse attention end to end, forward and backward: sampled product, softmax, product."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from poplibs_py.formats.bounds import matmul_ball
from poplibs_py.popsparse import (
    BlockSparseMatrix,
    banded_pattern,
    bs_softmax,
    bs_softmax_bound,
    bs_softmax_grad,
    bs_softmax_grad_bound,
    static,
)
from poplibs_py.testing import assert_within_bound

LENGTH, WIDTH = 48, 8


def operands() -> Any:
    rng = np.random.default_rng(5)
    return [rng.integers(-2, 3, (LENGTH, WIDTH)).astype(np.float32) for _ in range(4)]


def attention(q: Any, k: Any, v: Any, block: int, window: int) -> Any:
    pattern = banded_pattern(LENGTH, LENGTH, block, window, 0)
    place = BlockSparseMatrix(pattern, np.zeros((pattern.n_blocks, block, block), np.float32))
    scores = BlockSparseMatrix(place.pattern, static.sparse_grad_w(place, q, k))
    weights = bs_softmax(scores, mask="zero_upper_triangle")
    return scores, weights, weights @ v


@pytest.mark.parametrize(("block", "window"), [(16, 1), (8, 5), (4, 2), (1, 7)])
def test_forward_is_within_the_bounds(block: int, window: int) -> None:
    q, k, v, _ = operands()
    scores, weights, y = attention(q, k, v, block, window)
    i, j = np.indices((LENGTH, LENGTH))
    near = (i // block - j // block <= window) & (j // block <= i // block)
    exact = q.astype(np.float64) @ k.T.astype(np.float64)
    np.testing.assert_array_equal(scores.to_dense(), np.where(near, exact, 0))  # small whole numbers: exact sums
    bound = bs_softmax_bound(exact, near & (j <= i))
    assert_within_bound(weights.to_dense(), bound)
    product = matmul_ball(weights.to_dense(np.float64), v)
    assert_within_bound(y, product)


@pytest.mark.parametrize(("block", "window"), [(16, 1), (8, 5), (1, 7)])
def test_backward_is_within_the_bounds(block: int, window: int) -> None:
    q, k, v, dy = operands()
    _, weights, _ = attention(q, k, v, block, window)
    d_weights = BlockSparseMatrix(weights.pattern, static.sparse_grad_w(weights, dy, v))
    stored = BlockSparseMatrix(weights.pattern, np.ones_like(weights.blocks)).to_dense() != 0
    np.testing.assert_array_equal(d_weights.to_dense(), np.where(stored, dy @ v.T, 0))
    d_scores = bs_softmax_grad(weights, d_weights)
    dense = d_scores.to_dense(np.float64)
    assert_within_bound(d_scores.to_dense(),
                        bs_softmax_grad_bound(weights.to_dense(np.float64), d_weights.to_dense(np.float64)))
    assert_within_bound(d_scores @ k, matmul_ball(dense, k))
    assert_within_bound(d_scores.T @ q, matmul_ball(dense.T, q))
    assert_within_bound(weights.T @ dy, matmul_ball(weights.to_dense(np.float64).T, dy))
