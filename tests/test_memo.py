"""The memo that plans and programs share."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier, Thread
from typing import Any, NamedTuple

import pytest

from poplibs_py import memo
from poplibs_py.memo import forget, remembered, tabled
from poplibs_py.poplin.tile_conv import axis
from poplibs_py.popops.expr import _1
from poplibs_py.popsparse.spmm import model


class Pair(NamedTuple):
    """A tuple with names."""

    one: Any
    other: Any


@pytest.fixture
def room_for_eight(monkeypatch):
    forget()
    monkeypatch.setattr(memo, "_MOST", 8)
    yield
    forget()


def counted(weight=1):
    """A remembered function, and the arguments that it was run with."""
    made = []

    @remembered(weight)
    def function(*given, **named):
        made.append((given, named))
        return [given, named]

    return function, made


def test_equal_arguments_give_the_same_object():
    function, made = counted()
    first = function(1, "a", word=(2, 3))
    assert function(1, "a", word=(2, 3)) is first
    assert function(1, "a") is not first
    assert function(1, "a", ("word", (2, 3))) is not first
    assert len(made) == 3


@pytest.mark.parametrize(("one", "other"), [
    (1, True), (1, 1.0), (0, False), (0.0, -0.0), ("0", 0), ((1, True), (True, 1)), ((0.0, 2), (-0.0, 2)),
    ((((0.0,),), 1), (((-0.0,),), 1)), (Pair(1, 0), Pair(1, 0.0)), (Pair((), True), Pair((), 1)), (Pair(1, 0), (1, 0)),
], ids=repr)
def test_equal_numbers_of_other_types_and_zeros_of_other_signs_are_other_arguments(one, other):
    function, made = counted()
    for given in (one, other):
        first = function(given)
        assert function(given) is first
        function(x=given)
        function(x=given)
    assert len(made) == 4


def test_functions_do_not_share_results():
    one, other = counted()[0], counted()[0]
    assert one(1) is not other(1)


def test_what_was_used_least_recently_goes_first(room_for_eight):
    function, made = counted()
    for i in range(8):
        function(i)
    function(0)
    function(8)  # one too many: back to six, without 1, 2 and 3
    made.clear()
    for i in (0, 4, 5, 6, 7, 8):
        function(i)
    assert not made
    function(1)
    assert made == [((1,), {})]


def test_large_things_count_for_several(room_for_eight):
    small, made = counted()
    large, _ = counted(weight=7)
    small(0), small(1)
    large(0)
    made.clear()
    small(0)
    assert made


def test_what_weighs_more_than_all_is_kept_until_the_next(room_for_eight):
    function, made = counted(weight=100)
    assert function(0) is function(0)
    function(1)
    function(0)
    assert len(made) == 3


def test_what_is_raised_is_not_kept():
    raised = []

    @remembered()
    def function(x):
        raised.append(x)
        raise ValueError(x)

    for _ in range(2):
        with pytest.raises(ValueError, match="1"):
            function(1)
    assert raised == [1, 1]


def test_threads_get_one_object():
    barrier, made = Barrier(8), []

    @remembered()
    def function(x):
        barrier.wait()
        return [x]

    threads = [Thread(target=lambda: made.append(function(1))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(x) for x in made}) == 1


def test_all_is_forgotten():
    function, made = counted()
    function(1)
    forget()
    function(1)
    assert len(made) == 2


def test_expressions_are_forgotten_too(room_for_eight):
    function, made = counted()
    terms = [_1 * float(i) for i in range(9)]  # which compare to an expression, not to True or False
    for term in terms:
        function(term)
    assert len(made) == 9


def test_forgetting_empties_tables_too():
    made = []

    @tabled(2)
    def square(x):
        made.append(x)
        return x * x

    assert [square(x) for x in (2, 2, 3, 2)] == [4, 4, 9, 4]
    assert made == [2, 3]
    forget()
    assert square(2) == 4
    assert made == [2, 3, 2]


@pytest.mark.parametrize("function", [axis.input_range, axis.kernel_range, model.compute_format_of,
                                      model.tiles_selected])
def test_tables_of_planners_are_emptied(function):
    forget()
    assert function.cache_info().currsize == 0


def test_no_module_has_a_memo_of_its_own():
    """But what finds one object for equal ones, references, and what stands above every call: reports and tests."""
    package = Path(memo.__file__).parent
    sources = {path.relative_to(package).as_posix(): path.read_text() for path in package.rglob("*.py")}
    own = {name for name, text in sources.items() if "lru_cache" in text}
    kept = {"immutable.py", "memo.py", "poprand/reference.py"}
    assert {name for name in own if not name.startswith(("report/", "testing/"))} == kept
