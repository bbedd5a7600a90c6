"""The HTML page of a sweep."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from ...checks import all_of
from ..chart import LineChart, reciprocal, same_scale
from ..conditions import Conditions
from ..page import Page
from . import charts
from .machine import machine_heads, machine_rows, measured_here, run_on_machine
from .record import COLUMNS, OURS, Record, csv_text
from .summary import Spread, commonest, headline, how_it_was_run, percent, spread_of, static_rows, times

_VERSUS = {"x_dense": "our own dense product",
           "of_ideal": "of the ideal speed-up over our dense product, which is one over the density",
           "x_numpy": "NumPy's dense product", "x_scipy": "SciPy's fastest route, CSR or BSR",
           "x_mkl": "MKL's fastest route, dense or sparse", "x_torch": "torch's fastest route, dense or sparse"}
_MANY_ROWS = 24


def results_page(records: Sequence[Record], conditions: Conditions) -> str:
    """Return the page for some records as HTML text.

    Parameters
    ----------
    records : sequence of Record
        What was measured; an interrupted sweep's will do.
    conditions : Conditions
        What it ran on and with.
    """
    every = all_of("records", records, Record, "records")
    records, modelled = measured_here(every), run_on_machine(every)
    page = Page("Block-sparse products on this CPU" + (f" and on {modelled[0].isa}, modelled" if modelled else ""))
    ours = [r for r in records if r.library == OURS and r.valid]
    if modelled:
        _add_machine(page, every, [r for r in modelled if r.valid])
    if ours:
        _add_headline(page, records)
    page.heading("How it was run")
    page.pairs(how_it_was_run(records, conditions))
    if not ours:
        page.paragraph("Nothing was measured.")
        return page.html()
    _add_drawn(page, [r for r in records if not r.source], [r for r in ours if not r.source])
    _add_files(page, [r for r in records if r.source], [r for r in ours if r.source])
    page.heading("Every measurement")
    page.download("sparsity.csv", csv_text(every))
    page.table(COLUMNS, [_cells(record) for record in every], summary=f"{len(every)} rows")
    page.paragraph("Every answer was checked against float64 before it was timed. Methods and peers took turns within "
                   "each case.", soft=True)
    return page.html()


def _add_machine(page: Page, records: Sequence[Record], valid: Sequence[Record]) -> None:
    """The table of both, and the speed-ups of a modelled machine."""
    page.heading(f"On {run_on_machine(records)[0].isa}, modelled")
    page.paragraph("Times of dense products, and how many times faster static and dynamic ones are, on this CPU and on "
                   "the modelled machine, whose seconds are the cycles of PopLibs' plan at its clock. Every product "
                   "was computed on both and checked.")
    rows = machine_rows(records)
    page.table(machine_heads(records), rows, summary=f"{len(rows)} cases", is_open=True)
    for n in dict.fromkeys(r.n for r in valid):
        page.charts(same_scale([charts.file_by_block([r for r in valid if r.source], kind, n)
                                for kind in dict.fromkeys(r.type for r in valid)]))


def _cells(record: Record) -> list[str]:
    """The cells of a row, which names its rounds where they are few."""
    cells = record.cells()
    if record.rounds and record.few_rounds:
        cells[COLUMNS.index("rounds")] = record.few_rounds
    return cells


def _add_headline(page: Page, records: Sequence[Record]) -> None:
    """The figures of FP32 in one block size, and the table of all."""
    static = static_rows(records)
    peers = [name for name in _VERSUS if name.startswith("x_") and any(getattr(r, name) for r in static)]
    if not static or not peers:
        return
    single = [r for r in static if r.type == static[0].type]
    counts = Counter(r.block_size or 0 for r in single)
    block = max(counts, key=lambda block: (counts[block], -block if single[0].source else block))
    chosen = [r for r in single if r.block_size == block]
    page.heading(f"At a glance: static {chosen[0].type}, block {block}")
    names = charts.short_names(r.source for r in static)
    page.facts([_fact(spread, column, names) for column in _VERSUS if (spread := spread_of(chosen, column))])
    page.paragraph("Every format and block size, worst .. median .. best over its cases: times faster than our dense "
                   "product of the same format, that as a share of the ideal speed-up (1/density), and times faster "
                   "than each library's fastest route, dense or sparse, in any number type that it has.")
    heads, rows = headline(records, [name.removeprefix("x_") for name in peers if name != "x_dense"])
    page.table(heads, [["" if cell is None else str(cell) for cell in row] for row in rows],
               summary=f"{len(rows)} formats and block sizes", is_open=len(rows) <= _MANY_ROWS)


def _fact(spread: Spread, column: str, names: Mapping[str, str]) -> tuple[str, str]:
    is_share, count = column == "of_ideal", len(spread.values)
    write: Callable[[float], str] = percent if is_share else lambda value: f"{times(value)}x"
    what = _VERSUS[column] if is_share else f"as fast as {_VERSUS[column]}"
    worst, best = (f"{f'{names[r.source]}, ' * (len(names) > 1)}density {reciprocal(r.density)}, n = {r.n}"
                   for r in (spread.worst, spread.best))
    if count == 1:
        return write(spread.median), f"{what}, one case ({best})"
    return write(spread.median), (f"{what}: median of {count} cases. Worst {write(spread.values[0])} ({worst}), "
                                  f"best {write(spread.values[-1])} ({best}).")


def _add_drawn(page: Page, records: Sequence[Record], ours: Sequence[Record]) -> None:
    """The charts of patterns that were drawn: by density, block size and n."""
    _add(page, "Speed-up over dense, by density",
         "Time of our dense product over the time of the block-sparse one, in the same number type. Solid lines with "
         "dots are static patterns; paler dashed ones with squares are dynamic: a new pattern in every call.",
         _over(ours, charts.by_density))
    _add(page, "Share of the ideal speed-up", "The same speed-up over the ideal one, which is one over the density.",
         _over(ours, charts.ideal_by_density))
    _add(page, "Speed-up over dense, by block size", "", _over(ours, charts.by_block))
    _add(page, "Speed-up over dense, by n", "", _by_n(ours))
    _add(page, "Break-even", "Below this density a static block-sparse product is faster than a dense one. A triangle: "
         "faster at every density measured, so that break-even is at the greatest of them or above.",
         [charts.break_even_chart(ours, shape) for shape in _shapes(ours)])
    _add(page, "Beside the other libraries", "Each library's fastest route for the same product, dense or sparse, "
         "in any number type that it has; their sparse routes are all in FP32.",
         [charts.rate_chart(records, shape, block) for shape in _shapes(ours, 1)
          for block in sorted({r.block_size for r in ours if r.block_size})])


def _add_files(page: Page, records: Sequence[Record], ours: Sequence[Record]) -> None:
    """The charts of patterns from files: by block size, each file by its name."""
    if not ours:
        return
    files, types = list(dict.fromkeys(r.source for r in ours)), list(dict.fromkeys(r.type for r in ours))
    n = commonest(r.n for r in ours)
    _add(page, "Files: speed-up over dense, by block size",
         "Time of our dense product over the time of the block-sparse one, in the same number type. Larger blocks "
         "hold more zeros, as the chart of densities tells. Solid lines with dots are static patterns; paler dashed "
         "ones with squares are dynamic: a new pattern in every call.",
         [charts.file_by_block(ours, type_name, n) for type_name in types])
    _add(page, "Files: share of the ideal speed-up",
         "The same speed-up over the ideal one, which is one over the density of the blocks that are stored.",
         [charts.ideal_by_block(ours, type_name, n) for type_name in types])
    _add(page, "Files: density, by block size", "A block that holds any element of the file is stored whole.",
         [charts.fill_chart(ours)])
    _add(page, "Files: speed-up over dense, by n", "",
         [chart for name in files if (chart := _file_by_n(ours, name)) is not None])
    _add(page, "Files beside the other libraries", "Each library's fastest route for the same product, dense or "
         "sparse, in any number type that it has; their sparse routes are all in FP32. Less is better.",
         [charts.file_times(records, name, n) for name in files])


def _file_by_n(ours: Sequence[Record], source: str) -> LineChart | None:
    """Speed-up by n in the block size that has the most of them, where there are several."""
    columns: dict[int, set[int]] = {}
    for r in ours:
        if r.source == source and r.block_size:
            columns.setdefault(r.block_size, set()).add(r.n)
    block = max(columns, key=lambda block: (len(columns[block]), -block), default=0)
    return charts.file_by_n(ours, source, block) if len(columns.get(block, ())) > 1 else None


def _add(page: Page, heading: str, text: str, drawn: Sequence[LineChart]) -> None:
    drawn = same_scale(drawn)
    if drawn:
        page.heading(heading)
        if text:
            page.paragraph(text)
        page.charts(drawn)


def _shapes(ours: Sequence[Record], most: int = 3) -> list[charts.Shape]:
    """The sizes with the most cases, each with the n that has the most: those worth a chart."""
    counts = Counter(r.shape for r in ours if r.method != "dense")
    best: dict[tuple[int, int], tuple[int, int]] = {}
    for (m, k, n), count in counts.items():
        best[m, k] = max(best.get((m, k), (0, 0)), (count, n))
    sizes = sorted(best, key=lambda size: (-best[size][0], -size[0] * size[1]))[:most]
    return [(m, k, best[m, k][1]) for m, k in sorted(sizes)]


def _over(ours: Sequence[Record], chart: Callable[..., LineChart]) -> list[LineChart]:
    types = dict.fromkeys(r.type for r in ours)
    return [chart(ours, type_name, shape) for shape in _shapes(ours) for type_name in types]


def _by_n(ours: Sequence[Record]) -> list[LineChart]:
    drawn = []
    for m, k, _ in _shapes(ours):
        counts: dict[tuple[int, float], set[int]] = {}
        for r in ours:
            if (r.m, r.k) == (m, k) and r.block_size:
                counts.setdefault((r.block_size, r.density), set()).add(r.n)
        middle = 1 / 16
        block, density = max(counts, key=lambda key: (len(counts[key]), key[0], -abs(math.log(key[1] / middle))))
        if len(counts[block, density]) > 1:
            drawn.append(charts.by_n(ours, m, k, block=block, density=density))
    return drawn
