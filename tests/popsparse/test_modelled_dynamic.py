"""Dynamic sparse products on a modelled machine: the numbers of the plan's buckets, spills, growth, refusals."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import profile, testing
from poplibs_py.config import thread_limit
from poplibs_py.errors import CapacityWarning, MemoryLimitWarning, UnsupportedError
from poplibs_py.popsparse import BlockPattern, BlockSparseMatrix, dynamic, random_matrix, random_pattern
from poplibs_py.popsparse.fully_connected import FullyConnectedParams, plan_fully_connected
from poplibs_py.popsparse.fully_connected.gradient import (
    exchange_steps,
    interpret_gradient,
    tile_loads,
    tile_samples,
)
from poplibs_py.popsparse.fully_connected.lower import overflow_of, propagation_steps, tile_blocks
from poplibs_py.popsparse.fully_connected.modelled import interpret_dynamic, partitioned, plan_of_call
from poplibs_py.popsparse.partitioner import Partitioner
from poplibs_py.target import Target

OP = "popsparse.dynamic.sparse_dense_matmul"


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@given(rows=st.integers(1, 12), columns=st.integers(1, 12), side=st.sampled_from([1, 4, 8, 16]),
       density=st.floats(0, 1), n=st.integers(1, 33), tiles=st.integers(1, 24),
       partials=st.sampled_from(["half", "float"]), dtype=st.sampled_from(["float16", "float32"]),
       speed=st.booleans(), seed=st.integers(0, 99))
def test_the_numbers_are_those_of_the_buckets(rows: int, columns: int, side: int, density: float, n: int, tiles: int,
                                              partials: str, dtype: str, speed: bool, seed: int) -> None:
    pattern = random_pattern(rows * side, columns * side, side, density=density, seed=seed)
    w, x = random_matrix(pattern, dtype=dtype, seed=seed), numbers((columns * side, n), dtype, seed)
    target = Target.small(tiles)
    options = {"partialsType": partials, "partitioner.optimiseForSpeed": speed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CapacityWarning)
        warnings.simplefilter("ignore", MemoryLimitWarning)
        y = testing.check(OP, w, x, target=target, options=options)
        plan = plan_of_call(w, n, w.n_blocks, target, options, {})
        data = Partitioner(plan).create_sparsity_data(w, capacity="grow")
    testing.assert_same_bits(y, interpret_dynamic((data,), x))


@pytest.mark.parametrize("kind", ["empty", "full", "one row", "one column", "corner", "diagonal"])
def test_no_pattern_loses_a_block(kind: str) -> None:
    mask = np.zeros((32, 32), bool)
    places = {"empty": (slice(0),), "full": (...,), "one row": (3,), "one column": (slice(None), 5),
              "corner": (slice(8), slice(8)), "diagonal": (np.arange(32), np.arange(32))}  # fmt: skip
    mask[places[kind]] = True
    r, c = np.nonzero(mask)
    pattern = BlockPattern.from_pairs((128, 128), 4, r, c)[0]
    w, x = random_matrix(pattern, dtype="float16", seed=1), numbers((128, 16), "float16", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CapacityWarning)
        testing.check(OP, w, x, target=Target.small(64), capacity=dynamic.Capacity(64))


@pytest.mark.parametrize(("target", "extent", "calls"), [
    (Target.small(16), 64, 40), pytest.param(Target.gc200(), 256, 1000, marks=pytest.mark.nightly)])
def test_fresh_patterns_follow_one_another_within_one_capacity(target: Target, extent: int, calls: int) -> None:
    side, grid = 4, extent // 4
    x = numbers((extent, 8), "float16", 1)
    for seed in range(calls):
        if seed % 50 == 0:  # full ones leave it large
            capacity = dynamic.Capacity.with_nz_ratio((extent, extent), side, 0.3)
        r, c = np.nonzero(fresh(seed, grid))
        w = random_matrix(BlockPattern.from_pairs((extent, extent), side, r, c)[0], dtype="float16", seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CapacityWarning)
            y = testing.check(OP, w, x, target=target, capacity=capacity)
            made = testing.check("popsparse.dynamic.fully_connected_sparse_grad_w", w, y.T, x.T, target=target,
                                 capacity=capacity)
        assert made.shape == w.blocks.shape


def fresh(seed: int, grid: int) -> np.ndarray[Any, Any]:
    """A mask of blocks: even, skewed along rows or columns, empty, full, or all in few rows, columns or one corner."""
    rng = np.random.default_rng(seed)
    drawn, ramp = rng.random((grid, grid)), np.linspace(0.05, 0.4, grid)
    few = rng.permutation(grid)[:max(1, grid // 8)]
    kinds = {0: drawn < 0.3, 1: drawn < ramp[:, None], 2: drawn < ramp, 3: drawn < 1 / grid, 4: drawn < 0.9}
    mask = kinds.get(seed % 10, np.zeros((grid, grid), bool))
    if seed % 10 == 5:
        mask[few] = True
    elif seed % 10 == 6:
        mask[:, few] = True
    elif seed % 10 == 7:
        mask[:grid // 2, -(grid // 2):] = True
    elif seed % 10 == 8:
        mask[:] = seed % 20 == 8
    elif seed % 10 == 9:
        mask[few, few] = True
    return mask


def test_layers_and_transposes_are_the_same_product() -> None:
    w = random_matrix(random_pattern(64, 96, 8, density=0.4, seed=1), dtype="float16", seed=2)
    x = numbers((96, 32), "float16", 3)
    y = dynamic.sparse_dense_matmul(w, x, target="gc200")
    acts = np.ascontiguousarray(x.T)
    testing.assert_same_bits(np.ascontiguousarray(dynamic.fully_connected_fwd(w, acts, target="gc200").T), y)
    testing.assert_same_bits(np.ascontiguousarray(dynamic.dense_sparse_matmul(acts, w.T, target="gc200").T), y)
    testing.assert_same_bits(dynamic.sparse_dense_matmul(w.T, acts, transpose_lhs=True, transpose_rhs=True,
                                                         target="gc200"), y)
    out = np.empty((64, 32), np.float16)
    with thread_limit(1):
        assert dynamic.sparse_dense_matmul(w, x, out=out, target="gc200") is out
    testing.assert_same_bits(out, y)
    testing.check("popsparse.dynamic.fully_connected_fwd", w, acts, target="gc200")
    testing.check("popsparse.dynamic.dense_sparse_matmul", acts, w.T, target="gc200")


@given(rows=st.integers(1, 10), columns=st.integers(1, 10), side=st.sampled_from([1, 4, 16]), density=st.floats(0, 1),
       batch=st.integers(1, 20), tiles=st.integers(1, 24), dtype=st.sampled_from(["float16", "float32"]),
       partials=st.sampled_from(["half", "float"]), shared=st.booleans(), seed=st.integers(0, 99))
def test_the_gradient_of_activations_follows_the_same_buckets(
        rows: int, columns: int, side: int, density: float, batch: int, tiles: int, dtype: str, partials: str,
        shared: bool, seed: int) -> None:
    pattern = random_pattern(rows * side, columns * side, side, density=density, seed=seed)
    w, grads = random_matrix(pattern, dtype=dtype, seed=seed), numbers((batch, rows * side), dtype, seed)
    target, options = Target.small(tiles), {"partialsType": partials, "sharedBuckets": shared}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CapacityWarning)
        warnings.simplefilter("ignore", MemoryLimitWarning)
        made = testing.check("popsparse.dynamic.fully_connected_grad_a", w, grads, target=target, options=options)
        plan = plan_of_call(w, batch, w.n_blocks, target, options, {"do_grad_a_pass": True})
        data = Partitioner(plan).create_sparsity_data(w, capacity="grow")
    assert set(plan.phases) == {"Fwd", "GradA"}
    testing.assert_same_bits(np.ascontiguousarray(made.T), interpret_dynamic((data,), grads.T, backward=True))


@given(rows=st.integers(1, 8), columns=st.integers(1, 8), side=st.sampled_from([1, 4, 16]), density=st.floats(0, 1),
       batch=st.integers(1, 20) | st.just(32), tiles=st.integers(2, 24), groups=st.integers(1, 2),
       dtype=st.sampled_from(["float16", "float32"]), partials=st.sampled_from(["half", "float"]),
       buckets=st.sampled_from([None, False, True]), transposed=st.booleans(), seed=st.integers(0, 99))
def test_the_gradient_of_weights_is_that_of_the_buckets(
        rows: int, columns: int, side: int, density: float, batch: int, tiles: int, groups: int, dtype: str,
        partials: str, buckets: bool | None, transposed: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    w = BlockSparseMatrix.from_mask(rng.random((groups, rows, columns)) < density, side, dtype=dtype)
    w = w.T if transposed else w
    grads, acts = (numbers((batch, groups * extent), dtype, seed) for extent in w.shape)
    target, options = Target.small(tiles), {"partialsType": partials}
    if buckets is not None:
        options["planConstraints"] = f'{{"exchange": {{"gradWExchangeBuckets": {str(buckets).lower()}}}}}'
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CapacityWarning)
        warnings.simplefilter("ignore", MemoryLimitWarning)
        made = testing.check("popsparse.dynamic.fully_connected_sparse_grad_w", w, grads, acts, target=target,
                             options=options)
        data = partitioned(w, plan_of_call(w, batch, w.n_blocks, target, options, {"do_grad_w_pass": True}))
    plan = data[0].plan
    assert plan.candidate.exchanges_buckets == buckets or buckets is None
    testing.assert_same_bits(made, interpret_gradient(data, w.pattern, grads, acts, w.is_transposed))
    held, done = tile_loads(data, tile_samples(data, w.pattern, w.is_transposed))
    assert done.sum() == w.nnz * batch
    assert np.count_nonzero(held) == plan.tiles_used


def test_what_the_gradient_of_weights_exchanges_is_as_the_plan_chose() -> None:
    w, received = random_matrix(random_pattern(128, 128, 4, density=0.3, seed=1), dtype="float16", seed=2), {}
    for way in ("true", "false"):
        constraints = f'{{"exchange": {{"gradWExchangeBuckets": {way}}}, "partition": {{"x": 2, "y": 2, "z": 4}}}}'
        plan = plan_of_call(w, 16, w.n_blocks, Target.small(16), {"planConstraints": constraints},
                            {"do_grad_w_pass": True})
        data = partitioned(w, plan)
        x, y, z = exchange_steps(data)
        begun, size = 2 * 128 * 16 * 2 * 2, data[0].layout
        moved = 16 * (4 * size.value_room + 2 * size.meta_room) if way == "true" else 128 * 16 * 2 * 2
        dense = moved * (x + y + z) if way == "true" else moved * (x + y + 2 * z)
        received[way] = tile_samples(data, w.pattern).received
        assert z == 4 * overflow_of(data)[0] * overflow_of(data)[1]
        assert received[way] == begun + dense
    assert received["true"] != received["false"]


def test_groups_are_products_of_their_own() -> None:
    rng = np.random.default_rng(1)
    # One has more than an even share, one is empty
    mask = rng.random((3, 8, 6)) < np.array([0.2, 0.9, 0])[:, None, None]
    w = BlockSparseMatrix.from_mask(mask, 8, dtype="float16")
    w.update(numbers(w.blocks.shape, "float16", 3))
    x, target = numbers((3, 48, 24), "float16", 2), Target.small(48)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CapacityWarning)
        turned = np.ascontiguousarray(x.swapaxes(1, 2))
        testing.check("popsparse.dynamic.dense_sparse_matmul", turned, w.T, target=target)
        y = testing.check(OP, w, x, target=target)
        acts = np.ascontiguousarray(x.transpose(2, 0, 1).reshape(24, 144))
        layer = testing.check("popsparse.dynamic.fully_connected_fwd", w, acts, target=target)
        testing.check("popsparse.dynamic.fully_connected_grad_a", w, layer, target=target)
        data = partitioned(w, plan_of_call(w, 24, w.n_blocks, target, None, {}))
    testing.assert_same_bits(np.ascontiguousarray(layer.reshape(24, 3, 64).transpose(1, 2, 0)), y)
    testing.assert_same_bits(y.reshape(192, 24), interpret_dynamic(data, x.reshape(144, 24)))
    assert data[0].plan.partition[0] == 3


def test_buckets_that_spill_travel_and_are_counted() -> None:
    plan = plan_fully_connected(FullyConnectedParams(128, 128, 16, 0.1, 4), target=Target.small(16))
    mask = np.zeros((32, 32), bool)
    mask[:5] = True
    r, c = np.nonzero(mask)
    pattern = BlockPattern.from_pairs((128, 128), 4, r[:100], c[:100])[0]
    data = Partitioner(plan).create_sparsity_data(random_matrix(pattern, dtype="float16", seed=1))
    assert data.overflow[:3] != (1, 1, plan.partition[3])
    assert propagation_steps((data,)) > 0
    work, values = tile_blocks((data,))
    assert len(values) == 100
    assert work.tile_macs().sum() == 100 * 16 * 16
    received, sums = work.exchanged()
    assert received > 0
    assert sums == 128 * 16 * 4 * (plan.partition[2] - 1)


def test_a_record_tells_the_plan_of_the_layer() -> None:
    w = random_matrix(random_pattern(256, 256, 16, density=0.2, seed=1), dtype="float16", seed=2)
    with profile(target="gc200") as report:
        dynamic.sparse_dense_matmul(w, numbers((256, 32), "float16", 3))
        dynamic.fully_connected_sparse_grad_w(w, numbers((32, 256), "float16", 3), numbers((32, 256), "float16", 3))
        dynamic.fully_connected_sparse_grad_w(w, *(numbers((32, 256), "float32", 3),) * 2)
    run, gradient, host = report.runs
    assert not run.lacking
    assert run.plan.phases["Fwd"]["Total"][0] == run.plan.cycles
    assert set(gradient.plan.phases) == {"GradW"}  # those of the pass that ran, of a plan of both
    assert gradient.plan.phases["GradW"]["Total"] == (gradient.plan.cycles, gradient.plan.temp_bytes)
    for one in (run, gradient):
        assert one.tile_macs is not None
        assert one.tile_macs.sum() == w.n_blocks * 256 * 32
    assert host.lacking


def test_what_no_vertex_does_is_refused_by_name() -> None:
    w = random_matrix(random_pattern(12, 12, 6, density=1), dtype="float16")
    with pytest.raises(UnsupportedError, match="multiple of 4"):
        dynamic.sparse_dense_matmul(w, np.ones((12, 4), np.float16), target="gc200")
    w = BlockSparseMatrix.from_dense(np.eye(8, dtype=np.float32), 4)
    with pytest.raises(UnsupportedError, match="bias"):
        dynamic.fully_connected_fwd(w, np.ones((4, 8), np.float32), bias=np.zeros(8, np.float32), target="gc200")
