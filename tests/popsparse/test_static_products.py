"""Static products on exact data: whatever the order of the sums, the bits are those of the float64 reference."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import testing
from poplibs_py.errors import InvalidArgumentError, PoplibsError
from poplibs_py.popsparse import BlockSparseMatrix, dynamic, random_matrix, random_pattern, static
from poplibs_py.testing import assert_same_bits, check_exact, exact_sparse_operands
from poplibs_py.testing.strategies import block_patterns

BLOCKS = [(1, 1), (4, 4), (8, 8), (16, 16), (32, 32), (3, 5), (1, 4), (8, 1), (7, 16), (13, 2)]


@pytest.mark.parametrize("block_shape", BLOCKS, ids=str)
@given(data=st.data(), columns=st.integers(0, 140), transposed=st.booleans(), seed=st.integers(0, 2**32 - 1))
def test_exact_data_gives_the_reference_bit_for_bit(block_shape, data, columns, transposed, seed):
    pattern = data.draw(block_patterns([block_shape], most=70, groups=3))
    made = exact_sparse_operands(pattern, columns, "float32", transposed=transposed, seed=seed)
    check_exact("static.sparse_dense_matmul", made.a, made.b)
    check_exact("static.dense_sparse_matmul", made.b.swapaxes(-1, -2), made.a.T)


@given(x_step=st.sampled_from([(1, 1), (2, 1), (1, 3), (-1, 1), (1, -2)]), order=st.sampled_from("CF"),
       y_step=st.sampled_from([(1, 1), (2, 1), (1, 2), (-1, -1)]), seed=st.integers(0, 2**32 - 1))
def test_any_strides_and_out_untouched_around(x_step, order, y_step, seed):
    made = exact_sparse_operands(random_pattern(37, 50, (8, 4), 0.4, seed), 45, "float32", seed=seed)
    base = np.full((50 * abs(x_step[0]), 45 * abs(x_step[1])), np.nan, np.float32, order)
    x = base[::x_step[0], ::x_step[1]]
    x[...] = made.b
    room = np.full((37 * abs(y_step[0]) + 2, 45 * abs(y_step[1]) + 2), 1e9, np.float32)
    out = room[1:-1, 1:-1][::y_step[0], ::y_step[1]]
    assert check_exact("static.sparse_dense_matmul", made.a, x, out=out) is out
    out[...] = 1e9
    assert np.all(room == 1e9)


def test_values_written_in_place_are_seen():
    made = exact_sparse_operands(random_pattern(64, 64, 8, 0.3), 16, "float32")
    before = made.a @ made.b
    made.a.blocks[...] *= 2
    assert_same_bits(made.a @ made.b, 2 * before)
    check_exact("static.sparse_dense_matmul", made.a, made.b)


@pytest.mark.parametrize(("named", "call"), [
    ("w: got ndarray", lambda w, x: static.sparse_dense_matmul(x, x)),
    ("x: got ", lambda w, x: static.sparse_dense_matmul(w, str(x))),
    ("x: got shape (5, 4)", lambda w, x: static.sparse_dense_matmul(w, x[:5])),
    ("x: got shape (5,); allowed: shape (16,) or (16, columns)", lambda w, x: static.sparse_dense_matmul(w, x[:5, 0])),
    ("x: got shape (4, 5); allowed: shape (rows, 16)", lambda w, x: static.dense_sparse_matmul(x[:5].T, w)),
    ("x: got shape (5,); allowed: shape (16,) or (rows, 16)", lambda w, x: static.dense_sparse_matmul(x[:5, 0], w)),
    ("x: got dtype float64", lambda w, x: static.sparse_dense_matmul(w, x.astype(np.float64))),
    ("out: got shape (16, 3)", lambda w, x: static.sparse_dense_matmul(w, x, out=np.empty((16, 3), np.float32))),
    ("out: got ", lambda w, x: static.sparse_dense_matmul(w, x, out=np.empty((16, 4), np.float64))),
])
def test_bad_operands_are_refused(named, call):
    w = BlockSparseMatrix.from_dense(np.eye(16, dtype=np.float32), 4)
    with pytest.raises(PoplibsError, match="^" + re.escape(named)):
        call(w, np.ones((16, 4), np.float32))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("block_shape", [(1, 1), (4, 4), (16, 16)], ids=str)
@pytest.mark.parametrize("columns", [512, 700, 1100])
def test_wide_rows_read_often_go_through_panels(columns, block_shape, threads, on_threads):
    pattern = random_pattern(300, 70, block_shape, 0.8, columns)
    for transposed in (False, True):
        made = exact_sparse_operands(pattern, columns, "float32", transposed=transposed, seed=columns)
        with on_threads(threads):
            check_exact("static.sparse_dense_matmul", made.a, made.b)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("columns", [128, 384])
def test_wide_rows_read_seldom_are_walked_as_they_lie(columns, dtype, threads, on_threads):
    pattern = random_pattern(300, 70, 1, 0.02, columns)  # some rows are empty
    for transposed in (False, True):
        made = exact_sparse_operands(pattern, columns, dtype, transposed=transposed, seed=columns)
        assert dtype != "float32" or not static.plan_sparse_dense_matmul(made.a, columns).packs
        with on_threads(threads):
            check_exact("static.sparse_dense_matmul", made.a, made.b)


@pytest.mark.parametrize("formats", [("float32", "float32"), ("bfloat16", "f143"), ("float16", "float16")])
def test_vectors(formats: tuple[str, str]) -> None:
    w = random_matrix(random_pattern(24, 40, (4, 8), 0.4, 1), dtype=formats[0], seed=2)
    tall, wide = testing.random_operand((40,), formats[1], 3), testing.random_operand((24,), formats[1], 4)
    testing.check("static.sparse_dense_matmul", w, tall, bias=np.arange(24, dtype=np.float32), activation="relu")
    testing.check("static.dense_sparse_matmul", wide, w)
    assert_same_bits(w @ tall, (w @ tall[:, None])[:, 0])
    assert_same_bits(wide @ w, (wide[None] @ w)[0])
    assert_same_bits(dynamic.sparse_dense_matmul(w, tall), w @ tall)
    out = np.empty(24, np.float32)
    assert static.sparse_dense_matmul(w, tall, out=out) is out
    assert_same_bits(out, static.sparse_dense_matmul(w, tall, out_dtype="float32"))
    assert (w @ ([1.0] * 40)).shape == (24,)
    with pytest.raises(InvalidArgumentError, match=r"^out: got shape \(24, 1\)"):
        static.sparse_dense_matmul(w, tall, out=out[:, None])
