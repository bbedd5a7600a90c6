"""Options of the planners of modelled machines: PopLibs' spelling, and each value checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Self

from ..checks import one_of, whole
from ..errors import InvalidArgumentError, InvalidOptionError, described
from ..target.memory import checked_proportion
from ..target.types import data_type
from .options import check_mapping, number, parsed

Check = Callable[[str, object], Any]


def at_least_zero(key: str, value: object) -> float:
    """Return a finite number, 0 or more."""
    try:
        return checked_proportion(key, number(key, value))
    except (ValueError, TypeError) as error:
        raise InvalidOptionError(str(error)) from None


def positive(key: str, value: object) -> float:
    """Return a finite number above 0."""
    found = at_least_zero(key, value)
    if not found:
        raise _refused(key, value, "a finite number above 0")
    return found


def boolean(key: str, value: object) -> bool:
    """Return True or False."""
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise _refused(key, value, "true or false")
    return value


def count(most: int, least: int = 0) -> Check:
    """Return the check of a whole number from `least` to `most`."""

    def check(key: str, value: object) -> int:
        try:
            return whole(key, int(value) if isinstance(value, str) else value, least, most)
        except (ValueError, TypeError):
            raise _refused(key, value, f"a whole number from {least} to {most}") from None

    return check


def word(*allowed: str) -> Check:
    """Return the check of one of some words."""

    def check(key: str, value: object) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise _refused(key, value, "one of " + ", ".join(allowed))
        return value

    return check


def type_option(key: str, value: object) -> str:
    """Return ``"float"`` or ``"half"``."""
    try:
        return data_type(key, value, ("float", "half"))
    except InvalidArgumentError as error:
        raise InvalidOptionError(str(error)) from None


def _refused(key: str, value: object, allowed: str) -> InvalidOptionError:
    return InvalidOptionError(f"{key}: got {described(value)}; allowed: {allowed}")


def option(default: Any, check: Check = boolean, spelling: str = "") -> Any:
    """Return a field of `PlannerOptions`.

    Parameters
    ----------
    default : object
    check : callable, optional
        ``check(key, value)`` returns a value as it is kept, or raises.
    spelling : str, optional
        PopLibs'; by default the field's name in camel case.
    """
    return dataclasses.field(default=default, metadata={"check": check, "spelling": spelling})


@dataclasses.dataclass(frozen=True)
class PlannerOptions:
    """What the options of all planners have in common.

    Parameters
    ----------
    available_memory_proportion : float
        Share of tile memory that temporary data may use: 0 or more, default 0.6, above 1 allowed.
    """

    available_memory_proportion: float = option(0.6, at_least_zero)

    def __post_init__(self) -> None:
        """Check every field."""
        self.__dict__.update({name: check(name, getattr(self, name)) for name, check in self.checks().items()})

    @classmethod
    @cache
    def checks(cls) -> Mapping[str, Check]:
        """Return what checks the value of each field, or a text that says one."""
        return {field.name: field.metadata["check"] for field in dataclasses.fields(cls)}

    @classmethod
    @cache
    def spellings(cls) -> Mapping[str, str]:
        """Return the field of each option in PopLibs' spelling."""
        found = {}
        for field in dataclasses.fields(cls):
            first, *rest = field.name.rstrip("_").split("_")
            found[field.metadata["spelling"] or first + "".join(map(str.capitalize, rest))] = field.name
        return found

    @classmethod
    def checked(cls, spelling: str, name: str, value: object) -> Any:
        """Return the value of a field as it is kept, or raise in the name of its spelling."""
        one_of("name", name, tuple(cls.checks()))
        return cls.checks()[name](spelling, value)

    @classmethod
    def check_kind(cls, options: object) -> None:
        """Raise unless `options` is a mapping, options of this kind or None."""
        if not isinstance(options, cls):
            check_mapping(options, f"a mapping of option names to values, or a {cls.__name__}")

    @classmethod
    def parse(cls, options: Mapping[str, Any] | Self | None = None, **more: Any) -> Self:
        """Check options in PopLibs' spelling or Python's; a keyword that contradicts `options` is refused.

        Options of this kind say what differs from the defaults.

        Raises
        ------
        InvalidOptionError
            If a key is unknown, or a value is not allowed.
        """
        if isinstance(options, cls):
            if not more:
                return options
            options = options.to_dict()
        cls.check_kind(options)
        return cls._default().derived(**parsed(options, cls.spellings(), cls.checked, more))

    @classmethod
    @cache
    def _default(cls) -> Self:
        return cls()

    def derived(self, **fields: Any) -> Self:
        """Return a copy with some fields changed, unchecked: they were, or follow from what was."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, **fields)
        return made

    def to_dict(self) -> dict[str, Any]:
        """Options that differ from the defaults, in PopLibs' spelling."""
        default = self._default()
        pairs = ((spelling, getattr(self, name), getattr(default, name)) for spelling, name in self.spellings().items())
        return {spelling: getattr(value, "text", value) for spelling, value, usual in pairs if value != usual}
