"""Several convolutions in one call: one program of them all, on this CPU or on a modelled machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from ...errors import bad_argument
from ...formats import Array
from ...kernels.records import dtype_of
from ...memo import remembered
from ...ops import AS_ASKED, Operand, Placed, Request, run_told
from ...planner.explain import Explained, Explanation
from ...program import ComputeSet, Executable, Program, Segment, spread
from ..gemm.model import threads_of
from ..tile_conv.modelled import modelled_convolutions, tile_kernel
from ..tile_conv.multi import multi_settings, plan_convolutions
from ._conv import BESIDE_VERTEX, MOST_OPERANDS
from .modelled import Asked, typed, with_updates
from .plan import HostConvPlan
from .request import Pass


@dataclass(frozen=True)
class HostConvPlans(Explained):
    """Plans of several convolutions that run at once on this CPU.

    Attributes
    ----------
    plans : tuple of HostConvPlan
    threads : int
        That share the work of all.
    """

    plans: tuple[HostConvPlan, ...]
    threads: int

    @property
    def flops(self) -> int:
        """Multiplications and additions of all."""
        return sum(plan.flops for plan in self.plans)

    def explain(self) -> Explanation:
        """Return what was decided for each."""
        said = [plan.explain() for plan in self.plans]
        return Explanation(f"{len(said)} convolutions at once", {one.problem: one.decisions["method"] for one in said},
                           said[0].considered)


def run_passes(name: str, passes: Sequence[Pass], multi_options: Mapping[str, Any] | None) -> list[Any]:
    """Run passes in one program, told of as the op `name`, and return their results.

    What a program has no room for, or what another machine lacks, runs here in programs of its own.
    """
    multi_settings({} if multi_options is None else multi_options)
    results = [one.receiver for one in passes]
    for number, one in enumerate(passes):
        if results[number].given is not None and any(_meets(results[number].array, other)
                                                     for other in passes if other is not one):
            raise bad_argument(f"calls[{number}]", "an out that may share memory with what another call has",
                               "arrays apart from those of other calls")
    some = [one for one in passes if one.receiver.array.size]
    asked = [one for one in some if one.placed.plan]
    if asked:
        _run_modelled(name, asked, multi_options)
    _run_here(name, [one for one in some if not one.placed.plan])
    return [receiver.finish(None, None) for receiver in results]


def _meets(out: Array, other: Pass) -> bool:
    arrays = other.receiver, other.x, other.second, other.bias, other.residual
    return any(x is not None and np.may_share_memory(out, x.array) for x in arrays)


# On a modelled machine --------------------------------------------------------------------------------


def _run_modelled(name: str, passes: Sequence[Pass], multi_options: Mapping[str, Any] | None) -> None:
    asked: list[Asked] = [one.placed.plan for one in passes if one.placed.plan]
    taken = sum(3 + (one.bias is not None) for one in passes) + (asked[0].seed is not None)
    if taken > MOST_OPERANDS:
        raise bad_argument("calls", f"{len(passes)} convolutions of {taken} arrays",
                           f"{MOST_OPERANDS} arrays at most on a modelled machine")
    problems = [typed(one.params, one.x.format, one.receiver.format) for one in passes]
    options = [dict(one.options or {}) | _spelled(one.keywords) for one in asked]
    plan = plan_convolutions(problems, target=asked[0].target, options=options, multi_options=multi_options)
    scales = [one.update for one in passes if one.update is not None]
    if scales:
        plan = with_updates(plan, asked[0].target, [one.receiver for one in passes], scales)
    program, arrays = modelled_convolutions(plan, [one.call_on_tiles for one in passes], seed=asked[0].seed)
    how = "at once" if plan.parallel else "in turn"
    run_told(name, lambda: (f"{len(passes)} convolutions {how}", tile_kernel(), plan), program, *arrays,
             written=tuple(one.receiver.array for one in passes), placed=AS_ASKED,
             measure=lambda: {"exchanged_bytes": program.program.exchanged_bytes})


def _spelled(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Options by keyword in PopLibs' spelling."""
    names = {"available_memory_proportion": "availableMemoryProportion", "partials_type": "partialsType"}
    return {names[name]: value for name, value in keywords.items() if name in names}


# On this CPU ------------------------------------------------------------------------------------------


def _run_here(name: str, passes: Sequence[Pass]) -> None:
    placed: Placed[Any] = Placed(None, "; ".join(dict.fromkeys(x.placed.lacking for x in passes if x.placed.lacking)))
    requests = [one.request() for one in passes]
    for one in requests:
        if one.program and not isinstance(one.program, Executable):  # operands are decoded, or rearranged, first
            arrays = [_array(x, one) for x in one.operands]
            run_told(name, one.tell, one.program, *arrays, written=(one.receiver.array,), placed=placed)
    for some in _portions([one for one in requests if isinstance(one.program, Executable)]):
        plans = HostConvPlans(tuple(one.tell()[2] for one in some), 0)
        threads = threads_of(plans.flops, plans.plans[0].target)
        plans = HostConvPlans(plans.plans, threads)
        programs: list[Any] = [one.program for one in some]
        arrays = [_array(x, one) for one in some for x in one.operands]
        run_told(name, _told(plans), _together(tuple(programs), tuple(plan.flops for plan in plans.plans), threads),
                 *arrays, written=tuple(one.receiver.array for one in some), placed=placed)


def _told(plans: HostConvPlans) -> Callable[[], tuple[str, str, HostConvPlans]]:
    return lambda: (f"{len(plans.plans)} convolutions at once", plans.plans[0].kernel.label, plans)


def _array(x: Any, request: Request) -> Array:
    array: Array = x.array if isinstance(x, Operand) else request.receiver.array
    return array


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
        items = np.concatenate([items for items, _ in at_once])
        each = np.concatenate([np.full(len(items), work / len(items)) for items, work in at_once])
        middles = np.cumsum(each) - each / 2
        tiles = np.minimum(threads - 1, (middles * threads / each.sum()).astype(np.int64))
        steps.insert(0, ComputeSet("", (Segment(BESIDE_VERTEX, items, tiles),)))
    return Program(tuple(steps), shared, threads, max(program.arena_bytes for program in held),
                   max(program.workspace_bytes for program in held), tuple(tables)).executable(threads)
