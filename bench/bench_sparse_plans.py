"""Time to plan sparse products and layers, to put a pattern into buckets, and to read one from a file.

At 4096 x 4096 and density 1/16 a plan may take 0.2 s, and the buckets of a million single elements 30 ms. NumPy reads
the numbers of a MatrixMarket file in six times the time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from poplibs_py.popsparse import BlockPattern, BlockSparseMatrix, random_matrix, random_pattern
from poplibs_py.popsparse.fully_connected import FullyConnectedParams, plan_fully_connected
from poplibs_py.popsparse.partitioner import Partitioner
from poplibs_py.popsparse.static_matmul import plan_static_matmul

SIDES = [1, 4, 16]
ROUNDS = 5


def drawn(side: int, seed: int = 1) -> BlockPattern:
    return random_pattern(4096, 4096, side, density=1 / 16, seed=seed)


@pytest.mark.parametrize("side", SIDES)
def bench_static_plan(side: int, benchmark: Any) -> None:
    seeds = iter(range(ROUNDS))  # no plan comes back
    plan = benchmark.pedantic(plan_static_matmul, setup=lambda: ((drawn(side, next(seeds)), 256), {}), rounds=ROUNDS)
    benchmark.extra_info.update(cycles=plan.cycles)


@pytest.mark.parametrize("side", SIDES)
def bench_dynamic_plan(side: int, benchmark: Any) -> None:
    sizes = iter(range(256, 256 + ROUNDS))

    def plan(n: int) -> Any:
        return plan_fully_connected(FullyConnectedParams(4096, 4096, n, 1 / 16, side), available_memory_proportion=2,
                                    do_grad_a_pass=True, do_grad_w_pass=True)

    made = benchmark.pedantic(plan, setup=lambda: ((next(sizes),), {}), rounds=ROUNDS)
    benchmark.extra_info.update(cycles=made.cycles)


def bench_buckets(benchmark: Any) -> None:
    plan = plan_fully_connected(FullyConnectedParams(4096, 4096, 256, 1 / 16), available_memory_proportion=2)
    w = random_matrix(drawn(1), dtype="float16", seed=2)
    partitioner = Partitioner(plan)
    assert benchmark(partitioner.create_sparsity_data, w).to_matrix().equals(w)


@pytest.mark.parametrize("reader", ["ours", "numpy"])
def bench_matrix_market(reader: str, benchmark: Any, tmp_path: Path) -> None:
    path = tmp_path / "w.mtx"
    rng = np.random.default_rng(0)
    there = scipy.sparse.random_array((3000, 3000), density=0.02, dtype=np.float32, rng=rng)
    scipy.io.mmwrite(path, there)
    if reader == "ours":
        np.testing.assert_array_equal(benchmark(BlockSparseMatrix.load, path).to_dense(), there.toarray())
    else:
        benchmark(np.loadtxt, path, comments="%", skiprows=3)
