"""Products in every format on exact data: the bits are those of the float64 reference, whichever kernel serves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import testing
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.formats import FORMATS, FP32, format_of
from poplibs_py.popsparse import BlockSparseMatrix, dynamic, random_matrix, random_pattern, static
from poplibs_py.testing import assert_same_bits
from poplibs_py.testing.strategies import block_patterns

NAMES = [f.name for f in FORMATS]
BLOCKS = [(1, 1), (4, 4), (8, 8), (16, 16), (32, 32), (3, 5), (1, 4), (8, 1), (7, 16)]


@pytest.mark.parametrize("w_name", NAMES)
@given(x_name=st.sampled_from(NAMES), pattern=block_patterns(BLOCKS, groups=2), columns=st.integers(0, 150),
       transposed=st.booleans(), order=st.sampled_from("CF"), scale=st.integers(-111, 107), per_block=st.booleans(),
       seed=st.integers(0, 2**32 - 1))
def test_every_pair_of_formats(w_name, x_name, pattern, columns, transposed, order, scale, per_block, seed):
    exponents = 0
    if format_of(w_name).bits == 8:
        near = np.random.default_rng(seed).integers(-3, 4, pattern.n_blocks)
        exponents = near if per_block else scale
    made = testing.exact_sparse_operands(pattern, columns, w_name, x_name, transposed=transposed, scale=exponents,
                                         seed=seed)
    x = np.asarray(made.b, order=order)
    testing.check_exact("static.sparse_dense_matmul", made.a, x)
    testing.check_exact("sparse_dense_matmul_prepared", made.a, x)
    left = np.asarray(made.b.swapaxes(-1, -2), order=order)
    testing.check_exact("static.dense_sparse_matmul", left, made.a.T)
    testing.check_exact("dense_sparse_matmul_prepared", left, made.a.T)
    ready, other = static.prepare(made.a, x_dtype=x_name), static.prepare(made.a.T, side="right", x_dtype=x_name)
    want = static.sparse_dense_matmul(made.a, x)
    for _ in range(2):
        assert_same_bits(static.sparse_dense_matmul(ready, x), want)
        assert_same_bits(static.dense_sparse_matmul(left, other), want.swapaxes(-1, -2))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("swapped", [False, True])
def test_bias_activation_and_output_formats(name, swapped):
    for seed in range(5):
        made = testing.exact_sparse_operands(random_pattern(45, 37, (8, 4), 0.4), 70, "float16", "float32", seed=seed)
        unit = 2.0 ** np.random.default_rng(seed).integers(-16, 0)  # so that results meet the format's numbers
        x, bias = (np.float32(v * (unit / made.quantum)) for v in (made.b, made.addend((45,), FP32)))
        how = {"bias": bias, "activation": "relu", "out_dtype": name}
        if swapped:
            got = testing.check_exact("static.dense_sparse_matmul", x.T, made.a.T, **how)
        else:
            got = testing.check_exact("static.sparse_dense_matmul", made.a, x, **how)
        assert got.dtype == format_of(name).dtype


def test_infinities_and_nans_travel_as_ieee_says():
    w = BlockSparseMatrix.from_dense(np.ones((4, 4), np.float16), 2, dtype="float16")
    x = np.zeros((4, 3), np.float16)
    x[0] = [np.inf, np.nan, 1]
    got = static.sparse_dense_matmul(w, x)
    assert np.all(np.isposinf(got[:, 0]))
    assert np.all(np.isnan(got[:, 1]))
    assert np.all(got[:, 2] == 1)


def test_a_prepared_operand_serves_its_side():
    w = random_matrix(random_pattern(45, 37, (8, 4), 0.4))
    x, bias = testing.random_operand((70, 45), FP32, 4), testing.random_operand((37,), FP32, 5)
    left = static.prepare_dense(x, side="left")
    assert "side=left" in repr(left)
    out = np.empty((70, 37), np.float16)
    assert static.dense_sparse_matmul(left, w, bias=bias, activation="relu", out=out) is out
    plain = static.dense_sparse_matmul(x, w, bias=bias, activation="relu", out_dtype="float16")
    testing.assert_same_bits(out, plain)
    testing.assert_same_bits(dynamic.dense_sparse_matmul(left, w), static.dense_sparse_matmul(x, w))
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
