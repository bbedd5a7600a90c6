"""A report as a page, in the spirit of PopVision's Graph Analyser: summary, comparison, memory, trace, operations."""

from __future__ import annotations

from collections.abc import Iterator

from .chart import Axis, Timeline
from .comparison import HEADS, Comparison
from .drawn import (
    liveness,
    load_chart,
    memory_by_kind,
    memory_by_tile,
    memory_of_all,
    phases,
    times,
    traces,
)
from .page import Chart, Entry, Page
from .records import Operation, Report
from .verdict import amount, duration, fullest, headline, rates, traded, trades, why

__all__ = ["page_of"]

_NOTE = ("Operands, results and temporaries are counted where they lie on the tiles. Code and the state of vertices "
         "are not counted. Between calls nothing stays on a tile: it holds one operation at a time.")
_OPEN = 24
"""Rows of a table that is open to begin with."""

_NOTE_HERE = ("Operands and results lie in this machine's memory, each once. Temporaries are what a call takes beside "
              "them, for all threads together; code is not counted.")


def page_of(report: Report, against: Report | None = None) -> str:
    """Return the page of a report, beside another one that came before it."""
    page = Page(f"{report.title} on {report.where}")
    page.paragraph(f"{report.made}, poplibs_py {report.library}, {report.machine}", soft=True)
    if not report.calls:
        page.paragraph("Nothing ran.")
        return page.html()
    page.facts(list(_facts(report)))
    page.pairs(list(headline(report)))
    if against is not None:
        _comparison(page, Comparison(against, report))
    _trades(page, report)
    _memory(page, report)
    page.heading("Execution trace")
    if report.modelled:
        page.paragraph("Modelled operations follow each other, each in its phases; one that repeats for the turns of a "
                       "loop is drawn once, as long as all of them.", soft=True)
    page.charts(list(traces(report)))
    page.heading("Operations")
    rest = [i for i in range(len(report.operations)) if report.operations[i].modelled != report.modelled]
    chosen = [*report.subjects(), *sorted(rest, key=lambda i: -report.seconds[i])]
    page.paragraph("A click opens an operation: why it takes its time, its plan, memory, liveness and balance.",
                   soft=True)
    page.entries([_entry(report, i, place) for place, i in enumerate(chosen)],
                 ("time", "first call", "temporary bytes", "rate"))
    return page.html()


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    subjects = report.subjects()
    seconds = sum(report.seconds[i] for i in subjects)
    yield duration(seconds), "modelled, all operations" if report.modelled else "in operations, on this CPU"
    cycles = sum(report.operations[i].plan.cycles * report.counts[i] for i in subjects)
    if cycles:
        exchange = sum(report.operations[i].plan.exchange_cycles * report.counts[i] for i in subjects)
        yield f"{cycles:,}", "cycles"
        yield f"{exchange / cycles:.0%}", "of them exchange"
    flops = sum((report.operations[i].flops or 0) * report.counts[i] for i in subjects)
    if flops and seconds:
        yield amount(flops / seconds, "FLOP/s"), "multiplications and additions of products"
    calls = sum(report.counts[i] for i in subjects)
    yield f"{len(subjects):,}", f"operation{'s' * (len(subjects) != 1)}, {calls:,} call{'s' * (calls != 1)}"
    held = fullest(report)
    if held is not None:
        room = report.operations[held.operation].plan.tile_bytes
        yield f"{held.bytes / room:.0%}", f"of the fullest tile, {held.tile}, in use"
    else:
        yield amount(max(op.temporary_bytes or 0 for op in report.operations)), "most temporary memory of a call"
    yield ("fits" if all(op.fits for op in report.operations) else "DOES NOT FIT"), "memory, limits on temporaries"


def _comparison(page: Page, comparison: Comparison) -> None:
    page.heading("Compared: A before, B this report")
    page.pairs(list(comparison.headline()))
    before, after = comparison.before, comparison.after
    lanes = [times("A", before, before.subjects()), times("B", after, after.subjects())]
    page.charts([Timeline("Time of all operations", Axis("time", write=duration), lanes, wide=True)])
    rows = list(comparison.rows())
    summary = f"{len(rows)} operation{'s' * (len(rows) != 1)} side by side"
    page.table(HEADS, rows, summary=summary, is_open=len(rows) <= _OPEN)


def _trades(page: Page, report: Report) -> None:
    """Operations that are one problem under several limits on temporaries."""
    groups = [group for group in trades(report) if report.operations[group[0]].modelled == report.modelled]
    if not groups:
        return
    page.heading("What memory bought")
    page.paragraph("One problem under several proportions of a tile's memory for temporaries." if report.modelled else
                   "One problem under several limits on temporary memory, timed as it ran here.", soft=True)
    for group in groups:
        page.paragraph(traded(report, group) + ".")
        heads, rows = _TRADE_HEADS[report.modelled], []
        for i in group:
            op, held = report.operations[i], fullest(report, i)
            plan, time = op.plan, duration(report.call_seconds(i))
            rows.append((plan.settings["proportion"], f"{plan.cycles:,}", time, amount(op.temporary_use),
                         amount(plan.limit), amount(held.bytes) if held else "", plan.decisions.get("turns", ""))
                        if report.modelled else
                        (amount(plan.limit) or "none", time, amount(op.temporary_use), op.kernel))
        page.table(heads, rows, summary=report.operations[group[0]].name, is_open=True)


_TRADE_HEADS = (("limit", "time a call", "temporaries", "kernel"),
                ("proportion", "cycles", "time", "temporaries", "limit", "fullest tile", "turns"))


def _memory(page: Page, report: Report) -> None:
    page.heading("Memory")
    page.paragraph(_NOTE if report.modelled else _NOTE_HERE, soft=True)
    by_tile = memory_of_all(report)
    page.charts([*([] if by_tile is None else [by_tile]), memory_by_kind(report)])


def _entry(report: Report, i: int, place: int) -> Entry:
    op, count = report.operations[i], report.counts[i]
    rate, _ = rates(op, report.seconds[i], count, report.peaks)
    is_subject = op.modelled == report.modelled
    share = f"{report.share(i):.1%}" if is_subject else "on this CPU"
    figures = (f"{count:,} call{'s' * (count != 1)}", duration(report.seconds[i]), share)
    body = Page("")
    _operation(body, report, i)
    return Entry(report.names[i], figures, report.share(i) if is_subject else 0.0,
                 (-place, -i, op.temporary_use or 0, rate), body)


def _operation(body: Page, report: Report, i: int) -> None:
    """What an entry holds."""
    op = report.operations[i]
    plan = op.plan
    body.paragraph(f"Time goes: {why(report, i)}.")
    if op.lacking:
        body.paragraph(f"It ran on this CPU, not on {report.target}: {op.lacking}.")
    charts: list[Chart] = [phases(plan)] if plan.phases else []
    charts += [] if plan.memory is None else [memory_by_tile(plan.memory, plan.tile_bytes)]
    body.charts([*charts, liveness(report, i)])
    body.pairs(list(_figures(report, op, i)))
    if plan.decisions:
        body.pairs([*plan.decisions.items(), *plan.settings.items()])
    if plan.phases:
        rows = [(p.name, f"{p.cycles:,}", str(p.times), f"{p.bytes:,}") for p in plan.phases]
        body.table(("phase", "cycles", "times", "temporary bytes"), rows, summary="Phases", is_open=True)
    for own in plan.tables:
        body.table(own.heads, own.rows, summary=own.title, is_open=True)
    if op.loads:
        body.charts([load_chart(name, load) for name, load in op.loads.items() if load.most > load.least])
        body.table(("balance of", "used", "parts", "most", "least", "mean over most"), [
            (name, f"{load.used:,}", f"{load.parts:,}", f"{load.most:,}", f"{load.least:,}", f"{load.balance:.1%}")
            for name, load in op.loads.items()], summary="Balance", is_open=True)
    if plan.considered:
        here = " on this CPU" * op.modelled
        body.table(("kernel", "verdict"), plan.considered, summary=f"Kernels that were considered{here}", is_open=True)


def _figures(report: Report, op: Operation, i: int) -> Iterator[tuple[str, str]]:
    plan, count = op.plan, report.counts[i]
    rate, share = rates(op, report.seconds[i], count, report.peaks)
    if plan.problem:
        yield "problem", plan.problem
    yield "kernel", op.kernel
    if plan.cycles:
        yield "modelled", (f"{plan.cycles:,} cycles, {duration(plan.modelled_seconds)} at {plan.clock_hz / 1e9:g} GHz; "
                           f"exchange {plan.exchange_cycles:,} cycles")
    yield "here", f"{duration(report.wall_seconds[i] / max(1, count))} a call on {op.threads} threads of this CPU"
    if rate:
        yield "rate", f"{amount(op.flops, 'FLOP')} a call, {amount(rate, 'FLOP/s')}, {share:.1%} of the peak"
    moved = f"{op.read_bytes:,} read, {op.written_bytes:,} written"
    yield "bytes", moved + (f"; tiles receive {op.exchanged_bytes:,}" if op.exchanged_bytes is not None else "")
    if op.temporary_use is not None:
        allowed = "no limit" if plan.temporaries is None else plan.temporaries.allowed
        where = "on the tile that needs most" if op.modelled else "of all threads"
        yield "temporaries", f"{op.temporary_use:,} bytes {where}, {allowed}"
    held = fullest(report, i)
    if held is not None:
        kinds = ", ".join(f"{kind} {size:,}" for kind, size in held.kinds.items())
        fits = "fits" if op.fits else "DOES NOT FIT"
        yield "fullest tile", f"{held.tile}: {held.bytes:,} of {plan.tile_bytes:,} bytes ({kinds}): {fits}"
