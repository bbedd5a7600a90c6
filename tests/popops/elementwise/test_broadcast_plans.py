"""Tiles of a plan that are told to meet a smaller operand alike do so."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from poplibs_py.popops.elementwise.broadcast_modelled import _Spread
from poplibs_py.target import Target

EXTENTS = st.sampled_from([1, 2, 3, 5, 8])


@st.composite
def spreads(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """A result's shape, a smaller operand's, and an order of axes."""
    shape = tuple(draw(st.lists(EXTENTS, min_size=1, max_size=4)))
    own = tuple(extent if draw(st.booleans()) else 1 for extent in shape)
    return shape, own, tuple(draw(st.permutations(range(len(shape)))))


@given(drawn=spreads(), elements=st.integers(1, 40))
@example(drawn=((3, 8, 5), (8, 1), (0, 1, 2)), elements=7)
@example(drawn=((8, 5), (5,), (0, 1)), elements=12)
def test_tiles_of_one_place_meet_equal_elements_at_equal_places(
        drawn: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], elements: int) -> None:
    shape, own, order = drawn
    if np.prod(own) in (1, np.prod(shape)):
        return
    spread, seen = _Spread(shape, own, order, Target.gc200(tiles=4), 2), {}
    for begin in range(int(np.prod(shape)) - elements + 1):
        met = spread.reads(begin, begin + elements)
        _, first, alike = np.unique(met, return_index=True, return_inverse=True)
        at_first = first[alike]  # where each element is met first
        known = seen.setdefault(spread.place(begin, elements), at_first)
        np.testing.assert_array_equal(at_first, known)
