"""Block-sparse products beside the sweep's: every format, the three passes, and a call's own cost.

The sweep over shapes and densities against the peers is `bench_sparsity.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

from poplibs_py.formats import FORMATS
from poplibs_py.popsparse import BlockSparseMatrix, dynamic, random_matrix, random_pattern, static
from poplibs_py.popsparse.bound import sparse_dense_matmul_bound, sparse_grad_w_bound

SIZE, COLUMNS = 1024, 256


def operands(block: int, density: float, fmt) -> tuple[BlockSparseMatrix, np.ndarray]:
    w = random_matrix(random_pattern(SIZE, SIZE, block, density, 3), fmt, 3)
    return w, np.random.default_rng(4).standard_normal((SIZE, COLUMNS)).astype(fmt.dtype)


@pytest.mark.parametrize("density", [1 / 8, 1 / 32])
@pytest.mark.parametrize("block", [1, 4, 8, 16, 32])
@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@pytest.mark.parametrize("task", ["forward", "grad_a", "grad_w"])
def bench_pass(task, fmt, block, density, measure, benchmark):
    w, x = operands(block, density, fmt)
    benchmark.group = f"{task} {fmt} density {density:.4g}"
    op = w.T if task == "grad_a" else w
    if task == "grad_w":
        out = np.empty(w.blocks.shape, np.float32)
        got = static.sparse_grad_w(w, x, x, out=out).reshape(-1, block, block)
        ball = sparse_grad_w_bound(w, x, x)
        stored = BlockSparseMatrix(w.pattern, np.ones_like(got)).to_dense() != 0
        assert np.all(ball.contains(np.where(stored, BlockSparseMatrix(w.pattern, got).to_dense(), ball.centre[0]))[0])
        call = lambda: static.sparse_grad_w(w, x, x, out=out)  # noqa: E731
    else:
        out = np.empty((SIZE, COLUMNS), np.float32)
        got = static.sparse_dense_matmul(op, x, out=out)
        assert np.all(sparse_dense_matmul_bound(op, x).contains(got))
        call = lambda: static.sparse_dense_matmul(op, x, out=out)  # noqa: E731
    measure(call, flops=2.0 * w.nnz * COLUMNS, format_name=fmt.name, task=task, block=block, density=density)


@pytest.mark.parametrize("module", [static, dynamic], ids=["static", "dynamic"])
def bench_call_overhead(module, measure, benchmark):
    benchmark.group = "call of 8 x 8 by 8 x 8"
    w = random_matrix(random_pattern(8, 8, 4, 1.0, 3))
    x, out = np.ones((8, 8), np.float32), np.empty((8, 8), np.float32)
    assert np.all(sparse_dense_matmul_bound(w, x).contains(module.sparse_dense_matmul(w, x, out=out)))
    measure(lambda: module.sparse_dense_matmul(w, x, out=out), flops=2.0 * w.nnz * 8)
