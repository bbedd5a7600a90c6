"""Compiled calls take any `out` that plain calls take."""

from __future__ import annotations

import numpy as np
import pytest

from poplibs_py import poplin, popsparse
from poplibs_py.popsparse import static
from poplibs_py.testing import assert_same_bits

X = np.random.default_rng(0).standard_normal((32, 24)).astype(np.float32)
W = popsparse.BlockSparseMatrix.from_dense(X[:, :16].repeat(2, axis=1), 4)

COMPILED = {
    "host product": (poplin.compile_matmul(poplin.plan_matmul((24, 32), (32, 24))), (X.T.copy(), X)),
    "modelled product": (poplin.compile_matmul(poplin.plan_matmul((24, 32), (32, 24), target="gc200")),
                         (X.T.copy(), X)),
    "sparse product": (static.compile_sparse_dense_matmul(static.plan_sparse_dense_matmul(W, 24)), (W, X)),
}


@pytest.mark.parametrize(("run", "operands"), COMPILED.values(), ids=COMPILED)
def test_an_output_lies_as_it_likes(run, operands):
    due = run(*operands)
    rows, columns = due.shape
    for out in (np.empty((columns, rows), np.float32).T, np.empty((2 * rows, columns), np.float32)[::2],
                np.empty((rows, columns + 1), np.float32)[:, ::-1][:, 1:], operands[1][:rows, :columns]):
        for _ in range(3):
            kept = operands[1].copy()
            made = run(*operands, out=out)
            assert made is out
            assert_same_bits(np.ascontiguousarray(out), due)
            operands[1][...] = kept
