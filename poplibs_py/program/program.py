"""Programs: compute sets of vertices over tiles, exchanges between them, loops over turns. One kind for every machine.

On this CPU tiles are threads; on a modelled machine they are the plan's, dealt out to threads in order. An op's `lower`
makes a `Program` of its plan, and the executor runs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..formats import Array
from ._executor import Executable


@dataclass(frozen=True, eq=False, slots=True)
class Segment:
    """A vertex and its work.

    Attributes
    ----------
    vertex : int
        Address of the compiled function.
    items : numpy.ndarray
        A record for each piece of work, sorted by tile; in a loop whose turns have items of their own, by turn first.
    tiles : numpy.ndarray of int
        The tile of each item.
    turns : numpy.ndarray of int, optional
        The turn of each item, where a loop's turns have items of their own; by default each turn has them all.
    """

    vertex: int
    items: Array
    tiles: Array
    turns: Array | None = None


@dataclass(frozen=True, eq=False, slots=True)
class ComputeSet:
    """Vertices that run at once, on all tiles, when what was before has ended.

    Attributes
    ----------
    phase : str
        What it is for, for a reader; empty in a program of one phase.
    segments : tuple of Segment
    """

    phase: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Exchange:
    """Bytes that arrive on tiles. Here they share memory and nothing moves: vertices read what lies elsewhere.

    Attributes
    ----------
    phase : str
        What it is for, for a reader.
    bytes : int
        That all tiles receive together, in all turns.
    """

    phase: str
    bytes: int


@dataclass(frozen=True, eq=False, slots=True)
class Loop:
    """Steps that are repeated; vertices know the turn.

    Attributes
    ----------
    turns : int
    body : tuple of ComputeSet or Exchange
    """

    turns: int
    body: tuple[ComputeSet | Exchange, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Program:
    """What runs, with its memory.

    Attributes
    ----------
    steps : tuple of ComputeSet, Exchange or Loop
        One after another.
    operands : int
        Arrays that a call passes.
    tiles : int
        That work is dealt out to; neighbours share a thread.
    arena_bytes : int
        Temporary bytes of the tile that needs most. A thread has one arena, and runs its tiles one after another.
    workspace_bytes : int
        Temporary bytes that all tiles see, as the operand after the last: what they exchange.
    tables : tuple
        What items point to.
    light : bool
        Whether it takes no longer than memory does: then it keeps Python's lock for more bytes, since to let go of
        that and to take it again costs as much as many of them.
    """

    steps: tuple[ComputeSet | Exchange | Loop, ...]
    operands: int
    tiles: int
    arena_bytes: int = 0
    workspace_bytes: int = 0
    tables: tuple[Any, ...] = ()
    light: bool = False

    @property
    def loops(self) -> Iterator[Loop]:
        """The steps as loops: what is done once is a loop of one turn."""
        return (step if isinstance(step, Loop) else Loop(1, (step,)) for step in self.steps)

    @property
    def exchanged_bytes(self) -> int:
        """Bytes that tiles receive in all."""
        return sum(step.bytes for loop in self.loops for step in loop.body if isinstance(step, Exchange))

    def executable(self, threads: int) -> Executable:
        """Return the program bound to so many threads."""
        return Executable(self, threads)


def host_program(*sets: tuple[Segment, ...], operands: int, threads: int, arena_bytes: int = 0,
                 workspace_bytes: int = 0, tables: tuple[Any, ...] = ()) -> Executable:
    """Return an executable of compute sets for this CPU, where each thread is a tile; empty sets are left out."""
    steps = tuple(ComputeSet("", segments) for segments in sets if segments)
    return Program(steps, operands, threads, arena_bytes, workspace_bytes, tables).executable(threads)
