"""How a dense product is to be done: options by keyword, and PopLibs' spelling of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import is_
from typing import Any

from ...errors import bad_argument, bad_option, bad_type, flag, one_of, whole
from ...kernels.records import ACTIVATIONS
from ...planner import Memory
from ..convolution.params import data_type

__all__ = ["ACTIVATIONS", "MatmulOptions", "options_of", "parse_options"]

_PASSES = ("NONE", "INFERENCE_FWD", "TRAINING_FWD", "TRAINING_BWD", "TRAINING_WU")


@dataclass(frozen=True)
class MatmulOptions:
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

    @property
    def memory(self) -> Memory:
        """The limit on temporary memory."""
        return Memory(self.available_memory_proportion, self.strict_memory)


_DEFAULTS = None, "float", False, False, 4
_DEFAULT = MatmulOptions(*_DEFAULTS)


def options_of(*values: Any) -> MatmulOptions:
    """Return the options of a call, of which those that are defaults themselves need no check."""
    return _DEFAULT if all(map(is_, values, _DEFAULTS)) else MatmulOptions(*values)


_KEYS = {
    "availableMemoryProportion": "available_memory_proportion",
    "partialsType": "partials_type",
    "fullyConnectedPass": "fully_connected_pass",
}
_MODELLED_KEYS = (
    "inputRHSIsPreArranged", "use128BitConvUnitLoad", "enableMultiStageReduce", "enableFastReduce",
    "remapOutputTensor", "gatherOutput", "disableSRForAMPVertices", "planConstraints",
)  # fmt: skip


def parse_options(options: Mapping[str, Any] | None, base: MatmulOptions) -> MatmulOptions:
    """Apply PopLibs' option keys to `base`.

    Keys that only steer a modelled tile array (for example ``enableFastReduce``) are known and change nothing here.

    Raises
    ------
    InvalidOptionError
        If a key is unknown; the message suggests the nearest.
    """
    if options is None:
        return base
    if not isinstance(options, Mapping):
        raise bad_type("options", options, "a mapping of option names to values")
    changes: dict[str, Any] = {}
    for key, value in options.items():
        if key in _KEYS:
            if key == "availableMemoryProportion" and isinstance(value, str):
                try:
                    value = float(value)
                except ValueError:
                    raise bad_argument(key, value, "a number") from None
            changes[_KEYS[key]] = value
        elif key not in _MODELLED_KEYS:
            raise bad_option(key, (*_KEYS, *_MODELLED_KEYS))
    return replace(base, **changes)
