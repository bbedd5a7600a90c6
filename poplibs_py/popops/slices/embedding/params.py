"""What an embedding is: a table, how many of its rows are looked up at once, and what is done with them."""

from __future__ import annotations

from dataclasses import dataclass

from ....checks import one_of, whole
from ....errors import bad_argument
from ....formats import FORMATS
from ....target.types import INTEGER_WORDS, TYPE_BYTES

TYPES = tuple(name for name, size in TYPE_BYTES.items() if size <= 4 and name != "quarter")
"""PopLibs' types of tables."""

HOST_TYPES = (*(f.name for f in FORMATS), *INTEGER_WORDS.values())
"""What tables are of on this CPU: names of formats, and of dtypes of integers and truth values."""

_MOST, _MOST_LOOKUPS, _MOST_ELEMENTS = (1 << 31) - 1, 1 << 22, 1 << 40


@dataclass(frozen=True)
class EmbeddingParams:
    """A table and how it is looked up.

    Attributes
    ----------
    data_type : str
        PopLibs' type of the table, of 1, 2 or 4 bytes; on this CPU one of `HOST_TYPES`.
    entries, width : int
        Rows of the table and elements of a row.
    lookups : tuple of int
        How many rows are looked up, or updated, by each call that is to be planned for; empty for single ones.
    groups : int
        Tables side by side.
    """

    data_type: str
    entries: int
    width: int
    lookups: tuple[int, ...] = ()
    groups: int = 1

    def __post_init__(self) -> None:
        one_of("data_type", self.data_type, (*TYPES, *HOST_TYPES))
        for name in ("entries", "width", "groups"):
            object.__setattr__(self, name, whole(name, getattr(self, name), 1, _MOST))
        object.__setattr__(self, "lookups", tuple(whole("lookups", n, 1, _MOST_LOOKUPS) for n in self.lookups))
        for name, rows in (("entries", self.entries), ("lookups", self.most_lookups)):
            if rows * self.width * self.groups > _MOST_ELEMENTS:
                raise bad_argument(name, rows, f"rows of at most {_MOST_ELEMENTS:,} elements in all")

    @property
    def most_lookups(self) -> int:
        """Of any call."""
        return max(self.lookups, default=1)
