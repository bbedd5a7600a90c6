"""Products of block-sparse matrices with batches of X, and biases with an axis of one, as dense products take them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import poplibs_py
from poplibs_py import poplin, testing
from poplibs_py.errors import InvalidArgumentError
from poplibs_py.popsparse import BlockSparseMatrix, dynamic, static

RNG = np.random.default_rng(0)
W = BlockSparseMatrix.from_dense(RNG.normal(size=(64, 48)), 8, density=0.3)
FRONTS = [(3,), (1,), (2, 3), (0,), (2, 0, 1), (1, 1, 4)]


def each(x: Any, call: Any) -> Any:
    """A product with each matrix of a batch."""
    front, matrices = x.shape[:-2], x.reshape(-1, *x.shape[-2:])
    made = [call(m) for m in matrices]
    return np.stack(made).reshape(*front, *made[0].shape) if made else None


@pytest.mark.parametrize("front", FRONTS, ids=str)
def test_a_batch_is_the_product_with_each_matrix_bit_for_bit(front: tuple[int, ...]) -> None:
    right = RNG.normal(size=(*front, 48, 5)).astype(np.float32)
    left = RNG.normal(size=(*front, 7, 64)).astype(np.float32)
    calls: list[Any] = [
        (right, (64, 5), lambda x, **k: static.sparse_dense_matmul(W, x, **k)),
        (right, (64, 5), lambda x, **k: dynamic.sparse_dense_matmul(W, x, **k)),
        (right, (64, 5), lambda x, **k: static.sparse_dense_matmul(static.prepare(W), x, **k)),
        (left, (7, 48), lambda x, **k: static.dense_sparse_matmul(x, W, **k)),
        (left, (7, 48), lambda x, **k: dynamic.dense_sparse_matmul(x, W, **k)),
    ]
    for x, shape, call in calls:
        due = each(x, call)
        for seen in (x, np.asfortranarray(x), x.astype(np.float32)[..., ::-1][..., ::-1], x):
            made = call(seen)
            assert made.shape == (*front, *shape)
            if due is not None:
                np.testing.assert_array_equal(made, due)
        out = np.zeros((*front, shape[0], 2 * shape[1]), np.float32)[..., ::2]
        assert call(x, out=out) is out
        if due is not None:
            np.testing.assert_array_equal(out, due)
    turned = np.ascontiguousarray(right.swapaxes(-1, -2))
    np.testing.assert_array_equal(dynamic.sparse_dense_matmul(W, turned, transpose_rhs=True), W @ right)


def test_a_limit_on_memory_changes_no_bit_of_a_batch() -> None:
    w, x = W.astype("f143"), RNG.normal(size=(3, 48, 5)).astype(np.float32)
    with pytest.warns(Warning, match="limit"):
        made = static.sparse_dense_matmul(w, x, available_memory_proportion=1e-6)
    np.testing.assert_array_equal(made, w @ x)


def test_the_rows_of_a_contiguous_batch_on_the_left_are_one_product() -> None:
    x = RNG.normal(size=(4, 7, 64)).astype(np.float32)
    with poplibs_py.profile() as report:
        x @ W
        W @ x.swapaxes(-1, -2)[:, :48]
    assert "x [64, 28]" in report.runs[0].what
    assert report.runs[1].what.endswith("for each of (4,)")


@pytest.mark.parametrize("groups", [1, 2])
def test_a_bias_may_have_an_axis_of_one_where_the_result_has_columns(groups: int) -> None:
    w = W if groups == 1 else BlockSparseMatrix.from_dense(RNG.normal(size=(2, 64, 48)), 8, density=0.3)
    front = (groups,) * (groups > 1)
    x, left = np.ones((*front, 48, 3), np.float32), np.ones((*front, 3, 64), np.float32)
    rows, columns = (RNG.normal(size=(*front, n)).astype(np.float32) for n in (64, 48))
    due = static.sparse_dense_matmul(w, x, bias=rows), static.dense_sparse_matmul(left, w, bias=columns)
    for module in (static, dynamic):
        np.testing.assert_array_equal(module.sparse_dense_matmul(w, x, bias=rows[..., None]), due[0])
        np.testing.assert_array_equal(module.dense_sparse_matmul(left, w, bias=columns[..., None, :]), due[1])
    plan = static.plan_sparse_dense_matmul(w, 3, has_bias=True)
    run = static.compile_sparse_dense_matmul(plan)
    np.testing.assert_array_equal(run(w, x, bias=rows[..., None]), run(w, x, bias=rows))
    if groups == 1:
        dense = poplin.matmul(w.to_dense(), x, bias=rows[:, None])
        ball = testing.bound("matmul", w.to_dense(), x, bias=rows[:, None])
        testing.assert_within_bound(dense, ball)
        testing.assert_within_bound(due[0], ball)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: W @ np.ones((3, 47, 2), np.float32), r"^x: got shape \(3, 47, 2\); allowed: shape \(..., 48, columns\)"),
    (lambda: np.ones((3, 2, 48), np.float32) @ W, r"^x: got shape \(3, 2, 48\); allowed: shape \(..., rows, 64\)"),
    (lambda: static.sparse_dense_matmul(W, np.ones((48, 3), "f"), bias=np.ones((48, 1), "f")), "^bias: got shape"),
    (lambda: static.sparse_dense_matmul(W, np.ones((48, 3), "f"), bias=np.ones((64, 2), "f")), "^bias: got shape"),
    (lambda: dynamic.fully_connected_fwd(W, np.ones((3, 48), "f"), bias=np.ones((64, 1), "f")), "^bias: got shape"),
    (lambda: static.sparse_dense_matmul(W, np.ones((2, 48, 3), "f"), out=np.ones((64, 3), "f")), "^out: got shape"),
], ids=range(6))  # fmt: skip
def test_other_shapes_are_refused(call: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        call()
