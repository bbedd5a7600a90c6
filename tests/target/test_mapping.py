"""How elements are dealt out: each in exactly one region, as evenly as grains allow."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.errors import InvalidArgumentError
from poplibs_py.target import Target, linear_mapping
from poplibs_py.target.mapping import LinearMapping, split_between_workers, split_regions

SIZES = st.lists(st.integers(1, 500), min_size=1, max_size=8)
GRAINS = st.sampled_from([1, 2, 4, 8, 3])


def unrolled(runs):
    return [elements for elements, count in runs for _ in range(count)]


@given(SIZES, GRAINS, st.integers(1, 40), st.integers(0, 200), st.none() | st.integers(8, 300))
def test_every_element_is_in_exactly_one_region_of_one_part(sizes, grain, parts, least, longest):
    limit = {} if longest is None else {"most_in_region": longest}
    made = [unrolled(runs) for runs in split_regions(sizes, grain, parts, least=least, **limit)]
    ends = list(accumulate(n for part in made for n in part))
    assert ends[-1] == sum(sizes)
    assert set(accumulate(sizes)) <= set(ends)  # no region crosses the end of one that was there
    assert 1 <= len(made) <= parts
    assert all(n > 0 for part in made for n in part)
    shares = [sum(part) for part in made]
    assert all(end % grain == 0 for end in list(accumulate(shares))[:-1])
    assert max(shares) - min([*shares[:-1], max(shares)]) <= grain
    if longest is not None:
        assert max(n for part in made for n in part) <= longest // grain * grain
    if len(made) > 1:  # what is worth a part: no part but the last has a grain less
        assert min(shares[:-1]) > least - grain


@given(SIZES, GRAINS, st.integers(16, 100))
def test_parts_have_a_limit_of_their_own(sizes, grain, most):
    made = split_regions(sizes, grain, 2, most=most)
    assert all(sum(unrolled(runs)) <= most for runs in made)


def test_nothing_is_dealt_out_to_nobody():
    assert split_regions([], 4, 6) == split_regions([0, 0], 4, 6) == ()
    assert linear_mapping(Target.gc200(), 0, 4) == LinearMapping(0, 2, 0)
    assert linear_mapping(Target.gc200(), 0, 4).edges().tolist() == [0]
    assert linear_mapping(Target.gc200(), 0, 4).classes == ()


@given(SIZES, GRAINS, st.integers(1, 12))
def test_a_tile_deals_out_to_its_workers(sizes, grain, workers):
    made = split_between_workers(Target.gc200(workers=workers), sizes, grain)
    assert made == split_regions(sizes, grain, workers)


@given(st.integers(0, 10_000), st.sampled_from([1, 2, 4, 8]), st.integers(1, 1500))
def test_a_linear_mapping_gives_each_tile_one_run_of_neighbours(elements, itemsize, tiles):
    mapping = linear_mapping(Target.gc200(tiles=tiles), elements, itemsize)
    edges = mapping.edges()
    shares = np.diff(edges)
    assert (edges[0], edges[-1], len(shares)) == (0, elements, mapping.tiles)
    assert mapping.tiles <= tiles
    assert dict(mapping.classes) == dict(zip(*np.unique(shares, return_counts=True), strict=True))
    assert [n for n, _ in mapping.classes] == sorted({*shares.tolist()}, reverse=True)
    if mapping.tiles > 1:
        assert shares[:-1].min() * itemsize >= 128
        assert shares.max() - shares[:-1].min() <= mapping.grain


def test_classes_of_tiles_cost_nothing_to_find_however_many_there_are():
    mapping = linear_mapping(Target.gc200(tiles=2**20), 2**61, 2)
    assert sum(tiles for _, tiles in mapping.classes) == mapping.tiles <= 2**20
    assert sum(elements * tiles for elements, tiles in mapping.classes) == 2**61
    assert len(mapping.classes) <= 3


@pytest.mark.parametrize("words", [{"grain": 0}, {"least": -1}, {"elements": -1}, {"itemsize": 0}])
def test_what_cannot_be_mapped_is_refused(words):
    with pytest.raises(InvalidArgumentError, match=f"^{next(iter(words))}: got"):
        linear_mapping(**({"target": Target.gc200(), "elements": 10, "itemsize": 4} | words))
