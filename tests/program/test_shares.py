"""How work is shared among threads and tiles."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.program import segment_by_work, spread, threads_for
from poplibs_py.program.shares import spread_by_work


@given(work=st.integers(0, 1 << 62), each=st.integers(1, 1 << 30), most=st.integers(1, 256))
def test_a_thread_has_its_share_or_is_alone(work, each, most):
    threads = threads_for(work, each, most)
    assert 1 <= threads <= most
    assert threads == 1 or threads * each <= work
    assert threads == most or (threads + 1) * each > work


@given(items=st.integers(0, 300), tiles=st.integers(1, 40))
def test_items_are_spread_in_runs_as_equal_as_may_be(items, tiles):
    where = spread(items, tiles)
    assert where.size == items
    assert (np.diff(where) >= 0).all()
    held = np.bincount(where, minlength=tiles)
    assert held.size == tiles
    assert held.max() - held.min() <= 1


def test_few_items_go_to_those_that_have_least():
    shared = spread_by_work([(10, 1), (40, 2), (20, 1), (20, 1), (0, 0)], 2)
    assert [threads.tolist() for threads in shared] == [[0], [0, 1], [0], [1], []]
    assert spread_by_work([(9, 3)], 1)[0].tolist() == [0, 0, 0]
    segment = segment_by_work(0, [(np.array([7]), 10), (np.array([3, 4]), 40), (np.array([8]), 20)], 2)
    assert (segment.items.tolist(), segment.tiles.tolist()) == ([3, 8, 7, 4], [0, 0, 1, 1])


@given(works=st.lists(st.tuples(st.floats(0.0, 1e15), st.integers(0, 40)), max_size=9), tiles=st.integers(1, 8))
def test_what_is_shared_by_work_differs_by_an_item_at_most(works, tiles):
    load, greatest = np.zeros(tiles), 0.0
    for (work, items), where in zip(works, spread_by_work(works, tiles), strict=True):
        assert where.size == items
        assert (np.diff(where) >= 0).all()
        np.add.at(load, where, work / max(1, items))
        greatest = max(greatest, work / items if items else 0.0)
    assert load.max() - load.min() <= greatest * (1 + 1e-9)
