"""The search for the best plan of a convolution over all its candidates."""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ...errors import PlanError
from ...memo import remembered
from ...planner.deadline import deadline
from ...planner.objective import UNLIMITED, Objective
from ...program import rounded
from ...target import Target
from . import transforms as tf
from ._model import Model
from .candidates import Candidate, Transformed, candidates_by_way
from .joint import joint_setups
from .model import PassSetup, conv_types, forward_bounds, make_model, method_allows
from .options import ConvOptions
from .params import ConvParams
from .plan import ConvPlan, Partition, Split
from .start_tile import start_tile
from .transforms import TransformedParams
from .vertices import VertexType, max_macs_per_cycle


@dataclasses.dataclass(frozen=True)
class Reference:
    """Another plan whose serial loop this one must match, and whose steps it should not exceed."""

    plan: ConvPlan
    costs: list[dict[str, int]]  # per pass

    def splits(self) -> dict[str, int]:
        """What must be equal."""
        p = self.plan.partition
        return {"in": p.in_chan_split.serial, "out": p.out_chan_split.serial,
                "broadcast": int(self.plan.broadcast_input_before_loop)}


def setup_of(params: ConvParams, options: ConvOptions, joint: bool, c: Candidate) -> PassSetup:
    """The forward pass of a candidate."""
    way, v = c
    field_grain = [1] * way.final.ndim
    if joint:
        field_grain[-1] = v.in_chans  # the backward pass' input grouping
    elif params.output_type == "half" and v.partial_chans % 2 and way.final.axes[-1].out % 2 == 0:
        field_grain[-1] = 2  # an even number of halves per tile
    grains = (v.conv_groups, v.in_chans, v.partial_chans)
    stages = TransformedParams(way.view, way.grouped, tf.pad_channels(way.grouped, *grains))
    types = conv_types(v.partial_type, params.output_type, options)
    return PassSetup(stages, (way.system, way.tile), v, types, options, tuple(field_grain), grains, joint)


def model_of(target: Target, params: ConvParams, setup: PassSetup, reference: Reference | None = None) -> Model:
    """The compiled model of a candidate."""
    setups: list[PassSetup | None] = joint_setups(target, params, setup) if setup.joint else [setup]
    bounds = forward_bounds(target, setup, reference.splits() if reference else None)
    return make_model(target, setups, bounds, reference.costs if reference else None)


def search_candidate(target: Target, params: ConvParams, options: ConvOptions, joint: bool, c: Candidate,
                     objective: Objective) -> ConvPlan | None:
    """The best plan of one candidate."""
    setup = setup_of(params, options, joint, c)
    if not method_allows(setup):
        return None
    model = model_of(target, params, setup)
    found = model.search(objective.keys, objective.limits, (UNLIMITED, UNLIMITED), deadline())
    return None if found is None else _make_plan(target, params, options, setup, model, found[1])


def _make_plan(target: Target, params: ConvParams, options: ConvOptions, setup: PassSetup, model: Model,
               splits: tuple[Any, ...]) -> ConvPlan:
    v = setup.vertex
    costs = model.costs(splits)
    assert costs is not None
    batch, group, *fields, out, inner, broadcast = splits
    ndim = len(fields) // 2
    partition = Partition(tuple(parallel for parallel, _ in fields[ndim:]), batch[0],
                          Split(parallel=out[0], serial=out[1]), tuple(parallel for parallel, _ in fields[:ndim]),
                          Split(parallel=inner[0], serial=inner[1]), group[0], setup.field_grain, *setup.grains)
    itemised = [{name: n for name, n in c.items() if n} for c in costs]
    start, direction = start_tile(target, params, options)
    return ConvPlan(v.method, v.conv_groups, v.in_chans, v.partial_chans, setup.transforms, (partition,), setup.types,
                    itemised[0], 0, params.macs(), max_macs_per_cycle(target, v), target.tiles, start, direction,
                    joint=setup.joint, broadcast_input_before_loop=bool(broadcast),
                    backward_costs=itemised[1] if setup.joint else None,
                    weight_update_costs=itemised[2] if setup.joint else None)


class Grains(NamedTuple):
    """Candidates that differ in the input channels that a tile takes at a time alone: searched by one model."""

    setup: PassSetup  # of one channel
    places: list[int]  # among all candidates
    grains: list[int]
    works: list[int]


class Way(NamedTuple):
    """A way to transform a problem, and the rated vertices for it: candidates from the number `first` on."""

    first: int
    transformed: Transformed
    vertices: list[tuple[float, VertexType]]


class Space(NamedTuple):
    """Every candidate of a problem, numbered in PopLibs' order, and what is known of each before it is searched."""

    ways: list[Way]
    likely: list[int]  # those whose vertex takes the problem, fast ones first: a good plan found early rules others out
    families: list[Grains]
    least: list[tuple[int, int]]  # cycles and bytes of any split of each

    def rated(self, i: int) -> tuple[float, Candidate]:
        """Return a candidate behind its useful rate."""
        way = self.ways[bisect_right(self.ways, i, key=lambda way: way.first) - 1]
        rate, vertex = way.vertices[i - way.first]
        return rate, Candidate(way.transformed, vertex)

    def of_use(self, places: Iterable[int], objective: Objective, best: tuple[int, ...]) -> list[int]:
        """Return those candidates that may be as good as `best`."""
        most = {"cycles": objective.cycles_limit, "temp_bytes": objective.temp_limit}
        if objective.kind in most:
            most[objective.kind] = min(most[objective.kind], best[0])
        (cycles, temp), least = most.values(), self.least
        return [i for i in places if least[i][0] <= cycles and least[i][1] <= temp]


@remembered(weight=64)  # some hundred candidates, of 100 to 200 KiB
def _space(target: Target, params: ConvParams, options: ConvOptions, joint: bool, together: bool) -> Space:
    """Every candidate; where families are searched together, `likely` holds the others alone."""
    space = Space([], [], [], [])
    for way, vertices in candidates_by_way(target, params, options, joint):
        first = len(space.least)
        space.ways.append(Way(first, way, vertices))
        space.least.extend([(0, 0)] * len(vertices))
        members = [first + k for k, (_, v) in enumerate(vertices) if v.method.type == "HMAC"]
        if len(members) > _FEW and not options.plan_constraints and way.final.in_channels:
            family = _family(target, params, options, joint, space, members)
            for i, least in zip(members, _least_of_family(target, params, options, space, family), strict=True):
                space.least[i] = least
            if together:
                space.families.append(family)
    bounded = {i for family in space.families for i in family.places}
    for i in range(len(space.least)):
        if i not in bounded:
            setup = setup_of(params, options, joint, space.rated(i)[1])
            if method_allows(setup):
                space.likely.append(i)
                if space.least[i] == (0, 0):
                    space.least[i] = _least_of(target, params, setup)
    promise = {i: space.rated(i) for i in space.likely}
    space.likely.sort(key=lambda i: (-promise[i][0], -promise[i][1].vertex.in_chans))
    return space


def _least_of(target: Target, params: ConvParams, setup: PassSetup) -> tuple[int, int]:
    """The least cycles and bytes of a candidate."""
    try:
        return model_of(target, params, setup).least
    except PlanError:
        return 0, 0  # where the search comes to it, it says so


_FEW = 8  # candidates that are as soon searched as bounded together


def _family(target: Target, params: ConvParams, options: ConvOptions, joint: bool, space: Space,
            places: list[int]) -> Grains:
    """The candidates of one way and one method that are at these places."""
    way = space.ways[-1]
    vertices = [way.vertices[i - way.first][1] for i in places]
    one = Candidate(way.transformed, vertices[0]._replace(in_chans=1))
    setup = setup_of(params, options, joint, one)
    chans, rate = way.transformed.final.in_channels, max_macs_per_cycle(target, one.vertex)
    each = setup.stages.padded.macs() // chans
    grains = [v.in_chans for v in vertices]
    return Grains(setup, places, grains, [each * rounded(chans, grain) // rate for grain in grains])


def _least_of_family(target: Target, params: ConvParams, options: ConvOptions, space: Space,
                     family: Grains) -> list[tuple[int, int]]:
    """The least cycles and bytes of a family's members.

    Of a joint plan, those of its forward pass with the finest cut of the field, and what the others take at least.
    """
    bounds = forward_bounds(target, family.setup, None)
    model = make_model(target, [family.setup], bounds)
    least = model.least_of_grains(family.grains, family.works)
    if not family.setup.joint:
        return least
    # the other passes round up to the same grains, and those of a multiple move and do no less
    grain, place = min((grain, i) for grain, i in zip(family.grains, family.places, strict=True) if grain > 1)
    try:
        passes = joint_setups(target, params, setup_of(params, options, True, space.rated(place)[1]))
    except PlanError:
        return least  # where the search comes to them, it says so
    beside = make_model(target, passes, bounds).least_of_others
    return [(cycles + beside * (other % grain == 0), temp)
            for (cycles, temp), other in zip(least, family.grains, strict=True)]


def best_plan(target: Target, params: ConvParams, options: ConvOptions, objective: Objective, *, joint: bool = False,
              reference: Reference | None = None) -> ConvPlan | None:
    """The best plan over all candidates, the first among equals; None if there is none."""
    if joint and params.input_type != params.output_type:
        return None
    return _Search(target, params, options, joint, objective, reference).plan()


class _Search:
    """The search of a space: the candidate that costs least so far, and its splits."""

    def __init__(self, target: Target, params: ConvParams, options: ConvOptions, joint: bool, objective: Objective,
                 reference: Reference | None) -> None:
        self.target, self.params, self.options, self.joint = target, params, options, joint
        self.objective, self.reference = objective, reference
        # other passes differ with the grain as well, and another plan's loops may not be those of all
        self.space = space = _space(target, params, options, joint, reference is None and not joint)
        self.best: tuple[int, ...] = (UNLIMITED, UNLIMITED)
        self.splits: tuple[Any, ...] | None = None
        self.winner = len(space.least)
        self.alone = space.of_use(space.likely, objective, self.best)
        self.families = [(family, space.of_use(family.places, objective, self.best)) for family in space.families]
        self.models: dict[int, Model] = {}

    def plan(self) -> ConvPlan | None:
        """The best plan."""
        for limit in self._limits():
            self.best = (limit, UNLIMITED)
            for i in self.alone:
                if self.space.of_use((i,), self.objective, self._beaten(i)):
                    self._search_one(i)
            for family, places in self.families:
                self._search_family(family, self.space.of_use(places, self.objective, self.best))
            if self.splits is not None:
                return _make_plan(self.target, self.params, self.options, *self._found(), self.splits)
        return None

    def _limits(self) -> Iterator[int]:
        """Limits on the first key, the last of them none: what is found within one is the best there is.

        Each leaves most of a space out, and a candidate that is worse than the best by far is left soon.
        """
        places = self.alone + [i for _, places in self.families for i in places]
        if self.objective.kind == "cycles" and places:
            limit = min(self.space.least[i][0] for i in places) + 1000
            # bytes leave out what more cycles do not bring back
            for growth in (4,) if self.objective.limited else (1.3,) * 12 + (8,) * 4:
                limit = int(limit * growth)
                if limit < self.objective.cycles_limit:
                    yield limit
        if places:
            yield UNLIMITED

    def _beaten(self, i: int) -> tuple[int, ...]:
        """What a candidate must beat: of equals PopLibs keeps the first in its order."""
        return (self.best[0], self.best[1] + 1) if i < self.winner and self.splits else self.best

    def _search_one(self, i: int) -> None:
        if i not in self.models:
            setup = setup_of(self.params, self.options, self.joint, self.space.rated(i)[1])
            self.models[i] = model_of(self.target, self.params, setup, self.reference)
        found = self.models[i].search(self.objective.keys, self.objective.limits, self._beaten(i), deadline())
        if found is not None:
            (self.best, self.splits, _), self.winner = found, i

    def _search_family(self, family: Grains, places: list[int]) -> None:
        if not places:
            return
        model = make_model(self.target, [family.setup], forward_bounds(self.target, family.setup, None))
        rows = dict(zip(family.places, zip(family.grains, family.works, strict=True), strict=True))
        grains, works = map(list, zip(*(rows[i] for i in places), strict=True))
        self.best, self.winner, splits = model.search_grains(
            grains, works, places, self.objective.keys, self.objective.limits, self.best, self.winner, deadline())
        self.splits = splits or self.splits

    def _found(self) -> tuple[PassSetup, Model]:
        setup = setup_of(self.params, self.options, self.joint, self.space.rated(self.winner)[1])
        return setup, model_of(self.target, self.params, setup, self.reference)
