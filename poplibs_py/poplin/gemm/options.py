"""How a dense product is to be done: options by keyword, and PopLibs' spelling of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import is_
from typing import Any

from ...checks import flag, one_of, whole
from ...ops import parsed
from ...planner import Memory
from ...target.types import data_type

_PASSES = ("NONE", "INFERENCE_FWD", "TRAINING_FWD", "TRAINING_BWD", "TRAINING_WU")


@dataclass(frozen=True)
class GemmOptions:
    """Options of a dense product.

    Attributes
    ----------
    available_memory_proportion : float or None
        See `poplibs_py.planner.Memory`.
    partials_type : {"float", "half"}
        Format of the sums of blocks of the depth; ``"float32"`` and ``"float16"``, or dtypes, do as well.
    reproducible : bool
        Ask for the plan-defined order of sums: the same bits at every instruction-set level.
    strict_memory : bool
        Raise where no plan keeps to the memory limit, in place of a warning.
    half_passes : {4, 3}
        Passes of the matrix unit for FP16: 4 is exact products, 3 leaves out the product of the low parts.
    fully_connected_pass : str
        PopLibs' hint; it does not change a host plan.
    """

    available_memory_proportion: float | None = None
    partials_type: str = "float"
    reproducible: bool = False
    strict_memory: bool = False
    half_passes: int = 4
    fully_connected_pass: str = "NONE"

    def __post_init__(self) -> None:
        memory = Memory(self.available_memory_proportion, self.strict_memory)
        object.__setattr__(self, "available_memory_proportion", memory.proportion)
        object.__setattr__(self, "partials_type", data_type("partials_type", self.partials_type, ("float", "half")))
        flag("reproducible", self.reproducible)
        object.__setattr__(self, "half_passes", whole("half_passes", self.half_passes, 3, 4))
        one_of("fullyConnectedPass", self.fully_connected_pass, _PASSES)

    def said(self, named: Iterable[str] = ()) -> dict[str, Any]:
        """Return the fields that are not at their defaults, and those that were named besides; None says nothing."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in fields.items()
                if value is not None and (name in named or value != getattr(GemmOptions, name))}

    @property
    def memory(self) -> Memory:
        """The limit on temporary memory."""
        return Memory(self.available_memory_proportion, self.strict_memory)


_DEFAULTS = None, "float", False, False, 4
_DEFAULT = GemmOptions(*_DEFAULTS)


def options_of(*values: Any) -> GemmOptions:
    """Return the options of a call, of which those that are defaults themselves need no check."""
    return _DEFAULT if all(map(is_, values, _DEFAULTS)) else GemmOptions(*values)


_KEYS: dict[str, str | None] = {
    "availableMemoryProportion": "available_memory_proportion",
    "partialsType": "partials_type",
    "fullyConnectedPass": "fully_connected_pass",
    **dict.fromkeys((
        "inputRHSIsPreArranged", "use128BitConvUnitLoad", "enableMultiStageReduce", "enableFastReduce",
        "remapOutputTensor", "gatherOutput", "disableSRForAMPVertices", "planConstraints",
    )),
}  # fmt: skip


def parse_options(options: Mapping[str, Any] | None, base: GemmOptions, named: Iterable[str] = ()) -> GemmOptions:
    """Apply PopLibs' option keys to `base`: see `poplibs_py.ops.parsed`.

    Keys that only steer a modelled tile array (for example ``enableFastReduce``) are known and change nothing here.

    Parameters
    ----------
    options : mapping or None
        By PopLibs' keys.
    base : GemmOptions
        What keywords say. A field at its default says nothing, unless it was named.
    named : iterable of str, optional
        Fields that the caller named for certain.

    Raises
    ------
    InvalidOptionError
        If a key is unknown; the message suggests the nearest.
    InvalidArgumentError
        If an option says what a keyword contradicts.
    """
    if options is None:
        return base
    said = {name: value for name, value in base.said(named).items() if name in _KEYS.values()}
    return replace(base, **parsed(options, _KEYS, _checked, said))


def _checked(_: str, field: str, value: Any) -> Any:
    return getattr(replace(_DEFAULT, **{field: value}), field)
