"""A product planned for a modelled machine: PopLibs does it as a convolution of one field element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any

from ....errors import PoplibsError, bad_argument, bad_type, one_of, whole
from ....formats import F143, F152, FP16, FP32, format_of
from ....ops import check_mapping, parsed
from ....planner.cache import PlanCache
from ....target import Target
from ...convolution import ConvOptions, ConvParams, ConvPlan, matmul_params, plan_convolution
from ...convolution.api import Items, frozen_items, thawed
from ...convolution.options import checked_option

__all__ = ["modelled_type", "plan_modelled"]

#: The field of ConvOptions that each of PopLibs' matmul options sets, or what becomes of it here.
_KEYS: dict[str, str | None] = {
    "partialsType": "partials_type",
    "availableMemoryProportion": "available_memory_proportion",
    "use128BitConvUnitLoad": "use_128_bit_conv_unit_load",
    "enableMultiStageReduce": "enable_multi_stage_reduce",
    "enableFastReduce": "enable_fast_reduce",
    "remapOutputTensor": "remap_output_tensor",
    "gatherOutput": "gather_output",
    "disableSRForAMPVertices": "disable_sr_for_amp_vertices",
    "planConstraints": "plan_constraints",
    "fullyConnectedPass": "fully_connected_pass",
    "inputRHSIsPreArranged": "input_rhs_is_pre_arranged",  # moves a transpose, not the plan
    "strictMemory": "strict_memory",
    "fidelity": "fidelity",
}
_SHARE = "available_memory_proportion"
_PASSES = {
    "NONE": "NONE_MATMUL",
    "INFERENCE_FWD": "FC_INFERENCE_FWD",
    "TRAINING_FWD": "FC_TRAINING_FWD",
    "TRAINING_BWD": "FC_TRAINING_BWD",
    "TRAINING_WU": "FC_TRAINING_WU",
}
_TYPES = {FP32: "float", FP16: "half", F143: "quarter", F152: "quarter"}


def modelled_type(dtype: object, name: str = "dtype") -> str:
    """The modelled machines' word for a format: ``"float"``, ``"half"`` or ``"quarter"``."""
    if dtype == "quarter":
        return "quarter"
    found = _TYPES.get(format_of(dtype, name))
    if found is None:
        raise bad_argument(name, dtype, "float32, float16 or PopLibs' FP8 (float8_e4m3fnuz, float8_e5m2fnuz)")
    return found


def plan_modelled(
    a_shape: Sequence[int],
    b_shape: Sequence[int],
    *,
    dtype: object = "half",
    out_dtype: object = None,
    target: Target | str = "gc200",
    options: Mapping[str, Any] | None = None,
    cache: PlanCache[ConvPlan] | None = None,
    **more: Any,
) -> ConvPlan:
    """Plan ``a @ b`` for a modelled machine.

    Corresponds to PopLibs' ``matMul`` and ``matMulGrouped``: A holds the activations, B the weights, batch is
    the rows of A.

    Parameters
    ----------
    a_shape, b_shape : sequence of int
        ``(M, K)`` and ``(K, N)``, with axes of groups in front if wanted.
    dtype, out_dtype : format or dtype
        Of the operands (float32, float16 or FP8) and of the result (default as the operands; float16 for FP8).
    target : Target or str
        The machine.
    options : mapping, optional
        PopLibs' matmul options, such as ``{"fullyConnectedPass": "TRAINING_FWD"}``.
    **more
        The same by keyword, in Python's spelling; one that contradicts `options` is refused.

    Returns
    -------
    ConvPlan

    Examples
    --------
    >>> from poplibs_py.poplin.matmul.modelled import plan_modelled
    >>> plan = plan_modelled((4096, 4096), (4096, 4096), partials_type="half", available_memory_proportion=0.15)
    >>> plan.cycles, plan.serial_splits
    (1576048, 32)
    """
    check_mapping(options)
    options = {} if options is None else options
    if more.get(_SHARE, 0) is None:  # the default of every op
        del more[_SHARE]
    try:
        problem = _remembered(
            tuple(a_shape), tuple(b_shape), dtype, out_dtype, frozen_items(options), frozen_items(more)
        )
    except TypeError as error:
        if isinstance(error, PoplibsError):
            raise
        problem = _problem(a_shape, b_shape, dtype, out_dtype, options, more)
    params, checked = problem
    return plan_convolution(params, target=target, options=checked, cache=cache)


@lru_cache(maxsize=4096)
def _remembered(
    a_shape: tuple[int, ...], b_shape: tuple[int, ...], dtype: object, out_dtype: object, options: Items, more: Items
) -> tuple[ConvParams, ConvOptions]:
    return _problem(a_shape, b_shape, dtype, out_dtype, thawed(options), thawed(more))


def _problem(
    a_shape: Sequence[int],
    b_shape: Sequence[int],
    dtype: object,
    out_dtype: object,
    options: Mapping[str, Any],
    more: Mapping[str, Any],
) -> tuple[ConvParams, ConvOptions]:
    """Check everything and state the product as a convolution."""
    groups, rows, inner, columns = _sizes(a_shape, b_shape)
    given = modelled_type(dtype)
    made = ("half" if given == "quarter" else given) if out_dtype is None else modelled_type(out_dtype, "out_dtype")
    return matmul_params(groups, rows, inner, columns, given, made), _conv_options(options, more)


def _sizes(a_shape: Sequence[int], b_shape: Sequence[int]) -> tuple[int, int, int, int]:
    for name, shape in (("a_shape", a_shape), ("b_shape", b_shape)):
        if isinstance(shape, (str, bytes)) or not isinstance(shape, Sequence):
            raise bad_type(name, shape, "a sequence of integers")
        for extent in shape:
            whole(name, extent, 0, 2**31 - 1)
        if len(shape) < 2:
            raise bad_argument(name, tuple(shape), "two dimensions, after those of groups")
    a, b = tuple(a_shape), tuple(b_shape)
    if len(a) != len(b) or a[:-2] != b[:-2]:
        raise bad_argument("b_shape", b, f"as many dimensions and the same groups as a_shape {a}")
    if a[-1] != b[-2]:
        raise bad_argument("b_shape", b, f"{a[-1]} rows, the columns of a_shape {a}")
    return prod(a[:-2]), a[-2], a[-1], b[-1]


def _conv_options(options: Mapping[str, Any], more: Mapping[str, Any]) -> ConvOptions:
    said = parsed(options, _KEYS, _checked, more)
    said.pop("input_rhs_is_pre_arranged", None)
    said["pass_"] = _PASSES[said.pop("fully_connected_pass", "NONE")]
    if "gather_output" in said:
        said["gather_conv_output"] = said.pop("gather_output")
    # PopLibs hands the proportion on as text with six decimals
    said[_SHARE] = round(said.get(_SHARE, ConvOptions.available_memory_proportion), 6)
    return ConvOptions(**said)


def _checked(key: str, field: str, value: Any) -> Any:
    if field == "fully_connected_pass":
        one_of(key, value, tuple(_PASSES))
        return value
    if field == "input_rhs_is_pre_arranged":
        return None
    return checked_option(key, "gather_conv_output" if field == "gather_output" else field, value)
