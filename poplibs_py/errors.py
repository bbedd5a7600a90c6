"""Every exception and warning that poplibs_py raises.

Each error derives from `PoplibsError` and from the builtin that a caller expects, so both
``except PoplibsError`` and ``except ValueError`` work. `bad_argument` words them all alike.
"""

from __future__ import annotations

import difflib
import logging
import reprlib
import shlex
import sys
import warnings
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

__all__ = ["CapacityError", "CapacityWarning", "InvalidArgumentError", "InvalidIndexError", "InvalidOptionError",
           "InvalidTypeError", "MemoryLimitError", "MemoryLimitWarning", "MissingPackageError", "NotBuiltError",
           "PlanError", "PoplibsError", "PoplibsWarning", "RangeWarning", "ReadOnlyError", "TimeLimitError",
           "UnsupportedError", "bad_argument", "bad_type", "check_keys", "described", "did_you_mean", "not_built",
           "warn"]


class PoplibsError(Exception):
    """Base of every error raised by poplibs_py."""


class InvalidArgumentError(PoplibsError, ValueError):
    """An argument has the right type and a value that is not allowed."""


class InvalidIndexError(InvalidArgumentError, IndexError):
    """An index lies outside the array: what ends an iteration over one."""


class InvalidTypeError(PoplibsError, TypeError):
    """An argument has a type or dtype that is not accepted."""


class InvalidOptionError(InvalidArgumentError):
    """An option key is unknown, or its value is not allowed."""


class ReadOnlyError(PoplibsError, AttributeError):
    """An attribute that does not change once its object is made was assigned to."""


class UnsupportedError(PoplibsError, NotImplementedError):
    """The request is valid, but this machine or build cannot serve it."""


class NotBuiltError(PoplibsError, ImportError):
    """The package was imported from a folder that has no compiled modules for this Python."""


class MissingPackageError(PoplibsError, ImportError):
    """A package that an optional feature needs is not installed.

    Parameters
    ----------
    package : str
        What is missing.
    extra : str
        The extra of this package that installs it.
    reason : ImportError
        Why it could not be imported.
    """

    def __init__(self, package: str, extra: str, reason: ImportError) -> None:
        why = str(reason) if isinstance(reason, Exception) else described(reason)
        name = described(package)
        remedy = f"pip install 'poplibs_py[{described(extra)}]'"
        super().__init__(f"{name} cannot be imported ({why}); to install it: {remedy}", name=name)


class PlanError(PoplibsError, ValueError):
    """No plan satisfies the given constraints."""


class TimeLimitError(PlanError, TimeoutError):
    """Planning took longer than ``time_limit`` allows."""


class CapacityError(PoplibsError, ValueError):
    """A pattern does not fit the room that a plan made for it."""


class MemoryLimitError(PoplibsError, MemoryError):
    """No plan keeps to the memory limit and ``strict_memory=True`` was given."""


class PoplibsWarning(UserWarning):
    """Base of every warning issued by poplibs_py."""


class CapacityWarning(PoplibsWarning):
    """A pattern has more blocks than room was made for; the room has grown."""


class MemoryLimitWarning(PoplibsWarning):
    """No plan keeps to the memory limit; the message says to what it was raised, or that it was dropped."""


class RangeWarning(PoplibsWarning):
    """Finite numbers do not fit an 8-bit format at the scale there: some have become NaN or infinite, or all zero."""


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
    >>> str(bad_argument("alpha", float("nan"), "a finite number"))
    'alpha: got nan; allowed: a finite number'
    """
    return InvalidArgumentError(f"{name}: got {described(got)}; allowed: {allowed}")


def bad_type(name: str, got: object, allowed: str) -> InvalidTypeError:
    """Build the error for a type or dtype that is not accepted."""
    return InvalidTypeError(f"{name}: got {described(got)}; allowed: {allowed}")


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return the known name that is nearest to one that is not known, as words behind it; nothing where none is near.

    Letters are near whatever their case.

    Examples
    --------
    >>> did_you_mean("activaton", ("alpha", "activation")), did_you_mean("k", ("alpha", "activation"))
    (" (did you mean 'activation'?)", '')
    """
    names = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), names, n=1) if isinstance(name, str) else []
    return f" (did you mean {names[near[0]]!r}?)" if near else ""


def check_keys(name: str, given: Iterable[object], known: Collection[str], *, also: Collection[str] = (),
               keywords: bool = False, besides: str = "") -> None:
    """Refuse keys that are not known, each with the nearest that is.

    Parameters
    ----------
    name : str
        The argument that holds them, or the function that takes them, as the caller spells it.
    given : iterable
    known : collection of str
    also : collection of str, optional
        Other spellings that are taken, and not listed.
    keywords : bool, optional
        Whether they are keywords, whose error is a TypeError, as Python's own is.
    besides : str, optional
        What is allowed besides those known, in words.

    Examples
    --------
    >>> check_keys("options", ["partialType"], ["pass", "partialsType"])
    Traceback (most recent call last):
        ...
    poplibs_py.errors.InvalidOptionError: options: got unknown key 'partialType' (did you mean 'partialsType'?); \
allowed: 'pass', 'partialsType'
    """
    unknown = [key for key in given if not (isinstance(key, str) and (key in known or key in also))]
    if not unknown:
        return
    told = ", ".join(f"{_key_words(key)}{did_you_mean(key, (*known, *also))}" for key in unknown)
    listed = ", ".join([*map(repr, known), *[besides] * bool(besides)])
    kind, word = (InvalidTypeError, "keyword") if keywords else (InvalidOptionError, "key")
    raise kind(f"{name}: got unknown {word} {told}; allowed: {listed or f'no {word}'}")


def _key_words(key: object) -> str:
    """A key of options as a refusal shows it: in quotes, if it is text that is not too long."""
    return repr(key) if isinstance(key, str) and len(key) <= _LONGEST else described(key)


def not_built(module: str | None) -> NotBuiltError:
    """Build the error for a compiled module that is missing: what to do depends on where the package lies."""
    package = Path(__file__).parent
    root = package.parent
    if (root / "setup.py").exists():
        remedy = (f"This is the source folder, and Python found it in {root} before any package that is installed. "
                  f"To build it in place, once for each Python: python -m pip install -e {shlex.quote(str(root))}; "
                  "to use an installed package, start Python in another folder.")
    else:
        remedy = "The installation is not complete: install poplibs_py again."
    return NotBuiltError(f"{package} has no compiled modules for this Python ({module} is missing). {remedy}",
                         name=module, path=str(package))


def warn(message: str, category: type[PoplibsWarning]) -> None:
    """Issue a warning that points to the line outside this package that led to it, and put it in the log."""
    logging.getLogger(WARNINGS).warning("%s: %s", category.__name__, message)
    frame, level = sys._getframe(0), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def described(value: object) -> str:
    """Return what a value is in few words: a string itself, a type's name, an array's dtype and shape, another's repr.

    A string that reads as a number is quoted, and so is an empty one.

    Examples
    --------
    >>> import numpy as np
    >>> described(np.zeros((64, 64), np.float32)), described(0.5), described("0.5"), described("half")
    ('ndarray of float32, shape (64, 64)', '0.5', "'0.5'", 'half')
    >>> described([1.0] * 1000), described((np.zeros(3), None))
    ('[1.0, 1.0, 1.0, 1.0, ...]', '(ndarray of float64, shape (3,), None)')
    """
    try:
        if isinstance(value, str | type):
            text = value.__name__ if isinstance(value, type) else _quoted_number(str(value))
        else:
            text = " ".join(_BRIEF.repr(value).split())
        return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
    except Exception:  # of an object of somebody else's
        return f"an object of type {type(value).__name__}"


def _quoted_number(text: str) -> str:
    """A text, in quotes where it is empty or would be taken for a number."""
    try:
        float(text or "0")
    except ValueError:
        return text
    return repr(text)


_PACKAGE = __name__.partition(".")[0]
WARNINGS = f"{_PACKAGE}.warnings"
"""The logger of warnings."""

_LONGEST = 200


class _Brief(reprlib.Repr):
    """What is said of containers, and of arrays, in them too."""

    def repr1(self, x: Any, level: int) -> str:
        return _of_array(x) or super().repr1(x, level)


_BRIEF = _Brief()
_BRIEF.maxlist = _BRIEF.maxtuple = _BRIEF.maxset = _BRIEF.maxfrozenset = _BRIEF.maxdict = _BRIEF.maxarray = 4
_BRIEF.maxstring = _BRIEF.maxlong = _BRIEF.maxother = _LONGEST
_BRIEF.maxlevel = 3


def _of_array(value: Any) -> str:
    """The dtype and shape of what is like an array; an empty string for others and for arrays of one number."""
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is None or not isinstance(shape, tuple) or not shape:
        return ""
    return f"{type(value).__name__} of {dtype}, shape {tuple(shape)}"
