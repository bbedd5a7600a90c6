"""A report as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .records import Report
from .tables import pairs, table
from .verdict import amount, duration, fullest, headline, rates

__all__ = ["summary_of"]


def summary_of(report: Report, *, details: bool = False) -> str:
    """Return a report's summary: operations by time, and what stands out.

    Parameters
    ----------
    report : Report
    details : bool, optional
        Add each operation's phases, decisions and reasons.
    """
    if not report.calls:
        return "nothing ran"
    return "\n\n".join(_parts(report, details))


def _parts(report: Report, details: bool) -> Iterator[str]:
    subjects = report.subjects()
    others = sorted(set(range(len(report.operations))) - set(subjects), key=lambda i: -report.seconds[i])
    yield pairs(headline(report))
    yield _operations(report, subjects)
    if others:
        yield f"on this CPU, not on {report.where}:\n" + _operations(report, others)
    if details:
        yield from (_details(report, i) for i in (*subjects, *others))


def _operations(report: Report, chosen: Sequence[int]) -> str:
    modelled = report.operations[chosen[0]].modelled
    heads = ["operation", "calls", "time", "share", "cycles", "rate", "of peak", "exchanged", "temporary", "limit",
             "fullest tile"] if modelled else [
        "operation", "calls", "time", "share", "rate", "of peak", "read and written", "temporary", "limit", "kernel"]
    lacking = any(report.operations[i].lacking for i in chosen)
    return table([*heads, *["why here"] * lacking], [_row(report, i, modelled, lacking) for i in chosen])


def _row(report: Report, i: int, modelled: bool, lacking: bool) -> list[str]:
    op, seconds = report.operations[i], report.seconds[i]
    rate, share = rates(op, seconds, report.counts[i], report.peaks)
    row = [report.names[i], f"{report.counts[i]:,}", duration(seconds), f"{report.share(i):.1%}"]
    speed = [amount(rate, "FLOP/s") if rate else "", f"{share:.1%}" if share else ""]
    limits = [amount(op.temporary_use), amount(op.plan.limit)]
    if not modelled:
        moved = amount(op.read_bytes + op.written_bytes)
        return [*row, *speed, moved, *limits, op.kernel, *[op.lacking] * lacking]
    held = fullest(report, i)
    full = f"{held.tile}: {amount(held.bytes)}, {held.bytes / op.plan.tile_bytes:.1%}" if held else ""
    return [*row, f"{op.plan.cycles:,}", *speed, amount(op.exchanged_bytes), *limits, full, *[op.lacking] * lacking]


def _details(report: Report, i: int) -> str:
    """An operation's decisions, phases, tables, and the kernels that were considered."""
    op, plan = report.operations[i], report.operations[i].plan
    parts = [report.names[i], pairs((*plan.decisions.items(), *plan.settings.items()))]
    if plan.phases:
        parts.append(table(["phase", "cycles", "times", "temporary"], [
            [p.name, f"{p.cycles:,}", str(p.times), amount(p.bytes) if p.bytes else ""] for p in plan.phases]))
    if op.loads:
        parts.append(table(["balance", "used", "most", "least", "mean of most"], [
            [name, f"{load.used:,} of {load.parts:,}", f"{load.most:,}", f"{load.least:,}", f"{load.balance:.1%}"]
            for name, load in op.loads.items()]))
    parts += [table(own.heads, own.rows) for own in plan.tables]
    if plan.considered:
        parts.append(table(["kernel considered", "verdict"], plan.considered))
    return "\n".join(filter(None, parts))
