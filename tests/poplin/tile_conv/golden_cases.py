"""Golden convolutions, as params."""

from __future__ import annotations

import pytest
from golden.families import Arrays, parameters

from poplibs_py.poplin.tile_conv import ConvParams, FieldTransform, OutputTransform

_FIELD = ("truncationLower", "truncationUpper", "dilation", "paddingLower", "paddingUpper", "flip")
_OUTPUT = ("truncationLower", "truncationUpper", "stride", "paddingLower", "paddingUpper")


def params_of(case: Arrays, **types: object) -> ConvParams:
    """The params of a case of the value goldens."""
    p = case.params["convParams"]

    def per_dim(name, fields, kind):
        return [kind(*values) for values in zip(*(p[name][field] for field in fields), strict=True)]

    return ConvParams.create(
        batch=p["batchSize"], field=p["inputFieldShape"], kernel=p["kernelShape"],
        in_channels=p["inputChannelsPerConvGroup"], out_channels=p["outputChannelsPerConvGroup"],
        groups=p["numConvGroups"], input_transform=per_dim("inputTransform", _FIELD, FieldTransform),
        kernel_transform=per_dim("kernelTransform", _FIELD, FieldTransform),
        output_transform=per_dim("outputTransform", _OUTPUT, OutputTransform), **types,
    )


def value_cases() -> list[pytest.ParameterSet]:
    """The cases of the value goldens, each with `params_of`."""
    found = parameters("POPLIBS_OP_GOLDEN", "op-golden", ".npz", {"conv": params_of})
    return [case for case in found if str(case.id).startswith("conv") or len(found) == 1]
