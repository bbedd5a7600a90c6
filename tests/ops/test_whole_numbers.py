"""Indices, labels and lengths: every op takes whole numbers of any integer type alike, and refuses what is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from result_bits import bits

from poplibs_py import poplin, popnn, popops
from poplibs_py.errors import InvalidTypeError
from poplibs_py.popsparse import BlockSparseMatrix, dynamic

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 8 - 1
ROWS = X.reshape(6, 4)
W, U = np.ones((4, 4, 3), np.float32) / 4, np.ones((4, 3, 3), np.float32) / 8
PERM, L, UPPER = poplin.lu(ROWS[:2, :2])
MATRIX = BlockSparseMatrix.from_dense(np.eye(8, dtype=np.float32), 4)

CALLS: dict[str, tuple[str, Any, Callable[[Any], Any]]] = {
    "multi_slice": ("indices", [2, 0], lambda n: popops.multi_slice(ROWS, n)),
    "embedding_bag": ("offsets", [0, 1], lambda n: popops.embedding_bag(ROWS, [2, 0, 1], n)),
    "encode_one_hot": ("indices", [2, 0, 9], lambda n: popops.encode_one_hot(n, 3)),
    "bincount": ("x", [2, 0, 2], popops.bincount),
    "spline_weighting": ("weight_index", [[1], [0]], lambda n: popops.spline_weighting(
        ROWS[:2, :3], X, np.ones((2, 1), np.float32), n)),
    "cross_entropy": ("labels", [2, 0], lambda n: popnn.cross_entropy(ROWS[:2], n)),
    "calc_loss": ("expected", [2, 0], lambda n: popnn.calc_loss(abs(ROWS[:2]), n, "SUM_SQUARED_LOSS")),
    "calc_accuracy": ("expected", [3, 0], lambda n: np.array(popnn.calc_accuracy(ROWS[:2], n))),
    "ctc_loss": ("labels", [[1], [2], [1]], lambda n: popnn.ctc_loss(X, n, logits=True)),
    "lengths of ctc_loss": ("data_lengths", [2, 1, 2], lambda n: popnn.ctc_loss(X, [[1]] * 3, n, logits=True)),
    "roi_align": ("batch_index", [1, 0], lambda n: popnn.roi_align(
        X[:, None], np.float32([[0, 0, 2, 2]] * 2), n, 2, 2)),
    "pool_indices_gradient": ("indices", [[[3, -1]]], lambda n: popnn.pool_indices_gradient(
        np.ones((1, 1, 2), np.float32), n, (1, 1, 4))),
    "lstm_fwd": ("time_steps", [2, 1, 0], lambda n: popnn.lstm_fwd(X, W, U, time_steps=n)),
    "lu_grad": ("perm", PERM.tolist(), lambda n: poplin.lu_grad(L, UPPER, n, L, UPPER)),
    "embedding_slice": ("indices", [5, 0], lambda n: dynamic.embedding_slice(MATRIX, n)),
}


@pytest.mark.parametrize("name", CALLS)
def test_whole_numbers_of_any_type_are_the_same(name):
    _, numbers, call = CALLS[name]
    due = bits(call(np.array(numbers, np.int64)))
    assert bits(call(numbers)) == due
    for dtype in "bhilBHIL":
        if np.min(numbers) >= 0 or dtype.islower():
            assert bits(call(np.array(numbers, dtype))) == due


@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"calc_loss"}))  # which takes other numbers too
def test_what_is_no_whole_number_of_this_machine_is_refused(name):
    argument, numbers, call = CALLS[name]
    for dtype in (np.float32, np.bool_, ">i4", ">u8"):
        with pytest.raises(InvalidTypeError, match=f"^{argument}: got dtype "):
            call(np.array(numbers).astype(dtype))
