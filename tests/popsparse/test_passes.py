"""The three passes of a fully connected layer, static and dynamic, on exact data."""

from __future__ import annotations

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.errors import CapacityWarning, MemoryBoundError, MemoryBoundWarning, PoplibsError
from poplibs_py.formats import FORMATS, QuarterArray, format_of
from poplibs_py.popsparse import BlockSparseMatrix, dynamic, reference, static
from poplibs_py.program import memory_in_use, memory_peak
from poplibs_py.report.peers import limited_threads
from poplibs_py.target import Target, memory_bound

NAMES = [f.name for f in FORMATS]
BLOCKS = [(1, 1), (4, 4), (8, 8), (16, 16), (32, 32), (3, 5), (1, 4), (8, 1), (7, 16)]


def numbers(rng: np.random.Generator, shape: tuple[int, ...], name: str = "float32") -> np.ndarray:
    return rng.integers(-4, 5, shape).astype(format_of(name).dtype)


def dense(w: BlockSparseMatrix) -> np.ndarray:
    return reference.dense_of(w.pattern.shape, w.pattern.block_shape, w.row_offsets, w.column_indices, w.blocks,
                              w.groups)


shapes = {"block_shape": st.sampled_from(BLOCKS), "outputs": st.integers(0, 50), "inputs": st.integers(0, 50),
          "batch": st.integers(0, 80), "density": st.floats(0, 1), "seed": st.integers(0, 2**32 - 1)}


@pytest.mark.parametrize("name", NAMES)
@given(groups=st.integers(1, 3), **shapes)
def test_three_passes_of_a_layer(name, block_shape, outputs, inputs, batch, density, groups, seed):
    rng = np.random.default_rng(seed)
    w = BlockSparseMatrix.from_dense(numbers(rng, (groups, outputs, inputs), name), block_shape, density=density,
                                     format=name)
    acts, grads = numbers(rng, (batch, groups, inputs), name), numbers(rng, (batch, groups, outputs), name)
    flat_acts, flat_grads = acts.reshape(batch, groups * inputs), grads.reshape(batch, groups * outputs)
    bias = numbers(rng, (groups, outputs))
    x, dy = acts.astype(np.float64), grads.astype(np.float64)
    stored = dense(w)

    forward = np.einsum("goi,ngi->ngo", stored, x) + bias
    assert np.array_equal(dynamic.fully_connected_fwd(w, flat_acts, bias=bias), forward.reshape(batch, -1)
                          if batch else np.zeros((0, groups * outputs)))
    back = np.einsum("goi,ngo->ngi", stored, dy).reshape(batch, groups * inputs)
    assert np.array_equal(dynamic.fully_connected_grad_a(w, flat_grads), back)
    expected = reference.sampled(np.einsum("ngo,ngi->goi", dy, x), w.block_shape, w.row_offsets, w.column_indices)
    assert np.array_equal(dynamic.fully_connected_sparse_grad_w(w, flat_grads, flat_acts), expected)


@pytest.mark.parametrize("y_name", NAMES)
@given(x_name=st.sampled_from(NAMES), columns=st.integers(0, 90), order=st.sampled_from("CF"), transposed=st.booleans(),
       block_shape=st.sampled_from(BLOCKS), seed=st.integers(0, 2**32 - 1))
def test_grad_w_takes_every_pair_of_formats(y_name, x_name, columns, order, transposed, block_shape, seed):
    rng = np.random.default_rng(seed)
    w = BlockSparseMatrix.from_dense(numbers(rng, (30, 41)), block_shape, density=0.4)
    dy, x = (np.asarray(numbers(rng, (n, columns), f), order=order) for n, f in ((30, y_name), (41, x_name)))
    full = dy.astype(np.float64) @ x.astype(np.float64).T
    expected = reference.sampled(full[None], w.block_shape, w.row_offsets, w.column_indices)
    got = static.sparse_grad_w(w.T, x, dy) if transposed else static.sparse_grad_w(w, dy, x)
    assert np.array_equal(got, expected)


@given(names=st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), block_shape=st.sampled_from(BLOCKS),
       columns=st.integers(0, 300), order=st.sampled_from("CF"), proportion=st.sampled_from([0, 0.04, 0.06, 0.1, 0.6]),
       threads=st.sampled_from([1, 2]), groups=st.integers(1, 2), seed=st.integers(0, 2**32 - 1))
def test_grad_w_keeps_to_its_memory_bound(names, block_shape, columns, order, proportion, threads, groups, seed):
    rng = np.random.default_rng(seed)
    w = BlockSparseMatrix.from_dense(numbers(rng, (groups, 90, 120)), block_shape, density=0.4)
    dy, x = (np.asarray(numbers(rng, (groups, n, columns), f), order=order)
             for n, f in zip((90, 120), names, strict=True))
    expected = reference.sampled(dy.astype(np.float64) @ x.astype(np.float64).swapaxes(1, 2), w.block_shape,
                                 w.row_offsets, w.column_indices)
    memory_peak(reset=True)
    before = memory_in_use()
    with limited_threads(threads):
        got = static.sparse_grad_w(w, dy, x, available_memory_proportion=proportion, strict_memory=True)
        bound = memory_bound(Target.host(threads), proportion)
    assert np.array_equal(got, expected)
    assert bound is None or memory_peak() - before <= threads * bound


def test_a_bound_that_no_plan_meets():
    w = BlockSparseMatrix.from_dense(np.eye(16, dtype=np.float32), 4)
    x = np.ones((16, 16), np.float32)
    with pytest.raises(MemoryBoundError, match="leaves"):
        static.sparse_grad_w(w, x, x, available_memory_proportion=1e-5, strict_memory=True)
    with pytest.warns(MemoryBoundWarning, match="the bound was raised"):
        got = dynamic.fully_connected_sparse_grad_w(w, x, x, available_memory_proportion=1e-5)
    assert np.all(got == 16)


@given(transpose_lhs=st.booleans(), transpose_rhs=st.booleans(), **shapes)
def test_dynamic_matmul_equals_static(block_shape, outputs, inputs, batch, density, transpose_lhs, transpose_rhs, seed):
    rng = np.random.default_rng(seed)
    w = BlockSparseMatrix.from_dense(rng.standard_normal((outputs, inputs), np.float32), block_shape, density=density)
    op = w.T if transpose_lhs else w
    x = rng.standard_normal((op.shape[1], batch), np.float32)
    given_x = np.ascontiguousarray(x.T) if transpose_rhs else x
    got = dynamic.sparse_dense_matmul(w, given_x, transpose_lhs=transpose_lhs, transpose_rhs=transpose_rhs)
    assert got.tobytes() == static.sparse_dense_matmul(op, x).tobytes()
    turned = dynamic.dense_sparse_matmul(given_x.T, w, transpose_lhs=transpose_rhs, transpose_rhs=not transpose_lhs)
    assert turned.tobytes() == static.dense_sparse_matmul(x.T, op.T).tobytes()


@pytest.mark.parametrize("name", ["float32", "float16", "f143"])
def test_capacity_grows_with_a_warning_and_only_then(name):
    rng = np.random.default_rng(3)
    full = numbers(rng, (64, 64), name)
    x = numbers(rng, (64, 10))
    capacity = dynamic.Capacity.with_nz_ratio((64, 64), 8, 0.2, oversize=0)
    for density in (0.1, 0.2):
        w = BlockSparseMatrix.from_dense(full, 8, density=density, format=name)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            got = dynamic.sparse_dense_matmul(w, x, capacity=capacity)
        assert np.array_equal(got, dense(w)[0] @ x)
    w = BlockSparseMatrix.from_dense(full, 8, density=1, format=name)
    with pytest.warns(CapacityWarning, match="64 blocks"):
        assert np.array_equal(dynamic.sparse_dense_matmul(w, x, capacity=capacity), dense(w)[0] @ x)
    assert capacity.blocks == 64
    small = dynamic.Capacity(30)
    with pytest.warns(CapacityWarning, match="64 blocks"):
        got = dynamic.fully_connected_sparse_grad_w(w, x.T, x.T, capacity=small)
    assert np.array_equal(got, dynamic.fully_connected_sparse_grad_w(w, x.T, x.T))
    assert np.array_equal(dynamic.dense_sparse_matmul(x.T, w, capacity=small), x.T @ dense(w)[0])
    assert small.blocks == 64


@pytest.mark.parametrize("call", [
    lambda w, x, capacity: dynamic.sparse_dense_matmul(w, x[:5], capacity=capacity),
    lambda w, x, capacity: dynamic.sparse_dense_matmul(w, x, capacity=capacity, transpose_rhs=1),
    lambda w, x, capacity: dynamic.sparse_dense_matmul(w, x[:5].T, capacity=capacity, transpose_rhs=True),
    lambda w, x, capacity: dynamic.sparse_dense_matmul(w, x, capacity=capacity, out=x),
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
    assert capacity.blocks == 1


def test_a_capacity_that_grows_on_many_threads_holds_all_that_was_asked_for():
    capacity, barrier = dynamic.Capacity(0), threading.Barrier(8)

    def grow(most):
        barrier.wait()
        for blocks in range(most, 2000, 8):
            assert capacity.hold(blocks) >= blocks

    with warnings.catch_warnings(action="ignore", category=CapacityWarning), ThreadPoolExecutor(8) as threads:
        list(threads.map(grow, range(8)))
    assert capacity.blocks >= 1999


def test_growth_never_takes_back_what_another_call_grew_meanwhile(monkeypatch):
    capacity = dynamic.Capacity(1)
    monkeypatch.setattr("poplibs_py.popsparse.dynamic.capacity.warn", lambda *_: setattr(capacity, "_blocks", 50))
    assert capacity.hold(4) == 50


@pytest.mark.parametrize("call", [
    lambda w, x: dynamic.sparse_dense_matmul(w, x, capacity=5),
    lambda w, x: dynamic.dense_sparse_matmul(x, w, capacity=5),
    lambda w, x: dynamic.dense_sparse_matmul(w, x),
    lambda w, x: dynamic.fully_connected_sparse_grad_w(w, x, x, capacity=5),
    lambda w, x: dynamic.fully_connected_fwd(w, x[:, :3]),
    lambda w, x: dynamic.fully_connected_fwd(w, x, activation="tanh"),
    lambda w, x: dynamic.fully_connected_fwd(w, x, bias=[1, 2]),
    lambda w, x: dynamic.fully_connected_fwd(w, x, out=x),
    lambda w, x: dynamic.fully_connected_sparse_grad_w(w, x, x[:3]),
    lambda w, x: dynamic.Capacity(-1),
    lambda w, x: dynamic.Capacity.with_nz_ratio((4, 4), 2, 1.5),
    lambda w, x: static.sparse_grad_w(w, x, x, out=np.empty(3, np.float32)),
])
def test_bad_calls_are_refused(call):
    w = BlockSparseMatrix.from_dense(np.eye(16, dtype=np.float32), 4)
    with pytest.raises(PoplibsError):
        call(w, np.ones((16, 16), np.float32))


def test_quarter_arrays_bring_their_scale():
    rng = np.random.default_rng(2)
    w = BlockSparseMatrix.from_dense(numbers(rng, (20, 24)), 4, density=0.5)
    acts, grads = numbers(rng, (9, 24)), numbers(rng, (9, 20))
    scaled_acts, scaled_grads = (QuarterArray.from_array(a, "f143", scale=-2) for a in (acts, grads))
    assert np.array_equal(dynamic.fully_connected_fwd(w, scaled_acts), dynamic.fully_connected_fwd(w, acts))
    assert np.array_equal(dynamic.fully_connected_grad_a(w, scaled_grads), dynamic.fully_connected_grad_a(w, grads))
    assert np.array_equal(dynamic.fully_connected_sparse_grad_w(w, scaled_grads, scaled_acts),
                          dynamic.fully_connected_sparse_grad_w(w, grads, acts))
    assert np.array_equal(dynamic.sparse_dense_matmul(w, scaled_acts, transpose_rhs=True), w @ acts.T)
    x = QuarterArray.from_array(np.ascontiguousarray(acts.T), "f143", scale=-2)
    assert np.array_equal(static.sparse_dense_matmul(w, static.prepare_dense(x, "float32")), w @ acts.T)
