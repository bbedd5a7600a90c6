"""Products of random bits against their bounds, invariants, and the real matrices in all formats and passes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import testing
from poplibs_py.formats import FORMATS, FP32
from poplibs_py.popsparse import BlockSparseMatrix, static

BLOCKS = [(1, 1), (4, 4), (8, 8), (16, 16), (3, 5), (8, 1)]


def random_values(rng: np.random.Generator, shape: tuple[int, ...], fmt) -> np.ndarray:
    """Random codes of a format, FP32 of moderate exponents."""
    if fmt.bits > 16:
        return rng.standard_normal(shape).astype(np.float32) * np.exp2(rng.integers(-20, 20, shape)).astype(np.float32)
    return rng.integers(0, 1 << fmt.bits, shape).astype(fmt.code_dtype).view(fmt.dtype)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@given(block_shape=st.sampled_from(BLOCKS), columns=st.integers(1, 40), density=st.floats(0, 1),
       out=st.sampled_from(FORMATS), activation=st.sampled_from([None, "relu", "gelu", "silu"]),
       seed=st.integers(0, 2**32 - 1))
def test_random_bits_stay_within_the_bound(fmt, block_shape, columns, density, out, activation, seed):
    rng = np.random.default_rng(seed)
    mask = rng.random((-(-30 // block_shape[0]), -(-40 // block_shape[1]))) < density
    w = BlockSparseMatrix.from_mask(mask, block_shape, shape=(30, 40), dtype=fmt)
    values = BlockSparseMatrix.from_dense(random_values(rng, (30, 40), fmt), block_shape, mask=mask, dtype=fmt)
    x, bias = random_values(rng, (40, columns), fmt), rng.standard_normal(30).astype(np.float32)
    testing.check("static.sparse_dense_matmul", values, x, bias=bias, activation=activation, out_dtype=out)
    testing.check("sparse_grad_w", w, random_values(rng, (30, columns), fmt), x)


@given(block_shape=st.sampled_from(BLOCKS), columns=st.integers(1, 60), density=st.floats(0, 1),
       seed=st.integers(0, 2**32 - 1))
def test_sparse_equals_masked_dense_bit_for_bit(block_shape, columns, density, seed):
    """Zero blocks add nothing to a chain of fused multiply-adds: all stored or only some, the bits are the same."""
    rng = np.random.default_rng(seed)
    w = BlockSparseMatrix.from_dense(rng.standard_normal((37, 45), np.float32), block_shape, density=density)
    full = BlockSparseMatrix.from_dense(w.to_dense(), 1, mask=np.ones((37, 45), bool))
    x = rng.standard_normal((45, columns), np.float32)
    testing.assert_same_bits(w @ x, full @ x)


@pytest.mark.parametrize("block", [8, 16])
@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_threads_do_not_change_the_bits(fmt, block, on_threads):
    rng = np.random.default_rng(5)
    w = BlockSparseMatrix.from_dense(rng.standard_normal((300, 400)), block, density=0.6, dtype=fmt)
    x, dy = (rng.standard_normal((n, 130)).astype(fmt.dtype) for n in (400, 300))
    x[7, 11] = dy[3, 70] = np.nan  # where numbers are split, these rows are computed otherwise
    results = set()
    for threads in (1, 2, 3, 7):
        with on_threads(threads):
            results.add((w @ x).tobytes() + (w.T @ dy).tobytes() + static.sparse_grad_w(w, dy, x).tobytes()
                        + static.sparse_dense_matmul(w, static.prepare_dense(x)).tobytes())
    assert len(results) == 1


def test_threads_do_not_change_the_bits_of_a_gradient_within_a_bound(on_threads):
    rng = np.random.default_rng(7)
    w = BlockSparseMatrix.from_dense(rng.standard_normal((256, 128)), 128, dtype=FP32)
    dy, x = rng.standard_normal((256, 1000), np.float32), rng.standard_normal((128, 1000)).astype(np.float16)
    results = set()
    for threads in (1, 2, 3):
        for proportion in (0.4, 0.5, 0.6, 0.9):
            with on_threads(threads):
                got = static.sparse_grad_w(w, dy, x, available_memory_proportion=proportion)
            results.add((proportion, got.tobytes()))
    assert len(results) == 4


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_real_matrices_in_all_passes(fmt, shared_data):
    rng = np.random.default_rng(11)
    paths = sorted((shared_data / "dlmc").glob("*.smtx"))
    assert paths
    for path in paths:
        w = BlockSparseMatrix.load(path, dtype=fmt)
        dy, x = (rng.standard_normal((n, 33)).astype(fmt.dtype) for n in w.shape)
        testing.check("static.sparse_dense_matmul", w, x)
        testing.check("fully_connected_grad_a", w, dy.T)
        testing.check("sparse_grad_w", w, dy, x)
