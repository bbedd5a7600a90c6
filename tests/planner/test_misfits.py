"""A call that does not keep to its limit warns each time, whatever the op: neither a plan nor a call swallows it."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

from poplibs_py import poplin, popnn, popops, profile
from poplibs_py.errors import MemoryLimitError, MemoryLimitWarning
from poplibs_py.planner import facts_of
from poplibs_py.planner.explain import HostPlan
from poplibs_py.poplin import multiconv
from poplibs_py.poplin.tile_conv import matmul_params, plan_convolution
from poplibs_py.popsparse import BlockSparseMatrix, dynamic, static

X = np.ones((64, 48), np.float16)
W = BlockSparseMatrix.from_dense(np.eye(64, dtype=np.float16), 4)
READY = poplin.prepare(X)

CALLS = {
    "dense": (poplin.matmul, lambda: (X.T, X)),
    "dense, accumulated": (poplin.matmul_acc, lambda: (np.zeros((48, 48), np.float32), X.T, X)),
    "dense, prepared": (poplin.matmul, lambda: (X.T, READY)),
    "gc200": (lambda *arrays, **how: poplin.matmul(*arrays, target="gc200", **how), lambda: (X.T, X)),
    "SpMM": (static.sparse_dense_matmul, lambda: (W, X)),
    "SpMM, dynamic": (dynamic.sparse_dense_matmul, lambda: (W, X)),
    "SDDMM": (static.sparse_grad_w, lambda: (W, X.astype(np.float32)[:, ::2], X[:, ::2])),
    "plan": (poplin.plan_matmul, lambda: ((300, 300), (300, 300))),
    "plan of SpMM": (static.plan_sparse_dense_matmul, lambda: (W, 48)),
    "plan of SDDMM": (lambda w, n, **how: static.plan_sparse_grad_w(w.astype("float32"), n, x_dtype="float16", **how),
                      lambda: (W, 48)),
    "plan of a layer": (dynamic.plan_fully_connected_fwd, lambda: (W, 48)),
    "plan of an embedding": (popops.plan_embedding, lambda: (600, 40, 5000)),
    "plan of an embedding on gc200": (lambda *sizes, **how: popops.plan_embedding(*sizes, target="gc200", **how),
                                      lambda: (600, 40, 5000)),
    "plan of a convolution": (lambda p, **how: plan_convolution(p, **how),
                              lambda: (matmul_params(1, 300, 300, 300, "half"),)),
}
HALVES = {shape: np.ones(shape, np.float16)
          for shape in ((3, 64, 64), (3, 64, 4, 64), (4, 64, 64), (64, 64), (3, 64, 64, 3))}
SEQUENCE, GATES, WEIGHTS = (HALVES[shape] for shape in ((3, 64, 64), (3, 64, 4, 64), (4, 64, 64)))
IMAGES, FILTERS = np.ones((2, 8, 12, 12), np.float16), np.ones((16, 8, 3, 3), np.float16)
LAYER = [popnn.LayerWeights(WEIGHTS, WEIGHTS)]


def on_machine(function):
    return lambda *arrays, **how: function(*arrays, target="gc200", **how)


def several(x, weights, target=None, **how):
    """Convolve under no limit, and under one."""
    return multiconv.convolution([(x, weights), (x, weights, how)], target=target)


CALLS |= {
    "LSTM": (popnn.lstm_fwd, lambda: (SEQUENCE, WEIGHTS, WEIGHTS)),
    "LSTM, backward": (popnn.lstm_bwd, lambda: (SEQUENCE, SEQUENCE, WEIGHTS, WEIGHTS)),
    "LSTM, weights": (popnn.lstm_wu, lambda: (GATES, SEQUENCE, SEQUENCE)),
    "GRU": (popnn.gru_fwd, lambda: (SEQUENCE, WEIGHTS[:3], WEIGHTS[:3])),
    "GRU, weights": (popnn.gru_wu, lambda: (GATES[:, :, :3], SEQUENCE, SEQUENCE, HALVES[3, 64, 64, 3].swapaxes(2, 3))),
    "RNN": (popnn.rnn_fwd, lambda: (SEQUENCE, WEIGHTS[0], WEIGHTS[0])),
    "RNN, backward": (popnn.rnn_bwd, lambda: (SEQUENCE, SEQUENCE, WEIGHTS[0], WEIGHTS[0])),
    "a stack of layers": (popnn.lstm, lambda: (SEQUENCE, LAYER)),
    "attention": (popnn.scaled_dot_product_attention, lambda: (HALVES[64, 64],) * 3),
    "attention, gradient": (popnn.scaled_dot_product_attention_grad,
                            lambda: (*(HALVES[64, 64],) * 5, np.ones(64, np.float32))),
    "slices": (popops.multi_update_add, lambda: (np.ones((64, 8), np.float16), np.ones((256, 8), np.float16),
    np.arange(256) % 64)),
    "slices, read": (popops.multi_slice, lambda: (HALVES[64, 64], np.arange(4096) % 64)),
    "slices, a function": (lambda *arrays, **how: popops.scatter(*arrays, operation=lambda a, b: a + b, **how),
                           lambda: (np.ones((64, 8), np.float32), np.arange(256) % 64, np.ones((256, 8), np.float32))),
    "several convolutions": (several, lambda: (IMAGES, FILTERS)),
    "several convolutions on gc200": (on_machine(several), lambda: (IMAGES, FILTERS)),
    "LSTM on gc200": (on_machine(popnn.lstm_fwd), lambda: (SEQUENCE, WEIGHTS, WEIGHTS)),
    "attention on gc200": (on_machine(popnn.scaled_dot_product_attention), lambda: (HALVES[64, 64],) * 3),
    "Cholesky on gc200": (on_machine(poplin.cholesky), lambda: (np.eye(64, dtype=np.float32),)),
    "slices on gc200": (on_machine(popops.multi_slice), lambda: (HALVES[64, 64], np.arange(4096) % 64)),
}


@pytest.mark.parametrize(("call", "operands"), CALLS.values(), ids=CALLS)
def test_each_call_warns(call, operands):
    for _ in range(3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(*operands(), available_memory_proportion=1e-5)
        [warning] = [w for w in caught if issubclass(w.category, MemoryLimitWarning)]
        assert ": available_memory_proportion=1e-05 leaves " in str(warning.message)
        assert re.search(r"; the limit was (dropped|raised to [\d,]+)$", str(warning.message))
    for _ in range(2):
        with pytest.raises(MemoryLimitError, match="available_memory_proportion=1e-05 leaves "):
            call(*operands(), available_memory_proportion=1e-5, strict_memory=True)


@pytest.mark.parametrize("name", CALLS)
def test_a_plan_says_what_became_of_its_limit(name):
    call, operands = CALLS[name]
    with profile() as report, pytest.warns(MemoryLimitWarning) as caught:
        made = call(*operands(), available_memory_proportion=1e-5)
    [warning] = caught
    words = str(warning.message).rpartition("; the limit was ")[2]
    plan = made if name.startswith("plan") else report.runs[-1].plan
    facts = facts_of(plan)
    assert isinstance(plan, HostPlan) == (facts.machine == "host")
    assert words in str(facts.settings) + str(facts.decisions)
    assert words in str(plan) + plan.explain().words()


@pytest.mark.parametrize("proportion", [10.0 ** -e for e in range(9)])
def test_plans_say_whether_they_fit(proportion):
    for m, n, dtype in ((1, 300, "float32"), (300, 1, "float16"), (64, 64, "f143"), (300, 300, "float16")):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            plan = poplin.plan_matmul((m, 200), (200, n), dtype=dtype, available_memory_proportion=proportion)
        assert plan.fits == (not caught)
