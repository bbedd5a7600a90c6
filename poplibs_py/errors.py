"""Every exception and warning that poplibs_py raises.

Each error derives from `PoplibsError` and from the builtin that a caller expects, so both
``except PoplibsError`` and ``except ValueError`` work. `bad_argument` words them all alike.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "CapacityWarning",
    "InvalidArgumentError",
    "InvalidOptionError",
    "InvalidTypeError",
    "MemoryBoundError",
    "MemoryBoundWarning",
    "PlanError",
    "PoplibsError",
    "PoplibsWarning",
    "UnsupportedError",
    "bad_argument",
    "bad_option",
    "bad_type",
    "one_of",
]


class PoplibsError(Exception):
    """Base of every error raised by poplibs_py."""


class InvalidArgumentError(PoplibsError, ValueError):
    """An argument has the right type and a value that is not allowed."""


class InvalidTypeError(PoplibsError, TypeError):
    """An argument has a type or dtype that is not accepted."""


class InvalidOptionError(InvalidArgumentError):
    """An option key is unknown, or its value is not allowed."""


class UnsupportedError(PoplibsError, NotImplementedError):
    """The request is valid, but this machine or build cannot serve it."""


class PlanError(PoplibsError, ValueError):
    """No plan satisfies the given constraints."""


class MemoryBoundError(PoplibsError, MemoryError):
    """No plan fits the memory bound and ``strict_memory=True`` was given."""


class PoplibsWarning(UserWarning):
    """Base of every warning issued by poplibs_py."""


class CapacityWarning(PoplibsWarning):
    """A pattern has more blocks than room was made for; the room has grown."""


class MemoryBoundWarning(PoplibsWarning):
    """No plan fits the memory bound; the bound was raised or dropped."""


def bad_argument(name: str, got: object, allowed: str) -> InvalidArgumentError:
    """Build the error for a value that is not allowed.

    Parameters
    ----------
    name : str
        The argument as the caller spells it.
    got : object
        What it was.
    allowed : str
        What is allowed, as the end of the sentence "allowed: ...".

    Examples
    --------
    >>> from poplibs_py.errors import bad_argument
    >>> str(bad_argument("alpha", float("nan"), "a finite number"))
    'alpha: got nan; allowed: a finite number'
    """
    return InvalidArgumentError(f"{name}: got {_shown(got)}; allowed: {allowed}")


def bad_type(name: str, got: object, allowed: str) -> InvalidTypeError:
    """Build the error for a type or dtype that is not accepted."""
    return InvalidTypeError(f"{name}: got {_shown(got)}; allowed: {allowed}")


def bad_option(key: object, known: Iterable[str]) -> InvalidOptionError:
    """Build the error for an unknown option key, with the nearest known one.

    Examples
    --------
    >>> from poplibs_py.errors import bad_option
    >>> str(bad_option("partialType", ["partialsType", "pass"]))
    "options: got unknown key 'partialType' (did you mean 'partialsType'?); allowed: 'partialsType', 'pass'"
    """
    names = sorted(known)
    near = difflib.get_close_matches(str(key), names, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    listed = ", ".join(repr(n) for n in names)
    return InvalidOptionError(f"options: got unknown key {key!r}{hint}; allowed: {listed}")


def one_of(name: str, got: object, allowed: tuple[str | None, ...]) -> None:
    """Raise unless `got` is one of some names, whatever else it may be: an array, say, or what cannot be hashed.

    Examples
    --------
    >>> from poplibs_py.errors import one_of
    >>> one_of("rounding", "toward-zero", ("nearest-even", "toward-zero"))
    """
    if not ((got is None or isinstance(got, str)) and got in allowed):
        raise bad_argument(name, got, ", ".join(map(repr, allowed)))


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 200 else text[:197] + "..."
