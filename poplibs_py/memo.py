"""One memo for what follows from what does not change: plans, programs, tables.

A function that makes such a thing is `remembered`. All of them share one memo, so that there is one limit to what it
holds: what was used least recently goes first, and a large thing counts for several small ones. Small things that
planners look up many times over, numbers and kernels, are `tabled` beside it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from itertools import count
from math import copysign
from threading import RLock
from typing import Any, ParamSpec, TypeVar, cast

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")

_PLAIN = frozenset({int, str, bool, type(None)})
_MOST = 4096  # weights together
_kept: dict[Any, list[Any]] = {}  # what was made, its weight, when it was used last
_changes = RLock()  # what is collected meanwhile may call an op
_clock = count()
_weights = 0
_others: list[Callable[[], object]] = []


def remembered(weight: int = 1, keeps: Callable[[Any], bool] | None = None) -> Callable[
        [Callable[_Given, _Made]], Callable[_Given, _Made]]:
    """Return what makes a function look up what it made of equal arguments before.

    Its arguments must be hashable and never change, and what it raises is not kept. Of threads that make the same thing
    at a time all return the first one's. Equal arguments are of the same types, and so is what is in tuples: 1 is
    neither 1.0 nor True, and 0.0 not -0.0.

    Parameters
    ----------
    weight : int, optional
        How many small things a result counts for: a program of some kilobytes is one.
    keeps : callable, optional
        Whether what was made is kept: not what each call warns of as it is made. By default all is.

    Examples
    --------
    >>> from poplibs_py.memo import remembered
    >>> @remembered()
    ... def square(x):
    ...     print("made")
    ...     return x * x
    >>> square(3), square(3)
    made
    (9, 9)
    """
    def make(function: Callable[_Given, _Made]) -> Callable[_Given, _Made]:
        @wraps(function)
        def found(*given: _Given.args, **named: _Given.kwargs) -> _Made:
            key = function, given, _kinds(given), *((name, one, _kinds((one,))) for name, one in named.items())
            held = _kept.get(key)
            if held is None:
                new = function(*given, **named)
                if keeps and not keeps(new):
                    return new
                held = _keep(key, new, weight)
            else:
                held[2] = next(_clock)
            made: _Made = held[0]
            return made

        return found

    return make


def tabled(most: int) -> Callable[[Callable[_Given, _Made]], Callable[_Given, _Made]]:
    """Return what makes a function look up so many small results of its own, in less time than the memo takes.

    Its arguments are as those of what is `remembered`, but those in tuples are equal where Python says so, and
    forgetting empties its table too.

    Examples
    --------
    >>> from poplibs_py.memo import forget, tabled
    >>> @tabled(64)
    ... def square(x):
    ...     print("made")
    ...     return x * x
    >>> square(3), square(3)
    made
    (9, 9)
    >>> forget()
    >>> square(3)
    made
    9
    """
    def make(function: Callable[_Given, _Made]) -> Callable[_Given, _Made]:
        found = lru_cache(most, typed=True)(function)
        at_forgetting(found.cache_clear)
        return cast(Callable[_Given, _Made], found)

    return make


def _kinds(values: Iterable[Any]) -> tuple[Any, ...]:
    """The types of values and of what is in tuples, which equal values may differ in, and the signs of floats."""
    kinds = tuple(map(type, values))
    if _PLAIN.issuperset(kinds):
        return kinds
    inside = [_kinds(value) if isinstance(value, tuple) else copysign(1.0, value)
              for value in values if isinstance(value, (tuple, float))]
    return kinds, *inside


def _keep(key: Any, made: Any, weight: int) -> list[Any]:
    """Put away what was made, unless another thread did meanwhile; make room where it is short."""
    global _weights
    with _changes:
        held = _kept.get(key)
        if held is None:
            held = _kept[key] = [made, weight, next(_clock)]
            _weights += weight
        if _weights > _MOST:
            for old, one in sorted(_kept.items(), key=lambda item: int(item[1][2])):
                if one is not held and old in _kept:  # keys of expressions have no truth value of `!=`
                    _weights -= _kept.pop(old)[1]
                if _weights <= _MOST * 3 // 4:
                    break
    return held


def forget() -> None:
    """Empty the memo, and make no call ready that was before: for tests that change what programs are made of."""
    global _weights
    with _changes:
        _kept.clear()
        _weights = 0
    for function in _others:
        function()


def at_forgetting(function: Callable[[], object]) -> None:
    """Have a function called when all is forgotten, which empties a memo of another kind."""
    _others.append(function)


os.register_at_fork(before=_changes.acquire, after_in_parent=_changes.release, after_in_child=_changes.release)
