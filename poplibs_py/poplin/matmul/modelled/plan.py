"""A product planned for a modelled machine: PopLibs does it as a convolution of one field element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any

from ....errors import PoplibsError, bad_argument, bad_option, bad_type, one_of, whole
from ....formats import F143, F152, FP16, FP32, format_of
from ....planner.cache import PlanCache
from ....target import Target
from ...convolution import ConvOptions, ConvParams, ConvPlan, matmul_params, plan_convolution
from ...convolution.api import Items, frozen_items, thawed

__all__ = ["MATMUL_OPTIONS", "modelled_type", "plan_modelled"]

#: PopLibs' matmul options, with the convolution option each one sets.
MATMUL_OPTIONS = {
    "partialsType": "partialsType",
    "availableMemoryProportion": "availableMemoryProportion",
    "use128BitConvUnitLoad": "use128BitConvUnitLoad",
    "enableMultiStageReduce": "enableMultiStageReduce",
    "enableFastReduce": "enableFastReduce",
    "remapOutputTensor": "remapOutputTensor",
    "gatherOutput": "gatherConvOutput",
    "disableSRForAMPVertices": "disableSRForAMPVertices",
    "planConstraints": "planConstraints",
    "fidelity": "fidelity",
    "strictMemory": "strictMemory",
}
_BY_KEYWORD = {
    "partials_type": "partialsType",
    "available_memory_proportion": "availableMemoryProportion",
    "use_128_bit_conv_unit_load": "use128BitConvUnitLoad",
    "enable_multi_stage_reduce": "enableMultiStageReduce",
    "enable_fast_reduce": "enableFastReduce",
    "remap_output_tensor": "remapOutputTensor",
    "gather_output": "gatherOutput",
    "disable_sr_for_amp_vertices": "disableSRForAMPVertices",
    "plan_constraints": "planConstraints",
    "fully_connected_pass": "fullyConnectedPass",
    "input_rhs_is_pre_arranged": "inputRHSIsPreArranged",
    "strict_memory": "strictMemory",
    "fidelity": "fidelity",
}
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
        The same by keyword, in Python's spelling; they win.

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
    options = {} if options is None else options
    if not isinstance(options, Mapping):
        raise bad_type("options", options, "a mapping of option names to values")
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
    known = {**{key: key for key in (*MATMUL_OPTIONS, "fullyConnectedPass", "inputRHSIsPreArranged")}, **_BY_KEYWORD}
    given: dict[str, Any] = {}
    for key, value in (*options.items(), *more.items()):
        if not isinstance(key, str) or key not in known:
            raise bad_option(key, known)
        given[known[key]] = value
    pass_ = given.pop("fullyConnectedPass", "NONE")
    one_of("fullyConnectedPass", pass_, tuple(_PASSES))
    given.pop("inputRHSIsPreArranged", None)  # moves a transpose, not the plan
    mapped = {MATMUL_OPTIONS[key]: value for key, value in given.items()}
    checked = ConvOptions.parse({**mapped, "pass": _PASSES[pass_]})
    # PopLibs hands the proportion on as text with six decimals
    proportion = round(checked.available_memory_proportion, 6)
    return ConvOptions.parse(checked, available_memory_proportion=proportion)
