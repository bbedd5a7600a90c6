"""What a plan search minimises, and within which limits."""

from __future__ import annotations

import dataclasses

from ..checks import flag, one_of, whole
from ._search import MEASURE_NAMES, NO_LIMIT

#: Stands for "no limit": above every cost.
UNLIMITED: int = NO_LIMIT

_THEN = {"cycles": "temp_bytes", "temp_bytes": "cycles", "tiles": "cycles", "cost_difference": "temp_bytes"}


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

    def __post_init__(self) -> None:
        one_of("kind", self.kind, tuple(_THEN))
        whole("cycles_limit", self.cycles_limit)
        whole("temp_limit", self.temp_limit)
        flag("tiles_secondary", self.tiles_secondary)

    @property
    def limited(self) -> bool:
        """Whether temporary bytes have a limit."""
        return self.temp_limit != UNLIMITED

    def with_temp_limit(self, temp_limit: int) -> Objective:
        """The same objective under another memory limit."""
        return dataclasses.replace(self, temp_limit=min(whole("temp_limit", temp_limit), UNLIMITED))

    @property
    def keys(self) -> tuple[int, ...]:
        """The measures to minimise, one after another, as the compiled search numbers them."""
        then = "tiles" if self.kind == "cost_difference" and self.tiles_secondary else _THEN[self.kind]
        return MEASURE_NAMES.index(self.kind), MEASURE_NAMES.index(then)

    @property
    def limits(self) -> tuple[int, ...]:
        """The most of each measure."""
        most = {"cycles": self.cycles_limit, "temp_bytes": self.temp_limit}
        return tuple(most.get(name, UNLIMITED) for name in MEASURE_NAMES)
