"""A block-sparse by a block-sparse matrix: the pattern of what meets, the same bits whatever runs it."""

from __future__ import annotations

import numpy as np
import pytest

from poplibs_py import testing
from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.popsparse import BlockSparseMatrix, random_matrix, random_pattern, static

OP = "popsparse.static.sparse_sparse_matmul"


def test_it_is_the_product_with_the_dense_matrix_bit_for_bit() -> None:
    w = random_matrix(random_pattern(40, 60, 4, density=0.3, seed=1), seed=2)
    v = random_matrix(random_pattern(60, 36, 4, density=0.4, seed=3), seed=4)
    made = testing.check(OP, w, v)
    np.testing.assert_array_equal(made.to_dense(), static.sparse_dense_matmul(w, v.to_dense()))
    turned = testing.check(OP, v.T, w.T)
    np.testing.assert_array_equal(turned.to_dense(), made.to_dense().T)
    with thread_limit(1):
        assert static.sparse_sparse_matmul(w, v).equals(made)
    met = (w._with(blocks=np.ones_like(w.blocks)).to_dense() @ v._with(blocks=np.ones_like(v.blocks)).to_dense()) > 0
    assert made.n_blocks == met.reshape(10, 4, 9, 4).any(axis=(1, 3)).sum()


def test_blocks_that_meet_none_leave_nothing() -> None:
    w = BlockSparseMatrix.from_mask([[True, False]], 2)
    v = BlockSparseMatrix.from_mask([[False], [True]], 2)
    made = static.sparse_sparse_matmul(w, v)
    assert (made.shape, made.n_blocks) == ((2, 2), 0)
    assert static.sparse_sparse_matmul(w.T, v.T).shape == (4, 4)


def test_groups_are_products_of_their_own() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 7, 6)).astype("f4"), rng.standard_normal((2, 6, 5)).astype("f4")
    w = BlockSparseMatrix.from_dense(a, (2, 3), density=0.6)
    v = BlockSparseMatrix.from_dense(b, (3, 4), density=0.6)
    made = testing.check(OP, w, v, out_dtype="float16")
    for g in range(2):
        one = static.sparse_sparse_matmul(w.group(g), v.group(g), out_dtype="float16")
        np.testing.assert_array_equal(made.to_dense()[g], one.to_dense())


def test_what_does_not_fit_is_refused_by_name() -> None:
    w = BlockSparseMatrix.from_dense(np.eye(6), 2)
    with pytest.raises(InvalidArgumentError, match=r"^v: got 1 x"):
        static.sparse_sparse_matmul(w, w[:4])
    with pytest.raises(InvalidArgumentError, match=r"^v: got blocks"):
        static.sparse_sparse_matmul(w, BlockSparseMatrix.from_dense(np.eye(6), 3))
    with pytest.raises(InvalidTypeError, match=r"^out_dtype: got"):
        static.sparse_sparse_matmul(w, w, out_dtype="f143")
    with pytest.raises(InvalidTypeError, match=r"^v: got"):
        static.sparse_sparse_matmul(w, np.eye(6))  # type: ignore[arg-type]
