"""Time several callables against each other on a machine that is shared and noisy.

They take turns in one process: each round runs every callable once, starting with another one each time, and the figure
of each is its median over the rounds; what is slow takes part in some of them. What slows the machine for a while slows
all of them, so ratios stand.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..checks import all_of, real, whole
from ..errors import bad_argument, bad_type

__all__ = ["Timing", "take_turns"]

_SAMPLE = 1e-3
"""Seconds that one sample should last at least: a short call is repeated within its turn."""

_SLOW = 0.05
"""A call longer than this needs no warming-up before a turn."""

_LOSES, _LOST = 1.5, 5e-3
"""A rival that takes so many times as long as the fastest, and so many seconds, has lost: short calls cost little."""

_LOSERS_ROUNDS = 3


@dataclass(frozen=True)
class Timing:
    """Seconds of one call.

    Attributes
    ----------
    seconds : float
        Median over the rounds.
    least : float
        Least over the rounds.
    rounds : int
        How many rounds there were.
    """

    seconds: float
    least: float
    rounds: int


def take_turns(calls: Sequence[Callable[[], object]], *, seconds: float = 1.0, least_rounds: int = 3,
               most_rounds: int = 25, longest: float | None = None, rivals: Sequence[object] = (),
               clock: Callable[[], float] = time.perf_counter) -> list[Timing]:
    """Time callables in interleaved rounds.

    Parameters
    ----------
    calls : sequence of callable
        What to time; each must have run once before, so that nothing is built within the first turn.
    seconds : float, optional
        About how long the whole may take, if `least_rounds` take less.
    least_rounds, most_rounds : int, optional
        Limits on the number of rounds.
    longest : float, optional
        Seconds that `least_rounds` calls of one callable may take, by default a thirtieth of `seconds` for each. A
        slower one takes part in as many rounds as fit, spread over all of them; where no more than one fits, it runs
        once.
    rivals : sequence, optional
        For each callable the group in which the fastest alone matters, or None. One that takes more than 1.5 times as
        long as the fastest of its group, and more than 5 ms, takes part in three rounds.
    clock : callable, optional
        What tells the time, `time.perf_counter` by default. Where every call keeps to one thread, `time.process_time`
        leaves out the time in which other processes held the core.

    Examples
    --------
    >>> fast, slow = take_turns([lambda: None, lambda: sum(range(20000))], seconds=0.05)
    >>> fast.seconds < slow.seconds
    True
    """
    calls = all_of("calls", calls, object, "functions without arguments")
    if not all(map(callable, calls)):
        raise bad_type("calls", calls, "functions without arguments")
    if not callable(clock):
        raise bad_type("clock", clock, "a function that tells the time")
    real("clock", clock(), "a function that returns seconds")
    seconds, least_rounds = _duration("seconds", seconds), whole("least_rounds", least_rounds, 1, 1 << 20)
    longest = seconds * least_rounds / 30 if longest is None else _duration("longest", longest)
    most_rounds = whole("most_rounds", most_rounds, 1, 1 << 20)
    groups = all_of("rivals", rivals, object, "groups") or [None] * len(calls)
    if len(groups) != len(calls):
        raise bad_argument("rivals", f"{len(groups)} groups", f"{len(calls)}, one for each callable")
    first = [_timed(call, 1, clock) for call in calls]
    repeats = [max(1, min(10000, round(_SAMPLE / max(spent, 1e-7)))) for spent in first]
    fewer = _fewer_rounds(first, groups, least_rounds, longest)
    round_cost = sum(spent * (count + (spent < _SLOW))
                     for index, (spent, count) in enumerate(zip(first, repeats, strict=True)) if index not in fewer)
    rounds = max(least_rounds, min(most_rounds, int(seconds / max(round_cost, 1e-6))))
    samples = [[spent] if fewer.get(index) == 1 else [] for index, spent in enumerate(first)]
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for turn in range(rounds):
            for index in ((turn + place) % len(calls) for place in range(len(calls))):
                part = fewer.get(index, rounds)
                if fewer.get(index) == 1 or turn * part // rounds == (turn + 1) * part // rounds:
                    continue
                if first[index] < _SLOW:
                    calls[index]()
                samples[index].append(_timed(calls[index], repeats[index], clock))
    finally:
        if was_enabled:
            gc.enable()
    return [Timing(statistics.median(found), min(found), len(found)) for found in samples]


def _duration(name: str, value: float) -> float:
    if not 0 <= real(name, value) < math.inf:
        raise bad_argument(name, value, "a finite number, 0 or more")
    return value


def _fewer_rounds(first: Sequence[float], groups: Sequence[object], least_rounds: int,
                  longest: float) -> dict[int, int]:
    """How many rounds the slow callables and the losers take part in, by their places."""
    fewer = {}
    for index, (spent, group) in enumerate(zip(first, groups, strict=True)):
        rounds = least_rounds
        best = min([spent, *(f for f, g in zip(first, groups, strict=True) if g is group or g == group)])
        if group is not None and spent > max(_LOST, _LOSES * best):
            rounds = min(rounds, _LOSERS_ROUNDS)
        if spent * rounds > longest:
            rounds = max(1, int(longest / spent))
        if rounds < least_rounds:
            fewer[index] = rounds
    return fewer


def _timed(call: Callable[[], object], repeats: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(repeats):
        call()
    return (clock() - start) / repeats
