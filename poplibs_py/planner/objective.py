"""What a plan search minimises, and within which limits."""

from __future__ import annotations

import dataclasses
from typing import Any

from . import _search

__all__ = ["UNLIMITED", "Objective"]

#: Stands for "no limit": above every cost.
UNLIMITED: int = _search.NO_LIMIT

_KINDS = {
    "cycles": _search.MINIMIZE_CYCLES,
    "cost_difference": _search.MINIMIZE_COST_DIFF,
    "temp_bytes": _search.MINIMIZE_TEMP,
    "tiles": _search.MINIMIZE_TILES,
}


@dataclasses.dataclass(frozen=True)
class Objective:
    """Two costs to minimise in turn, and limits. Corresponds to PopLibs' ``PlanningObjective``.

    Parameters
    ----------
    kind : str
        ``"cycles"`` (then bytes), ``"temp_bytes"`` (then cycles), ``"tiles"`` (then cycles), or
        ``"cost_difference"``: cycles by which steps exceed those of a reference, then tiles or bytes.
    cycles_limit, temp_limit : int
        Most cycles and most temporary bytes per tile.
    tiles_secondary : bool
        Whether ``"cost_difference"`` breaks ties by tiles instead of bytes.
    """

    kind: str = "cycles"
    cycles_limit: int = UNLIMITED
    temp_limit: int = UNLIMITED
    tiles_secondary: bool = False

    @property
    def limited(self) -> bool:
        """Whether temporary bytes have a limit."""
        return self.temp_limit != UNLIMITED

    def with_temp_limit(self, temp_limit: int) -> Objective:
        """The same objective under another memory limit."""
        return dataclasses.replace(self, temp_limit=min(temp_limit, UNLIMITED))

    def goal(self, reference: list[dict[str, int]] | None = None) -> dict[str, Any]:
        """As the compiled search takes it."""
        return {
            "objective": _KINDS[self.kind],
            "cycles_limit": self.cycles_limit,
            "temp_limit": self.temp_limit,
            "tiles_secondary": self.tiles_secondary,
            "reference": reference,
        }
