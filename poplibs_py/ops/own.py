"""Numbers that each call has of its own: no part of its key, words of the block that programs take as `VALUES`."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..program import number_word


class OwnNumber(NamedTuple):
    """A number that each call has of its own.

    Attributes
    ----------
    at : int
        Which of the call's words it is.
    whole : bool
        Whether that is an int64 rather than a double.
    """

    at: int
    whole: bool

    def __str__(self) -> str:
        return "a number of each call"


def own_numbers(*values: Any) -> tuple[tuple[OwnNumber | None, ...], tuple[int, ...]]:
    """Return which of a face's `values` are numbers that each call has of its own, and the words; none without any."""
    found = [number_word(value) for value in values]
    numbers = tuple(word and OwnNumber(i, word[1] > 0) for i, word in enumerate(found))
    return numbers, tuple(word[0] if word else 0 for word in found) if any(numbers) else ()
