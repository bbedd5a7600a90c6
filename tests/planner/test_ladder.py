"""PopLibs' ladder of limits on memory: which limits are tried, and what a warning says of them."""

from __future__ import annotations

import pytest

from poplibs_py.errors import MemoryLimitError, MemoryLimitWarning
from poplibs_py.planner import Temporaries, climb, within
from poplibs_py.planner.ladder import Memory, rungs
from poplibs_py.target import Target


@pytest.mark.parametrize(("limit", "beyond", "limits"), [
    (100, True, [100, 200, 400, 800, 1600, 3200, None]), (100, False, [100, 200, 400, 800, 1600, None]),
    (2000, True, [2000, 4000, None]), (None, True, [None])])
def test_a_limit_doubles_up_to_twice_the_tile_s_memory_and_is_dropped_then(limit, beyond, limits):
    tried = []
    climb(tried.append, limit, 1600, beyond=beyond)
    assert tried == limits


@pytest.mark.parametrize("needed", [1, 100, 101, 799, 1600, 1601, 3199, 3200, 3201])
@pytest.mark.parametrize("beyond", [True, False])
def test_a_climb_says_on_which_rung_it_ends(needed, beyond):
    found = climb(lambda limit: [limit] if limit is None or needed <= limit else None, 100, 1600, tried=True,
                  beyond=beyond)
    due = next((limit for limit in rungs(100, 1600, beyond) if needed <= limit), None)
    assert found == ([due], due)


def test_a_climb_that_finds_no_plan_says_so():
    assert climb(lambda limit: None, 100, 1600) is None


@pytest.mark.parametrize(("needed", "end"), [(5000, "raised to {:,}"), (1 << 40, "dropped")])
def test_a_warning_says_to_what_the_limit_was_raised_or_that_it_was_dropped(needed, end):
    host, memory = Target.host(2), Memory(1e-4)
    call = "op", lambda limit: needed if limit is None or needed <= limit else None
    limit = memory.limit(host)
    raised = next((most for most in rungs(limit, host.bytes_per_tile) if needed <= most), None)
    words = f"leaves {3 * limit:,} bytes of all threads; .*; the limit was {end.format(3 * (raised or 0))}$"
    with pytest.warns(MemoryLimitWarning, match=words):
        assert within(*call, memory, host, lambda: 3 * needed, 3) == (needed, raised)
    with pytest.raises(MemoryLimitError, match=rf"the least that any plan takes is {3 * needed:,}$"):
        within(*call, Memory(1e-4, strict=True), host, lambda: 3 * needed, 3)


@pytest.mark.parametrize(("taken", "words"), [
    (Temporaries(1, None), "1 byte of all threads, no limit"),
    (Temporaries(4096, 4096, None, "a tile"), "4,096 bytes of a tile, limit 4,096"),
    (Temporaries(1, 0), "1 byte of all threads, limit 0, which was dropped"),
    (Temporaries.of_threads(5000, 10, 2560, 2), "5,000 bytes of all threads, limit 20, which was raised to 5,120"),
    (Temporaries.of_threads(5000, 2560, 5120, 2), "5,000 bytes of all threads, limit 5,120")])
def test_temporaries_say_what_became_of_their_limit_where_they_are_more(taken, words):
    assert str(taken) == words
    assert taken.fits == (not taken.became)
