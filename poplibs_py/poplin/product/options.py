"""PopLibs' matmul options on a modelled machine, as options of the convolution that a product is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...checks import one_of
from ...ops import parsed
from ..tile_conv import ConvOptions

PRODUCT_OPTIONS: dict[str, str] = {
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
"""The field of `ConvOptions` that each of PopLibs' matmul options sets, or what becomes of it here."""
_SHARE = "available_memory_proportion"
_PASSES = {"NONE": "NONE_MATMUL", "INFERENCE_FWD": "FC_INFERENCE_FWD", "TRAINING_FWD": "FC_TRAINING_FWD",
           "TRAINING_BWD": "FC_TRAINING_BWD", "TRAINING_WU": "FC_TRAINING_WU"}


def conv_options(options: Mapping[str, Any] | None, more: Mapping[str, Any]) -> ConvOptions:
    """Return the options of a product's convolution: PopLibs' by their keys, and the same by keyword."""
    said = dict(more)
    if said.get(_SHARE, 0) is None:  # the default of every op
        del said[_SHARE]
    said = parsed(options, PRODUCT_OPTIONS, _checked, said)
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
    return ConvOptions.checked(key, "gather_conv_output" if field == "gather_output" else field, value)
