"""What can be asked of a convolution's plan before it is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ...planner.constraints import INDEX, PlanConstraints, boolean, one_word, unsigned, unsigned_list

_SPLIT = {"parallel": unsigned, "serial": unsigned}


class ConvConstraints(PlanConstraints):
    """What must hold of a convolution's plan: PopLibs' ``planConstraints`` option.

    The schema is PopLibs'::

        {"method": {"type": "AMP", "convUnits": 16, ...}, "convGroupsPerGroup": 1,
         "inChansPerGroup": 16, "partialChansPerGroup": 16,
         "0": {"transform": {"swapOperands": true, "expandDims": [1], "outChanFlattenDims": [],
                             "combineConvGroupsFactor": [1]},
               "partition": {"fieldSplit": {"0": 2}, "batchSplit": 1, "kernelSplit": {"0": 1},
                             "outChanSplit": {"parallel": 4, "serial": 1},
                             "inChanSplit": {"parallel": 1}, "convGroupSplit": 1}}}

    An unknown key, a value of the wrong kind or a negative index raises `InvalidOptionError`.

    Examples
    --------
    >>> from poplibs_py.poplin.tile_conv import ConvConstraints
    >>> c = ConvConstraints.parse({"0": {"partition": {"outChanSplit": {"serial": 2}}}})
    >>> c.get("0.partition.outChanSplit.serial"), c.get("method.type")
    (2, None)
    """

    schema: ClassVar[Mapping[str, Any]] = {
        "method": {"type": one_word("AMP", "SLIC", "HMAC", "VMAC", "OUTER_PRODUCT"), "useLimitedVersion": boolean,
                   "convUnits": unsigned, "convInputLoadElems": unsigned, "convUnitChainsRequired": unsigned,
                   "windowWidth": unsigned},
        "convGroupsPerGroup": unsigned,
        "inChansPerGroup": unsigned,
        "partialChansPerGroup": unsigned,
        INDEX: {
            "transform": {"swapOperands": boolean, "expandDims": unsigned_list, "outChanFlattenDims": unsigned_list,
                          "combineConvGroupsFactor": unsigned_list},
            "partition": {"convGroupSplit": unsigned, "batchSplit": unsigned, "fieldSplit": {INDEX: unsigned},
                          "kernelSplit": {INDEX: unsigned}, "inChanSplit": _SPLIT, "outChanSplit": _SPLIT},
        },
    }


#: No constraints at all.
UNCONSTRAINED = ConvConstraints()
