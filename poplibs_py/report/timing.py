"""Time several callables against each other on a machine that is shared and noisy.

They take turns in one process: each round runs every callable once, starting with another one each time, and the figure
of each is its median over the rounds. What slows the machine for a while slows all of them, so ratios stand.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..errors import all_of, bad_argument, bad_type, real, whole

__all__ = ["Timing", "take_turns"]

_SAMPLE = 1e-3
"""Seconds that one sample should last at least: a short call is repeated within its turn."""

_SLOW = 0.05
"""A call longer than this needs no warming-up before a turn."""


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
               most_rounds: int = 25, clock: Callable[[], float] = time.perf_counter) -> list[Timing]:
    """Time callables in interleaved rounds.

    Parameters
    ----------
    calls : sequence of callable
        What to time; each must have run once before, so that nothing is built within the first turn.
    seconds : float, optional
        About how long the whole may take. A callable that would need more than a thirtieth of it for one call runs
        once and takes no part in the rounds.
    least_rounds, most_rounds : int, optional
        Limits on the number of rounds for the others.
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
    if not 0 <= real("seconds", seconds) < math.inf:
        raise bad_argument("seconds", seconds, "a finite number, 0 or more")
    least_rounds = whole("least_rounds", least_rounds, 1, 1 << 20)
    most_rounds = whole("most_rounds", most_rounds, 1, 1 << 20)
    first = [_timed(call, 1, clock) for call in calls]
    repeats = [max(1, min(10000, round(_SAMPLE / max(spent, 1e-7)))) for spent in first]
    costs = [spent * (count + (spent < _SLOW)) for spent, count in zip(first, repeats, strict=True)]
    slow = [spent > seconds / 30 for spent in first]
    round_cost = sum(cost for cost, is_slow in zip(costs, slow, strict=True) if not is_slow)
    rounds = max(least_rounds, min(most_rounds, int(seconds / max(round_cost, 1e-6))))
    samples = [[spent] if is_slow else [] for spent, is_slow in zip(first, slow, strict=True)]
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for turn in range(rounds):
            for index in ((turn + place) % len(calls) for place in range(len(calls))):
                if slow[index]:
                    continue
                if first[index] < _SLOW:
                    calls[index]()
                samples[index].append(_timed(calls[index], repeats[index], clock))
    finally:
        if was_enabled:
            gc.enable()
    return [Timing(statistics.median(found), min(found), len(found)) for found in samples]


def _timed(call: Callable[[], object], repeats: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(repeats):
        call()
    return (clock() - start) / repeats
