"""Sparse operands whose values are decoded once: the bits are those of a plain product."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from poplibs_py import testing
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, ReadOnlyError
from poplibs_py.formats import QuarterArray
from poplibs_py.popsparse import BlockSparseMatrix, dynamic, random_matrix, random_pattern, static
from poplibs_py.program import memory_in_use, memory_peak
from poplibs_py.testing import assert_same_bits

PAIRS = [("float32", "float32"), ("float16", "float16"), ("float16", "float32"), ("bfloat16", "bfloat16"),
         ("bfloat16", "float32"), ("f143", "f143"), ("e5m2", "float16"), ("f152", "bfloat16")]


def matrix(name: str, block_shape: Any = (4, 8)) -> BlockSparseMatrix:
    return random_matrix(random_pattern(32, 48, block_shape, 0.4, 1), dtype=name, seed=2)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("block_shape", [(1, 1), (4, 8), (16, 16), (3, 5)], ids=str)
@pytest.mark.parametrize(("w_name", "x_name"), PAIRS)
def test_bits_are_those_of_a_plain_product(w_name, x_name, block_shape, transposed):
    rows, columns = (30, 45) if block_shape == (3, 5) else (32, 48)
    w = random_matrix(random_pattern(rows, columns, block_shape, 0.4, 1), dtype=w_name, seed=2)
    w = w.T if transposed else w
    x = testing.random_operand((w.shape[1], 21), x_name, 3)
    bias = testing.random_operand((w.shape[0],), "float32", 4)
    how: dict[str, Any] = {"bias": bias, "activation": "silu", "out_dtype": "float16"}
    ready = static.prepare(w, x_dtype=x_name)
    right = static.prepare(w.T, side="right", x_dtype=x_name)
    for keywords in ({}, {}, how, {"available_memory_proportion": 0.1}):
        want = static.sparse_dense_matmul(w, x, **keywords)
        assert_same_bits(static.sparse_dense_matmul(ready, x, **keywords), want)
        assert_same_bits(static.dense_sparse_matmul(x.T, right, **keywords), want.T)
    assert_same_bits(static.sparse_dense_matmul(ready, x[:, 0]), static.sparse_dense_matmul(w, x[:, 0]))
    dense = static.prepare_dense(x, w_name)
    both = static.prepare(w, x_dtype=dense.compute_format)
    assert_same_bits(static.sparse_dense_matmul(both, dense), static.sparse_dense_matmul(w, dense))
    out = QuarterArray(np.zeros(want.shape, np.uint8), "f143", 2)
    plain = out.copy()
    static.sparse_dense_matmul(w, x, out=plain)
    assert static.sparse_dense_matmul(ready, x, out=out) is out
    assert np.array_equal(out.codes, plain.codes)


def test_values_are_decoded_when_it_is_said():
    w = BlockSparseMatrix.from_dense(np.eye(16), 4, dtype="float16")
    x = np.ones((16, 3), np.float32)
    ready = static.prepare(w, x_dtype="float32")
    before = static.sparse_dense_matmul(ready, x)
    w.blocks[...] *= 3
    assert_same_bits(static.sparse_dense_matmul(ready, x), before)
    ready.refresh()
    assert_same_bits(static.sparse_dense_matmul(ready, x), 3 * before)
    assert ready.nbytes == 4 * w.nnz
    plain = BlockSparseMatrix.from_dense(np.eye(16, dtype=np.float32), 4)
    same = static.prepare(plain)
    plain.blocks[...] *= 3
    assert_same_bits(static.sparse_dense_matmul(same, x), 3 * x)
    assert same.nbytes == 0


def test_copies_are_prepared_anew():
    w = matrix("float16").T
    x = testing.random_operand((32, 5), "float32", 1)
    ready = static.prepare(w, x_dtype="float32")
    for made in (copy.copy(ready), copy.deepcopy(ready), pickle.loads(pickle.dumps(ready))):
        assert_same_bits(static.sparse_dense_matmul(made, x), static.sparse_dense_matmul(w, x))


def test_nothing_is_decoded_in_a_call():
    w = matrix("float16")
    x = np.ones((48, 16), np.float32)
    ready, out = static.prepare(w, x_dtype="float32"), np.empty((32, 16), np.float32)
    taken = []
    for operand in (w, ready):
        memory_peak(reset=True)
        before = memory_in_use()
        static.sparse_dense_matmul(operand, x, out=out, available_memory_proportion=0.5)
        taken.append(memory_peak() - before)
    assert taken[0] - taken[1] == ready.nbytes


def test_programs_of_one_layout_do_not_serve_another():
    w = matrix("bfloat16")
    x = testing.random_operand((48, 5), "bfloat16", 1)
    wide, narrow = static.prepare(w, x_dtype="float32"), static.prepare(w)
    if wide.compute_format == narrow.compute_format:
        pytest.skip("this machine multiplies no BF16")
    assert_same_bits(static.sparse_dense_matmul(narrow, x), static.sparse_dense_matmul(w, x))
    with pytest.raises(InvalidTypeError, match=r"^x: got bfloat16; allowed: a format that meets bfloat16 in float32"):
        static.sparse_dense_matmul(wide, x)
    with pytest.raises(InvalidTypeError, match=r"^x: got float32; allowed: a format that meets bfloat16 in bfloat16"):
        static.sparse_dense_matmul(narrow, x.astype(np.float32))


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda w, x: static.prepare(x), InvalidTypeError, "^w: got ndarray"),
    (lambda w, x: static.prepare(w, side="up"), InvalidArgumentError, "^side: got up"),
    (lambda w, x: static.prepare(w, x_dtype="float64"), InvalidTypeError, "^x_dtype: got float64"),
    (lambda w, x: static.PreparedSparse(w, "left", 3), InvalidTypeError, "^x_dtype: got 3"),
    (lambda w, x: static.dense_sparse_matmul(x.T, static.prepare(w)), InvalidTypeError,
     "^w: got matrix prepared for the left; allowed: one from prepare"),
    (lambda w, x: static.sparse_dense_matmul(static.prepare(w.T, side="right"), x), InvalidTypeError,
     "^w: got matrix prepared for the right"),
    (lambda w, x: static.sparse_dense_matmul(static.prepare(w), x[1:]), InvalidArgumentError, "^x: got shape"),
    (lambda w, x: static.sparse_grad_w(static.prepare(w), x, x), InvalidTypeError, "^w: got PreparedSparse"),
    (lambda w, x: dynamic.sparse_dense_matmul(static.prepare(w), x), InvalidTypeError, "^w: got PreparedSparse"),
    (lambda w, x: setattr(static.prepare(w), "side", "right"), ReadOnlyError, "^side: "),
])
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(matrix("float16"), np.ones((48, 16), np.float16))


def test_operators():
    w, x = matrix("float16"), testing.random_operand((48, 5), "float16", 3)
    ready, right = static.prepare(w), static.prepare(w.T, side="right")
    assert_same_bits(ready @ x, w @ x)
    assert_same_bits(ready @ x[:, 0], w @ x[:, 0])
    assert_same_bits(x.T @ right, x.T @ w.T)
    with pytest.raises(InvalidTypeError, match=r"^w: .*prepared for the left"):
        x.T @ ready
    with pytest.raises(InvalidTypeError, match=r"^w: .*prepared for the right"):
        right @ x.T


def test_operands_that_were_prepared_for_others_are_named():
    w = random_matrix(random_pattern(32, 48, 16, 0.5, 1), dtype="bfloat16", seed=2)
    x = static.prepare_dense(testing.random_operand((48, 5), "float32", 3))
    ready = static.prepare(w)
    if ready.compute_format == x.compute_format:
        pytest.skip("this machine multiplies BF16 as FP32")
    with pytest.raises(InvalidTypeError, match=r"^x: .*operand prepared as float32 beside a w prepared for bfloat16"):
        static.sparse_dense_matmul(ready, x)
    assert_same_bits(static.sparse_dense_matmul(static.prepare(w, x_dtype=x.compute_format), x), w @ x)
