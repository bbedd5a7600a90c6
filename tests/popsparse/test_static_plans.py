"""Plans of static sparse products on modelled machines: what they cover, what they refuse, how quickly they come."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.errors import InvalidArgumentError, InvalidOptionError, MemoryLimitError, PlanError
from poplibs_py.popsparse import BlockPattern, BlockSparseMatrix, random_pattern
from poplibs_py.popsparse.static_matmul import plan_static_matmul
from poplibs_py.popsparse.static_matmul.model import planned_order
from poplibs_py.target import Target


@given(rows=st.integers(1, 24), columns=st.integers(1, 24), side=st.sampled_from([1, 4, 8, 16]),
       density=st.floats(0, 1), n=st.integers(1, 70), tiles=st.integers(1, 40), kind=st.sampled_from(["half", "float"]),
       seed=st.integers(0, 99), preprocess=st.booleans())
def test_each_block_meets_each_column_on_one_tile(rows: int, columns: int, side: int, density: float, n: int,
                                                  tiles: int, kind: str, seed: int, preprocess: bool) -> None:
    pattern = random_pattern(rows * side, columns * side, side, density=density, seed=seed)
    target = Target.small(tiles)
    plan = plan_static_matmul(pattern, n, dtype=kind, target=target, enable_preprocessing=preprocess)
    order = plan.block_order()
    assert sorted(order) == list(range(pattern.n_blocks))
    padded = -(-n // target.vector_width(kind)) * target.vector_width(kind)
    met = np.zeros((pattern.n_blocks, padded), int)
    position = np.argsort(plan.column_order)
    for share in plan.tiles():
        met[slice(*share.blocks), slice(*share.columns)] += 1
        at = position[pattern.column_indices[order[slice(*share.blocks)]]]
        begin, end = plan.boundaries[share.band:share.band + 2]
        assert ((begin <= at) & (at < end)).all()
    assert (met == 1).all()
    numbers = [share.tile for share in plan.tiles()]
    assert numbers == sorted(set(numbers))
    assert all(0 <= tile < tiles for tile in numbers)
    assert plan.cycles == sum(plan.phases.values())


def test_the_smallest_proportion_that_fits_is_named() -> None:
    pattern = random_pattern(1024, 1024, 16, density=0.1, seed=1)
    with pytest.raises(MemoryLimitError, match="at least") as caught:
        plan_static_matmul(pattern, 256, available_memory_proportion=0.001)
    least = float(re.search(r"at least ([0-9.]+)", str(caught.value))[1])  # type: ignore[index]
    assert plan_static_matmul(pattern, 256, available_memory_proportion=least).fits
    with pytest.raises(MemoryLimitError):
        plan_static_matmul(pattern, 256, available_memory_proportion=least - 2e-6)


def test_constraints_are_kept_and_named_where_no_plan_meets_them() -> None:
    pattern = random_pattern(512, 512, 8, density=0.1, seed=2)
    plan = plan_static_matmul(pattern, 64, options={"nSplit": 3, "numBands": "5"})
    assert (plan.n_split, plan.k_split, len(plan.blocks_per_band)) == (3, 5, 5)
    free = plan_static_matmul(pattern, 64)
    assert free.cycles <= plan.cycles
    assert plan_static_matmul(pattern, 64, n_split=free.n_split, num_bands=free.k_split).golden() == free.golden()
    with pytest.raises(PlanError, match="numBands=9, nSplit=4"):
        plan_static_matmul(pattern, 64, target=Target.small(16), n_split=4, num_bands=9)


def test_rows_that_are_nearly_empty_come_last() -> None:
    order, kept = planned_order(np.array([0, 40, 1, 30, 2]), 73, True)
    assert (order.tolist(), kept) == ([1, 3, 4, 2, 0], 3)
    assert planned_order(np.zeros(3, int), 0, True)[1] == 1
    order, kept = planned_order(np.array([0, 40, 1]), 41, False)
    assert (order.tolist(), kept) == ([0, 1, 2], 3)


def test_what_cannot_be_planned_is_named() -> None:
    for pattern, what in [(BlockPattern((8, 8), (4, 8), [0, 0, 0], []), "square blocks"),
                          (BlockPattern((9, 8), 4, [0, 0, 0, 0], []), "multiples"),
                          (BlockPattern((4, 4), 4, [0, 0, 0], [], groups=2), "one group")]:
        with pytest.raises(InvalidArgumentError, match=what):
            plan_static_matmul(pattern, 4)
    pattern = random_pattern(16, 16, 4, density=0.5, seed=3)
    for more, what in [({"dtype": "bfloat16"}, "dtype"), ({"target": "host"}, "modelled machine"), ({"n": 0}, "n:")]:
        with pytest.raises(InvalidArgumentError, match=what):
            plan_static_matmul(pattern, **({"n": 4} | more))  # type: ignore[arg-type]
    for options in ({"nSplits": 2}, {"numBands": -1}, {"enablePreprocessing": "maybe"}, {"partialsType": "quarter"},
                    {"availableMemoryProportion": "much"}):
        with pytest.raises(InvalidOptionError):
            plan_static_matmul(pattern, 4, options=options)


def test_a_plan_tells_itself() -> None:
    w = BlockSparseMatrix.from_dense(np.eye(64, dtype=np.float32), 4)
    plan = plan_static_matmul(w, 32, target="bow")
    assert plan.params.data_type == "float"
    assert "16 blocks of 4 x 4" in plan.explain().problem
    summary = plan.summary
    assert summary.fits
    assert summary.cycles == plan.cycles
    assert f"{plan.cycles:,}" in str(plan)
