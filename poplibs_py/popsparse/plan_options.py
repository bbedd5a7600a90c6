"""Options of the sparse planners of modelled machines: PopLibs' spelling, and each value checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

from ..errors import InvalidArgumentError, InvalidOptionError, described, real, whole
from ..ops import number, parsed
from ..target.types import data_type

__all__ = ["PlannerOptions", "at_least_zero", "choice", "count", "positive", "type_option"]

Check = Callable[[str, object], Any]


@dataclasses.dataclass(frozen=True)
class PlannerOptions:
    """What the options of the static and of the dynamic planner have in common.

    Parameters
    ----------
    available_memory_proportion : float
        Share of tile memory that temporary data may use: 0 or more, default 0.6, above 1 allowed.

    Attributes
    ----------
    spellings : dict of str to str
        PopLibs' spelling of each option, and its field.
    checks : dict of str to callable
        For each field what checks a value, or a text that says one.
    """

    available_memory_proportion: float = 0.6

    spellings: ClassVar[Mapping[str, str]] = {}
    checks: ClassVar[Mapping[str, Check]] = {}

    def __post_init__(self) -> None:
        """Check every field."""
        for name, check in self.checks.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))

    @classmethod
    def parse(cls, options: Mapping[str, Any] | Self | None = None, **more: Any) -> Self:
        """Check options in PopLibs' spelling or Python's; a keyword that contradicts `options` is refused.

        Raises
        ------
        InvalidOptionError
            If a key is unknown, or a value is not allowed.
        """
        if isinstance(options, cls):
            if not more:
                return options
            options = options.to_dict()
        return cls(**parsed(options, cls.spellings, lambda key, name, value: cls.checks[name](key, value), more))

    def to_dict(self) -> dict[str, Any]:
        """Options that differ from the defaults, in PopLibs' spelling."""
        default = type(self)()
        pairs = ((spelling, getattr(self, name), getattr(default, name)) for spelling, name in self.spellings.items())
        return {spelling: getattr(value, "text", value) for spelling, value, usual in pairs if value != usual}


def at_least_zero(key: str, value: object) -> float:
    """Return a finite number, 0 or more."""
    allowed = "a finite number, 0 or more"
    try:
        return real(key, number(key, value), allowed, 0, 2**32)
    except (ValueError, TypeError):
        raise _refused(key, value, allowed) from None


def positive(key: str, value: object) -> float:
    """Return a finite number above 0."""
    found = at_least_zero(key, value)
    if not found:
        raise _refused(key, value, "a finite number above 0")
    return found


def choice(key: str, value: object) -> bool:
    """Return True or False."""
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise _refused(key, value, "true or false")
    return value


def count(most: int) -> Check:
    """Return the check of a whole number from 0 to `most`."""

    def check(key: str, value: object) -> int:
        try:
            return whole(key, int(value) if isinstance(value, str) else value, 0, most)
        except (ValueError, TypeError):
            raise _refused(key, value, f"a whole number from 0 to {most}") from None

    return check


def type_option(key: str, value: object) -> str:
    """Return ``"float"`` or ``"half"``."""
    try:
        return data_type(key, value, ("float", "half"))
    except InvalidArgumentError as error:
        raise InvalidOptionError(str(error)) from None


def _refused(key: str, value: object, allowed: str) -> InvalidOptionError:
    return InvalidOptionError(f"{key}: got {described(value)}; allowed: {allowed}")
