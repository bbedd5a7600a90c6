"""Plans of static products: the bits of the plain call, no more bytes than they say, other operands refused."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.errors import PoplibsError
from poplibs_py.formats import FORMATS
from poplibs_py.popsparse import BlockSparseMatrix, static
from poplibs_py.program import memory_in_use, memory_peak
from poplibs_py.testing import assert_same_bits

BLOCKS = [(1, 1), (4, 4), (16, 16), (3, 5)]


@given(name=st.sampled_from([f.name for f in FORMATS]), x_name=st.sampled_from([f.name for f in FORMATS]),
       out_name=st.sampled_from(["float32", "float16", "e4m3"]), block_shape=st.sampled_from(BLOCKS),
       columns=st.integers(1, 200), groups=st.integers(1, 2), transposed=st.booleans(), swapped=st.booleans(),
       with_bias=st.booleans(), activation=st.sampled_from([None, "gelu"]), seed=st.integers(0, 2**32 - 1))
def test_a_planned_product_is_the_plain_one(name, x_name, out_name, block_shape, columns, groups, transposed, swapped,
                                            with_bias, activation, seed):
    rng = np.random.default_rng(seed)
    numbers = rng.integers(-4, 5, (groups, 40, 50)).astype(np.float32)
    w = BlockSparseMatrix.from_dense(numbers if groups > 1 else numbers[0], block_shape, density=0.4, dtype=name)
    w = w.T if transposed else w
    rows, depth = w.shape[::-1] if swapped else w.shape
    fmt = next(f for f in FORMATS if f.name == x_name)
    shape = (*(groups,) * (groups > 1), *((columns, depth) if swapped else (depth, columns)))
    x = rng.integers(-4, 5, shape).astype(fmt.dtype)
    bias = rng.integers(-4, 5, rows).astype(np.float32) if with_bias else None
    plan_it, call = ((static.plan_dense_sparse_matmul, lambda: static.dense_sparse_matmul(x, w, **how)) if swapped else
                     (static.plan_sparse_dense_matmul, lambda: static.sparse_dense_matmul(w, x, **how)))
    how = {"out_dtype": out_name, "bias": bias, "activation": activation}
    plan = plan_it(w, columns, dtype=fmt, out_dtype=out_name, bias=with_bias, activation=activation)
    run = static.compile_sparse_dense_matmul(plan)
    expected = call()
    memory_peak(reset=True)
    before = memory_in_use()
    got = run(w, x, bias=bias)
    assert memory_peak() - before <= plan.temporary_bytes
    assert_same_bits(got, expected)
    assert plan.kernel.name in str(plan.explain())


@pytest.mark.parametrize("block", [1, 4])
def test_a_plan_without_columns_explains_itself(block):
    w = BlockSparseMatrix.from_dense(np.ones((16, 8), np.float32), block)
    plan = static.plan_sparse_dense_matmul(w, 0)
    assert f"in all {plan.temporary_bytes:,} " in str(plan.explain())
    assert static.compile_sparse_dense_matmul(plan)(w, np.ones((8, 0), np.float32)).shape == (16, 0)


@pytest.mark.parametrize(("named", "call"), [
    ("w: got BlockSparseMatrix(shape=(48, 32)", lambda run, w, x: run(w.T, x)),
    ("w: got ndarray", lambda run, w, x: run(x, x)),
    ("x: got float32 of shape (48, 3)", lambda run, w, x: run(w, x[:, :3])),
    ("x: got float16 of shape (48, 5)", lambda run, w, x: run(w, x.astype(np.float16))),
    ("bias: got an array", lambda run, w, x: run(w, x, bias=np.ones(32))),
    ("out: got ", lambda run, w, x: run(w, x, out=np.empty((32, 5), np.float16))),
    ("out: got strides (4, 128)", lambda run, w, x: run(w, x, out=np.empty((5, 32), np.float32).T)),
    ("w: got BlockSparseMatrix(", lambda run, w, x: run(BlockSparseMatrix.from_dense(np.ones((32, 48)), 4), x)),
    ("plan: got BlockSparseMatrix", lambda run, w, x: static.compile_sparse_dense_matmul(w)),
    ("n: got -1", lambda run, w, x: static.plan_sparse_dense_matmul(w, -1)),
    ("activation: got tanh", lambda run, w, x: static.plan_sparse_dense_matmul(w, 5, activation="tanh")),
    ("w: got ndarray", lambda run, w, x: static.plan_sparse_dense_matmul(x, 5)),
])
def test_other_operands_are_refused(named, call):
    w = BlockSparseMatrix.from_dense(np.eye(32, 48, dtype=np.float32), 4)
    x = np.ones((48, 5), np.float32)
    run = static.compile_sparse_dense_matmul(static.plan_sparse_dense_matmul(w, 5))
    assert_same_bits(run(w, x), w @ x)
    with pytest.raises(PoplibsError, match="^" + re.escape(named)):
        call(run, w, x)
