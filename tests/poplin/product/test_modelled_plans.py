"""Plans of dense products on modelled machines: options that reach the planner, and arguments that are refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from poplibs_py.errors import (
    InvalidArgumentError,
    InvalidOptionError,
    InvalidTypeError,
    MemoryLimitWarning,
    UnsupportedError,
)
from poplibs_py.poplin import plan_matmul
from poplibs_py.poplin.tile_conv import ConvParams, ConvPlan, conv_cache, matmul_params, plan_convolution


def plan(a_shape: Any, b_shape: Any, *, dtype: Any = np.float16, **keywords: Any) -> ConvPlan:
    made = plan_matmul(a_shape, b_shape, dtype=dtype, target="gc200", **keywords)
    assert isinstance(made, ConvPlan)
    return made


def test_options_reach_the_planner() -> None:
    made = plan((1, 64, 64), (1, 64, 64), options={"partialsType": "half"})
    assert made.cycles == 725
    assert made == plan((64, 64), (64, 64), partials_type="half")
    with pytest.raises(UnsupportedError, match=r"^target: "):
        plan((64, 64), (64, 64), activation="relu")


@pytest.mark.parametrize("pass_", ["NONE", "INFERENCE_FWD", "TRAINING_FWD", "TRAINING_BWD", "TRAINING_WU"])
@pytest.mark.parametrize("groups", [1, 2])
def test_a_product_is_planned_as_a_convolution_of_one_field_element(groups: int, pass_: str) -> None:
    made = plan((groups, 64, 48), (groups, 48, 32), fully_connected_pass=pass_, partials_type="half")
    of_convolutions = "NONE_MATMUL" if pass_ == "NONE" else f"FC_{pass_}"
    params = matmul_params(groups, 64, 48, 32, "half")
    assert made == plan_convolution(params, pass_=of_convolutions, partials_type="half", cache=conv_cache())


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (((4, 5), (6, 7)), InvalidArgumentError),
        (((4,), (4, 5)), InvalidArgumentError),
        (((2, 4, 5), (3, 5, 6)), InvalidArgumentError),
        (((4, -5), (-5, 6)), InvalidArgumentError),
        (((4, 5.5), (5.5, 6)), InvalidTypeError),
        ((7, (4, 5)), InvalidArgumentError),
        (((4, 2**31), (2**31, 6)), InvalidArgumentError),
        (((2**30, 2**30), (2**30, 2**30)), InvalidArgumentError),
    ],
)
def test_bad_shapes_are_refused(arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        plan(*arguments)


@pytest.mark.parametrize("option", [{"fullyConnectedPass": "WU"}, {"partialType": "half"}, {"fidelity": 1}])
def test_bad_matmul_options_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        plan((4, 4), (4, 4), options=option)


def test_bad_types_are_refused() -> None:
    with pytest.raises((InvalidArgumentError, InvalidTypeError)):
        plan((4, 4), (4, 4), dtype=np.float64)
    with pytest.raises(InvalidOptionError, match="output_type"):
        plan((4, 4), (4, 4), dtype="quarter", out_dtype="float32")


def test_a_limit_that_no_plan_keeps_is_told_under_the_op_s_name() -> None:
    with pytest.warns(MemoryLimitWarning, match=r"^matmul: available_memory_proportion=1e-05 leaves 6 bytes of a tile; "
                                                r"the plan takes [\d,]+; the limit was raised to [\d,]+$"):
        plan((64, 64), (64, 64), available_memory_proportion=1e-5)
    one = ConvParams.create(field=[4], kernel=[3], in_channels=8, out_channels=8)
    with pytest.warns(MemoryLimitWarning, match="^convolution: available_memory_proportion=1e-05 leaves 6 bytes"):
        plan_convolution(one, available_memory_proportion=1e-5)


@pytest.mark.parametrize(("a", "b", "named"), [
    ((1 << 21, 1 << 21), (1 << 21, 1), "a_shape: got (2097152, 2097152)"),
    ((1, 1 << 21), (1 << 21, 1 << 21), "b_shape: got (2097152, 2097152)"),
    ((1 << 21, 1), (1, 1 << 21), "a_shape and b_shape: got (2097152, 1) and (1, 2097152)"),
    ((1 << 19, 1 << 19), (1 << 19, 1 << 19), "a_shape and b_shape: got"),
])  # fmt: skip
def test_shapes_of_a_product_too_large_are_named(a: tuple[int, ...], b: tuple[int, ...], named: str) -> None:
    with pytest.raises(InvalidArgumentError, match=re.escape(named)):
        plan(a, b)
