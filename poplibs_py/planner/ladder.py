"""The limit on temporary memory that a call names, and PopLibs' ladder: what is tried where no plan keeps to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from ..checks import flag, instance, whole
from ..errors import MemoryLimitError, MemoryLimitWarning, bad_type, warn
from ..target import Target, memory_limit
from ..target.memory import checked_proportion

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
            object.__setattr__(self, "proportion", checked_proportion("available_memory_proportion", self.proportion))
        flag("strict_memory", self.strict)

    def on_machine(self) -> Memory:
        """Return what holds on a modelled machine: PopLibs' 0.6 where the call names no share."""
        return self if self.proportion is not None else Memory(POPLIBS_PROPORTION, self.strict)

    def limit(self, target: Target) -> int | None:
        """Return the temporary bytes that a tile of a machine may take, or None."""
        return None if self.proportion is None else memory_limit(target, self.proportion)


@dataclass(frozen=True)
class Temporaries:
    """Temporary bytes: how many are needed, how many are allowed, and what became of that limit. As text, all of it.

    Attributes
    ----------
    needed : int
    limit : int or None
        None for any number.
    raised : int or None
        What the ladder raised the limit to, where more is needed; None where it dropped it.
    of : {"a tile", "all threads"}
        What has these bytes: a tile of a modelled machine, or all threads of this CPU.

    Examples
    --------
    >>> from poplibs_py.planner import Temporaries
    >>> print(Temporaries(44, 6, 48, "a tile"))
    44 bytes of a tile, limit 6, which was raised to 48
    >>> print(Temporaries(4096, 8192))
    4,096 bytes of all threads, limit 8,192
    """

    needed: int
    limit: int | None
    raised: int | None = None
    of: str = "all threads"

    @classmethod
    def of_threads(cls, needed: int, limit: int | None, raised: int | None, threads: int) -> Temporaries:
        """Return those of all threads, which need so many, given the limit of each, and what that was raised to."""
        limit, raised = (None if each is None else each * threads for each in (limit, raised))
        return cls(needed, limit, raised)

    @property
    def fits(self) -> bool:
        """Whether what is needed keeps to the limit."""
        return self.limit is None or self.needed <= self.limit

    @classmethod
    def worst(cls, parts: Iterable[Temporaries]) -> Temporaries | None:
        """Return which of several parts' tells for all: one that keeps to no limit, and of such or else of all the one
        that needs most; None where there are none.

        Examples
        --------
        >>> from poplibs_py.planner import Temporaries
        >>> print(Temporaries.worst([Temporaries(99, 100), Temporaries(44, 6), Temporaries(7, 6)]))
        44 bytes of all threads, limit 6, which was dropped
        """
        return max(parts, key=lambda part: (not part.fits, part.needed), default=None)

    @property
    def became(self) -> str:
        """What became of the limit, in words: nothing where it is kept to."""
        return "" if self.fits else "dropped" if self.raised is None else f"raised to {self.raised:,}"

    @property
    def allowed(self) -> str:
        """The limit in words, and what became of it."""
        limit = "no limit" if self.limit is None else f"limit {self.limit:,}"
        return limit if self.fits else f"{limit}, which was {self.became}"

    def __str__(self) -> str:
        return f"{self.needed:,} byte{'s' * (self.needed != 1)} of {self.of}, {self.allowed}"


class _Planned(Protocol):
    @property
    def temporaries(self) -> Temporaries: ...


class Limited:
    """A plan under a limit on memory, of which its `temporaries` tell."""

    @property
    def fits(self: _Planned) -> bool:
        """Whether temporary bytes keep to the limit."""
        return self.temporaries.fits


class HostLimited(Limited):
    """The same of this CPU."""

    @property
    def limit(self: _Planned) -> int | None:
        """Temporary bytes that all threads may take, or None."""
        return self.temporaries.limit


class Climbed(NamedTuple, Generic[T]):
    """What was planned on the ladder, and to how many bytes that raised the limit: None where the plan keeps to it, and
    where the ladder dropped it."""

    plan: T
    raised: int | None


def rungs(limit: int, tile_bytes: int, beyond: bool = True) -> Iterator[int]:
    """Limits of the ladder after the first: doubled until they have reached twice the tile's memory."""
    limit, last = max(1, limit), False
    while not last:
        limit *= 2
        last = limit >= 2 * tile_bytes
        if beyond or not last:
            yield limit


def climb(plan_once: Callable[[int | None], T | None], limit: int | None, tile_bytes: int, *,
          tried: bool = False, beyond: bool = True) -> Climbed[T] | None:
    """Plan under a limit of bytes; where that fails, double the limit, and in the end drop it. Return the plan with
    what the limit was raised to, or None where there is no plan.

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
    Climbed(plan='a plan', raised=800)
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
                return Climbed(plan, None if most == limit else most)
    plan = plan_once(None)
    return None if plan is None else Climbed(plan, None)


def complain(op: str, memory: Memory, taken: Temporaries, need: str = "the plan takes") -> None:
    """Warn that no plan keeps to the limit, and what became of it, or raise where that is asked for.

    Parameters
    ----------
    op : str
        The op's name.
    memory : Memory
        What the call says.
    taken : Temporaries
        What the plan needs, or the least that any does, and may take.
    need : str, optional
        Whose need that is, in words.
    """
    instance("memory", memory, Memory, "a Memory")
    text = (f"{op}: available_memory_proportion={memory.proportion} leaves {taken.limit:,} bytes of {taken.of}; "
            f"{need} {taken.needed:,}")
    if memory.strict:
        raise MemoryLimitError(text)
    warn(f"{text}; the limit was {taken.became}", MemoryLimitWarning)


LEAST = "the least that any plan takes is"
"""Whose need a complaint names where plans are many."""


def within(op: str, plan_once: Callable[[int | None], T | None], memory: Memory, target: Target,
           least: Callable[[], int], threads: int) -> Climbed[T]:
    """Return the plan of a call on this CPU, and what the limit of a thread was raised to; where no plan keeps to it,
    complain and climb.

    Parameters
    ----------
    op : str
        The op's name, for the message.
    plan_once : callable
        Plans once within so many bytes of a thread, or without a limit, where there always is a plan; else None if
        there is none.
    memory : Memory
        What the call says.
    target : Target
        This CPU.
    least : callable
        Returns the fewest bytes that any plan takes on all threads; called only for the message.
    threads : int
        That the call takes, for the message.
    """
    instance("memory", memory, Memory, "a Memory")
    instance("target", target, Target, "a Target")
    for name, function in (("plan_once", plan_once), ("least", least)):
        if not callable(function):
            raise bad_type(name, function, "a function")
    limit = memory.limit(target)
    plan = plan_once(limit)
    if plan is not None:
        return Climbed(plan, None)
    assert limit is not None

    climbed = None if memory.strict else climb(plan_once, max(1, limit), target.bytes_per_tile, tried=True)
    raised = None if climbed is None else climbed.raised
    complain(op, memory, Temporaries.of_threads(least(), limit, raised, threads), LEAST)
    if climbed is None:
        raise AssertionError(f"{op}: there always is a plan without a limit")
    return climbed


def first_within(op: str, choices: Sequence[T], bytes_of: Callable[[T], int], memory: Memory, target: Target,
                 threads: int) -> Climbed[T]:
    """Return the first of some choices that keeps to the limit, as `within` does.

    Parameters
    ----------
    op, memory, target, threads
        As for `within`.
    choices : sequence
        Of which the first is the fastest.
    bytes_of : callable
        Returns the bytes that a choice takes on all threads.
    """
    def plan_once(limit: int | None) -> tuple[T] | None:
        return next(((one,) for one in choices if limit is None or bytes_of(one) <= limit * threads), None)

    (found,), raised = within(op, plan_once, memory, target, lambda: min(map(bytes_of, choices)), threads)
    return Climbed(found, raised)
