"""The limit on temporary memory that a call names, and PopLibs' ladder: what is tried where no plan keeps to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from ..checks import flag, instance, real, whole
from ..errors import MemoryLimitError, MemoryLimitWarning, bad_type, warn
from ..target import Target, memory_limit

T = TypeVar("T")

POPLIBS_PROPORTION = 0.6
"""PopLibs' default of ``availableMemoryProportion``: what a modelled machine takes where a call names none."""


@dataclass(frozen=True)
class Memory:
    """What a call says about temporary memory.

    Attributes
    ----------
    proportion : float or None
        Share of each tile's memory that temporaries may take; 0 sets no limit. None, the default of every op, names no
        limit: on this CPU the fastest plan is taken, on a modelled machine PopLibs' 0.6 holds.
    strict : bool
        Raise where no plan keeps to the limit, in place of a warning.
    """

    proportion: float | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        if self.proportion is not None:
            share = real("available_memory_proportion", self.proportion, "a finite number, 0 or more", 0, 2**32)
            object.__setattr__(self, "proportion", share)
        flag("strict_memory", self.strict)

    def on_machine(self) -> Memory:
        """Return what holds on a modelled machine: PopLibs' 0.6 where the call names no share."""
        return self if self.proportion is not None else Memory(POPLIBS_PROPORTION, self.strict)

    def limit(self, target: Target) -> int | None:
        """Return the temporary bytes that a tile of a machine may take, or None."""
        return None if self.proportion is None else memory_limit(target, self.proportion)


class OverLimit(NamedTuple):
    """The bytes of temporaries that a plan may take on a tile, those that it takes, which are more, and to what the
    ladder raised the limit: 0 where it dropped it."""

    limit: int
    needed: int
    raised: int

    @classmethod
    def of(cls, plan: Any) -> OverLimit | None:
        """Return those of a plan, or None where it keeps to its limit."""
        return None if plan.fits else cls(plan.limit, plan.temp_bytes, plan.raised)


class Climbed(NamedTuple, Generic[T]):
    """What was planned on the ladder, and the limit of its rung, in bytes: None where there was none."""

    plan: T
    rung: int | None


def rungs(limit: int, tile_bytes: int, beyond: bool = True) -> Iterator[int]:
    """Limits of the ladder after the first: doubled until they have reached twice the tile's memory."""
    limit, last = max(1, limit), False
    while not last:
        limit *= 2
        last = limit >= 2 * tile_bytes
        if beyond or not last:
            yield limit


def raised_words(raised: int | None) -> str:
    """Return what became of a limit that no plan keeps to: that it was raised to so many bytes, or dropped for none.

    Examples
    --------
    >>> from poplibs_py.planner.ladder import raised_words
    >>> raised_words(4096), raised_words(None)
    ('raised to 4,096', 'dropped')
    """
    return f"raised to {raised:,}" if raised else "dropped"


def climb(plan_once: Callable[[int | None], T | None], limit: int | None, tile_bytes: int, *,
          tried: bool = False, beyond: bool = True) -> Climbed[T] | None:
    """Plan under a limit of bytes; where that fails, double the limit, and in the end drop it. Return the plan with the
    limit that it was found under, or None where there is no plan.

    The limit doubles until it has reached twice the tile's memory; the last attempt has none. A proportion of 0 sets no
    limit, so only that last attempt is made (in PopLibs too, although its documentation says that 0 asks for the least
    memory).

    Parameters
    ----------
    plan_once : callable
        Plans once within so many bytes, or without a limit; None if there is no plan.
    limit : int or None
        More than 0.
    tile_bytes : int
        Memory of one tile.
    tried : bool
        Whether the limit as it is was tried before and failed.
    beyond : bool
        Whether the limit that first reaches twice the tile's memory is tried too, as for PopLibs' convolutions; for its
        sparse layers it is not.

    Examples
    --------
    >>> from poplibs_py.planner import climb
    >>> climb(lambda limit: "a plan" if limit and limit >= 500 else None, 100, 1000)
    Climbed(plan='a plan', rung=800)
    """
    if not callable(plan_once):
        raise bad_type("plan_once", plan_once, "a function of a number of bytes")
    whole("tile_bytes", tile_bytes, 1, 1 << 62)
    flag("tried", tried)
    flag("beyond", beyond)
    if limit is not None:
        limit = whole("limit", limit, 1, 1 << 62)
        for most in (*(() if tried else (limit,)), *rungs(limit, tile_bytes, beyond)):
            plan = plan_once(most)
            if plan is not None:
                return Climbed(plan, most)
    plan = plan_once(None)
    return None if plan is None else Climbed(plan, None)


def complain(op: str, memory: Memory, limit: int, need: str, raised: int | None, tile: bool = True) -> None:
    """Warn that no plan keeps to the limit, and what became of it, or raise where that is asked for.

    Parameters
    ----------
    op : str
        The op's name.
    memory : Memory
        What the call says.
    limit : int
        The bytes that it leaves.
    need : str
        How many it would take, in words.
    raised : int or None
        The limit that was taken in its place; None or 0 where it was dropped.
    tile : bool, optional
        Whether all are bytes of a tile, rather than of all threads.
    """
    instance("memory", memory, Memory, "a Memory")
    text = f"{op}: available_memory_proportion={memory.proportion} leaves {limit:,} bytes{' of a tile' * tile}; {need}"
    if memory.strict:
        raise MemoryLimitError(text)
    warn(f"{text}; the limit was {raised_words(raised)}", MemoryLimitWarning)


class Within(NamedTuple, Generic[T]):
    """What was planned for a call on this CPU, whether it keeps to the limit, and to how many bytes, for all its tiles,
    the ladder raised that where it does not: None where it dropped it."""

    plan: T
    fits: bool
    raised: int | None = None


def within(op: str, plan_once: Callable[[int | None], T | None], memory: Memory, target: Target,
           least: Callable[[], int], share: int = 1) -> Within[T]:
    """Return the plan of a call on this CPU, and how it keeps to the limit; where none does, complain and climb.

    Parameters
    ----------
    op : str
        The op's name, for the message.
    plan_once : callable
        Plans once within so many bytes of a tile, or without a limit, where there always is a plan; else None if
        there is none.
    memory : Memory
        What the call says.
    target : Target
        This CPU.
    least : callable
        Returns the fewest bytes that any plan takes on all tiles; called only for the message.
    share : int, optional
        Tiles that the call takes, for the message.
    """
    instance("memory", memory, Memory, "a Memory")
    instance("target", target, Target, "a Target")
    for name, function in (("plan_once", plan_once), ("least", least)):
        if not callable(function):
            raise bad_type(name, function, "a function")
    limit = memory.limit(target)
    plan = plan_once(limit)
    if plan is not None:
        return Within(plan, True)
    assert limit is not None

    climbed = None if memory.strict else climb(plan_once, max(1, limit), target.bytes_per_tile, tried=True)
    raised = None if climbed is None or climbed.rung is None else climbed.rung * share
    complain(op, memory, limit * share, f"the least that any plan takes is {least():,}", raised, tile=False)
    if climbed is None:
        raise AssertionError(f"{op}: there always is a plan without a limit")
    return Within(climbed.plan, False, raised)


def first_within(op: str, choices: Sequence[T], bytes_of: Callable[[T], int], memory: Memory, target: Target,
                 share: int) -> Within[T]:
    """Return the first of some choices that keeps to the limit, as `within` does.

    Parameters
    ----------
    op, memory, target, share
        As for `within`.
    choices : sequence
        Of which the first is the fastest.
    bytes_of : callable
        Returns the bytes that a choice takes on all tiles.
    """
    def plan_once(limit: int | None) -> tuple[T] | None:
        return next(((one,) for one in choices if limit is None or bytes_of(one) <= limit * share), None)

    made = within(op, plan_once, memory, target, lambda: min(map(bytes_of, choices)), share)
    return Within(made.plan[0], *made[1:])
