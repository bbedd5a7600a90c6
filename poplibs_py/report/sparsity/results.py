"""The HTML page of a sweep."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median

from ...errors import all_of
from ...kernels import _cpu, available_levels
from ..chart import LineChart, reciprocal
from ..page import Page
from ..peers import installed
from . import charts
from .cases import TYPES
from .record import COLUMNS, Record, csv_text

__all__ = ["results_page"]


def results_page(records: Sequence[Record]) -> str:
    """Return the page for some records as HTML text.

    Parameters
    ----------
    records : sequence of Record
        What was measured; an interrupted sweep's will do.
    """
    records = all_of("records", records, Record, "records")
    page = Page("Block-sparse products on this CPU")
    page.paragraph(_machine(records), soft=True)
    ours = [r for r in records if r.library == "poplibs_py" and r.valid]
    if not ours:
        page.paragraph("Nothing was measured.")
        return page.html()
    page.facts(_facts(ours))
    _add(page, "Speed-up over dense, by density",
         "Time of our dense product over the time of the block-sparse one, in the same number type. Solid lines are "
         "static patterns, dashed ones dynamic: a new pattern in every call.", _over(ours, charts.by_density))
    _add(page, "Speed-up over dense, by block size", "", _over(ours, charts.by_block))
    _add(page, "Speed-up over dense, by n", "", _by_n(ours))
    _add(page, "Break-even", "Below this density a static block-sparse product is faster than a dense one. A triangle: "
         "faster at every density measured, so that break-even is at the greatest of them or above.",
         [charts.break_even_chart(ours, shape) for shape in _shapes(ours)])
    _add(page, "Beside the other libraries", "Each library's fastest route for the same product, dense or sparse, "
         "in any number type that it has; their sparse routes are all in FP32.",
         [charts.rate_chart(records, shape, block) for shape in _shapes(ours, 1)
          for block in sorted({r.block_size for r in ours if r.block_size})])
    page.heading("Every measurement")
    page.download("sparsity.csv", csv_text(records))
    page.table(COLUMNS, [record.cells() for record in records], summary=f"{len(records)} rows")
    page.paragraph("Every answer was checked against float64 before it was timed. Methods and peers took turns within "
                   "each case; times are medians over the turns.", soft=True)
    return page.html()


def _machine(records: Sequence[Record]) -> str:
    threads = sorted({r.threads for r in records}) or [1]
    peaks: dict[str, float] = {}
    for r in records:
        peaks[r.type] = max(peaks.get(r.type, 0.0), r.peak_flop_rate or 0.0)
    rates = ", ".join(f"{name} {rate / 1e9:.0f}" for name, rate in peaks.items() if rate)
    peers = ", ".join(f"{name} {version}" for name, version in installed().items())
    return (f"{_cpu.brand() or 'Unknown CPU'}, level {available_levels()[-1]}, {'/'.join(map(str, threads))} thread"
            f"{'s' if threads != [1] else ''}. Peak measured in registers, GFLOP/s: {rates}. Beside {peers}.")


def _facts(ours: Sequence[Record]) -> list[tuple[str, str]]:
    """Medians over all block-sparse rows, and the best of them."""
    static = [r for r in ours if r.method == "static_sparse"]
    found = []
    for name, what in (("x_scipy", "SciPy"), ("x_mkl", "MKL"), ("x_torch", "torch")):
        ratios = [value for r in static if r.type == "FP32" and (value := getattr(r, name))]
        if ratios:
            what = f"over {what}'s best route, static FP32, median of {len(ratios)} cases"
            found.append((f"{median(ratios):.1f}x", what))
    for type_name in TYPES:
        rows = [r for r in static if r.type == type_name and r.x_dense]
        if rows:
            best = max(rows, key=lambda r: r.x_dense or 0.0)
            where = f"block {best.block_size}, density {reciprocal(best.density)}, n = {best.n}"
            found.append((f"{best.x_dense:.1f}x", f"over dense at best in {type_name}: {where}"))
    return found


def _add(page: Page, heading: str, text: str, drawn: Sequence[LineChart]) -> None:
    drawn = [chart for chart in drawn if not chart.is_empty()]
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
