"""How a convolution is planned: PopLibs' convolution options, checked."""

from __future__ import annotations

import dataclasses
from typing import Any

from ...errors import InvalidOptionError, bad_type
from ...ops.planner_options import PlannerOptions, option, type_option, word
from ...target import TYPE_SIZES
from .constraints import UNCONSTRAINED, ConvConstraints
from .params import ConvParams

PASSES = ("NONE", "NONE_MATMUL", "INFERENCE_FWD", "TRAINING_FWD", "TRAINING_BWD", "TRAINING_WU", "FC_INFERENCE_FWD",
          "FC_TRAINING_FWD", "FC_TRAINING_BWD", "FC_TRAINING_WU")
FC_PASSES = frozenset(p for p in PASSES if p.startswith("FC_"))


@dataclasses.dataclass(frozen=True)
class ConvOptions(PlannerOptions):
    """PopLibs' convolution options; every field has PopLibs' default.

    `ConvOptions.parse` takes PopLibs' spelling (``availableMemoryProportion``) as well as Python's
    (``available_memory_proportion``). However they are built, every option is checked.

    Parameters
    ----------
    available_memory_proportion : float
        Share of tile memory that temporary data may use: >= 0, default 0.6, above 1 allowed. 0 plans
        without a limit, as PopLibs does.
    pass_ : str
        What the convolution is for; one of `PASSES`.
    partials_type, inter_tile_partials_type, inter_ipu_partials_type : str
        Type of partial sums on the tile and between tiles: ``"float"`` (default) or ``"half"``; `parse` takes
        dtypes too.
    fidelity : str
        ``"poplibs"`` keeps PopLibs' costs to the cycle; ``"corrected"`` repairs the plain defects that the
        documentation lists under "How the planner chooses".
    strict_memory : bool
        Raise `MemoryLimitError` where no plan keeps to the memory limit, instead of warning.
    plan_constraints : ConvConstraints
        What the plan must be.
    plan_constraints_output_filename : str
        Where the plan's own constraints are written, as JSON; the pass and ``.json`` are added. Empty: nowhere.
    use_128_bit_conv_unit_load, enable_multi_stage_reduce, enable_fast_reduce : bool
        Loads of a matrix unit, and ways of a reduction, that a plan may take.
    disable_transformations, enable_tile_level_expand_dims : bool
        Transforms that a plan may not, or may, take.
    enable_conv_dithering : bool
        Begin at a tile that depends on the problem.
    experimental_conv_transforms_estimates, experimental_slic_vmac_16 : bool
        PopLibs' experiments: other estimates of transforms; 16 groups in SLIC and VMAC.
    remap_output_tensor, insert_transforms_cycle_count_progs, gather_conv_output, disable_sr_for_amp_vertices : bool
        Taken and kept; plans do not depend on them.
    """

    pass_: str = option("NONE", word(*PASSES))
    partials_type: str = option("float", type_option)
    inter_tile_partials_type: str = option("float", type_option, "partialsType.interTile")
    inter_ipu_partials_type: str = option("float", type_option, "partialsType.interIPU")
    use_128_bit_conv_unit_load: bool = option(False, spelling="use128BitConvUnitLoad")
    plan_constraints: ConvConstraints = option(UNCONSTRAINED, lambda key, value: ConvConstraints.parse(value, key))
    plan_constraints_output_filename: str = option("", lambda _, value: str(value))
    enable_multi_stage_reduce: bool = option(True)
    enable_fast_reduce: bool = option(False)
    remap_output_tensor: bool = option(True)
    enable_conv_dithering: bool = option(False)
    disable_transformations: bool = option(False)
    insert_transforms_cycle_count_progs: bool = option(False)
    experimental_conv_transforms_estimates: bool = option(False, spelling="experimental.convTransformsEstimates")
    gather_conv_output: bool = option(False)
    experimental_slic_vmac_16: bool = option(False, spelling="experimental.slicVmac16")
    disable_sr_for_amp_vertices: bool = option(False, spelling="disableSRForAMPVertices")
    enable_tile_level_expand_dims: bool = option(False)
    fidelity: str = option("poplibs", word("poplibs", "corrected"))
    strict_memory: bool = option(False)

    @property
    def fully_connected(self) -> bool:
        """Whether this is one of the passes of a fully connected layer."""
        return self.pass_ in FC_PASSES

    def with_pass(self, pass_: str) -> ConvOptions:
        """The same options for another pass."""
        return self.derived(pass_=self.checked("pass", "pass_", pass_))

    def for_gradient(self) -> ConvOptions:
        """Options of the backward pass. PopLibs maps a pass that is not fully connected to TRAINING_WU."""
        other = "TRAINING_WU" if self.fidelity == "poplibs" else "TRAINING_BWD"
        return self.with_pass("FC_TRAINING_BWD" if self.fully_connected else other)

    def for_weight_update(self) -> ConvOptions:
        """Options of the weight update pass."""
        return self.with_pass("FC_TRAINING_WU" if self.fully_connected else "TRAINING_WU")

    def for_params(self, params: ConvParams) -> ConvOptions:
        """Raise partials types to what `params` need, as PopLibs' validateLayerParams does, warning."""
        if not (hasattr(params, "input_type") and hasattr(params, "output_type")):
            raise bad_type("params", params, "of type ConvParams")
        names = ("partials_type", "inter_tile_partials_type", "inter_ipu_partials_type")
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        if params.input_type == "quarter" and params.output_type != "half":
            raise InvalidOptionError(
                f"output_type: got {params.output_type!r}; allowed: 'half' where the input is 'quarter'")
        if params.output_type == "quarter":
            raise InvalidOptionError("output_type: got 'quarter'; allowed: 'half' or 'float'")
        least = TYPE_SIZES[params.output_type]
        raised: dict[str, Any] = {n: params.output_type if TYPE_SIZES[t] < least else t for n, t in given.items()}
        if params.input_type == "quarter":
            raised = dict.fromkeys(names, "half")
        if raised == given:
            return self
        return self.derived(**raised)
