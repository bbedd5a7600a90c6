"""PopLibs' ladder: what is tried where no plan meets the byte bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..errors import bad_type, flag, instance, whole
from .objective import Objective

__all__ = ["climb"]

T = TypeVar("T")


def climb(
    plan_once: Callable[[Objective], T | None],
    objective: Objective,
    tile_bytes: int,
    *,
    tried: bool = False,
) -> T | None:
    """Plan under a byte bound; failing that double the bound, in the end drop it.

    The bound doubles until it has reached twice the tile's memory; the last attempt minimises cycles with
    no bound of any kind. A proportion of 0 has no bound, so only that last attempt is made (in PopLibs too,
    although its documentation says that 0 asks for the least memory).

    Parameters
    ----------
    plan_once : callable
        Plans once for an objective; None if there is no plan.
    objective : Objective
    tile_bytes : int
        Memory of one tile.
    tried : bool
        Whether the objective as it is was tried before and failed.

    Examples
    --------
    >>> from poplibs_py.planner import Objective, climb
    >>> climb(lambda o: o.temp_bound if o.temp_bound >= 500 else None, Objective(temp_bound=100), 1000)
    800
    """
    instance("objective", objective, Objective, "an Objective")
    if not callable(plan_once):
        raise bad_type("plan_once", plan_once, "a function of an Objective")
    whole("tile_bytes", tile_bytes, 1, 1 << 62)
    flag("tried", tried)
    if objective.bounded:
        if not tried:
            plan = plan_once(objective)
            if plan is not None:
                return plan
        bound = objective.temp_bound
        while bound > 0:
            bound *= 2
            plan = plan_once(objective.with_temp_bound(bound))
            if plan is not None:
                return plan
            if bound >= 2 * tile_bytes:
                break
    return plan_once(Objective())
