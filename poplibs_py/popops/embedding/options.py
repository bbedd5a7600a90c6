"""What a user may ask of an embedding's plan: PopLibs' options."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import flag, one_of
from ...planner import POPLIBS_PROPORTION, Memory

__all__ = ["EmbeddingOptions"]

_DEFAULT = Memory(POPLIBS_PROPORTION)


@dataclass(frozen=True)
class EmbeddingOptions:
    """PopLibs' options of an embedding.

    Attributes
    ----------
    memory : Memory
        ``availableMemoryProportion``: what temporaries may take of a tile.
    used_for_slice, used_for_update : bool
        Whether rows are read, whether they are updated.
    operation : {"ADD", "MUL", "MAX", "NONE"}
        What an update does with the row that is there; NONE replaces it.
    partial_type : str
        Of sums of updates; empty for the table's own.
    one_point : bool
        ``indicesDistribution``: whether to expect that all indices are the same one, else that they are spread evenly.
    in_order : bool
        ``indicesAreSorted``.
    """

    memory: Memory = _DEFAULT
    used_for_slice: bool = True
    used_for_update: bool = True
    operation: str = "ADD"
    partial_type: str = ""
    one_point: bool = False
    in_order: bool = False

    def __post_init__(self) -> None:
        for name in ("used_for_slice", "used_for_update", "one_point", "in_order"):
            flag(name, getattr(self, name))
        one_of("operation", self.operation, ("ADD", "MUL", "MAX", "NONE"))
        one_of("partial_type", self.partial_type, ("", "float", "half"))
