"""Several convolutions in one call: one program of them all, on this CPU or on a modelled machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

import numpy as np

from ...errors import bad_argument
from ...formats import Array, Format, QuarterArray
from ...kernels.records import dtype_of
from ...memo import remembered
from ...ops import AS_ASKED, RESULT, Operand, Placed, Receiver, Request, new_result, seed_of
from ...ops.parts import check_apart
from ...planner.explain import Explained, Explanation
from ...planner.ladder import Temporaries
from ...program import ComputeSet, Executable, OnArrays, Program, Segment, Views, segment_by_work, spread, whole_lines
from ...program import Sequence as Run
from ..gemm.model import threads_of
from ..tile_conv.modelled import PASSES, TileConvolution, modelled_convolutions, tile_kernel
from ..tile_conv.multi import MultiPlan, multi_settings, plan_convolutions
from ..tile_conv.options import ConvOptions
from ..tile_conv.plan import ConvPlan
from ..tile_conv.work import work_of
from ._conv import BESIDE_VERTEX, MOST_OPERANDS
from .modelled import Asked, typed, with_updates
from .plan import HostConvPlan
from .request import Pass

MOST_VIEWS = 32
"""Results that `Views` makes at once."""
_MOST_KINDS = 3  # of convolutions that a run's name tells


@dataclass(frozen=True)
class HostConvPlans(Explained):
    """Plans of several convolutions in one program of this CPU.

    Attributes
    ----------
    plans : tuple of HostConvPlan
    threads : int
        That share the work of all.
    at_once : int
        How many run at once; others, whose operands are decoded or rearranged first, run before them, one by one.
    """

    plans: tuple[HostConvPlan, ...]
    threads: int
    at_once: int

    @property
    def flops(self) -> int:
        """Multiplications and additions of all."""
        return sum(plan.flops for plan in self.plans)

    @property
    def compute_format(self) -> Format | str:
        """What all multiply in; an empty string where that is not one format."""
        formats = {plan.compute_format for plan in self.plans}
        return formats.pop() if len(formats) == 1 else ""

    @property
    def temporaries(self) -> Temporaries | None:
        """Temporary bytes of the plan that tells for all."""
        return Temporaries.worst(plan.temporaries for plan in self.plans)

    @property
    def words(self) -> str:
        """How many there are, in words."""
        count = len(self.plans)
        return f"{count} convolutions{f', {self.at_once}' if self.at_once < count else ''} at once"

    @property
    def kernels(self) -> str:
        """What serves them."""
        return ", ".join(dict.fromkeys(plan.kernel.label for plan in self.plans)) or "none"

    def explain(self) -> Explanation:
        """Return what was decided for each."""
        methods: dict[str, list[str]] = {}
        for plan in self.plans:
            methods.setdefault(plan.problem, []).append(plan.explain().decisions["method"])
        decisions = {problem: "; ".join(dict.fromkeys(found)) + f" ({len(found)} of them)" * (len(found) > 1)
                     for problem, found in methods.items()}
        memory = {} if self.temporaries is None else {"memory": str(self.temporaries)}
        return Explanation(self.words, decisions | {"kernels": self.kernels} | memory)


def _kinds(words: Iterable[str]) -> str:
    """What convolutions compute, in words: the first kinds, and how many there are of each."""
    counts = Counter(words)
    shown = [f"{count} of {one}" if count > 1 else one for one, count in counts.items()][:_MOST_KINDS]
    more = len(counts) - len(shown)
    return "; ".join(shown) + (f"; {more} other kinds" if more else "")


def several_request(calls: Any, passes: Sequence[Pass], multi_options: Mapping[str, Any] | None,
                    out_of: Callable[[Any], Any]) -> Request:
    """Describe passes as one call for the road: one program of all. What another machine lacks runs here.

    Parameters
    ----------
    calls : sequence
        What the passes were made of.
    passes : sequence of Pass
    multi_options : mapping or None
    out_of : callable
        Returns what one of the calls gave for its result, where it did.
    """
    multi_settings({} if multi_options is None else multi_options)
    receivers = [one.receiver for one in passes]
    check_apart("calls", receivers)
    listed = _Listed.of(receivers, out_of)
    work, some = _Work(listed.places), [one for one in passes if one.receiver.array.size]
    asked, here = [one for one in some if one.placed.plan], [one for one in some if not one.placed.plan]
    plans: list[Any] = []
    if asked:
        plans.append(_add_modelled(work, asked, multi_options))
    if here or not asked:
        plans.append(_add_host(work, [one.request() for one in here]))
    lacking = "; ".join(dict.fromkeys(x.placed.lacking for x in here if x.placed.lacking))
    program, operands = work.made()
    return Request(program, operands, new_result((listed.bytes,), np.dtype(np.uint8)),
                   lambda: (*work.told(), plans[0]), work.values, wrap=listed, first=calls,
                   placed=AS_ASKED if asked and not here else Placed(None, lacking), checks=True,
                   temporaries=work.temporaries,
                   measure=(lambda: {"exchanged_bytes": work.exchanged}) if asked else None)


@dataclass(frozen=True)
class _Listed:
    """Makes the list of a call's results: new ones, which are views of one array of bytes, and those that it gave.

    Attributes
    ----------
    places : dict of int to int
        By the identity of the receiver of a new result, where that begins among the bytes.
    bytes : int
    views : tuple of Views
        Of the new results, some in each.
    forms : tuple
        Of each result: False where the call gave it, else its format where it is a `QuarterArray`, or None.
    out_of : callable
    """

    places: dict[int, int]
    bytes: int
    views: tuple[Views, ...]
    forms: tuple[Any, ...]
    out_of: Callable[[Any], Any]

    @classmethod
    def of(cls, receivers: Sequence[Receiver], out_of: Callable[[Any], Any]) -> _Listed:
        new = [receiver for receiver in receivers if receiver.given is None]
        ends = list(accumulate((whole_lines(x.array.nbytes) for x in new), initial=0))
        parts = [(x.array.shape, x.array.dtype, begin, _order(x.array)) for x, begin in zip(new, ends, strict=False)]
        some = (parts[first:first + MOST_VIEWS] for first in range(0, len(parts), MOST_VIEWS))
        views = tuple(Views(tuple, tuple(those)) for those in some)
        forms = [False if x.given is not None else x.format if x.format.dtype is None else None for x in receivers]
        return cls({id(x): begin for x, begin in zip(new, ends, strict=False)}, ends[-1], views, tuple(forms), out_of)

    def __call__(self, buffer: Array, calls: Any) -> list[Any]:
        made = chain.from_iterable(views(buffer) for views in self.views)
        return [next(made) if form is None else self.out_of(call) if form is False else QuarterArray(next(made), form)
                for form, call in zip(self.forms, calls, strict=True)]


def _order(array: Array) -> tuple[int, ...]:
    """Axes of new images from the outermost in memory to the innermost: in C order, or with channels last."""
    axes = tuple(range(array.ndim))
    return axes if array.flags.c_contiguous else (axes[0], *axes[2:], axes[1])


class _Work:
    """Programs one after another that are one, on the operands of a call and on the bytes of its new results.

    Attributes
    ----------
    values : tuple of int
        The call's own words.
    exchanged : int
        Bytes that modelled tiles receive.
    plans : list of ConvPlan or HostConvPlan
    """

    def __init__(self, places: Mapping[int, int]) -> None:
        self.values: tuple[int, ...] = ()
        self.exchanged = 0
        self.plans: list[ConvPlan | HostConvPlan] = []
        self._places = places
        self._steps: list[tuple[Any, Sequence[Any]]] = []
        self._told: list[tuple[str, str]] = []

    @property
    def temporaries(self) -> Temporaries | None:
        """Temporary bytes of the plan that tells for all."""
        return Temporaries.worst(plan.temporaries for plan in self.plans)

    def add(self, program: Any, operands: Sequence[Any]) -> None:
        """Add a program on operands, receivers of results among them, and `VALUES`."""
        self._steps.append((program, operands))

    def tell(self, what: str, kernels: str) -> None:
        """Add what a reader is told."""
        self._told.append((what, kernels))

    def told(self) -> tuple[str, str]:
        """Return what runs, for a reader, and its kernels."""
        what, kernels = zip(*self._told, strict=True)
        return "; ".join(what), ", ".join(kernels)

    def made(self) -> tuple[Any, tuple[Any, ...]]:
        """Return what runs all of it, and its operands."""
        portions: list[tuple[dict[int, Any], list[Any]]] = []
        for program, operands in self._steps:
            needed = {_key(x): x for x in map(self._taken, operands)}
            if not portions or len(portions[-1][0] | needed) > MOST_OPERANDS:
                portions.append(({}, []))
            portions[-1][0].update(needed)
            portions[-1][1].append((program, operands))
        sequences = [self._sequence(taken, steps) for taken, steps in portions]
        operands = tuple(x for taken, _ in portions for x in taken.values())
        return (sequences[0] if len(sequences) == 1 else _in_turn(sequences) if sequences else None), operands

    def _taken(self, operand: Any) -> Any:
        """The run's operand that holds one of a program."""
        return RESULT if id(operand) in self._places else operand

    def _sequence(self, taken: Mapping[int, Any], steps: Sequence[Any]) -> Run:
        numbers = {key: number for number, key in enumerate(taken)}
        parts: list[Any] = []
        room = 0  # which all have in turn
        for program, operands in steps:
            places = [(numbers[_key(self._taken(x))], self._places.get(id(x), 0)) for x in operands]
            if isinstance(program, Run):
                parts += program.within((*places, (len(numbers), 0)))
                room = max(room, program.workspace_bytes)
            else:
                parts.append((program, places))
        return Run(parts, len(numbers), room)


def _key(operand: Any) -> int:
    """What an operand of a run is told from others by: there are two that are numbers."""
    return operand if isinstance(operand, int) else id(operand)


def _in_turn(sequences: Sequence[Run]) -> Callable[..., None]:
    """What runs sequences, each on operands of its own."""
    ends = [0, *accumulate(sequence.operands for sequence in sequences)]

    def run(*arrays: Array) -> None:
        for sequence, first, end in zip(sequences, ends, ends[1:], strict=False):
            sequence(*arrays[first:end])

    return run


# On a modelled machine --------------------------------------------------------------------------------


def _add_modelled(work: _Work, passes: Sequence[Pass], multi_options: Mapping[str, Any] | None) -> MultiPlan:
    """Add the program of passes that are planned together, and return the plan."""
    asked: list[Asked] = [one.placed.plan for one in passes if one.placed.plan]
    seed = asked[0].seed
    taken = sum(len((*one.reads, one.receiver)) for one in passes) + (seed is not None)
    if taken > MOST_OPERANDS:
        raise bad_argument("calls", f"{len(passes)} convolutions of {taken} arrays",
                           f"{MOST_OPERANDS} arrays at most on a modelled machine")
    plan = tile_plans(passes, multi_options)
    calls = [one.call_on_tiles for one in passes]
    program, operands = modelled_convolutions(plan, calls, seeded=seed is not None)
    own = {id(call.receiver): one.receiver for call, one in zip(calls, passes, strict=True)}
    work.add(program, [own.get(id(x), x) for x in operands])
    work.values = () if seed is None else (seed_of(seed),)
    work.exchanged = program.program.exchanged_bytes
    work.plans += plan.plans
    each = (TileConvolution(work_of(made), PASSES[call.pass_]).told()[0]
            for made, call in zip(plan.plans, calls, strict=True))
    work.tell(f"{len(passes)} convolutions {'at once' if plan.parallel else 'in turn'}: {_kinds(each)}", tile_kernel())
    return plan


def tile_plans(passes: Sequence[Pass], multi_options: Mapping[str, Any] | None) -> MultiPlan:
    """Return the plan of passes on a modelled machine."""
    asked: list[Asked] = [one.placed.plan for one in passes if one.placed.plan]
    problems = [typed(one.params, one.x.format, one.receiver.format) for one in passes]
    options = [ConvOptions.parse(one.options, **one.keywords) for one in asked]
    plan = plan_convolutions(problems, target=asked[0].target, options=options, multi_options=multi_options)
    scales = [one.update for one in passes if one.update is not None]
    return with_updates(plan, asked[0].target, [one.receiver for one in passes], scales) if scales else plan


# On this CPU ------------------------------------------------------------------------------------------


def _add_host(work: _Work, requests: Sequence[Request]) -> HostConvPlans:
    """Add programs of passes, those at once that can, and return their plans."""
    plans = [_host_plan(one) for one in requests]
    threads = 1
    for one in requests:
        if not isinstance(one.program, Executable):  # operands are decoded, or rearranged, first
            operands, program = _operands(one), one.program
            assert program is not None
            whole = isinstance(program, Run)
            work.add(program if whole else OnArrays(program, [x.array for x in operands]), operands)
    at_once = [one for one in requests if isinstance(one.program, Executable)]
    for some in _portions(at_once):
        flops = tuple(_host_plan(one).flops for one in some)
        shared = threads_of(sum(flops), plans[0].target)
        programs: list[Any] = [one.program for one in some]
        work.add(_together(tuple(programs), flops, shared), [x for one in some for x in _operands(one)])
        threads = max(threads, shared)
    made = HostConvPlans(tuple(plans), threads, len(at_once))
    work.plans += plans
    work.tell(f"{made.words}: {_kinds(plan.call.words for plan in plans)}" if plans else made.words, made.kernels)
    return made


def _host_plan(request: Request) -> HostConvPlan:
    """The plan of a convolution that runs as this CPU's."""
    plan = request.tell()[2]
    assert isinstance(plan, HostConvPlan)
    return plan


def _operands(request: Request) -> list[Operand]:
    """What a program takes, the receiver of its result among it."""
    return [x if isinstance(x, Operand) else request.receiver for x in request.operands]


def _portions(requests: Sequence[Request]) -> list[list[Request]]:
    """Requests in portions that a program has room for."""
    portions: list[list[Request]] = []
    room = 0
    for request in requests:
        if len(request.operands) > room:
            portions.append([])
            room = MOST_OPERANDS
        portions[-1].append(request)
        room -= len(request.operands)
    return portions


@remembered(weight=4)
def _together(programs: tuple[Executable, ...], flops: tuple[int, ...], threads: int) -> Executable:
    """The program of several, each on operands of its own.

    Those of one compute set run at once, and share the threads by their work; those with a workspace, whose steps
    follow each other, run after them, in one workspace.
    """
    held = [one.program for one in programs]
    firsts = [0, *accumulate(program.operands for program in held)]
    shared, steps, tables = firsts[-1], [], []
    at_once: list[tuple[Any, float]] = []

    def wrapped(segment: Segment, first: int, operands: int) -> Any:
        items = np.zeros(len(segment.items), dtype_of("pop_beside_item"))
        table = np.ascontiguousarray(segment.items)
        tables.append(table)
        items["vertex"], items["first"], items["operands"], items["shared"] = segment.vertex, first, operands, shared
        items["item"] = table.ctypes.data + np.arange(len(table)) * table.itemsize
        return items

    for program, first, work in zip(held, firsts, flops, strict=False):
        tables += program.tables
        sets = [[wrapped(segment, first, program.operands) for segment in step.segments] for step in program.steps]
        if program.workspace_bytes:
            steps += [ComputeSet("", tuple(Segment(BESIDE_VERTEX, items, spread(len(items), threads)) for items in one))
                      for one in sets]
        else:
            count = sum(len(items) for one in sets for items in one)
            at_once += [(items, max(work, 1) * len(items) / count) for one in sets for items in one]
    if at_once:
        steps.insert(0, ComputeSet("", (segment_by_work(BESIDE_VERTEX, at_once, threads),)))
    return Program(tuple(steps), shared, threads, max(program.arena_bytes for program in held),
                   max(program.workspace_bytes for program in held), tuple(tables)).executable(threads)
