"""The road: what every call of every op goes through, once it is described.

A face's function returns a `Request`: the program, where its operands come from, what receives the result. `travel`
runs it, records it, and keeps it as a bound call for the next call of its kind, which then runs in compiled code alone
(`src_cython/program/calls.pxi`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from threading import current_thread
from time import perf_counter
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..formats import Array
from ..planner.explain import HostPlan, Plan
from ..planner.facts import Load
from ..planner.ladder import Temporaries
from ..program import (
    BoundCall,
    Executable,
    Face,
    Key,
    Sequence,
    copied_alike,
    copied_to,
    copy_of,
    first_part,
    in_c_order,
    items_of_threads,
    most_operands,
    span_of,
    value_words,
)
from ..program.record import Run, listening, record
from ..target import Target, TargetLike
from .contents import of_one_call
from .machine import Placed, place_of
from .operands import BESIDE, RESULT, Operand, Receiver
from .parts import Given, ResultPart, Results, alone

Told = tuple[str, str, Plan | None]
"""What ran, for a reader, its kernel and its plan."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class TilePlanned(Plan, Protocol):
    """A plan of a modelled machine, as a record tells it."""

    @property
    def temporaries(self) -> Temporaries | None:
        """Temporary bytes: where they do not keep to their limit, each call of its kind says so. None without a limit.
        """

    @property
    def exchanged_bytes(self) -> int:
        """Bytes that all tiles receive."""

    def tile_bytes(self) -> Array:
        """Return the bytes of operands and results on each tile."""


class Request(NamedTuple):  # frozen dataclasses take six times as long to make
    """A call as its face describes it.

    Attributes
    ----------
    program : Executable, Sequence, callable or None
        What runs on the operands' arrays, in order; None where there is nothing to do.
    operands : tuple
        Each an `Operand` of the call, an array that is the same in every such call, `RESULT`, a `ResultPart`, `VALUES`
        or `BESIDE`. A `Receiver` among them is written beside the result.
    receiver : Receiver
        What receives the result.
    tell : callable
        Returns what ran, for a reader, its kernel and its plan: called where somebody listens.
    values : tuple of int
        The words of `VALUES`, as the face's `values` parameters give them; further ones are the same
        in every such call.
    ready : int
        Address of what makes those words ready; see `BoundCall`.
    wrap : callable, optional
        Makes a new array into what is returned, given it and the call's first argument.
    first : object, optional
        That argument.
    like : Operand, optional
        An operand that a new result has its shape of, where other calls of the kind have other shapes.
    measure : callable, optional
        Returns what else a `Run` tells, by the names of its attributes.
    placed : Placed, optional
        Where the call runs. This CPU's kernels compute the numbers of its plan, by the op's contract; the plan, what it
        has on tiles and whether it keeps to its limits is told in place of this CPU's. None for an op that runs on this
        CPU alone.
    temporaries : Temporaries, optional
        What was planned where a limit on temporary memory may be asked for; the plan of `placed` tells for itself.
    keep : bool, optional
        Whether the next call of the kind may run as this one does, without asking Python again: no where numbers or
        patterns that were looked at decided what runs. The road finds by itself where an operand is none of the call's
        arrays or has scales that the program does not take, where the program knows what is one call's own
        (`contents.of_one_call`), where plans do not keep to their limits, which each call says, and where nothing runs
        and there is a result.
    checks : bool, optional
        Whether the program may refuse operands, so that it runs where the result is empty, too.
    beside : Results, optional
        What receives further results, and makes of these and of the result what is returned.
    unread : mapping of str to object, optional
        Arguments as they are given whose numbers nobody has read, so that the program need not take them.
    """

    program: Callable[..., Any] | None
    operands: tuple[Operand | ResultPart | Array | int | None, ...]
    receiver: Receiver
    tell: Callable[[], Told]
    values: tuple[int, ...] = ()
    ready: int = 0
    wrap: Callable[[Array, Any], Any] | None = None
    first: Any = None
    like: Operand | None = None
    measure: Callable[[], dict[str, Any]] | None = None
    placed: Placed[TilePlanned] | None = None
    temporaries: Temporaries | None = None
    keep: bool = True
    checks: bool = False
    beside: Results | None = None
    unread: Mapping[str, Any] = _NOTHING

    @classmethod
    def to(cls, made: Receiver | Results, program: Callable[..., Any] | None, operands: Iterable[Any],
           tell: Callable[[], Told], **more: Any) -> Request:
        """Return the request of a program whose last operands are what receives the result, or each of several."""
        into = alone(made)
        return cls(program, (*operands, *into.operands), into.receiver, tell, wrap=into.wrap, **more)

    def with_(self, **changes: Any) -> Request:
        """Return the request with other attributes."""
        return self._replace(**changes)

    @property
    def runs(self) -> bool:
        """Whether there is anything to do."""
        written = self.receiver, *self.written
        return self.program is not None and bool(self.checks or self.beside or any(x.array.size for x in written))

    @property
    def kept(self) -> bool:
        """Whether the next call of the kind may run as this one does."""
        plan = None if self.placed is None else self.placed.plan
        limited = self.temporaries, None if plan is None else plan.temporaries
        return self.keep and all(x is None or x.fits for x in limited)

    @property
    def written(self) -> tuple[Receiver, ...]:
        """Arguments that the program writes to beside the result, operands of its own."""
        return tuple(x for x in self.operands if isinstance(x, Receiver))

    def spoilt(self) -> list[tuple[Receiver, dict[int, Operand]]]:
        """Return what would be written to while it is still to be read: what the program writes to in the caller's
        memory, and which operands that overlaps, by their identity."""
        given = [to for to in (self.receiver, *self.written) if to.given is not None and to.view is None]
        if not given or not self.runs:
            return []
        read = {id(x): x if isinstance(x, Operand) else Operand(x, None) for x in self.operands
                if isinstance(x, Operand | np.ndarray) and not isinstance(x, Receiver)}
        assert all(id(x) in read for to in given for x in to.written_over), "what is written over is no operand"
        met = [(to, {key: x for key, x in read.items() if to.spoils(x)}) for to in given]
        return [(to, those) for to, those in met if those]

    def apart(self) -> Request:
        """Return the request whose program runs as if `out` lay apart from all operands.

        What is smaller moves: what is written to, if that need not hold what an operand does, or what is read.
        """
        moved: dict[int, Any] = {}
        for to, those in self.spoilt():
            if to.reads or to.written_over or span_of(to.array) > sum(span_of(x.array) for x in those.values()):
                moved |= {key: x.apart() for key, x in those.items()}
            else:
                moved[id(to)] = to.apart()
        return self.with_(receiver=moved.get(id(self.receiver), self.receiver),
                          operands=tuple(moved.get(id(x), x) for x in self.operands)) if moved else self

    def run(self) -> dict[str, float]:
        """Run the program once, and return the wall seconds of each of its phases, where somebody listens."""
        program = self.program
        if program is None or not self.runs:
            return {}
        words = value_words(self.ready, self.values) if self.values else None
        arrays = [_array_of(x, self, words) for x in self.operands]
        if not (listening() and isinstance(program, Executable | Sequence) and any(program.phases)):
            program(*arrays)
            return {}
        seconds: dict[str, float] = {}
        for phase, taken in zip(program.phases, program.timed(*arrays), strict=True):
            seconds[phase] = seconds.get(phase, 0.0) + float(taken)
        return seconds

    def result(self) -> Any:
        """Return what the call returns, once it has run."""
        made = self.receiver.finish(self.wrap, self.first)
        return made if self.beside is None else self.beside.views.beside(self.beside.receiver.array, made)

    def moved(self) -> tuple[int, int]:
        """Return the bytes of operands, each once, and of results."""
        lost = {id(x) for x in self.written if not x.reads}
        arrays = [x.array if isinstance(x, Operand) else x for x in self.operands
                  if isinstance(x, Operand | np.ndarray) and id(x) not in lost]
        further = [] if self.beside is None else [self.beside.receiver.array]
        return _bytes(arrays), _bytes([self.receiver.array, *further, *(x.array for x in self.written)])


@dataclass(eq=False, slots=True)
class _Packing:
    """A program that is no call of an op, the arrays that it runs on, and those of them that it writes."""

    program: Callable[..., Any]
    arrays: tuple[Array, ...]
    written: tuple[Array, ...]
    tell: Callable[[], Told]
    placed: Placed[TilePlanned] | None = None
    measure: Callable[[], dict[str, Any]] | None = None

    def run(self) -> dict[str, float]:
        self.program(*self.arrays)
        return {}

    def moved(self) -> tuple[int, int]:
        written = {id(x) for x in self.written}
        return _bytes([x for x in self.arrays if id(x) not in written]), _bytes(self.written)


def travel(face: Face, request: Request, key: Key | None) -> Any:
    """Run what a face described, tell whoever listens, and keep it for the next call with this key."""
    request = request.apart()
    heard = _told(face.op.name, request)
    if key is not None and not heard and request.kept:
        bound = _bound(face, request, key)
        if bound is not None:
            face.keep(key, bound)
    for written in request.written:
        written.finish(None, None)
    return request.result()


def placed_request(op: str | Callable[..., Any], target: TargetLike, there: Callable[[Target], Request | str],
                   here: Callable[[Placed[Any]], Request]) -> Request:
    """Return a call's request where the numbers of a modelled machine are its own: as `there` describes it on one, or
    tells in words what that has no vertex for, or as `here` does on this CPU."""
    placed = place_of(op, target, there)
    return here(placed) if placed.plan is None else placed.plan


def run_told(op: str, tell: Callable[[], Told], program: Callable[..., Any], *arrays: Array,
             written: Array | tuple[Array, ...], placed: Placed[TilePlanned] | None = None,
             measure: Callable[[], dict[str, Any]] | None = None) -> None:
    """Run a program that is no call of one op, such as the packing of an operand, and tell whoever listens.

    `written` are those of the arrays that it writes; `placed` and `measure` are as a `Request` has them.
    """
    _told(op, _Packing(program, arrays, written if isinstance(written, tuple) else (written,), tell, placed, measure))


def _told(op: str, job: Request | _Packing) -> bool:
    """Run a job, and tell whoever listens; say whether anybody did."""
    began = perf_counter()
    phases = job.run()
    if not listening():
        return False
    ended = perf_counter()
    what, kernel, here = job.tell()
    measure, placed = job.measure, job.placed or place_of(op, None, lambda _: "in this form")
    if placed.plan is not None:
        measure = partial(_on_tiles, placed.plan)
    plan: Plan | None = placed.plan or here
    read, written = job.moved()
    more: dict[str, Any] = {"flops": None if plan is None else plan.flops} | ({} if measure is None else measure())
    threads, temporary, program = here.threads if isinstance(here, HostPlan) else 1, None, job.program
    if isinstance(program, Executable | Sequence):
        threads, temporary = program.threads, program.temporary_bytes
        if threads > 1 and "tile_bytes" not in more:  # else the plan tells how even its tiles' work is
            more["loads"] = more.get("loads", {}) | {
                "work items of a thread": Load.of(items_of_threads(threads, *_programs(program)))}
    record(Run(op, what, kernel, sum(phases.values()) if phases else ended - began, plan, phases, began, ended,
               current_thread().name, threads, temporary, read, written, lacking=placed.lacking, **more))
    return True


def _on_tiles(plan: TilePlanned) -> dict[str, Any]:
    return {"tile_bytes": plan.tile_bytes(), "exchanged_bytes": plan.exchanged_bytes}


def _programs(program: Executable | Sequence) -> tuple[Any, ...]:
    return (program.program,) if isinstance(program, Executable) else program.programs


def _bytes(arrays: Iterable[Array]) -> int:
    """Bytes of arrays, each once, and of what is broadcast once."""
    different = {id(array): array for array in arrays}.values()
    return sum(prod([n for n, step in zip(a.shape, a.strides, strict=True) if step or not n]) * a.itemsize
               for a in different)


def _array_of(operand: Operand | ResultPart | Array | int | None, request: Request, words: Array | None) -> Array:
    if isinstance(operand, Operand):
        return in_c_order(operand.array) if operand.gathered else operand.array
    if isinstance(operand, ResultPart):
        return operand.of(request.receiver.array)
    if isinstance(operand, np.ndarray):
        return operand
    if operand == BESIDE and request.beside is not None:
        return request.beside.receiver.array
    array = request.receiver.array if operand == RESULT else words
    assert array is not None
    return array


def _place_of(operand: Operand, key: Key) -> int:
    """Return which of the call's arrays an operand is, or -1 where it was made of what is no array."""
    if operand.place is None:
        return -1
    name, part = operand.place
    number = key.places[name] + part
    return number if key.holds(number, operand.memory if isinstance(operand, Receiver) else operand.array) else -1


def _source_of(operand: Operand, key: Key) -> int:
    """Return where a bound call has an operand from: one of the call's arrays, perhaps by way of a copy, or -1."""
    number = _place_of(operand, key)
    if isinstance(operand, Receiver) and operand.view is not None:  # for what it overlaps is another in each call
        ordered = operand.array.flags.c_contiguous and not operand.view.flags.carray
        return number + copied_to if number >= 0 and ordered else -1
    return number + copy_of if operand.gathered and number >= 0 else number


def _bound(face: Face, request: Request, key: Key) -> BoundCall | None:
    """Return the bound call of a request whose arrays are all the call's own, and take part in it, or None."""
    receiver, program = request.receiver, request.program
    if not receiver.keeps or (program is None and receiver.array.size):
        return None
    sources: list[int | Array] = []
    size = receiver.array.nbytes
    unused = key.plain - {key.places[name] for name, x in request.unread.items() if type(x) is np.ndarray}
    for operand in request.operands:
        if isinstance(operand, Operand):
            source = _source_of(operand, key)
            scaled = operand.scales is not None and not isinstance(operand, Receiver)
            if source < 0 or (scaled and not any(operand.scales is x for x in request.operands)):
                return None
            unused.discard(_place_of(operand, key))
            sources.append(source)
            size += operand.array.nbytes
        elif isinstance(operand, ResultPart):
            sources.append(first_part - operand.number)
        elif isinstance(operand, int) and operand == RESULT and receiver.view is not None:
            number = _place_of(receiver, key)  # an overlap that is kept is part of the key
            if number < 0:
                return None
            sources.append(number + (copied_to if receiver.array.flags.c_contiguous else copied_alike))
        else:
            assert operand is not None
            sources.append(operand)
    given, wrap = -1, receiver.wrapping(request.wrap)
    if isinstance(wrap, Given):
        given, wrap = key.places["out"], wrap.views
    if unused or len(request.values) < key.values:  # what was read may be other numbers in the next call
        return None
    if len(sources) > most_operands or of_one_call((program, wrap), (receiver, *request.operands)):
        return None
    array, beside = receiver.array, None
    strides = None if array.flags.c_contiguous else array.strides
    program = program if request.runs else None
    if request.beside is not None:
        beside, size = request.beside.views, size + request.beside.receiver.array.nbytes
    like = -1
    if request.like is not None:
        like = _place_of(request.like, key)
        if like < 0:
            return None
    own = len(face.values)
    apart = tuple(_place_of(x, key) for x in request.written)
    return BoundCall(program, sources if program else [], array.shape, array.dtype, strides, wrap, request.ready, size,
                     own, request.values[own:], like, given, beside, apart)
