"""A pooling's plan on a modelled machine: PopLibs' split, what tiles receive, and its cycles."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ...memo import remembered
from ...ops import check_fields
from ...planner.tile_plan import Step, TilePlan, TileWork, Vertex, memory_of
from ...target import Target, linear_mapping
from ...target.types import TYPE_BYTES, vector_of
from .kinds import KINDS
from .params import PoolParams
from .search import MOST_LOADS, Form, PoolPartition, best_split, form_of, received_bytes


@dataclass(frozen=True, kw_only=True)
class PoolPlan(TilePlan):
    """How a pooling runs on a modelled machine. ``print(plan)`` tells it.

    Attributes
    ----------
    params : PoolParams
    partition : PoolPartition
    planned : (int, tuple of int, int)
        Batch, field and channels as they are planned.
    grouped : bool
        Whether channels are regrouped as PopLibs would rather have them.
    """

    params: PoolParams
    partition: PoolPartition
    planned: tuple[int, tuple[int, ...], int]
    grouped: bool

    def __post_init__(self) -> None:
        check_fields(self)


@remembered()
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
    preferred = KINDS[params.op].preferred[params.data_type]
    every = params.channels * (params.batch if params.direction == "fwd" else 1)
    if partition.per_group < preferred <= every:
        second = form_of(params, preferred)
        other = best_split(target, second, detected[1], [-(-preferred // vector)])
        if other is not None and other[0] < 4 * cycles // 3:
            return _plan(params, target, second, other, detected[1], grouped=True)
    return _plan(params, target, first, found, detected[0], grouped=False)


def _plan(params: PoolParams, target: Target, form: Form, found: tuple[int, PoolPartition], detected: int, *,
          grouped: bool) -> PoolPlan:
    """The plan of a split: of all of them the one of fewest cycles, so no candidate lost."""
    cycles, at = found
    size, p = TYPE_BYTES[params.data_type], form.params
    splits = at.groups, at.batch, *at.field
    extents = -(-p.channels // at.per_group), p.batch, *form.result
    shares = [-(-n // split) for n, split in zip(extents, splits, strict=True)]
    received = int(received_bytes(p, form.strides[0], shares, at.per_group))
    exchange, elements = received // 4 * (1 + (detected != at.per_group)), prod(shares) * at.per_group
    own = params.on_tiles
    vertex = Vertex(own.vertex, (params.data_type,), ((elements, 1),), cycles - exchange, "tile")
    work = TileWork(prod(splits), elements, (vertex,), cycles - exchange, received)
    shape = " x ".join(map(str, params.field))
    batch, field, channels = form.planned
    decisions = (
        ("form", f"batch {batch}, field {' x '.join(map(str, field))}, {channels} channels"),
        ("split", f"field {' x '.join(map(str, at.field))}, batch {at.batch}, channels {at.groups} parts, in groups of "
                  f"{at.per_group}{', regrouped' * grouped}"))
    here, there = (params.batch * params.channels * prod(n) for n in (params.field, params.windows))
    made = here if params.direction != "fwd" else there
    read = own.fields * here + own.windows * there
    lies = [np.diff(linear_mapping(target, n, size).edges()) * size for n in (read, made)]
    return PoolPlan(
        problem=f"{params.op} pooling {params.direction} [{params.batch}, {params.channels}, {shape}] "
        f"{params.data_type}", target=target, steps=(Step("compute", (work,), received, exchange=exchange),),
        memory=memory_of(target, lies[0], lies[1], received), decisions=decisions, params=params, partition=at,
        planned=form.planned, grouped=grouped)
