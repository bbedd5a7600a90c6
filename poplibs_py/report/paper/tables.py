"""A comparison with the paper as rows and texts: for a terminal, a CSV file and a page alike."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

from ...checks import all_of
from ..chart import reciprocal
from ..sparsity.record import PAPER_COLUMNS, product_name
from ..tables import table
from .calibrated import Calibration
from .comparison import BreakEven, Compared, Verdict, cell_of, checked, verdict_of
from .products import Cell, ModelledProducts

COLUMNS = (*PAPER_COLUMNS, "target", "exact_flop_rate", "exact_n", "speed_up", "exact_speed_up", "source", "paper",
           "ratio", "exact_ratio")
"""The paper's columns, `flop_rate` as calibrated, `valid` whether it fits; then ours."""

FIGURE_HEADS = ["type", "method", "block", "density", "size", "n", "paper", "PopLibs' cost", "ratio", "calibrated",
                "ratio", "wins"]
VERDICT_HEADS = ["figures", "count", "median, PopLibs' cost", "median, calibrated", "least", "most", "who wins, exact",
                 "who wins, calibrated"]
_SHORT = {"dense": "dense", "static_sparse": "static", "dynamic_sparse": "dynamic"}


def figure_rows(compared: Sequence[Compared]) -> list[list[str]]:
    """Return a row of texts for each figure, under `FIGURE_HEADS`."""
    compared = all_of("compared", compared, Compared, "figures compared")
    rows = []
    for c in compared:
        f, unit = c.figure, "x" if c.figure.speed_up else ""
        wins = "" if c.wins is None else "as the paper" if c.wins == c.calibrated_wins else "NOT as the paper"
        where = f"{f.n}{' does not fit' * (not c.fits)}" if f.n else f"best, {c.n}"
        model = [text for value, ratio in ((c.exact, c.exact_ratio), (c.calibrated, c.ratio))
                 for text in ((f"{value:.3g}{unit}", f"{ratio:.2f}") if value > 0 else ("no plan", ""))]
        rows.append([f.type, _SHORT[f.method], str(f.block_size or ""), reciprocal(f.density), _size(f.m, f.k), where,
                     f"{f.value:.3g}{unit}", *model, wins])
    return rows


def verdict_rows(compared: Sequence[Compared]) -> list[list[str]]:
    """Return a row of texts for each kind of figure and for all, under `VERDICT_HEADS`."""
    compared = all_of("compared", compared, Compared, "figures compared")
    groups: dict[str, list[Compared]] = {}
    for c in compared:
        groups.setdefault(f"{c.figure.type} {_SHORT[c.figure.method]}", []).append(c)
    groups["sparse"] = [c for c in compared if not c.figure.is_dense]
    groups["all"] = list(compared)
    return [_verdict(name, verdict_of(group)) for name, group in groups.items() if group]


def _verdict(name: str, v: Verdict) -> list[str]:
    signs = [f"{right} of {v.clear}" if v.clear else "" for right in (v.exact_signs, v.calibrated_signs)]
    return [name, str(v.count), *(f"{x:.2f}" for x in (v.exact, v.calibrated, v.least, v.most)), *signs]


def summary(cells: Sequence[Cell], compared: Sequence[Compared], evens: Sequence[BreakEven],
            products: ModelledProducts) -> str:
    """Return what was planned and compared as tables for a terminal.

    Parameters
    ----------
    cells : sequence of Cell
        Products over the axes.
    compared : sequence of Compared
    evens : sequence of BreakEven
    products : ModelledProducts
    """
    cells, compared = checked(cells, compared, products)
    evens = all_of("evens", evens, BreakEven, "a sequence of BreakEven")
    parts = [_rates(size, cells, products) for size in dict.fromkeys((c.m, c.k, c.n) for c in cells)]
    if compared:
        shown = [c for c in compared if not (c.figure.is_dense and c.figure.n)]
        left = len(compared) - len(shown)
        beside = f"\n({left} dense figures by n are in the files)" if left else ""
        parts.append(f"The paper's figures: TFLOP/s on stored values, or times faster than dense{beside}\n"
                     + table(FIGURE_HEADS, figure_rows(shown)))
        parts.append("The model over the paper\n" + table(VERDICT_HEADS, verdict_rows(compared)))
    if evens:
        rows = [[e.type, _SHORT[e.method], _size(e.m, e.k), str(e.block_size), _density(e.exact, e.densest),
                 _density(e.calibrated, e.densest), "" if e.law is None else _density(e.law)] for e in evens]
        parts.append("Break-even densities, best over n\n"
                     + table(["type", "method", "size", "block", "PopLibs' cost", "calibrated", "paper's law"], rows))
    return "\n\n".join(parts)


def _rates(size: tuple[int, int, int | None], cells: Sequence[Cell], products: ModelledProducts) -> str:
    m, k, n = size
    mine = [c for c in cells if (c.m, c.k, c.n) == size]
    densities = sorted({c.density for c in mine if c.block_size}, reverse=True)
    rows = []
    for kind in dict.fromkeys(c.type for c in mine):
        of_kind = [c for c in mine if c.type == kind]
        dense = next(c for c in of_kind if not c.block_size)
        whole = products.rate(dense).tflops
        rows.append([kind, "dense", "", *(f"{whole * d:.3g}" for d in densities)])
        for method, block in dict.fromkeys((c.method, c.block_size) for c in of_kind if c.block_size):
            found = {c.density: c for c in of_kind if (c.method, c.block_size) == (method, block)}
            rows.append([kind, _SHORT[method], str(block), *(_rate(found[d], products) for d in densities)])
    heads = ["type", "method", "block", *(f"{'density ' * (i == 0)}{reciprocal(d)}" for i, d in enumerate(densities))]
    title = product_name(m, k, n) + (", best over n" if n is None else "")
    return f"{title}: TFLOP/s on stored values as calibrated (times faster than dense)\n{table(heads, rows)}"


def _rate(cell: Cell, products: ModelledProducts) -> str:
    rate = products.rate(cell)
    return f"{rate.tflops:.3g} ({products.speed_up(cell):.2f})" if rate.n else "no plan fits"


def _density(value: float | None, densest: float = 1.0) -> str:
    if value is None:
        return "never"
    return f"{reciprocal(densest)} or more" if value >= densest else f"1/{1 / value:.1f}"


def _size(m: int, k: int) -> str:
    return str(m) if m == k else f"{m}x{k}"


def about(calibration: Calibration) -> list[tuple[str, str]]:
    """Return what the columns mean, as pairs of a heading and a text."""
    return [
        ("PopLibs' cost", "PopLibs' own cycles of its own plan, field by field; the best over n among plans within the "
         "memory that the planner counts"),
        ("calibrated", f"the same plans: {calibration.step_cycles:g} cycles more for each compute set and exchange, "
         f"{calibration.regroup_cycles_per_byte:g} for each byte regrouped for single elements of a changing pattern; "
         f"a sparse plan takes {calibration.memory_factor:g} times the bytes that its planner counts"),
        ("FLOPs", "2 m k n density: stored values alone, for a dense product beside sparse ones too"),
    ]


def csv_text(cells: Sequence[Cell], compared: Sequence[Compared], products: ModelledProducts) -> str:
    """Return all products, and all figures with the model beside them, as the text of a CSV file.

    Parameters
    ----------
    cells : sequence of Cell
    compared : sequence of Compared
    products : ModelledProducts
    """
    cells, compared = checked(cells, compared, products)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for cell in cells:
        writer.writerow(map(_cell, _row(cell, cell.density, products, ["", "", "", ""])))
    for c in compared:
        f = c.figure
        writer.writerow(map(_cell, _row(cell_of(f), f.density, products, [f.source, f.value, c.ratio, c.exact_ratio])))
    return stream.getvalue()


def _row(cell: Cell, density: float, products: ModelledProducts, more: list[object]) -> list[object]:
    rate, exact = products.rate(cell), products.rate(cell, exact=True)
    part = density / cell.density
    return [cell.m, cell.k, rate.n, density, cell.block_size or "", cell.type, "IPU", cell.method, rate.fits,
            cell.flops * rate.n * part, rate.tflops * 1e12 * part, products.machine.name, exact.tflops * 1e12 * part,
            exact.n, products.speed_up(cell), products.speed_up(cell, exact=True), *more]


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return "" if math.isnan(value) else f"{value:.6g}"
