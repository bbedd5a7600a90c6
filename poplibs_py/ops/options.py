"""PopLibs' options, read: which keys there are, text that is a number, and what holds beside a keyword."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import InvalidOptionError, bad_argument, bad_type, check_keys, described

_NUMBERS = frozenset({"available_memory_proportion"})
_NOTHING: Mapping[str, Any] = {}


def check_mapping(options: Any, allowed: str = "a mapping of option names to values") -> None:
    """Raise unless `options` is a mapping, or None, which says nothing."""
    if not (options is None or isinstance(options, Mapping)):
        raise bad_type("options", options, allowed)


def number(key: str, value: Any) -> Any:
    """Return the number that a text holds, as PopLibs' options do, and everything else as it is, or raise.

    Examples
    --------
    >>> from poplibs_py.ops.options import number
    >>> number("availableMemoryProportion", "0.3")
    0.3
    """
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        raise InvalidOptionError(f"{key}: got {described(value)}; allowed: a number") from None


def parsed(options: Any, known: Mapping[str, str | None], check: Callable[[str, str, Any], Any],
           keywords: Mapping[str, Any] = _NOTHING) -> dict[str, Any]:
    """Return what a call says by its options and by keywords, checked, by field.

    An option and a keyword, or two spellings of one option, may say the same, and may not contradict each other.

    Parameters
    ----------
    options : mapping or None
        As the caller gave them.
    known : mapping
        The field that each of PopLibs' keys sets, which is a key besides; None where an option is known and changes
        nothing.
    check : callable
        ``check(key, field, value)`` returns a value as the field has it, or raises.
    keywords : mapping, optional
        What was said by keyword, in either spelling.

    Raises
    ------
    InvalidOptionError
        If a key of `options` is unknown; the message suggests the nearest, in either spelling.
    InvalidTypeError
        If a keyword is.
    InvalidArgumentError
        If two contradict each other; the message names both.

    Examples
    --------
    >>> from poplibs_py.ops.options import parsed
    >>> known = {"partialsType": "partials_type", "enableFastReduce": None}
    >>> parsed({"partialsType": "half", "enableFastReduce": True}, known, lambda key, field, value: value)
    {'partials_type': 'half'}
    """
    check_mapping(options)
    fields = {**known, **{field: field for field in known.values() if field}}
    options = _NOTHING if options is None else options
    check_keys("keywords", keywords, [field for field in known.values() if field], also=fields, keywords=True)
    check_keys("options", options, known, also=fields)
    said: dict[str, tuple[str, Any]] = {}
    for source in (options, keywords):
        for key, value in source.items():
            field = fields[key]
            if field is None or (value is None and field in _NUMBERS):  # which is what a call says that names no limit
                continue
            checked = check(key, field, number(key, value) if field in _NUMBERS else value)
            first, before = said.setdefault(field, (key, checked))
            if before != checked:
                raise bad_argument(key, checked, f"what {first} says, {described(before)}, or one of the two alone")
    return {field: value for field, (_, value) in said.items()}
