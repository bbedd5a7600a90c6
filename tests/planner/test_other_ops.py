"""The planner's core plans ops that it has never heard of: an embedding's lookups, and a loss over time and labels."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from poplibs_py.planner import UNLIMITED, Objective
from poplibs_py.planner._search import MEASURE_NAMES, PythonSearch

Options = list[tuple[int, int, int]]
Measures = tuple[int, int, int, int]

BEST = (UNLIMITED, UNLIMITED)
CYCLES, TEMP, TILES = (MEASURE_NAMES.index(name) for name in ("cycles", "temp_bytes", "tiles"))


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


def least_splits(extent: int, most: int) -> list[int]:
    return [s for s in range(1, min(extent, most) + 1) if s == 1 or cdiv(extent, s) < cdiv(extent, s - 1)]


# Lookups of rows: in turns and on tiles, the table's rows and columns cut too.


def lookup_cost(options: Options) -> list[Measures | None]:
    (par, turns, lookups), (rows, _, size), (cols, _, width) = options
    first = 40 + lookups * (19 + 2 * width)
    second = (40 + cdiv(lookups, rows) * (19 + 2 * width) + rows * width) if rows > 1 else 0
    table = size * width * 2
    moved = cdiv(16 * table, 64) if par > 1 else 0
    before = (turns * (first + second) + moved, table * 2, par * rows * cols, 0)
    inside = (turns * (first + second + moved), table, par * rows * cols, 0)
    return [inside, before if turns > 1 else None]


def lookup_points(lookups: int, rows: int, cols: int, tiles: int) -> Iterator[tuple[tuple[int, ...], Measures]]:
    pairs = [(p, s) for p in range(1, tiles + 1) for s in range(1, 17) if p * s in least_splits(lookups, lookups)]
    for (par, turns), r, c in itertools.product(pairs, least_splits(rows, tiles), least_splits(cols, tiles)):
        options = [(par, turns, cdiv(lookups, par * turns)), (r, 1, cdiv(rows, r)), (c, 1, cdiv(cols, c))]
        for variant, measures in enumerate(lookup_cost(options)):
            if measures is not None and par * r * c <= tiles:
                yield (turns, par, r, c, variant), measures


@settings(max_examples=examples(40))
@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 12), st.integers(1, 24), st.sampled_from([1, 100, 400]))
def test_lookups(lookups: int, rows: int, cols: int, tiles: int, limit: int) -> None:
    axes = [(lookups, 1, tiles, 1, 16, 0), (rows, 1, tiles, 1, 1, 0), (cols, 1, tiles, 1, 1, 0)]
    turns_first = [(0, True, 0), (0, False, 1), (1, False, 1), (2, False, 1)]
    search = PythonSearch(axes, turns_first, tiles, 0, lookup_cost)
    every = list(lookup_points(lookups, rows, cols, tiles))
    for most in (limit, UNLIMITED):
        objective = Objective(temp_limit=most)
        found = search.search(objective.keys, objective.limits, BEST)
        fitting = [(m[CYCLES], m[TEMP]) for _, m in every if m[TEMP] <= most]
        if not fitting:
            assert found is None
            continue
        best, ((_, turns), *_), count = found
        ties = [splits for splits, m in every if (m[CYCLES], m[TEMP]) == min(fitting)]
        assert (best, count) == (min(fitting), len(ties))
        assert turns == min(ties)[0]  # the solver fixes the number of turns first, to its least
        # no split costs less than what was found
        assert search.search(objective.keys, objective.limits, best) is None


# A loss over time and labels: tiles are no product of splits, and three measures count.


def loss_cost(batch: int, time: int, labels: int, tiles: int, options: Options) -> list[Measures | None]:
    (b, _, each), (t, _, steps), (cut, _, labels_each) = options
    variants: list[Measures | None] = []
    for last in (0, 1):
        cycles = cdiv(each, 6) * steps * (t + t % 2) * (6 * (44 * labels_each + (0 if last else 17)) + 190)
        size = each * steps * labels_each * 4 * (1 + (cut + last > 1))
        used = b * t * (cut + last)
        variants.append((cycles, size, used, 0) if used <= tiles else None)
    return variants


@settings(max_examples=examples(40))
@given(st.integers(1, 9), st.integers(1, 30), st.integers(1, 20), st.integers(1, 24))
def test_a_loss(batch: int, time: int, labels: int, tiles: int) -> None:
    extents = (batch, time, labels)

    def cost(options: Options) -> list[Measures | None]:
        return loss_cost(*extents, tiles, options)

    axes = [(extent, 1, tiles, 1, 1, 0) for extent in extents]
    in_order = [(axis, False, axis) for axis in range(3)]  # each of a priority of its own: ascending, one after another
    search = PythonSearch(axes, in_order, tiles, 0, cost)
    every = [
        (m[:3], (*splits, variant))
        for splits in itertools.product(*(least_splits(extent, tiles) for extent in extents))
        for variant, m in enumerate(cost([(s, 1, cdiv(e, s)) for s, e in zip(splits, extents, strict=True)]))
        if m is not None
    ]
    limits = (UNLIMITED,) * len(MEASURE_NAMES)
    best, (*splits, variant), _ = search.search((CYCLES, TEMP, TILES), limits, (UNLIMITED,) * 3)
    assert (best, (*(parallel for parallel, _ in splits), variant)) == min(every)


def test_what_a_cost_raises_is_raised() -> None:
    def cost(options: Options) -> list[Measures | None]:
        raise KeyError("lost")

    search = PythonSearch([(8, 1, 8, 1, 1, 0)], [(0, False, 0)], 8, 0, cost)
    objective = Objective()
    for _ in range(2):
        with pytest.raises(KeyError, match="lost"):
            search.search(objective.keys, objective.limits, BEST)
