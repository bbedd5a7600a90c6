"""Static products on exact data: whatever the order of the sums, the bits are those of the float64 reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import testing
from poplibs_py.errors import InvalidArgumentError, PoplibsError
from poplibs_py.popsparse import BlockSparseMatrix, dynamic, random_matrix, random_pattern, reference, static
from poplibs_py.testing import assert_same_bits

BLOCKS = [(1, 1), (4, 4), (8, 8), (16, 16), (32, 32), (3, 5), (1, 4), (8, 1), (7, 16), (13, 2)]


def whole_numbers(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers so small that every sum of their products is exact in FP32."""
    return rng.integers(-4, 5, shape).astype(np.float32)


def matrix(rng: np.random.Generator, shape: tuple[int, ...], block_shape: tuple[int, int],
           density: float) -> BlockSparseMatrix:
    return BlockSparseMatrix.from_dense(whole_numbers(rng, shape), block_shape, density=density)


def dense(w: BlockSparseMatrix) -> np.ndarray:
    stored = reference.dense_of(w.pattern.shape, w.pattern.block_shape, w.row_offsets, w.column_indices, w.blocks,
                                w.groups)
    return stored.swapaxes(1, 2) if w.is_transposed else stored


@pytest.mark.parametrize("block_shape", BLOCKS, ids=str)
@given(rows=st.integers(0, 70), depth=st.integers(0, 70), columns=st.integers(0, 140), groups=st.integers(1, 3),
       density=st.floats(0, 1), transposed=st.booleans(), seed=st.integers(0, 2**32 - 1))
def test_exact_data_gives_the_reference_bit_for_bit(block_shape, rows, depth, columns, groups, density, transposed,
                                                    seed):
    rng = np.random.default_rng(seed)
    stored = (depth, rows) if transposed else (rows, depth)
    w = matrix(rng, (groups, *stored), block_shape, density)
    w = w.T if transposed else w
    x = whole_numbers(rng, (groups, depth, columns))
    expected = reference.sparse_dense_matmul(dense(w), x)
    assert np.array_equal(static.sparse_dense_matmul(w, x), expected)
    swapped = static.dense_sparse_matmul(x.swapaxes(1, 2), w.T)
    assert np.array_equal(swapped, expected.swapaxes(1, 2))


@given(x_step=st.sampled_from([(1, 1), (2, 1), (1, 3), (-1, 1), (1, -2)]), order=st.sampled_from("CF"),
       y_step=st.sampled_from([(1, 1), (2, 1), (1, 2), (-1, -1)]), seed=st.integers(0, 2**32 - 1))
def test_any_strides_and_out_untouched_around(x_step, order, y_step, seed):
    rng = np.random.default_rng(seed)
    w = matrix(rng, (37, 50), (8, 4), 0.4)
    base = np.asarray(whole_numbers(rng, (50 * abs(x_step[0]), 45 * abs(x_step[1]))), order=order)
    x = base[::x_step[0], ::x_step[1]]
    room = np.full((37 * abs(y_step[0]) + 2, 45 * abs(y_step[1]) + 2), 1e9, np.float32)
    out = room[1:-1, 1:-1][::y_step[0], ::y_step[1]]
    assert static.sparse_dense_matmul(w, x, out=out) is out
    assert np.array_equal(out, reference.sparse_dense_matmul(dense(w), x)[0])
    out[...] = 1e9
    assert np.all(room == 1e9)


def test_values_written_in_place_are_seen():
    rng = np.random.default_rng(0)
    w = matrix(rng, (64, 64), (8, 8), 0.3)
    x = whole_numbers(rng, (64, 16))
    before = w @ x
    w.blocks[...] *= 2
    assert np.array_equal(w @ x, 2 * before)


@pytest.mark.parametrize("call", [
    lambda w, x: static.sparse_dense_matmul(x, x),
    lambda w, x: static.sparse_dense_matmul(w, str(x)),
    lambda w, x: static.sparse_dense_matmul(w, x[:5]),
    lambda w, x: static.sparse_dense_matmul(w, x.astype(np.float64)),
    lambda w, x: static.sparse_dense_matmul(w, x, out=x),
    lambda w, x: static.sparse_dense_matmul(w, x, out=np.empty((16, 3), np.float32)),
    lambda w, x: static.sparse_dense_matmul(w, x, out=np.empty((16, 4), np.float64)),
])
def test_bad_operands_are_refused(call):
    w = BlockSparseMatrix.from_dense(np.eye(16, dtype=np.float32), 4)
    with pytest.raises(PoplibsError):
        call(w, np.ones((16, 4), np.float32))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("block_shape", [(1, 1), (4, 4), (16, 16)], ids=str)
@pytest.mark.parametrize("columns", [512, 700, 1100])
def test_wide_rows_read_often_go_through_panels(columns, block_shape, threads, monkeypatch):
    monkeypatch.setattr("poplibs_py.popsparse.products.forward.threads_for", lambda _: threads)
    rng = np.random.default_rng(columns)
    w = matrix(rng, (300, 70), block_shape, 0.8)
    x = whole_numbers(rng, (70, columns))
    assert np.array_equal(static.sparse_dense_matmul(w, x), reference.sparse_dense_matmul(dense(w), x)[0])
    dy = whole_numbers(rng, (300, columns))
    assert np.array_equal(w.T @ dy, reference.sparse_dense_matmul(dense(w.T), dy)[0])


@pytest.mark.parametrize("formats", [("float32", "float32"), ("bfloat16", "f143"), ("float16", "float16")])
def test_vectors(formats: tuple[str, str]) -> None:
    w = random_matrix(random_pattern(24, 40, (4, 8), 0.4, 1), format=formats[0], seed=2)
    tall, wide = testing.random_operand((40,), formats[1], 3), testing.random_operand((24,), formats[1], 4)
    testing.check("sparse_dense_matmul", w, tall, bias=np.arange(24, dtype=np.float32), activation="relu")
    testing.check("dense_sparse_matmul", wide, w)
    assert_same_bits(w @ tall, (w @ tall[:, None])[:, 0])
    assert_same_bits(wide @ w, (wide[None] @ w)[0])
    assert_same_bits(dynamic.sparse_dense_matmul(w, tall), w @ tall)
    out = np.empty(24, np.float32)
    assert static.sparse_dense_matmul(w, tall, out=out) is out
    assert_same_bits(out, w @ tall)
    assert (w @ ([1.0] * 40)).shape == (24,)
    with pytest.raises(InvalidArgumentError, match=r"^out: got shape \(24, 1\)"):
        static.sparse_dense_matmul(w, tall, out=out[:, None])
