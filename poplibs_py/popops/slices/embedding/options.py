"""What a user may ask of an embedding's plan: PopLibs' options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ....checks import flag, one_of, whole
from ....errors import bad_argument, bad_type, check_keys
from ....ops import parsed
from ....planner import Memory
from ....target.memory import checked_proportion

_KEYS: dict[str, str | None] = {"availableMemoryProportion": "available_memory_proportion",
                                "usedForSlice": "used_for_slice", "usedForUpdate": "used_for_update",
                                "operationForUpdate": "operation_for_update", "partialType": "partial_type",
                                "indicesDistribution": "indices_distribution", "indicesAreSorted": "indices_are_sorted",
                                "validateIndices": "validate_indices", "planConstraints": "plan_constraints",
                                "remapOutOfBoundIndices": None, "paddingIndexUsed": None}
_CONSTRAINTS = ("precopyBaseWhenSerialSlice", "lookupSerialSplit", "lookupParallelSplit", "slicedDimSplit",
                "unslicedDimSplit", "groupSplit", "useOrderingInfo")
_OF_TRUTH = ("precopyBaseWhenSerialSlice", "useOrderingInfo")


@dataclass(frozen=True)
class EmbeddingOptions:
    """PopLibs' options of an embedding.

    Attributes
    ----------
    available_memory_proportion : float or None
        What temporaries may take of a tile; None is PopLibs' 0.6.
    used_for_slice, used_for_update : bool
        Whether rows are read, whether they are updated; at least one of the two.
    operation_for_update : {"add", "mul", "max", "none"}
        What an update does with the row that is there; ``"none"`` replaces it.
    partial_type : {"", "float", "half"}
        Of sums of updates; empty for the table's own.
    indices_distribution : {"uniform", "onePoint"}
        Whether indices are expected to be spread evenly, or to be all the same.
    indices_are_sorted : bool
    validate_indices : bool
        Whether a program stops at a bad index; it changes the first tile.
    plan_constraints : tuple of (str, int)
        What the plan must be, by PopLibs' names: a mapping is taken too.
    strict_memory : bool
        Raise where no plan keeps to the memory limit, in place of a warning.
    """

    available_memory_proportion: float | None = None
    used_for_slice: bool = True
    used_for_update: bool = True
    operation_for_update: str = "add"
    partial_type: str = ""
    indices_distribution: str = "uniform"
    indices_are_sorted: bool = False
    validate_indices: bool = False
    plan_constraints: Any = ()
    strict_memory: bool = False

    def __post_init__(self) -> None:
        for name in _CHECKS:
            object.__setattr__(self, name, _checked(name, name, getattr(self, name)))
        if not (self.used_for_slice or self.used_for_update):
            raise bad_argument("used_for_update", False, "True where used_for_slice is False")
        flag("strict_memory", self.strict_memory)

    @property
    def memory(self) -> Memory:
        """The limit on temporary memory."""
        return Memory(self.available_memory_proportion, self.strict_memory).on_machine()

    @property
    def one_point(self) -> bool:
        """Whether all indices are expected to be the same."""
        return self.indices_distribution == "onePoint"

    @classmethod
    def parse(cls, options: Mapping[str, Any] | None, more: Mapping[str, Any]) -> EmbeddingOptions:
        """Read options in PopLibs' spelling and keywords in either."""
        keywords = dict(more)
        strict = keywords.pop("strict_memory", False)
        return cls(**parsed(options, _KEYS, _checked, keywords), strict_memory=strict)


def _checked(key: str, field: str, value: Any) -> Any:
    return _CHECKS[field](key, value)


def _share(key: str, value: Any) -> float | None:
    return None if value is None else checked_proportion(key, value)


def _word(*words: str) -> Callable[[str, Any], Any]:
    def check(key: str, value: Any) -> Any:
        one_of(key, value, words)
        return value

    return check


def _constraints(key: str, value: Any) -> tuple[tuple[str, int], ...]:
    if isinstance(value, tuple) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
        value = dict(value)
    if not isinstance(value, Mapping):
        raise bad_type(key, value, "a mapping of names to numbers")
    check_keys(key, value, _CONSTRAINTS)
    found = []
    for name, number in value.items():
        if name in _OF_TRUTH:
            found.append((name, int(flag(name, bool(number) if number in (0, 1) else number))))
        else:
            found.append((name, whole(name, number, 1, 1 << 40)))
    return tuple(sorted(found))


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "available_memory_proportion": _share, "used_for_slice": flag, "used_for_update": flag,
    "operation_for_update": _word("add", "mul", "max", "none"), "partial_type": _word("", "float", "half"),
    "indices_distribution": _word("uniform", "onePoint"), "indices_are_sorted": flag, "validate_indices": flag,
    "plan_constraints": _constraints}
