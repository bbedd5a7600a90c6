"""A pooling's plan on a modelled machine: PopLibs' split and its cycles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ...planner import Explanation
from ...popops.model import vector_of
from ...target import Target
from .params import PoolParams
from .search import MOST_LOADS, PoolPartition, best_split, form_of

__all__ = ["PoolPlan", "planned"]

_PREFERRED = {("max", "half"): 16, ("max", "float"): 8, ("sum", "half"): 16, ("sum", "float"): 4,
              ("avg", "half"): 16, ("avg", "float"): 4}
"""Channels of a group that PopLibs would rather have."""


@dataclass(frozen=True)
class PoolPlan:
    """How a pooling runs on a modelled machine. ``print(plan)`` tells it.

    Attributes
    ----------
    params : PoolParams
    target : Target
    partition : PoolPartition
    planned : (int, tuple of int, int)
        Batch, field and channels as they are planned.
    grouped : bool
        Whether channels are regrouped as PopLibs would rather have them.
    cycles : int
        Modelled tile cycles, exchange among them.
    """

    params: PoolParams
    target: Target
    partition: PoolPartition
    planned: tuple[int, tuple[int, ...], int]
    grouped: bool
    cycles: int

    @property
    def seconds(self) -> float:
        """The cycles at the machine's clock."""
        return self.cycles / self.target.clock_hz

    def explain(self) -> Explanation:
        """Return what was decided: of all splits the one of fewest cycles, so no candidate is listed."""
        p = self.params
        shape = " x ".join(map(str, p.field))
        problem = f"{p.op} pooling {p.direction} [{p.batch}, {p.channels}, {shape}] {p.data_type}"
        return Explanation(f"{problem} on {self.target.name}", dict(self._decisions()))

    def _decisions(self) -> Iterator[tuple[str, str]]:
        at, (batch, field, channels) = self.partition, self.planned
        yield "form", f"batch {batch}, field {' x '.join(map(str, field))}, {channels} channels"
        yield "split", (f"field {' x '.join(map(str, at.field))}, batch {at.batch}, channels {at.groups} parts, "
                        f"in groups of {at.per_group}{', regrouped' * self.grouped}")
        yield "cycles", f"{self.cycles:,}"

    def __str__(self) -> str:
        return self.explain().words()


@lru_cache(maxsize=1024)
def planned(params: PoolParams, target: Target, detected: tuple[int, int] = (1, 1)) -> PoolPlan:
    """Return PopLibs' plan.

    Parameters
    ----------
    params : PoolParams
    target : Target
    detected : (int, int), optional
        Channels that lie together in the operand, as it is and regrouped.

    Notes
    -----
    Where there are fewer channels than a load has, PopLibs may move some of the field into them first: left out here.
    """
    vector = vector_of(target, params.data_type)
    first = form_of(params, vector)
    channels = first.params.channels
    most = max(1, min(-(-detected[0] // vector), -(-channels // vector), MOST_LOADS))
    found = best_split(target, first, detected[0], range(1, most + 1))
    assert found is not None
    cycles, partition = found
    preferred = _PREFERRED[params.op, params.data_type]
    every = params.channels * (params.batch if params.direction == "fwd" else 1)
    if partition.per_group < preferred <= every:
        second = form_of(params, preferred)
        other = best_split(target, second, detected[1], [-(-preferred // vector)])
        if other is not None and other[0] < 4 * cycles // 3:
            return PoolPlan(params, target, other[1], second.planned, True, other[0])
    return PoolPlan(params, target, partition, first.planned, False, cycles)
