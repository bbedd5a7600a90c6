"""What plans say of themselves: in the reader's words, with figures that add up."""

from __future__ import annotations

import json
import math
import re
import warnings

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from poplibs_py import poplin
from poplibs_py.errors import MemoryLimitWarning, PlanError
from poplibs_py.poplin.tile_conv import ConvPlan
from poplibs_py.poplin.tile_conv.work import work_of
from poplibs_py.target import Target

PASSES = ("NONE", "INFERENCE_FWD", "TRAINING_FWD", "TRAINING_BWD", "TRAINING_WU")


def _plan(m, k, n, dtype="half", target="gc200", groups=(), **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MemoryLimitWarning)
        return poplin.plan_matmul((*groups, m, k), (*groups, k, n), dtype=dtype, target=target, **options)


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300), st.sampled_from(["half", "float"]),
       st.sampled_from(["gc200", "bow", Target.small(24)]), st.sampled_from(PASSES), st.sampled_from([0.6, 0.01]))
@settings(max_examples=examples(40))
def test_figures_add_up(m, k, n, dtype, target, fc_pass, proportion):
    options = {"fullyConnectedPass": fc_pass}
    plan = _plan(m, k, n, dtype, target, available_memory_proportion=proportion, options=options)
    s = plan.summary
    assert sum(p.cycles * p.times for phases in s.passes.values() for p in phases) == s.cycles == plan.cycles
    assert s.seconds == pytest.approx(plan.cycles / plan.problem.target.clock_hz)
    assert s.teraflops == pytest.approx(2e-12 * m * k * n * len(s.passes) / s.seconds)
    assert 0 < s.share_of_peak <= 1
    assert 0 <= s.exchange_cycles <= s.cycles
    sizes = {axis.name: axis for axis in s.axes}
    assert [sizes[name].size for name in "MKN"] == [m, k, n]
    assert all(axis.least <= axis.most <= axis.size for axis in s.axes)
    assert math.prod(axis.tiles for axis in s.axes) <= plan.tiles_used
    assert s.memory_bytes == s.operand_bytes + s.result_bytes + s.temporaries.needed
    assert json.loads(plan.to_json())["summary"] == json.loads(json.dumps(s.to_dict()))
    assert ConvPlan.from_json(plan.to_json()) == plan


@given(st.integers(1, 200), st.integers(1, 200), st.integers(1, 200), st.sampled_from([(), (5,)]),
       st.sampled_from([0.6, 0.005]))
@settings(max_examples=examples(30))
def test_the_fullest_tile_is_the_one_that_does_most(m, k, n, groups, proportion):
    plan = _plan(m, k, n, groups=groups, available_memory_proportion=proportion)
    if plan.transforms[0].combine_conv_groups_factor > 1:
        return  # zeros between groups count as the planner counts them, and are not multiplied
    assert plan.summary.most_macs == work_of(plan).tile_macs().max()


def test_one_denominator_for_a_machine_and_a_type():
    by_amp = _plan(512, 512, 512, partials_type="half")
    by_hmac = _plan(512, 512, 512, options={"planConstraints": {"method": {"type": "HMAC"}}})
    assert by_amp.summary.peak_teraflops == by_hmac.summary.peak_teraflops == pytest.approx(250.6, abs=0.1)
    ratio = by_amp.summary.share_of_peak / by_hmac.summary.share_of_peak
    assert ratio == pytest.approx(by_hmac.cycles / by_amp.cycles)


def test_products_and_convolutions_speak_their_own_words():
    text = str(_plan(2048, 2048, 2048, available_memory_proportion=0.05))
    for words in ("matmul [2048, 2048] x [2048, 2048], half to half", "gc200: 1,472 tiles", "proportion 0.05",
                  "32 of a serial loop", "\nM ", "\nK ", "\nN ", " us\n", "TFLOP/s", "without code", ": fits"):
        assert words in text
    for each in (text, str(_plan(64, 64, 4096)), str(_plan(4096, 64, 64)), str(_plan(8, 3, 8, groups=(64,)))):
        assert not re.search("field|channel|flatten|batch", each)
        assert re.search(r"groupings +\d+ groups x \d+ K x \d+ [MN]\n", each)
    assert not re.search("field|channel|flatten|batch", str(_plan(64, 64, 4096).explain()))
    conv = poplin.plan_convolution(poplin.ConvParams.create(
        input_type="half", batch=4, field=[14, 14], kernel=[3, 3], in_channels=32, out_channels=64))
    for words in ("convolution of batch 4, field 14 x 14, kernel 3 x 3, 32 to 64 channels", "output channels",
                  "batch x field 0 x field 1", "input channels x kernel 1 x kernel 0"):
        assert words in str(conv)


def test_joint_plans_tell_their_passes_apart():
    joint = _plan(256, 512, 128, target=Target.small(1), options={"fullyConnectedPass": "TRAINING_FWD"})
    assert joint.joint
    assert list(joint.summary.passes) == ["forward", "backward", "weight update"]
    assert all(f"\n{name} phase" in str(joint) for name in joint.summary.passes)
    assert "all 3 passes together" in str(joint)
    apart = _plan(4096, 64, 64, options={"fullyConnectedPass": "TRAINING_FWD"})
    assert not apart.joint
    assert f"backward {apart.additional[0].cycles:,} and weight update" in str(apart)
    assert "TRAINING_WU" in str(apart.additional[1])


def test_plans_are_compared_side_by_side():
    gc200, bow = (_plan(64, 64, 64, target=target) for target in ("gc200", "bow"))
    table = gc200.compare(bow).splitlines()
    assert table[0].split("  ")[0] == "plan"
    assert all(name in table[0] for name in ("gc200, 0.6", "bow, 0.6"))
    assert [line.split()[0] for line in table] == ["plan", "problem", "split", "method", *gc200.summary.figures()]


def test_a_plan_without_its_problem_has_no_summary():
    bare = ConvPlan.from_json(json.dumps(json.loads(_plan(8, 8, 8).to_json()) | {"problem": None}))
    with pytest.raises(ValueError, match="plan: got a plan without its problem"):
        str(bare)


def test_an_infeasible_plan_says_so():
    with pytest.raises(PlanError):
        _plan(8, 8, 8, options={"planConstraints": {"0": {"partition": {"convGroupSplit": 7}}}})
    over = _plan(4096, 4096, 4096, available_memory_proportion=1e-4)
    assert ", which was " in str(over)
    assert not over.summary.fits
    large = _plan(32768, 32768, 8)  # operands alone are larger than the machine
    assert large.summary.memory_bytes > large.problem.target.bytes_per_tile
    assert "DOES NOT FIT" in str(large)
    assert not large.summary.fits
