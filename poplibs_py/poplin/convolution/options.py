"""How a convolution is planned: PopLibs' convolution options, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ...errors import InvalidArgumentError, InvalidOptionError, bad_type, described, real
from ...ops import check_mapping, number, parsed
from ...target import TYPE_SIZES
from ...target.types import data_type
from .constraints import UNCONSTRAINED, ConvConstraints
from .params import ConvParams

__all__ = ["FC_PASSES", "PASSES", "SPELLINGS", "ConvOptions", "check_options", "checked_option"]

PASSES = (
    "NONE",
    "NONE_MATMUL",
    "INFERENCE_FWD",
    "TRAINING_FWD",
    "TRAINING_BWD",
    "TRAINING_WU",
    "FC_INFERENCE_FWD",
    "FC_TRAINING_FWD",
    "FC_TRAINING_BWD",
    "FC_TRAINING_WU",
)
FC_PASSES = frozenset(p for p in PASSES if p.startswith("FC_"))


@dataclasses.dataclass(frozen=True)
class ConvOptions:
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

    available_memory_proportion: float = 0.6
    pass_: str = "NONE"
    partials_type: str = "float"
    inter_tile_partials_type: str = "float"
    inter_ipu_partials_type: str = "float"
    use_128_bit_conv_unit_load: bool = False
    plan_constraints: ConvConstraints = UNCONSTRAINED
    plan_constraints_output_filename: str = ""
    enable_multi_stage_reduce: bool = True
    enable_fast_reduce: bool = False
    remap_output_tensor: bool = True
    enable_conv_dithering: bool = False
    disable_transformations: bool = False
    insert_transforms_cycle_count_progs: bool = False
    experimental_conv_transforms_estimates: bool = False
    gather_conv_output: bool = False
    experimental_slic_vmac_16: bool = False
    disable_sr_for_amp_vertices: bool = False
    enable_tile_level_expand_dims: bool = False
    fidelity: str = "poplibs"
    strict_memory: bool = False

    def __post_init__(self) -> None:
        self.__dict__.update({name: checked_option(name, name, getattr(self, name)) for name in SPELLINGS.values()})

    @classmethod
    def parse(cls, options: Mapping[str, Any] | ConvOptions | None = None, **more: Any) -> ConvOptions:
        """Check options; a keyword that contradicts `options` is refused.

        A ConvOptions says what differs from the defaults.

        Examples
        --------
        >>> from poplibs_py.poplin.convolution import ConvOptions
        >>> ConvOptions.parse({"availableMemoryProportion": "0.3"}).available_memory_proportion
        0.3
        """
        if isinstance(options, ConvOptions):
            if not more:
                return options
            options = options.to_dict()
        check_options(options)
        return _DEFAULT.derived(**parsed(options, SPELLINGS, checked_option, more))

    def derived(self, **fields: Any) -> ConvOptions:
        """Return a copy with some fields changed, unchecked: they were, or follow from what was."""
        made = object.__new__(ConvOptions)
        made.__dict__.update(self.__dict__, **fields)
        return made

    @property
    def fully_connected(self) -> bool:
        """Whether this is one of the passes of a fully connected layer."""
        return self.pass_ in FC_PASSES

    def with_pass(self, pass_: str) -> ConvOptions:
        """The same options for another pass."""
        return self.derived(pass_=checked_option("pass", "pass_", pass_))

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
                f"output_type: got {params.output_type!r}; allowed: 'half' where the input is 'quarter'"
            )
        if params.output_type == "quarter":
            raise InvalidOptionError("output_type: got 'quarter'; allowed: 'half' or 'float'")
        least = TYPE_SIZES[params.output_type]
        raised: dict[str, Any] = {n: params.output_type if TYPE_SIZES[t] < least else t for n, t in given.items()}
        if params.input_type == "quarter":
            raised = dict.fromkeys(names, "half")
        if raised == given:
            return self
        return self.derived(**raised)

    def to_dict(self) -> dict[str, Any]:
        """Options that differ from the defaults, in PopLibs' spelling."""
        changed = {}
        for spelling, name in SPELLINGS.items():
            value = getattr(self, name)
            if value != getattr(_DEFAULT, name):
                changed[spelling] = value.text if isinstance(value, ConvConstraints) else value
        return changed


SPELLINGS: dict[str, str] = {
    "availableMemoryProportion": "available_memory_proportion",
    "pass": "pass_",
    "partialsType": "partials_type",
    "partialsType.interTile": "inter_tile_partials_type",
    "partialsType.interIPU": "inter_ipu_partials_type",
    "use128BitConvUnitLoad": "use_128_bit_conv_unit_load",
    "planConstraints": "plan_constraints",
    "planConstraintsOutputFilename": "plan_constraints_output_filename",
    "enableMultiStageReduce": "enable_multi_stage_reduce",
    "enableFastReduce": "enable_fast_reduce",
    "remapOutputTensor": "remap_output_tensor",
    "enableConvDithering": "enable_conv_dithering",
    "disableTransformations": "disable_transformations",
    "insertTransformsCycleCountProgs": "insert_transforms_cycle_count_progs",
    "experimental.convTransformsEstimates": "experimental_conv_transforms_estimates",
    "gatherConvOutput": "gather_conv_output",
    "experimental.slicVmac16": "experimental_slic_vmac_16",
    "disableSRForAMPVertices": "disable_sr_for_amp_vertices",
    "enableTileLevelExpandDims": "enable_tile_level_expand_dims",
    "fidelity": "fidelity",
    "strictMemory": "strict_memory",
}
"""PopLibs' spelling of each option, and its field."""

_CHOICES = {
    "pass_": PASSES,
    "fidelity": ("poplibs", "corrected"),
}


_PARTIALS = ("partials_type", "inter_tile_partials_type", "inter_ipu_partials_type")


def check_options(options: Any) -> None:
    """Raise unless `options` is a mapping, a ConvOptions or None."""
    if not isinstance(options, ConvOptions):
        check_mapping(options, "a mapping of option names to values, or a ConvOptions")


def checked_option(key: str, name: str, value: object) -> object:
    """Return the value of a field as it is kept, or raise in the name of `key`."""
    if name == "plan_constraints":
        return ConvConstraints.parse(value)  # type: ignore[arg-type]
    if name == "available_memory_proportion":
        return _proportion(key, value)
    if name == "plan_constraints_output_filename":
        return str(value)
    if name in _PARTIALS:
        try:
            return data_type(key, value, ("float", "half"))
        except InvalidArgumentError as error:
            raise InvalidOptionError(str(error)) from None
    if name in _CHOICES:
        if not isinstance(value, str) or value not in _CHOICES[name]:
            raise _refuse(key, value, "one of " + ", ".join(_CHOICES[name]))
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise _refuse(key, value, "true or false")
    return value


def _proportion(key: str, value: object) -> float:
    allowed = "a finite number, 0 or more"
    try:
        return real(key, number(key, value), allowed, 0, 2**32)
    except (ValueError, TypeError):
        raise _refuse(key, value, allowed) from None


def _refuse(key: str, value: object, allowed: str) -> InvalidOptionError:
    return InvalidOptionError(f"{key}: got {described(value)}; allowed: {allowed}")


_DEFAULT = ConvOptions()
