"""A report's charts: memory by tile and by kind, liveness within a program, cycles by phase, balance, the trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..planner.facts import Load, PlanFacts, TileMemory
from .chart import Axis, Lane, Layer, Slice, StackChart, Timeline
from .records import KINDS, Operation, Report, moves
from .verdict import amount, duration, fullest

__all__ = ["colours", "liveness", "load_chart", "memory_by_kind", "memory_by_tile", "memory_of_all", "phases", "times",
           "traces"]

_STEPS = 128  # of a chart over tiles or operations
_KIND_COLOURS = {"operands": 0, "results": 2, "temporaries": 1}
_OTHERS = 7
_NEAR = 3.0  # times what is held: a level farther off is told in words and left out

_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes"))


def colours(report: Report) -> list[int]:
    """Return a colour for each operation: its own for the ops that take most time, one for all others."""
    order = [report.operations[i].op for i in sorted(range(len(report.operations)), key=lambda i: -report.seconds[i])]
    own = {op: place for place, op in enumerate(list(dict.fromkeys(order))[:_OTHERS])}
    return [own.get(op.op, _OTHERS) for op in report.operations]


def _stacked(title: str, label: str, kinds: dict[str, np.ndarray[Any, Any]], room: int,
             names: Sequence[str] = ()) -> StackChart:
    """Memory by kind along something; several neighbours are the one of them that holds most."""
    total = sum(kinds.values(), np.zeros(1, np.int64))
    edges = np.unique(np.linspace(0, total.size, min(total.size, _STEPS) + 1).astype(int))
    chosen = [int(first + np.argmax(total[first:end])) for first, end in pairwise(edges)]
    layers = {kind: held[chosen].tolist() for kind, held in kinds.items()}
    named = [names[i] for i in chosen] if names else [f"{label} {i}" for i in chosen]
    return _memory(title, label, edges.tolist(), layers, named, {"a tile has": room})


def _memory(title: str, label: str, edges: list[float], kinds: dict[str, list[int]], names: list[str],
            levels: dict[str, int]) -> StackChart:
    """Memory by kind, in the unit that suits it, with the levels that are near."""
    top = max(map(sum, zip(*kinds.values(), strict=True)), default=0)
    unit, name = next((size, name) for size, name in _UNITS if top >= 2 * size or size == 1)
    layers = [Layer(kind, [size / unit for size in sizes], _KIND_COLOURS[kind]) for kind, sizes in kinds.items()]
    near = {said: size / unit for said, size in levels.items() if 0 < size <= _NEAR * top}
    return StackChart(title, Axis(label, write=_whole), Axis(name), edges, layers, names, near)


def _whole(value: float) -> str:
    """Write a tick of a count; ticks between whole numbers are not named."""
    return f"{value:,.0f}" if abs(value - round(value)) < 1e-6 else ""


def memory_by_tile(memory: TileMemory, room: int) -> StackChart:
    """Return the memory of an operation on each tile."""
    return _stacked("Memory by tile", "tile", {kind: memory.on_tiles(kind) for kind in KINDS}, room)


def memory_of_all(report: Report) -> StackChart | None:
    """Return what each tile holds in the operation in which it holds most."""
    memories = [op.plan.memory for op in report.operations if op.plan.memory is not None]
    sizes = {memory.in_all().size for memory in memories}
    if len(sizes) != 1:
        return None
    total = np.stack([memory.in_all() for memory in memories])
    most, tiles = total.argmax(axis=0), np.arange(total.shape[1])
    kinds = {kind: np.stack([memory.on_tiles(kind) for memory in memories])[most, tiles] for kind in KINDS}
    room = max(op.plan.tile_bytes for op in report.operations)
    return _stacked("Memory by tile: the most that any operation holds", "tile", kinds, room)


def memory_by_kind(report: Report) -> StackChart:
    """Return the memory of each operation, in the order of their first calls: its fullest tile's, or this machine's."""
    subjects = sorted(report.subjects())
    names: list[str] = []
    kinds = {kind: np.zeros(len(subjects), np.int64) for kind in KINDS}
    for place, i in enumerate(subjects):
        held = _held(report, i)
        names.append(report.names[i])
        for kind in KINDS:
            kinds[kind][place] = held[kind]
    room = max((report.operations[i].plan.tile_bytes for i in subjects), default=0)
    title = "Memory by kind: the fullest tile of each operation" if report.modelled else "Memory by kind"
    return _stacked(title, "operation", kinds, room, names)


def _held(report: Report, i: int) -> dict[str, int]:
    held, op = fullest(report, i), report.operations[i]
    if held is not None:
        return held.kinds
    return {"operands": op.read_bytes, "results": op.written_bytes, "temporaries": op.temporary_bytes or 0}


def liveness(report: Report, i: int) -> StackChart:
    """Return what lives in each phase of an operation's program: on the fullest tile, or on this machine."""
    op, held = report.operations[i], _held(report, i)
    plan = op.plan
    if op.modelled and plan.phases:
        steps = [(p.name, p.cycles * p.times, live) for p, live in zip(plan.phases, plan.live, strict=True) if p.cycles]
        label, room = f"cycle on {plan.machine}; before and after are drawn beside", plan.tile_bytes
    else:
        steps, room = [("the program", 100, held["temporaries"])], 0
        label = "time, % of the call; before and after are drawn beside"
    whole = sum(length for _, length, _ in steps) or 1
    aside = whole * 0.06
    edges = [-aside, *np.cumsum([0, *(length for _, length, _ in steps)]).tolist(), whole + aside]
    inner = len(steps)
    kinds = {"operands": [held["operands"]] * (inner + 2), "results": [0, *[held["results"]] * (inner + 1)],
             "temporaries": [0, *(size for _, _, size in steps), 0]}
    names = ["before", *(name for name, _, _ in steps), "after"]
    levels = {"a tile has": room, "limit on temporaries, on top of the rest":
              0 if plan.limit is None else plan.limit + held["operands"] + held["results"]}
    return _memory("Liveness within the program", label, edges, kinds, names, levels)


def phases(plan: PlanFacts) -> Timeline:
    """Return the phases of a modelled operation, one after another."""
    slices, at, keys = [], 0, {}
    for p in plan.phases:
        colour = int(moves(p.name))
        keys["moving" if colour else "computing"] = colour
        slices.append(Slice(at, at + p.cycles * p.times, p.name, colour))
        at += p.cycles * p.times
    return Timeline("Cycles by phase", Axis("cycle", write=_whole), [Lane("", slices)], keys)


def load_chart(name: str, load: Load) -> StackChart:
    """Return how evenly work is dealt out: the most of any of some neighbours, along the parts."""
    edges = np.linspace(0, load.parts, len(load.bins) + 1).tolist()
    levels = {"mean of those used": load.total / load.used} if load.used else {}
    work, _, part = name.partition(" of a ")
    label = work if load.parts == len(load.bins) else f"{work}, the most of {part}s that are neighbours"
    return StackChart(f"Balance: {name}", Axis(part, write=_whole), Axis("", write=_count), edges,
                      [Layer(label, list(load.bins), 3)], levels=levels)


def _count(value: float) -> str:
    return amount(value, "").replace(" ", "")


def times(title: str, report: Report, chosen: Sequence[int]) -> Lane:
    """Return operations one after another, those that take most time first, as a lane."""
    slices, at, own = [], 0.0, colours(report)
    for i in chosen:
        slices.append(Slice(at, at + report.seconds[i], report.names[i], own[i]))
        at += report.seconds[i]
    return Lane(f"{title}: {duration(at)}", slices)


def traces(report: Report) -> Iterator[Timeline]:
    """Yield the execution trace: of the modelled machine, and of this machine's threads."""
    own = colours(report)
    keys = {report.operations[i].op: own[i] for i in range(len(own)) if own[i] < _OTHERS}
    keys |= {"others": _OTHERS} if _OTHERS in own else {}
    clock = Axis("time", write=duration)
    if report.modelled:
        yield Timeline("As modelled", clock, list(_modelled(report, own)), keys, wide=True)
    lanes = []
    for number, name in enumerate(report.threads):
        calls = sorted((call for call in report.calls if call.thread == number), key=lambda call: call.start)
        lanes.append(Lane(f"thread {name}", [
            Slice(call.start, call.end, report.operations[call.operation].op, own[call.operation]) for call in calls]))
    title = "Here: the model's program run on this CPU" if report.modelled else "On this CPU"
    yield Timeline(title, clock, lanes, {} if report.modelled else keys, wide=True)


def _modelled(report: Report, own: Sequence[int]) -> Iterator[Lane]:
    """Lanes of a modelled machine: operations, what computes, what exchanges."""
    lanes: dict[str, list[Slice]] = {"operations": [], "computing": [], "exchanging and moving": []}
    at = 0.0
    for call in report.calls:
        op: Operation = report.operations[call.operation]
        if not op.modelled:
            continue
        end = at + op.plan.modelled_seconds
        lanes["operations"].append(Slice(at, end, op.op, own[call.operation]))
        for p in op.plan.phases:
            spent = p.cycles * p.times / op.plan.clock_hz
            lane = lanes["exchanging and moving" if moves(p.name) else "computing"]
            lane.append(Slice(at, at + spent, p.name, own[call.operation]))
            at += spent
        at = end
    yield from (Lane(label, slices) for label, slices in lanes.items())
