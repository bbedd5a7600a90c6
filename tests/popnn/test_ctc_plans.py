"""The planner of CTC finds what trying every split finds; recurrent layers are dealt out within the machine."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.errors import InvalidArgumentError, MemoryLimitError
from poplibs_py.planner import Memory
from poplibs_py.popnn.ctc.model import LossSplit, loss_bytes, loss_cycles
from poplibs_py.popnn.ctc.params import LossParams
from poplibs_py.popnn.ctc.plan import planned_loss
from poplibs_py.popnn.ctc_infer.params import InferenceParams
from poplibs_py.popnn.ctc_infer.plan import planned_inference
from poplibs_py.popnn.recurrent.cell import LSTM
from poplibs_py.popnn.recurrent.sharding import sharded
from poplibs_py.target import Target

LOSSES = st.builds(LossParams, st.integers(1, 5), st.integers(1, 14), st.integers(1, 9), st.integers(2, 12),
                   st.sampled_from(["float", "half"]), st.sampled_from(["float", "half"]), st.booleans())


def every_split(params, tiles):
    extents = params.batch, params.time, params.labels
    for at in itertools.product(*(range(1, n + 1) for n in extents), (0, 1)):
        split = LossSplit(*at)
        filled = all(extent > -(-extent // parts) * (parts - 1)
                     for extent, parts in ((params.time, split.time), (params.labels, split.labels)))
        if split.tiles <= tiles and filled:
            yield split


@given(LOSSES, st.integers(1, 40), st.sampled_from([0.0, 1e-4, 3e-4, 0.6]))
def test_a_loss_s_plan_is_the_best_of_all(params, tiles, proportion):
    target, memory = Target.small(tiles), Memory(proportion)
    limit = memory.limit(target)
    every = [(int(loss_cycles(target, params, at)["total"]), int(loss_bytes(params, at)["total"]), at.tiles, at)
             for at in every_split(params, tiles)]
    fitting = [row for row in every if limit is None or row[1] <= limit]
    if not fitting:
        with pytest.raises(MemoryLimitError, match=f"any plan takes is {min(row[1] for row in every):,}"):
            planned_loss(params, target, memory)
        return
    plan = planned_loss(params, target, memory)
    assert (plan.cycles, plan.temp_bytes, plan.tiles_used, plan.split) == min(fitting)
    assert f"{plan.cycles:,}" in str(plan)


@given(st.builds(InferenceParams, st.integers(1, 40), st.integers(2, 200), st.integers(1, 60)), st.integers(1, 1472))
def test_a_search_keeps_to_the_machine(params, tiles):
    plan = planned_inference(params, Target.small(tiles))
    assert plan.batch <= min(params.batch, tiles)
    assert plan.tiles_used <= tiles
    assert plan.extend <= params.classes - 1
    assert plan.beams <= params.beams
    assert plan.sort[-1].groups == 1


@given(st.sampled_from(["float", "half"]), st.integers(1, 40), st.integers(1, 200), st.integers(1, 600),
       st.integers(1, 600), st.integers(1, 1472))
def test_shards_lie_side_by_side(data_type, batch, steps, inputs, outputs, tiles):
    found = sharded(Target.small(tiles), data_type, batch, steps, inputs, outputs, LSTM.whole)
    assert 1 <= found.shards <= found.most_shards <= steps
    assert found.most_shards * found.shard_tiles <= tiles


def test_bad_sizes_are_refused():
    with pytest.raises(InvalidArgumentError, match=r"^labels: got 0"):
        LossParams(1, 1, 0, 4, "float", "float")
    with pytest.raises(InvalidArgumentError, match=r"^classes: got 1"):
        InferenceParams(1, 1, 4)
