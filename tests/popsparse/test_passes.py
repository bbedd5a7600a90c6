"""The three passes of a fully connected layer, static and dynamic, on exact data."""

from __future__ import annotations

import re
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from limits import of_a_mebibyte

from poplibs_py.errors import (
    CapacityWarning,
    InvalidArgumentError,
    InvalidTypeError,
    MemoryLimitError,
    MemoryLimitWarning,
    PoplibsError,
)
from poplibs_py.formats import FORMATS, FP32, QuarterArray
from poplibs_py.popsparse import BlockSparseMatrix, dynamic, random_matrix, random_pattern, static
from poplibs_py.program import memory_in_use, memory_peak
from poplibs_py.report.peers import limited_threads
from poplibs_py.target import Target, memory_limit
from poplibs_py.testing import assert_same_bits, check_exact, exact_operands, exact_sparse_operands, random_operand
from poplibs_py.testing.strategies import block_patterns

NAMES = [f.name for f in FORMATS]
BLOCKS = [(1, 1), (4, 4), (8, 8), (16, 16), (32, 32), (3, 5), (1, 4), (8, 1), (7, 16)]


def batch_first(operand: np.ndarray, groups: int) -> np.ndarray:
    """(groups, features, batch), or without groups, as a layer takes it."""
    grouped = operand.reshape(groups, *operand.shape[-2:])
    return grouped.transpose(2, 0, 1).reshape(operand.shape[-1], groups * operand.shape[-2])


def gradients(shape: tuple[int, ...], columns: int, names: tuple[str, str], seed: int, order: str = "C"
              ) -> tuple[np.ndarray, np.ndarray]:
    """Gradients and inputs, (..., rows, columns) and (..., depth, columns), whose sums over the columns are exact."""
    *front, rows, depth = shape
    made = exact_operands((*front, rows, columns), (*front, columns, depth), *names, seed=seed)
    return np.asarray(made.a, order=order), np.asarray(made.b.swapaxes(-1, -2), order=order)


@pytest.mark.parametrize("name", NAMES)
@given(pattern=block_patterns(BLOCKS, groups=3), batch=st.integers(0, 80), seed=st.integers(0, 2**32 - 1))
def test_three_passes_of_a_layer(name, pattern, batch, seed):
    groups = pattern.groups
    made = exact_sparse_operands(pattern, batch, name, seed=seed)
    bias = made.addend((groups, pattern.shape[0]), FP32)
    check_exact("fully_connected_fwd", made.a, batch_first(made.b, groups), bias=bias)
    back = exact_sparse_operands(pattern, batch, name, transposed=True, seed=seed)
    check_exact("fully_connected_grad_a", back.a.T, batch_first(back.b, groups))
    dy, x = gradients((groups, *pattern.shape), batch, (name, name), seed)
    check_exact("fully_connected_sparse_grad_w", made.a, batch_first(dy, groups), batch_first(x, groups))


@pytest.mark.parametrize("y_name", NAMES)
@given(x_name=st.sampled_from(NAMES), columns=st.integers(0, 90), order=st.sampled_from("CF"), transposed=st.booleans(),
       block_shape=st.sampled_from(BLOCKS), seed=st.integers(0, 2**32 - 1))
def test_grad_w_takes_every_pair_of_formats(y_name, x_name, columns, order, transposed, block_shape, seed):
    w = random_matrix(random_pattern(30, 41, block_shape, 0.4, seed))
    dy, x = gradients((30, 41), columns, (y_name, x_name), seed, order)
    check_exact("sparse_grad_w", *((w.T, x, dy) if transposed else (w, dy, x)))


@given(names=st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), block_shape=st.sampled_from(BLOCKS),
       columns=st.integers(0, 300), order=st.sampled_from("CF"), proportion=st.sampled_from([0, 0.04, 0.06, 0.1, 0.6]),
       threads=st.sampled_from([1, 2]), groups=st.integers(1, 2), seed=st.integers(0, 2**32 - 1))
def test_grad_w_keeps_to_its_memory_limit(names, block_shape, columns, order, proportion, threads, groups, seed):
    proportion = of_a_mebibyte(proportion)
    w = BlockSparseMatrix.from_dense(random_operand((groups, 90, 120), FP32, seed), block_shape, density=0.4)
    dy, x = gradients((groups, 90, 120), columns, names, seed, order)
    memory_peak(reset=True)
    before = memory_in_use()
    with limited_threads(threads):
        check_exact("sparse_grad_w", w, dy, x, available_memory_proportion=proportion, strict_memory=True)
        bound = memory_limit(Target.host(threads), proportion)
    assert bound is None or memory_peak() - before <= threads * bound


def test_a_bound_that_no_plan_meets():
    w = BlockSparseMatrix.from_dense(np.eye(16, dtype=np.float32), 4)
    x = np.ones((16, 16), np.float32)
    with pytest.raises(MemoryLimitError, match="leaves"):
        static.sparse_grad_w(w, x, x, available_memory_proportion=1e-5, strict_memory=True)
    with pytest.warns(MemoryLimitWarning, match="the limit was raised"):
        got = dynamic.fully_connected_sparse_grad_w(w, x, x, available_memory_proportion=1e-5)
    assert_same_bits(got, np.full_like(got, 16))


@given(pattern=block_patterns(BLOCKS), transpose_lhs=st.booleans(), transpose_rhs=st.booleans(),
       batch=st.integers(0, 80), seed=st.integers(0, 2**32 - 1))
def test_dynamic_matmul_equals_static(pattern, batch, transpose_lhs, transpose_rhs, seed):
    w = random_matrix(pattern, seed=seed)
    op = w.T if transpose_lhs else w
    x = random_operand((op.shape[1], batch), FP32, seed)
    given_x = np.ascontiguousarray(x.T) if transpose_rhs else x
    got = dynamic.sparse_dense_matmul(w, given_x, transpose_lhs=transpose_lhs, transpose_rhs=transpose_rhs)
    assert_same_bits(got, static.sparse_dense_matmul(op, x))
    turned = dynamic.dense_sparse_matmul(given_x.T, w, transpose_lhs=transpose_rhs, transpose_rhs=not transpose_lhs)
    assert_same_bits(turned, static.dense_sparse_matmul(x.T, op.T))


@pytest.mark.parametrize("name", ["float32", "float16", "f143"])
def test_capacity_grows_with_a_warning_and_only_then(name):
    capacity = dynamic.Capacity.with_nz_ratio((64, 64), 8, 0.2, oversize=0)
    for density in (0.1, 0.2):
        made = exact_sparse_operands(random_pattern(64, 64, 8, density), 10, name, FP32, seed=3)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_exact("dynamic.sparse_dense_matmul", made.a, made.b, capacity=capacity)
    made = exact_sparse_operands(random_pattern(64, 64, 8, 1), 10, name, FP32, seed=3)
    with pytest.warns(CapacityWarning, match="64 blocks"):
        check_exact("dynamic.sparse_dense_matmul", made.a, made.b, capacity=capacity)
    assert capacity.n_blocks == 64
    small, (y, x) = dynamic.Capacity(30), gradients((64, 64), 10, (name, name), 3)
    with pytest.warns(CapacityWarning, match="64 blocks"):
        check_exact("fully_connected_sparse_grad_w", made.a, y.T, x.T, capacity=small)
    check_exact("dynamic.dense_sparse_matmul", made.b.T, made.a.T, capacity=small)
    assert small.n_blocks == 64


@pytest.mark.parametrize("call", [
    lambda w, x, capacity: dynamic.sparse_dense_matmul(w, x[:5], capacity=capacity),
    lambda w, x, capacity: dynamic.sparse_dense_matmul(w, x, capacity=capacity, transpose_rhs=1),
    lambda w, x, capacity: dynamic.sparse_dense_matmul(w, x[:5].T, capacity=capacity, transpose_rhs=True),
    lambda w, x, capacity: dynamic.sparse_dense_matmul(w, x, capacity=capacity, out=x[:3]),
    lambda w, x, capacity: dynamic.sparse_dense_matmul(w, x, capacity=capacity, bias=[1, 2]),
    lambda w, x, capacity: dynamic.sparse_dense_matmul(w, x, capacity=capacity, activation="tanh"),
    lambda w, x, capacity: dynamic.sparse_dense_matmul(w, x, capacity=capacity, strict_memory=True,
                                                       available_memory_proportion=1e-6),
    lambda w, x, capacity: dynamic.fully_connected_fwd(w, x.T[:, :5], capacity=capacity),
    lambda w, x, capacity: dynamic.fully_connected_fwd(w, x.T, capacity=capacity, out_dtype="float63"),
    lambda w, x, capacity: dynamic.fully_connected_grad_a(w, x.T[:, :5], capacity=capacity),
    lambda w, x, capacity: dynamic.fully_connected_sparse_grad_w(w, x.T, x.T, out=x, capacity=capacity),
    lambda w, x, capacity: dynamic.dense_sparse_matmul(x.T[:, :5], w, capacity=capacity),
])  # fmt: skip
def test_a_refused_call_leaves_the_capacity_as_it_was(call):
    w, x = BlockSparseMatrix.from_dense(np.ones((16, 16), np.float16), 4), np.ones((16, 3), np.float16)
    capacity = dynamic.Capacity(1)
    with pytest.raises(PoplibsError):
        call(w, x, capacity)
    assert capacity.n_blocks == 1


def test_a_capacity_that_grows_on_many_threads_holds_all_that_was_asked_for():
    capacity, barrier = dynamic.Capacity(0), threading.Barrier(8)

    def grow(most):
        barrier.wait()
        for blocks in range(most, 2000, 8):
            assert capacity.hold(blocks) >= blocks

    with warnings.catch_warnings(action="ignore", category=CapacityWarning), ThreadPoolExecutor(8) as threads:
        list(threads.map(grow, range(8)))
    assert capacity.n_blocks >= 1999


def test_growth_never_takes_back_what_another_call_grew_meanwhile(monkeypatch):
    capacity = dynamic.Capacity(1)
    monkeypatch.setattr("poplibs_py.popsparse.capacity.warn", lambda *_: setattr(capacity, "_blocks", 50))
    assert capacity.hold(4) == 50


@pytest.mark.parametrize(("named", "call"), [
    ("capacity: got int", lambda w, x: dynamic.sparse_dense_matmul(w, x, capacity=5)),
    ("capacity: got int", lambda w, x: dynamic.dense_sparse_matmul(x, w, capacity=5)),
    ("w: got ", lambda w, x: dynamic.dense_sparse_matmul(w, x)),
    ("capacity: got int", lambda w, x: dynamic.fully_connected_sparse_grad_w(w, x, x, capacity=5)),
    ("acts: got shape (16, 3)", lambda w, x: dynamic.fully_connected_fwd(w, x[:, :3])),
    ("activation: got tanh", lambda w, x: dynamic.fully_connected_fwd(w, x, activation="tanh")),
    ("bias: got shape (2,)", lambda w, x: dynamic.fully_connected_fwd(w, x, bias=[1, 2])),
    ("acts: got a batch of 3", lambda w, x: dynamic.fully_connected_sparse_grad_w(w, x, x[:3])),
    ("n_blocks: got -1", lambda w, x: dynamic.Capacity(-1)),
    ("nz_ratio: got 1.5", lambda w, x: dynamic.Capacity.with_nz_ratio((4, 4), 2, 1.5)),
    ("out: got shape (3,)", lambda w, x: static.sparse_grad_w(w, x, x, out=np.empty(3, np.float32))),
])
def test_bad_calls_are_refused(named, call):
    w = BlockSparseMatrix.from_dense(np.eye(16, dtype=np.float32), 4)
    with pytest.raises(PoplibsError, match="^" + re.escape(named)):
        call(w, np.ones((16, 16), np.float32))


def test_quarter_arrays_bring_their_scale():
    w = random_matrix(random_pattern(20, 24, 4, 0.5))
    codes = random_operand((9, 24), "f143", 1), random_operand((9, 20), "f143", 2)
    scaled_acts, scaled_grads = (QuarterArray(x, "f143", -2) for x in codes)
    acts, grads = (q.to_array(np.float32) for q in (scaled_acts, scaled_grads))
    assert_same_bits(dynamic.fully_connected_fwd(w, scaled_acts), dynamic.fully_connected_fwd(w, acts))
    assert_same_bits(dynamic.fully_connected_grad_a(w, scaled_grads), dynamic.fully_connected_grad_a(w, grads))
    assert_same_bits(dynamic.fully_connected_sparse_grad_w(w, scaled_grads, scaled_acts, out_dtype="float32"),
                     dynamic.fully_connected_sparse_grad_w(w, grads, acts))
    assert_same_bits(dynamic.sparse_dense_matmul(w, scaled_acts, transpose_rhs=True), w @ acts.T)
    x = QuarterArray(np.ascontiguousarray(codes[0].T), "f143", -2)
    assert_same_bits(static.sparse_dense_matmul(w, static.prepare_dense(x, "float32")), w @ acts.T)


@pytest.mark.parametrize("oversize", [10**400, float("inf"), float("nan"), -1, "0.3"])
def test_an_oversize_that_no_float_holds_is_refused(oversize):
    with pytest.raises(InvalidTypeError if oversize == "0.3" else InvalidArgumentError, match=r"^oversize: "):
        dynamic.Capacity.with_nz_ratio((8, 8), 2, 0.5, oversize=oversize)
