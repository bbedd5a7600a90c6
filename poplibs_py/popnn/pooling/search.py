"""The split of a pooling that costs least, in the two forms that PopLibs tries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...planner.partitions import Ints, choices_within, least_splits
from ...target import Target
from ...target.types import TYPE_BYTES, vector_of
from .model import least_cycles_of, planned_cycles
from .params import PoolParams

MOST_LOADS = 8
"""Of a group of channels."""

_AT_ONCE = 4096


class PoolPartition(NamedTuple):
    """How a pooling is cut over tiles.

    Attributes
    ----------
    field : tuple of int
        Of each dimension.
    batch, groups : int
        Of the batch and of the groups of channels.
    per_group : int
        Channels of a group.
    """

    field: tuple[int, ...]
    batch: int
    groups: int
    per_group: int


@dataclass(frozen=True)
class Form:
    """A pooling as it is planned: with its batch among the channels, and channels beside the field where they fit."""

    params: PoolParams

    @property
    def result(self) -> tuple[int, ...]:
        """The field of the result."""
        return self.params.field if self.params.backward else self.params.windows

    @property
    def planned(self) -> tuple[int, tuple[int, ...], int]:
        """Batch, field of the operand of the pass and channels."""
        p = self.params
        return p.batch, p.windows if p.backward else p.field, p.channels

    @property
    def strides(self) -> tuple[tuple[int, ...], int]:
        """Steps from a result to the next in the operand, and results that share a step of the last dimension."""
        p = self.params
        if not p.backward:
            return p.stride, 1
        return (1,) * len(p.stride), 1 if p.windows[-1] == 1 else p.stride[-1]


def form_of(params: PoolParams, group: int) -> Form:
    """Return the form that suits groups of so many channels."""
    if params.direction != "fwd":
        return Form(params)
    p = replace(params, channels=params.channels * params.batch, batch=1)
    apart = all(s >= k and n % s == 0 for n, k, s in zip(p.field, p.kernel, p.stride, strict=True))
    if any(p.lower) or any(p.upper) or not apart:
        return Form(p)
    field, channels = list(p.field), p.channels
    if len(field) > 1:
        field[-1] *= field[-2] // p.stride[-2]
        field[-2] = p.stride[-2]
    if channels % group == 0:
        field[-1] *= channels // group
        channels = group
    return Form(replace(p, field=tuple(field), channels=channels))


def best_split(target: Target, form: Form, detected: int, loads: Sequence[int]) -> tuple[int, PoolPartition] | None:
    """Return the cycles and the split of fewest; None where there is none.

    Parameters
    ----------
    target : Target
    form : Form
    detected : int
        Channels of a group as the operand lies.
    loads : sequence of int
        That a group may have.
    """
    p, vector = form.params, vector_of(target, form.params.data_type)
    groups = -(-p.channels // (vector * loads[0]))
    # of equally good ones the solver finds that first which is least in what has the smallest range
    ranges = (len(loads), groups, p.batch, *form.result)
    order = sorted(range(len(ranges)), key=lambda place: min(ranges[place], target.tiles))
    best: tuple[int, tuple[int, ...]] | None = None
    for count in loads:
        if count <= target.tiles:
            best = _least(target, form, detected, count * vector, order, best)
    if best is None:
        return None
    cycles, ordered = best
    per_group, groups, batch, *field = (ordered[order.index(place)] for place in range(len(ranges)))
    return cycles, PoolPartition(tuple(field), batch, groups, per_group)


def _least(target: Target, form: Form, detected: int, per_group: int, order: Sequence[int],
           best: tuple[int, tuple[int, ...]] | None) -> tuple[int, tuple[int, ...]]:
    """The best with so many channels in a group, and of what was found before: cycles, and splits in order."""
    p, extents = form.params, form.result
    groups = -(-p.channels // per_group)
    parts = choices_within(target.tiles, [least_splits(n, target.tiles) for n in (groups, p.batch, *extents)])
    shares = [-(-n // split) for n, split in zip((groups, p.batch, *extents), parts, strict=True)]
    stride, shared = form.strides
    moved = received_bytes(p, stride, shares, per_group) // 4
    moved = moved * (1 + (detected != per_group))
    least = moved + least_cycles_of(target, p, shares[1], shares[2:], shares[0], per_group, shared)
    sooner = np.argsort(least, kind="stable")
    for begin in range(0, len(sooner), _AT_ONCE):
        some = sooner[begin:begin + _AT_ONCE]
        if best is not None and least[some[0]] > best[0]:
            break
        cycles = moved[some] + _slowest(target, p, extents, [share[some] for share in shares], per_group, shared)
        for place in np.flatnonzero(cycles == cycles.min()):
            splits = (per_group, *(int(part[some[place]]) for part in parts))
            found = int(cycles[place]), tuple(splits[which] for which in order)
            best = found if best is None else min(best, found)
    assert best is not None
    return best


def _slowest(target: Target, p: PoolParams, extents: Sequence[int], shares: Sequence[Ints], per_group: int,
             shared: int) -> Any:
    """Cycles of the slowest tile: of a full share, or of one that has less of a dimension, which may take longer."""
    groups, batch, *field = shares
    cycles = planned_cycles(target, p, batch, field, groups, per_group, shared)
    for axis, extent in enumerate(extents):
        uneven = (extent % field[axis] > 0) & (field[axis] > 1)
        if uneven.any():
            less = [share[uneven] - (place == axis) for place, share in enumerate(field)]
            cycles[uneven] = np.maximum(cycles[uneven], planned_cycles(
                target, p, batch[uneven], less, groups[uneven], per_group, shared))
    return cycles


def received_bytes(p: PoolParams, stride: Sequence[int], shares: Sequence[Any], per_group: int) -> Any:
    """Return the bytes that tiles receive with such shares: groups of channels, batch, extents of the result."""
    groups, batch, *field = shares
    held = groups * batch * per_group * TYPE_BYTES[p.data_type]
    read = prod([f * s + k - s for f, s, k in zip(field, stride, p.kernel, strict=True)]) * held
    written = prod(field) * held
    fields, windows = (written, read) if p.backward else (read, written)
    return p.on_tiles.fields * fields + p.on_tiles.windows * windows
