"""Problems and options built by hand: what the makers refuse, the records refuse too."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

from poplibs_py.errors import InvalidTypeError, PoplibsError
from poplibs_py.poplin.tile_conv import (
    Axis,
    ConvOptions,
    ConvParams,
    ConvPlan,
    FieldTransform,
    OutputTransform,
    matmul_params,
    plan_convolution,
)

GOOD = {"input_type": "half", "output_type": "half", "batch": 1, "in_channels": 4, "out_channels": 4, "groups": 1,
        "axes": (Axis(8, 3), Axis(8, 3))}  # fmt: skip


@pytest.mark.parametrize(("field", "value"), [
    ("input_type", "hlf"), ("input_type", None), ("output_type", 3), ("batch", -1), ("batch", 1.0), ("batch", True),
    ("batch", 2**31), ("in_channels", "4"), ("out_channels", None), ("groups", [1]), ("groups", 10**400),
    ("axes", ()), ("axes", None), ("axes", (1, 2)), ("axes", Axis(8, 3)), ("axes", (Axis(8, 3),) * 9),
    ("axes", (Axis(-8, 3),)), ("axes", (Axis(8, 9),)), ("axes", (Axis(8.0, 3),)), ("axes", (Axis(8, 0),)),
    ("axes", (Axis(8, 3, (0, 0, 1, 0, 0, False)),)), ("axes", (Axis(8, 3, FieldTransform(9)),)),
    ("axes", (Axis(8, 3, FieldTransform(dilation=0)),)), ("axes", (Axis(8, 3, FieldTransform(flip=np.zeros(2))),)),
    ("axes", (Axis(8, 3, output=OutputTransform(stride=0)),)), ("axes", (Axis(8, 3, output=OutputTransform(7)),)),
    ("axes", (Axis(2**30, 1),) * 3),
])  # fmt: skip
def test_params_refuse_bad_values(field: str, value: Any) -> None:
    good = ConvParams(**GOOD)
    with pytest.raises(PoplibsError, match=r": got .*; allowed: "):
        ConvParams(**{**GOOD, field: value})
    for change in (good.replace, lambda **fields: dataclasses.replace(good, **fields)):
        with pytest.raises(PoplibsError, match=r": got .*; allowed: "):
            change(**{field: value})


NONSENSE = [None, -1, float("nan"), "nonsense", [], {}, object, np.zeros(3), 10**400]
BAD = [
    (field.name, value) for field in dataclasses.fields(ConvOptions) for value in NONSENSE
    if field.name != "plan_constraints_output_filename"  # a file may have any name
    and not (field.name == "plan_constraints" and repr(value) in ("None", "{}"))  # there may be no constraints
]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), BAD)
def test_options_refuse_bad_values(field: str, value: Any) -> None:
    with pytest.raises(PoplibsError, match=r": got .*; allowed: "):
        ConvOptions(**{field: value})
    with pytest.raises(PoplibsError, match=r": got .*; allowed: "):
        dataclasses.replace(ConvOptions(), **{field: value})


def test_options_of_another_pass_are_checked() -> None:
    with pytest.raises(PoplibsError, match=r"^pass: got FOO"):
        ConvOptions().with_pass("FOO")
    with pytest.raises(InvalidTypeError, match=r"unknown keyword 'bach' \(did you mean 'batch'"):
        ConvParams(**GOOD).replace(bach=1)


def test_built_by_hand_or_made_they_are_the_same() -> None:
    made = ConvParams.create(input_type="half", field=[8, 8], kernel=[3, 3], in_channels=4, out_channels=4)
    built = ConvParams(**{**GOOD, "input_type": np.float16, "axes": list(GOOD["axes"]), "batch": np.int64(1)})
    assert built == made
    assert hash(built) == hash(made)
    assert ConvOptions(partials_type=np.float16, available_memory_proportion="0.3") == ConvOptions.parse(
        {"partialsType": "half", "availableMemoryProportion": 0.3})  # fmt: skip
    for value in (made, ConvOptions(fidelity="corrected"), made.canonical().gradient()):
        assert pickle.loads(pickle.dumps(value)) == copy.copy(value) == value


def test_what_the_planner_derives_passes_the_checks() -> None:
    for params in (ConvParams(**GOOD), matmul_params(2, 3, 4, 5, "half")):
        for derived in (params.canonical(), params.swapped(), params.gradient(), params.weight_update(), params.zero()):
            assert ConvParams(**{f.name: getattr(derived, f.name) for f in dataclasses.fields(derived)}) == derived


def test_a_plan_read_from_json_has_a_checked_problem() -> None:
    text = plan_convolution(matmul_params(1, 8, 8, 8, "half"), target="gc200").to_json()
    with pytest.raises(PoplibsError, match="batch: got -1"):
        ConvPlan.from_json(text.replace('"batch": 8', '"batch": -1'))
