"""What a plan search minimises, and within which bounds."""

from __future__ import annotations

import dataclasses
from typing import Any

from . import _search

__all__ = ["UNBOUNDED", "Objective"]

#: Stands for "no bound": above every cost.
UNBOUNDED: int = _search.NO_BOUND

_KINDS = {
    "cycles": _search.MINIMIZE_CYCLES,
    "cost_difference": _search.MINIMIZE_COST_DIFF,
    "temp_bytes": _search.MINIMIZE_TEMP,
    "tiles": _search.MINIMIZE_TILES,
}


@dataclasses.dataclass(frozen=True)
class Objective:
    """Two costs to minimise in turn, and bounds. Corresponds to PopLibs' ``PlanningObjective``.

    Parameters
    ----------
    kind : str
        ``"cycles"`` (then bytes), ``"temp_bytes"`` (then cycles), ``"tiles"`` (then cycles), or
        ``"cost_difference"``: cycles by which steps exceed those of a reference, then tiles or bytes.
    cycles_bound, temp_bound : int
        Most cycles and most temporary bytes per tile.
    tiles_secondary : bool
        Whether ``"cost_difference"`` breaks ties by tiles instead of bytes.
    """

    kind: str = "cycles"
    cycles_bound: int = UNBOUNDED
    temp_bound: int = UNBOUNDED
    tiles_secondary: bool = False

    @property
    def bounded(self) -> bool:
        """Whether temporary bytes are bounded."""
        return self.temp_bound != UNBOUNDED

    def with_temp_bound(self, temp_bound: int) -> Objective:
        """The same objective under another byte bound."""
        return dataclasses.replace(self, temp_bound=min(temp_bound, UNBOUNDED))

    def goal(self, reference: list[dict[str, int]] | None = None) -> dict[str, Any]:
        """As the compiled search takes it."""
        return {
            "objective": _KINDS[self.kind],
            "cycles_bound": self.cycles_bound,
            "temp_bound": self.temp_bound,
            "tiles_secondary": self.tiles_secondary,
            "reference": reference,
        }
