"""Cycles and plans of PopLibs' tensor ops on modelled machines. ``POPLIBS_COST_GOLDEN`` names the folder of cases."""

from __future__ import annotations

import pytest

from .costs import elementwise, splits, topk
from .families import Line, Run, parameters
from .planners import ctc, pooling, sharding, slices
from .vertices import vertices

FAMILIES: dict[str, Run] = {
    "ctc_planner": ctc, "elementwise": elementwise, "pool_planner": pooling, "rnn_shards": sharding,
    "slice_planner": slices, "splits": splits, "topk": topk, "vertices": vertices,
}  # fmt: skip
"""A line for each family whose costs the planner knows: the file's name, and what runs one of its cases."""


@pytest.mark.parametrize(("run", "case"), parameters("POPLIBS_COST_GOLDEN", "cost-golden", ".jsonl", FAMILIES))
def test_the_cost_is_that_of_the_original(run: Run, case: Line) -> None:
    run(case)
