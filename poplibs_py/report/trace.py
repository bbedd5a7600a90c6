"""A report as a trace that Perfetto and Chrome open: the Trace Event Format, in JSON.

Each thread of this machine is a track; a call's phases nest within it. A modelled machine is a process of its own,
whose operations follow each other at its clock: a track of operations with their phases, one of computing, one of
exchanging, and counters of the memory of the fullest tile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .records import KINDS, Operation, Report, moves
from .verdict import fullest

__all__ = ["trace_json", "trace_of"]

Event = dict[str, Any]

_HERE, _MODELLED = 1, 2
_OPERATIONS, _COMPUTE, _EXCHANGE = range(3)
_TRACKS = ("operations", "compute", "exchange")


def trace_json(report: Report) -> str:
    """Return the trace as text."""
    return json.dumps(trace_of(report), separators=(",", ":"))


def trace_of(report: Report) -> dict[str, Any]:
    """Return the trace: times are in microseconds."""
    events = list(_here(report))
    if report.modelled:
        events += _modelled(report)
    return {"traceEvents": events, "displayTimeUnit": "ns",
            "otherData": {"title": report.title, "made": report.made, "poplibs_py": report.library}}


def _named(process: int, name: str, tracks: tuple[str, ...]) -> Iterator[Event]:
    yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
    yield {"ph": "M", "name": "process_sort_index", "pid": process, "args": {"sort_index": -process}}
    for thread, track in enumerate(tracks):
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": track}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": process, "tid": thread, "args": {"sort_index": thread}}


def _slice(process: int, thread: int, name: str, start: float, end: float, category: str, **more: Any) -> Event:
    """A slice, from one whole nanosecond to another: what nests or follows still does when it is rounded."""
    first, last = round(start * 1e9), round(end * 1e9)
    return {"ph": "X", "name": name, "cat": category, "pid": process, "tid": thread, "ts": first / 1e3,
            "dur": (last - first) / 1e3, "args": {key: value for key, value in more.items() if value not in (None, "")}}


def _told(op: Operation) -> dict[str, Any]:
    return {"what": op.what, "kernel": op.kernel, "flops": op.flops, "bytes_read": op.read_bytes,
            "bytes_written": op.written_bytes, "temporary_bytes": op.temporary_use, "limit": op.plan.limit,
            "ran here because": op.lacking}


def _here(report: Report) -> Iterator[Event]:
    """This machine's threads."""
    yield from _named(_HERE, f"This CPU: {report.machine}", report.threads)
    for call in report.calls:
        op = report.operations[call.operation]
        yield _slice(_HERE, call.thread, op.op, call.start, call.end, "op", **_told(op))
        at = call.start
        for name, seconds in call.phases.items():
            end = min(at + seconds, call.end)
            yield _slice(_HERE, call.thread, name, at, end, "phase")
            at = end


def _modelled(report: Report) -> Iterator[Event]:
    """The modelled machine's operations, one after another at its clock."""
    yield from _named(_MODELLED, f"{report.where}, modelled", _TRACKS)
    held = [fullest(report, i) for i in range(len(report.operations))]
    at = 0.0
    for call in report.calls:
        op, most = report.operations[call.operation], held[call.operation]
        plan = op.plan
        if not op.modelled:
            continue
        end = at + plan.modelled_seconds
        yield _slice(_MODELLED, _OPERATIONS, op.op, at, end, "op", **_told(op), cycles=plan.cycles,
                     exchanged_bytes=op.exchanged_bytes, decisions=plan.decisions)
        if most is not None:
            yield _counter(at, most.kinds)
        for phase in plan.phases:
            done = min(at + phase.cycles * phase.times / plan.clock_hz, end)
            track = _EXCHANGE if moves(phase.name) else _COMPUTE
            for thread in (_OPERATIONS, track):
                yield _slice(_MODELLED, thread, phase.name, at, done, "phase", cycles=phase.cycles,
                             times=phase.times)
            at = done
        at = end
    yield _counter(at, dict.fromkeys(KINDS, 0))


def _counter(at: float, kinds: dict[str, int]) -> Event:
    return {"ph": "C", "name": "fullest tile, bytes", "pid": _MODELLED, "tid": 0, "ts": at * 1e6, "args": kinds}
