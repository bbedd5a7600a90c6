"""Every operation's large results come from the pool, own their memory, and are right in a buffer used before."""

import numpy as np
import pytest

from poplibs_py import cast, poplin, popops, poprand
from poplibs_py.popsparse import BlockSparseMatrix, bs_softmax, bs_softmax_grad, dynamic, static
from poplibs_py.program import clear_result_pool, result_pool, result_pool_limit

A = np.random.default_rng(1).standard_normal((256, 256)).astype(np.float32)
W = BlockSparseMatrix.from_dense(A, 16, density=0.5)
Y = bs_softmax(W)
ROW = np.ones(256, np.float32)
PLANNED = poplin.compile_matmul(poplin.plan_matmul(A.shape, A.shape))
SPARSE_PLAN = static.compile_sparse_dense_matmul(static.plan_sparse_dense_matmul(W, 256))
PREPARED = poplin.prepare(A)
DENSE = static.prepare_dense(A)
STACK = np.stack([A, A])

OPS = {
    "matmul": lambda: poplin.matmul(A, A),
    "matmul with bias": lambda: poplin.matmul(A, A, bias=ROW),
    "matmul in FP16": lambda: poplin.matmul(A.astype(np.float16), A.T.astype(np.float16), out_dtype="float16"),
    "matmul_grouped": lambda: poplin.matmul_grouped(STACK, STACK),
    "matmul by a plan": lambda: PLANNED(A, A),
    "matmul, prepared": lambda: poplin.matmul(A, PREPARED),
    "matmul, modelled": lambda: poplin.matmul(A.astype(np.float16), A.astype(np.float16), target="gc200"),
    "static": lambda: static.sparse_dense_matmul(W, A),
    "static, transposed": lambda: static.sparse_dense_matmul(W.T, A),
    "static from the right": lambda: static.dense_sparse_matmul(A, W, out_dtype="float16"),
    "static by a plan": lambda: SPARSE_PLAN(W, A),
    "static, prepared": lambda: static.sparse_dense_matmul(W, DENSE),
    "static gradient": lambda: static.sparse_grad_w(W, A, A),
    "dynamic": lambda: dynamic.sparse_dense_matmul(W, A),
    "dynamic gradient": lambda: dynamic.fully_connected_sparse_grad_w(W, A, A),
    "layer": lambda: dynamic.fully_connected_fwd(W, A),
    "softmax": lambda: bs_softmax(W).blocks,
    "softmax gradient": lambda: bs_softmax_grad(Y, W).blocks,
    "cast": lambda: cast(A, "float16"),
    "cast, transposed": lambda: cast(A.T, "float16"),
    "cast, scaled": lambda: popops.cast(STACK, "f143", scale="auto").codes,
    "uniform": lambda: poprand.uniform(A.shape, seed=1),
    "normal": lambda: poprand.normal(A.shape, seed=1),
    "bernoulli": lambda: poprand.bernoulli(A.shape, seed=1),
    "dropout": lambda: poprand.dropout(A, 0.5, seed=1),
}


@pytest.mark.parametrize("name", OPS)
def test_results_come_from_the_pool(name):
    op = OPS[name]
    with result_pool_limit(0):
        wanted = op().copy()
    with result_pool_limit(64 << 20):
        clear_result_pool()
        before = result_pool()
        made = op()
        owner = made if made.base is None else made.base
        assert owner.nbytes >= 128 << 10
        after = result_pool()
        assert after.reused + after.fresh > before.reused + before.fresh
        owner[...] = 3
        del made, owner
        assert result_pool().kept_buffers > 0
        again = op()
        assert result_pool().reused > after.reused
        assert again.tobytes() == wanted.tobytes()
