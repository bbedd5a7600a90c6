"""Problems, plans and options of convolutions: what is refused by name, and what plans share and explain."""

from __future__ import annotations

import functools
import json
import operator
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poplibs_py.errors import InvalidArgumentError, InvalidOptionError, InvalidTypeError, PlanError
from poplibs_py.poplin.tile_conv import (
    ConvConstraints,
    ConvOptions,
    ConvParams,
    ConvPlan,
    ConvProblem,
    FieldTransform,
    OutputTransform,
    conv_cache,
    matmul_params,
    plan_convolution,
)
from poplibs_py.poplin.tile_conv.plan import Split
from poplibs_py.target import Target


def test_joint_plan_serves_the_other_passes() -> None:
    cache = conv_cache()
    params = matmul_params(1, 64, 4096, 4096, "half")
    forward = plan_convolution(params, cache=cache, pass_="FC_TRAINING_FWD")
    assert forward.joint
    assert forward.cycles == forward.costs["totalCycles"] + sum(
        c["totalCycles"] for c in (forward.backward_costs, forward.weight_update_costs) if c
    )
    backward = plan_convolution(params, cache=cache, pass_="FC_TRAINING_BWD")
    assert (backward.order, backward.costs) == ("FC_BWD_AS_CONV", forward.backward_costs)
    assert backward.partition.in_chan_split.parallel == forward.partition.field_split[-1]
    update = plan_convolution(matmul_params(1, 4096, 64, 4096, "half"), cache=cache, pass_="FC_TRAINING_WU")
    assert (update.order, update.costs) == ("FC_WU", forward.weight_update_costs)
    assert update.partition.out_chan_split == forward.partition.in_chan_split
    for plan in (forward, backward, update):
        assert ConvPlan.from_json(plan.to_json()) == plan


def test_separate_plans_are_kept_for_the_other_passes() -> None:
    cache = conv_cache()
    options = {"pass": "FC_TRAINING_FWD"}
    forward = plan_convolution(matmul_params(1, 8, 1024, 1024, "half"), cache=cache, options=options)
    assert not forward.joint
    assert len(forward.additional) == 2
    assert len(cache) == 3
    backward = plan_convolution(matmul_params(1, 8, 1024, 1024, "half"), cache=cache, pass_="FC_TRAINING_BWD")
    assert len(cache) == 3
    assert backward.costs == forward.additional[0].costs


def test_explanation_names_the_winner_and_why_the_others_lost() -> None:
    plan = plan_convolution(matmul_params(1, 128, 64, 96, "half"), target=Target.small(32), pass_="NONE_MATMUL")
    explanation = plan.explain()
    assert (explanation.chosen.cycles, explanation.chosen.temp_bytes) == (plan.cycles, plan.temp_bytes)
    assert sum(c.chosen for c in explanation) == 1
    for c in explanation:
        assert c.verdict
        if c.cycles is not None and not c.chosen:
            assert c.temp_bytes is not None
            assert (c.cycles, c.temp_bytes) >= (plan.cycles, plan.temp_bytes)
    few, every = str(explanation).splitlines(), explanation.details().splitlines()
    assert len(few) == len(explanation.words().splitlines()) + 12 < 40 < len(every)
    assert few[-1] == f"  and {len(explanation) - 10} others: see details()"
    assert len(every) == len(explanation.words().splitlines()) + 1 + len(explanation)
    phases = [int(number.replace(",", "")) for number in re.findall(r" ([\d,]+)", explanation.decisions["phases"])]
    assert (sum(phases), explanation.decisions["cycles"]) == (plan.cycles, f"{plan.cycles:,}")
    assert few[0] == f"{plan.summary.problem} on {plan.problem.target.name}"


def params_of(**changes: Any) -> ConvParams:
    fields: dict[str, Any] = {"field": [5, 5], "kernel": [3, 3], "in_channels": 2, "out_channels": 2}
    return ConvParams.create(**{**fields, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"field": [5]},
        {"field": []},
        {"field": "55"},
        {"field": [2, 2]},
        {"field": [5, -1]},
        {"batch": -1},
        {"batch": 2.5},
        {"batch": True},
        {"groups": 2**31},
        {"kernel": [0, 3]},
        {"input_type": "double"},
        {"input_transform": [FieldTransform()]},
        {"input_transform": [OutputTransform()] * 2},
        {"input_transform": [FieldTransform(truncation_lower=6)] * 2},
        {"input_transform": [FieldTransform(dilation=0)] * 2},
        {"kernel_transform": [FieldTransform(truncation_upper=3)] * 2},
        {"input_transform": [FieldTransform(padding_lower=-1)] * 2},
        {"output_transform": [OutputTransform(stride=0)] * 2},
        {"output_transform": [OutputTransform(truncation_lower=4)] * 2},
        {"field": [2**20, 2**20], "kernel": [1, 1]},
        {"field": [2] * 9, "kernel": [1] * 9},
    ],
)
def test_bad_convolutions_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises((InvalidArgumentError, InvalidTypeError)):
        params_of(**changes)


@pytest.mark.parametrize("sizes", [{"batch": 0}, {"in_channels": 0}, {"out_channels": 0}, {"groups": 0}])
@pytest.mark.parametrize("input_type", ["float", "half"])
def test_empty_tensors_have_plans_without_work(sizes: dict[str, int], input_type: str) -> None:
    made = plan_convolution(params_of(input_type=input_type, **sizes), cache=conv_cache())
    assert made.total_macs == 0
    assert (made.cycles > 0) == ("in_channels" in sizes)  # then zeros are written
    assert ConvPlan.from_json(made.to_json()) == made


@pytest.mark.parametrize("method", ["AMP", "SLIC", "HMAC", "VMAC", "OUTER_PRODUCT"])
@pytest.mark.parametrize("value", [0, 1, 3, 2**32 - 1])
def test_absurd_constraints_are_kept_to_or_refused(method: str, value: int) -> None:
    pins: dict[str, Any] = {
        "method": {"type": method, "windowWidth": value, "convUnits": value, "convInputLoadElems": value},
        "convGroupsPerGroup": value,
        "inChansPerGroup": value,
        "partialChansPerGroup": value,
    }
    split = {"parallel": value, "serial": value}
    part = {"batchSplit": value, "fieldSplit": {"1": value}, "outChanSplit": split, "inChanSplit": split}
    made = {}
    for name, pin in [*pins.items(), ("0", {"partition": part})]:
        constraints = {"method": {"type": method}, name: pin}
        try:
            made[name] = plan_convolution(params_of(input_type="half"), planConstraints=constraints, cache=conv_cache())
        except PlanError:
            continue
        assert made[name].method.type == method
    assert ("0" in made) == (value == 1 and method != "OUTER_PRODUCT")  # no split of two kinds of channels at once
    if "0" in made:
        p = made["0"].partition
        assert (p.batch_split, p.field_split[1], p.out_chan_split, p.in_chan_split) == (1, 1, Split(1, 1), Split(1, 1))


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", '{"transforms": [1]}', "[" * 100_000, "1" * 5000, 3, None])
def test_json_that_is_no_plan(text: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^text: got"):
        ConvPlan.from_json(text)


_LEAVES = ("1.5", 1.5, "x", None, True, -1, "1" * 5000, 1 << 70, [], {}, [[1]])


def _places(fields: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the values are that no object or list holds others in."""
    inner = fields.items() if isinstance(fields, dict) else enumerate(fields) if isinstance(fields, list) else ()
    for key, value in inner:
        yield from _places(value, (*path, key))
    if not isinstance(fields, (dict, list)):
        yield path


@pytest.mark.parametrize("params", [
    matmul_params(1, 8, 4096, 64, "float"),
    pytest.param(matmul_params(1, 64, 64, 64, "half"), marks=pytest.mark.nightly)])
def test_a_plan_with_any_value_changed_is_refused_or_a_whole_plan(params: ConvParams) -> None:
    text = plan_convolution(params, pass_="FC_TRAINING_FWD").to_json()
    for path in _places(json.loads(text)):
        for leaf in _LEAVES:
            fields = json.loads(text)
            *outer, last = path
            place = functools.reduce(operator.getitem, outer, fields)
            place[last] = leaf
            try:
                made = ConvPlan.from_json(json.dumps(fields))
            except InvalidArgumentError:
                continue
            written = json.loads(made.to_json())
            assert all(fields[key] == written[key] for key in fields)
            assert ConvPlan.from_json(made.to_json()) == made
            assert f"{made.cycles:,}" in str(made)
            assert made.constraints()


@pytest.mark.filterwarnings("ignore::poplibs_py.errors.MemoryLimitWarning")
def test_less_than_a_byte_does_not_fit() -> None:
    assert not plan_convolution(params_of(), available_memory_proportion=1e-12).fits


def test_no_output_still_plans() -> None:
    empty = params_of(output_transform=[OutputTransform(truncation_lower=3)] * 2)
    assert empty.output_shape == (0, 0)
    assert plan_convolution(empty).cycles > 0


def test_bad_arguments_of_plan_convolution() -> None:
    with pytest.raises(InvalidTypeError, match="params"):
        plan_convolution((1, 2))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="target"):
        plan_convolution(params_of(), target="gc300")
    with pytest.raises(InvalidArgumentError, match="target"):
        plan_convolution(params_of(), target="host")
    with pytest.raises(InvalidTypeError, match=r"unknown keyword 'strict_memry' .*'strict_memory'\?"):
        plan_convolution(params_of(), strict_memry=True)
    with pytest.raises(PlanError):
        plan_convolution(params_of(), planConstraints={"method": {"type": "VMAC"}})


def test_constraints_file(tmp_path: Path) -> None:
    stem = tmp_path / "plan"
    plan = plan_convolution(params_of(), pass_="INFERENCE_FWD", plan_constraints_output_filename=str(stem))
    written = ConvConstraints.parse((tmp_path / "plan_FWD.json").read_text())
    assert written == plan.constraints()
    again = plan_convolution(params_of(), pass_="INFERENCE_FWD", plan_constraints=written)
    assert again.partition == plan.partition


def test_data_types_have_several_names() -> None:
    wanted = matmul_params(1, 8, 8, 8, "half", "float")
    assert matmul_params(1, 8, 8, 8, np.float16, "float32") == wanted
    assert ConvOptions.parse(partials_type=np.float16) == ConvOptions.parse(partialsType="half")
    for value in ("bfloat16", "int8", 3, None):
        with pytest.raises(InvalidArgumentError, match=r"^input_type: got"):
            matmul_params(1, 8, 8, 8, value)
    with pytest.raises(InvalidOptionError, match=r"^partialsType: got quarter"):
        ConvOptions.parse(partialsType="quarter")


def test_a_problem_checks_its_parts() -> None:
    params = params_of()
    with pytest.raises(InvalidTypeError, match=r"^options: got"):
        ConvProblem("gc200", params, {})  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"^target: got host"):
        ConvProblem("host", params, ConvOptions())  # type: ignore[arg-type]
    assert ConvProblem("gc200", params, ConvOptions()).target.name == "gc200"  # type: ignore[arg-type]
