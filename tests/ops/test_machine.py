"""Where calls run: what no modelled machine does is refused by name, and runs on this CPU in a profile."""

import re

import numpy as np
import pytest

import poplibs_py
from poplibs_py import poplin, popnn, popops, popsparse
from poplibs_py.errors import MemoryLimitError, PoplibsError, UnsupportedError
from poplibs_py.ops import catalogue
from poplibs_py.popsparse import BlockSparseMatrix, dynamic, experimental, static
from poplibs_py.target import Target
from poplibs_py.testing.cases import cases

SQUARE = np.eye(4, dtype=np.float32)
SPARSE = BlockSparseMatrix.from_dense(SQUARE, 2)

HERE_ALONE = {
    "poplin.add_bias": lambda **how: poplin.add_bias(np.zeros((1, 4, 3), np.float32), np.ones(4, np.float32), **how),
    "poplin.convolution_bias_update": lambda **how: poplin.convolution_bias_update(
        np.zeros((1, 4, 3), np.float32), np.ones(4, np.float32), 0.5, **how),
    "poplin.matmul_acc": lambda **how: poplin.matmul_acc(SQUARE.copy(), SQUARE, SQUARE, **how),
    "poplin.linspace": lambda **how: poplin.linspace(0, 1, 5, **how),
    "poplin.lu": lambda **how: poplin.lu(SQUARE, **how),
    "poplin.cholesky_grad": lambda **how: poplin.cholesky_grad(SQUARE, SQUARE, **how),
    "popops.bincount": lambda **how: popops.bincount([0, 2], **how),
    "popnn.huber_loss": lambda **how: popnn.huber_loss(SQUARE, SQUARE, **how),
    "popnn.max_pool_with_indices": lambda **how: popnn.max_pool_with_indices(SQUARE[None], 2, **how),
    "popsparse.static.sparse_grad_w": lambda **how: static.sparse_grad_w(SPARSE, SQUARE, SQUARE, **how),
    "popsparse.static.sparse_sparse_matmul": lambda **how: static.sparse_sparse_matmul(SPARSE, SPARSE, **how),
}


@pytest.mark.parametrize("name", HERE_ALONE)
def test_what_this_cpu_alone_does_is_refused_by_name_and_runs_here_in_a_profile(name):
    call = HERE_ALONE[name]
    with pytest.raises(UnsupportedError, match=f"^target: gc200 has no vertex for {re.escape(name)} "):
        call(target="gc200")
    with poplibs_py.profile(target="gc200") as report:
        call()
    assert f"no vertex for {name} " in report.runs[-1].lacking
    with poplibs_py.profile() as report:
        call(target=Target.host(1))
    assert report.runs[-1].lacking == ""


@pytest.mark.parametrize(("name", "call"), [
    ("popsparse.static.sparse_dense_matmul", lambda how: static.sparse_dense_matmul(SPARSE, SQUARE, **how)),
    ("popsparse.static.dense_sparse_matmul", lambda how: static.dense_sparse_matmul(SQUARE, SPARSE, **how)),
    ("popsparse.dynamic.fully_connected_fwd", lambda how: dynamic.fully_connected_fwd(SPARSE, SQUARE, **how)),
    ("popsparse.dynamic.fully_connected_grad_a", lambda how: dynamic.fully_connected_grad_a(SPARSE, SQUARE, **how)),
    ("popsparse.experimental.bs_matmul", lambda how: experimental.bs_matmul(SQUARE, SPARSE, **how)),
    ("plan_dense_sparse_matmul", lambda how: static.plan_dense_sparse_matmul(SPARSE, 4, dtype="f143", **how)),
])
def test_complaints_about_memory_name_the_op(name, call, monkeypatch):
    how = {"available_memory_proportion": 1e-9, "strict_memory": True}
    monkeypatch.setattr(popsparse.spmm.plan.SparsePlan, "fits", False)
    monkeypatch.setattr(popsparse.spmm.plan, "_fitted", lambda *_: None)
    with pytest.raises(MemoryLimitError, match=f"^{re.escape(name)}: available_memory_proportion"):
        call(how)


@pytest.mark.parametrize("name", sorted(catalogue.keys() - {"poplin.matmul_acc"}))  # whose options are keywords
def test_an_unknown_keyword_is_named_whatever_a_machine_lacks(name):
    for case in cases(name)[:1]:
        for target in (None, "gc200"):
            with pytest.raises((TypeError, PoplibsError), match="zzz"):
                catalogue[name].face(*case.operands, **case.keywords | {"target": target, "zzz": 1})
