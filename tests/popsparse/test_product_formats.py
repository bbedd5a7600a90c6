"""Products in every format on exact data: the bits are those of the float64 reference, whichever kernel serves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.formats import FORMATS, format_of
from poplibs_py.popsparse import BlockSparseMatrix, dynamic, reference, static

NAMES = [f.name for f in FORMATS]
BLOCKS = [(1, 1), (4, 4), (8, 8), (16, 16), (32, 32), (3, 5), (1, 4), (8, 1), (7, 16)]


def numbers(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> np.ndarray:
    """Numbers that every format holds and whose sums of products are exact in FP32."""
    return rng.integers(-4, 5, shape).astype(format_of(name).dtype)


def dense(w: BlockSparseMatrix) -> np.ndarray:
    blocks = w.blocks.astype(np.float64) * np.exp2(np.asarray(w.scale, np.float64)).reshape(-1, 1, 1)
    stored = reference.dense_of(w.pattern.shape, w.pattern.block_shape, w.row_offsets, w.column_indices, blocks,
                                w.groups)
    return stored.swapaxes(1, 2) if w.is_transposed else stored


@pytest.mark.parametrize("w_name", NAMES)
@given(x_name=st.sampled_from(NAMES), block_shape=st.sampled_from(BLOCKS), rows=st.integers(0, 50),
       depth=st.integers(0, 50), columns=st.integers(0, 150), density=st.floats(0, 1), transposed=st.booleans(),
       order=st.sampled_from("CF"), scale=st.integers(-3, 3), per_block=st.booleans(), groups=st.integers(1, 2),
       seed=st.integers(0, 2**32 - 1))
def test_every_pair_of_formats(w_name, x_name, block_shape, rows, depth, columns, density, transposed, order, scale,
                               per_block, groups, seed):
    rng = np.random.default_rng(seed)
    stored = (groups, depth, rows) if transposed else (groups, rows, depth)
    w = BlockSparseMatrix.from_dense(numbers(rng, stored, w_name), block_shape, density=density, format=w_name)
    if w.format.bits == 8:
        exponents = rng.integers(-3, 4, w.n_blocks) if per_block else scale
        w = BlockSparseMatrix(w.pattern, w.blocks, w.format, exponents)
    w = w.T if transposed else w
    x = np.asarray(numbers(rng, (groups, depth, columns), x_name), order=order)
    expected = reference.sparse_dense_matmul(dense(w), x)
    assert np.array_equal(static.sparse_dense_matmul(w, x), expected)
    prepared = static.prepare_dense(x, w.format)
    assert np.array_equal(static.sparse_dense_matmul(w, prepared), expected)
    left = static.prepare_dense(np.asarray(x.swapaxes(1, 2), order=order), w.format, side="left")
    for _ in range(2):
        assert np.array_equal(static.dense_sparse_matmul(left, w.T), expected.swapaxes(1, 2))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("swapped", [False, True])
def test_bias_activation_and_output_formats(name, swapped):
    rng = np.random.default_rng(1)
    w = BlockSparseMatrix.from_dense(numbers(rng, (45, 37), "float16"), (8, 4), density=0.4, format="float16")
    x, bias = numbers(rng, (37, 70), "float32"), numbers(rng, (45,), "float32")
    expected = np.maximum(reference.sparse_dense_matmul(dense(w), x)[0] + bias[:, None], 0)
    expected = reference.rounded(expected, format_of(name))
    if swapped:
        got = static.dense_sparse_matmul(x.T, w.T, bias=bias, activation="relu", out_dtype=name).T
    else:
        got = static.sparse_dense_matmul(w, x, bias=bias, activation="relu", out_dtype=name)
    assert got.dtype == format_of(name).dtype
    assert np.array_equal(got.astype(np.float64), expected, equal_nan=True)


def test_infinities_and_nans_travel_as_ieee_says():
    w = BlockSparseMatrix.from_dense(np.ones((4, 4), np.float16), 2, format="float16")
    x = np.zeros((4, 3), np.float16)
    x[0] = [np.inf, np.nan, 1]
    got = static.sparse_dense_matmul(w, x)
    assert np.all(np.isposinf(got[:, 0]))
    assert np.all(np.isnan(got[:, 1]))
    assert np.all(got[:, 2] == 1)


def test_a_prepared_operand_serves_its_side():
    rng = np.random.default_rng(4)
    w = BlockSparseMatrix.from_dense(numbers(rng, (45, 37), "float32"), (8, 4), density=0.4)
    x, bias = numbers(rng, (70, 45), "float32"), numbers(rng, (37,), "float32")
    left = static.prepare_dense(x, side="left")
    assert "side=left" in repr(left)
    out = np.empty((70, 37), np.float16)
    assert static.dense_sparse_matmul(left, w, bias=bias, activation="relu", out=out) is out
    assert np.array_equal(out, static.dense_sparse_matmul(x, w, bias=bias, activation="relu", out_dtype="float16"))
    assert np.array_equal(dynamic.dense_sparse_matmul(left, w), x @ dense(w)[0])
    static.dense_sparse_matmul(left, w), static.sparse_dense_matmul(w.T, static.prepare_dense(x.T))
    for call in (lambda: static.sparse_dense_matmul(w.T, left), lambda: dynamic.sparse_dense_matmul(w.T, left),
                 lambda: static.dense_sparse_matmul(static.prepare_dense(x.T), w)):
        with pytest.raises(InvalidTypeError, match=r"^x: got operand prepared for the .*prepare_dense\(x, side="):
            call()
    with pytest.raises(InvalidArgumentError, match=r"^side: got up"):
        static.prepare_dense(x, side="up")
    with pytest.raises(InvalidArgumentError, match=r"^transpose_lhs: got True"):
        dynamic.dense_sparse_matmul(left, w, transpose_lhs=True)
    with pytest.raises(InvalidTypeError, match=r"^x: got PreparedDense"):
        static.sparse_grad_w(w, x.T, left)
