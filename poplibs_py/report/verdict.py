"""What a report says in words: what takes most time and why, which tile is fullest, what fits, what memory bought."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np

from .records import KINDS, Operation, Report

__all__ = ["Fullest", "amount", "bought", "duration", "fullest", "headline", "rates", "traded", "trades", "why"]

_MOST_OF = 0.5  # of a peak or of bandwidth: what reaches so much is bound by it
_MEMORY_NOTE = "operands, results and temporaries are counted; code and vertices' state are not"


def duration(seconds: float) -> str:
    """Write a time with the unit that suits it.

    Examples
    --------
    >>> duration(1.5e-6), duration(0.25), duration(12.0)
    ('1.5 us', '250 ms', '12 s')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale * 0.9995:
            return f"{seconds / scale:.3g} {unit}" if seconds / scale < 999.5 else f"{seconds / scale:,.0f} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def amount(count: float | None, unit: str = "B") -> str:
    """Write bytes or rates with a prefix: of two to the tenth for bytes, of a thousand otherwise.

    Examples
    --------
    >>> amount(1536), amount(2.5e12, "FLOP/s"), amount(None)
    ('1.5 KiB', '2.5 TFLOP/s', '')
    """
    if count is None:
        return ""
    step, prefixes = (1024.0, ("", "Ki", "Mi", "Gi", "Ti")) if unit == "B" else (1000.0, ("", "k", "M", "G", "T"))
    for prefix in prefixes:
        if abs(count) < 999.5 or prefix == prefixes[-1]:
            break
        count /= step
    return f"{count:.3g} {prefix}{unit}"


def rates(op: Operation, seconds: float, count: int, peaks: dict[str, float]) -> tuple[float, float]:
    """Return operations in a second, and their share of the peak: of the modelled machine, of this CPU's threads."""
    if not op.flops or not seconds:
        return 0.0, 0.0
    rate = op.flops * count / seconds
    unit = "bfloat16" if op.plan.compute_format in ("bfloat16", "float16") and "bfloat16" in peaks else "float32"
    peak = op.plan.peak_flops if op.modelled else peaks.get(unit, 0.0) * op.threads
    return rate, rate / peak if peak else 0.0


def why(report: Report, i: int) -> str:
    """Return where an operation's time goes."""
    op, seconds, count = report.operations[i], report.seconds[i], report.counts[i]
    rate, share = rates(op, seconds, count, report.peaks)
    if op.modelled:
        return _why_modelled(op, rate, share)
    moved = (op.read_bytes + op.written_bytes) * count / seconds if seconds else 0.0
    memory = moved / report.peaks["memory"] if report.peaks.get("memory") else 0.0
    traffic = f"{amount(moved, 'B')}/s of operands and result" + f", {memory:.0%} of what copies reach" * bool(memory)
    if not rate:
        return f"it moves {traffic}; kernel {op.kernel}"
    words = f"{amount(rate, 'FLOP/s')}, {share:.0%} of the peak of {_threads(op)}; {traffic}"
    bound = ("arithmetic bounds it" if share >= _MOST_OF and share >= memory else
             "memory traffic bounds it" if memory >= _MOST_OF else
             "neither peak nor bandwidth is reached: overheads, packing or caches bound it")
    return f"{bound}: {words}; kernel {op.kernel}"


def _why_modelled(op: Operation, rate: float, share: float) -> str:
    plan = op.plan
    spent = sorted(((p.cycles * p.times, p.name) for p in plan.phases), reverse=True)[:3]
    parts = ", ".join(f"{name} {cycles / max(1, plan.cycles):.0%}" for cycles, name in spent if cycles)
    words = f"of its {plan.cycles:,} cycles: {parts}"
    if rate:
        words += f"; {amount(rate, 'FLOP/s')}, {share:.0%} of the machine's peak for the type"
    uneven = [(load, name) for name, load in op.loads.items() if load.most and load.balance < 0.9]
    words += "".join(f"; {name}: {load.balance:.0%} balanced" for load, name in uneven)
    return words


def _threads(op: Operation) -> str:
    return f"{op.threads} thread{'s' * (op.threads > 1)}"


@dataclasses.dataclass(frozen=True)
class Fullest:
    """The tile that holds most in an operation.

    Attributes
    ----------
    operation, tile : int
    kinds : dict of str to int
        Bytes of each kind on it.
    """

    operation: int
    tile: int
    kinds: dict[str, int]

    @property
    def bytes(self) -> int:
        """In all."""
        return sum(self.kinds.values())


def fullest(report: Report, i: int | None = None) -> Fullest | None:
    """Return the fullest tile of an operation, or of all; None where nothing lies on modelled tiles."""
    found: Fullest | None = None
    for j in range(len(report.operations)) if i is None else (i,):
        memory = report.operations[j].plan.memory
        if memory is None:
            continue
        tile = int(np.argmax(memory.in_all()))
        held = Fullest(j, tile, {kind: int(memory.on_tiles(kind)[tile]) for kind in KINDS})
        if found is None or held.bytes > found.bytes:
            found = held
    return found


def _memory_words(report: Report) -> str:
    """Return whether everything fits, and how closely."""
    large = [i for i, op in enumerate(report.operations) if not op.fits]
    if large:
        names = "; ".join(_misfit(report, i) for i in large[:3]) + f"; and {len(large) - 3} more" * (len(large) > 3)
        return f"no: {names}"
    limited = [(op.temporary_use / op.plan.limit, i) for i, op in enumerate(report.operations)
               if op.plan.limit and op.temporary_use is not None]
    words = "yes: "
    if report.modelled:
        words += "each operation fits the tiles"
        words += " and keeps to its limit on temporaries" * bool(limited)
    else:
        words += "every limit on temporary memory is kept" if limited else "no limit on temporary memory was set"
    if limited:
        share, i = max(limited)
        words += f"; closest is {report.names[i]} at {share:.0%} of its {amount(report.operations[i].plan.limit)}"
    return words + f" ({_MEMORY_NOTE})" * report.modelled


def _misfit(report: Report, i: int) -> str:
    op = report.operations[i]
    plan, used = op.plan, op.temporary_use or 0
    if plan.limit is not None and used > plan.limit:
        return f"{report.names[i]} takes {used:,} temporary bytes of {plan.limit:,} allowed"
    assert plan.memory is not None
    return f"{report.names[i]} needs {int(plan.memory.in_all().max()):,} bytes of a tile's {plan.tile_bytes:,}"


def headline(report: Report) -> Iterator[tuple[str, str]]:
    """The answers to what is asked first: a question, and the answer in words."""
    subjects = report.subjects()
    if not subjects:
        return
    first = subjects[0]
    seconds = sum(report.seconds[i] for i in subjects)
    clock = f"a modelled {report.where}" if report.modelled else report.where
    times = f"{report.counts[first]} calls, " * (report.counts[first] > 1)
    yield "Most time", (f"{report.names[first]}: {times}{duration(report.seconds[first])}, "
                        f"{report.share(first):.0%} of {duration(seconds)} on {clock}")
    yield "Why", why(report, first)
    ops = _by_op(report, subjects)
    if len(ops) > 1:
        yield "By op", ", ".join(f"{name} {duration(spent)} ({spent / (seconds or 1):.0%})" for name, spent in ops[:6])
    held = fullest(report)
    if held is not None:
        room = report.operations[held.operation].plan.tile_bytes
        kinds = ", ".join(f"{kind} {amount(size)}" for kind, size in held.kinds.items())
        yield "Fullest tile", (f"tile {held.tile} in {report.names[held.operation]}: {amount(held.bytes)} of "
                               f"{amount(room)}, {held.bytes / room:.0%} ({kinds})")
    else:
        most = max(range(len(report.operations)), key=lambda i: report.operations[i].temporary_bytes or 0)
        used = report.operations[most]
        yield "Most temporary memory", f"{report.names[most]}: {amount(used.temporary_bytes or 0)}, on {_threads(used)}"
    yield "Does it fit?", _memory_words(report)
    groups = [group for group in trades(report) if group[0] in subjects]
    if groups:
        yield "What memory bought", traded(report, groups[0])
    away = [op.lacking for op in report.operations if op.lacking and report.target != "host"]
    if away:
        reasons = list(dict.fromkeys(away))
        yield f"Not on {report.target}", (f"{len(away)} of {len(report.operations)} operations ran on this CPU: "
                                          + "; ".join(reasons[:3]) + " …" * (len(reasons) > 3))


def _by_op(report: Report, subjects: Sequence[int]) -> list[tuple[str, float]]:
    """Seconds of all operations of each op, those that take most first."""
    spent: dict[str, float] = {}
    for i in subjects:
        name = report.operations[i].op
        spent[name] = spent.get(name, 0.0) + report.seconds[i]
    return sorted(spent.items(), key=lambda pair: -pair[1])


def trades(report: Report) -> list[list[int]]:
    """Return operations that are one problem on one machine under several limits on temporaries, the least first."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for i, op in enumerate(report.operations):
        if _allowed(op) is not None:
            groups.setdefault((op.op, op.what, op.plan.problem, op.plan.machine), []).append(i)
    found = ([(_allowed(report.operations[i]), i) for i in group] for group in groups.values())
    return [[i for _, i in sorted(group)] for group in found if len({allowed for allowed, _ in group}) > 1]


def _allowed(op: Operation) -> float | None:
    """A modelled tile's proportion of memory for temporaries, or the bytes that are allowed on this CPU."""
    if op.modelled:
        return float(op.plan.settings["proportion"]) if "proportion" in op.plan.settings else None
    return math.inf if op.plan.limit is None else op.plan.limit


def _allowance(op: Operation) -> str:
    """Return how much memory temporaries may take, in words."""
    if op.modelled:
        return f"proportion {op.plan.settings.get('proportion', '')}"
    return f"limit {amount(op.plan.limit)}" if op.plan.limit is not None else "no limit"


def bought(before: Operation, after: Operation, seconds: Sequence[float]) -> str:
    """Return what one operation gained or lost by another limit on temporaries, or nothing where that is the same.

    Parameters
    ----------
    before, after : Operation
    seconds : sequence of float
        Of a call of each.
    """
    a, b = before.plan, after.plan
    allowed = _allowed(before), _allowed(after)
    if a.machine != b.machine or allowed[0] == allowed[1] or None in allowed or not all(seconds):
        return ""
    if before.modelled:
        change = b.cycles / a.cycles - 1
        gain = f"{abs(change):.1%} {'fewer' if change < 0 else 'more'} cycles ({a.cycles:,} to {b.cycles:,})"
        gain, where = gain if change else "no cycle", "on the fullest tile"
    else:
        change = seconds[1] / seconds[0] - 1
        times = " to ".join(map(duration, seconds))
        gain = f"{abs(change):.0%} {'less' if change < 0 else 'more'} time a call ({times})"
        where = "of all threads"
    return (f"{before.name}: from {_allowance(before)} to {_allowance(after).removeprefix('proportion ')}, {gain}, for "
            f"{amount(after.temporary_use)} of temporaries {where} in place of {amount(before.temporary_use)}")


def traded(report: Report, group: Sequence[int]) -> str:
    """Return what the largest limit of a group of `trades` bought."""
    least, most = group[0], group[-1]
    return bought(report.operations[least], report.operations[most],
                  [report.call_seconds(i) for i in (least, most)])
