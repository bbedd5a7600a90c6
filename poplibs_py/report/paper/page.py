"""The page of a comparison with the paper: charts of the model beside the measurements, and every row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

from ...checks import all_of
from ..chart import Axis, LineChart, Series, number, reciprocal, same_scale
from ..page import Page
from ..sparsity.record import product_name
from .comparison import BreakEven, Compared, checked
from .products import Cell, ModelledProducts
from .tables import FIGURE_HEADS, VERDICT_HEADS, about, csv_text, figure_rows, verdict_rows

_DENSITY = Axis("density", "log2", reciprocal, descending=True)
_BLOCK = Axis("block size", "log2")
_COLUMNS = Axis("n, columns of X", "log2")
_RATE = Axis("TFLOP/s on stored values", "log10")
_SPEED_UP = Axis("times faster than dense", "log10", lambda value: f"{number(value)}x")
_NAMES = {"dense": "dense", "static_sparse": "static", "dynamic_sparse": "dynamic"}


def comparison_page(cells: Sequence[Cell], compared: Sequence[Compared], evens: Sequence[BreakEven],
                    products: ModelledProducts, facts: Sequence[tuple[str, str]]) -> str:
    """Return the page as HTML text.

    Parameters
    ----------
    cells : sequence of Cell
        Products over the axes.
    compared : sequence of Compared
    evens : sequence of BreakEven
    products : ModelledProducts
    facts : sequence of (str, str)
        How it was made.
    """
    cells, compared = checked(cells, compared, products)
    evens = all_of("evens", evens, BreakEven, "a sequence of BreakEven")
    page = Page(f"Block-sparse products on {products.machine.name}, modelled, beside the PopSparse paper")
    if compared:
        page.heading("How near")
        page.table(VERDICT_HEADS, verdict_rows(compared), summary="The model over the paper's figures", is_open=True)
    page.pairs([*about(products.calibration), *all_of("facts", facts, object, "pairs of texts")])
    rates = [c for c in compared if c.figure.tflops is not None]
    best = [c for c in rates if c.figure.n is None]
    for heading, drawn in (
        ("By density", _both(best, _DENSITY, lambda c: c.figure.density)),
        ("By block size", _both(_of_middle(best), _BLOCK, lambda c: c.figure.block_size or 0)),
        ("By n", [_chart(chosen, name, _COLUMNS, lambda c: float(c.figure.n or 0), lambda c: c.calibrated)
                  for name, chosen in _by_size([c for c in rates if c.figure.n])]),
        ("Speed-up over dense, by density", _speed_ups(cells, products)),
        ("Break-even", _break_evens(evens)),
    ):
        drawn = same_scale([chart for chart in drawn if not chart.is_empty()])
        if drawn:
            page.heading(heading)
            page.charts(drawn)
    page.heading("Every figure")
    page.download("sparsity.csv", csv_text(cells, compared, products))
    if compared:
        page.table(FIGURE_HEADS, figure_rows(compared), summary=f"{len(compared)} figures")
    return page.html()


def _of_middle(compared: Sequence[Compared]) -> list[Compared]:
    """Those of the density that has the most block sizes."""
    sides: dict[float, set[int]] = {}
    for c in compared:
        if c.figure.block_size:
            sides.setdefault(c.figure.density, set()).add(c.figure.block_size)
    middle = max(sides, key=lambda density: len(sides[density]), default=0.0)
    return [c for c in compared if c.figure.density == middle and c.figure.block_size]


def _by_size(compared: Sequence[Compared]) -> list[tuple[str, list[Compared]]]:
    keys = dict.fromkeys((c.figure.type, c.figure.m, c.figure.k) for c in compared)
    return [(f"{key[0]}, {product_name(*key[1:])}",
             [c for c in compared if (c.figure.type, c.figure.m, c.figure.k) == key]) for key in keys]


def _both(compared: Sequence[Compared], axis: Axis, place: Callable[[Compared], float]) -> list[LineChart]:
    """A chart by PopLibs' cost and one as calibrated, for each type and size."""
    return [_chart(chosen, f"{name}: {what}", axis, place, value) for name, chosen in _by_size(compared)
            for what, value in (("PopLibs' cost", attrgetter("exact")), ("calibrated", attrgetter("calibrated")))]


def _chart(compared: Sequence[Compared], title: str, axis: Axis, place: Callable[[Compared], float],
           value: Callable[[Compared], float]) -> LineChart:
    """The model's lines, and beside each the paper's as a companion."""
    lines: dict[str, list[Compared]] = {}
    for c in sorted(compared, key=place):
        block = f", block {c.figure.block_size}" if c.figure.block_size and axis is _DENSITY else ""
        lines.setdefault(_NAMES[c.figure.method] + block, []).append(c)
    series = []
    for colour, (name, chosen) in enumerate(lines.items()):
        places = [place(c) for c in chosen]
        series += [Series(name, places, [value(c) for c in chosen], colour=colour),
                   Series(f"{name}, paper", places, [c.figure.value for c in chosen], companion=True, colour=colour,
                          in_legend=False)]
    return LineChart(title, axis, _RATE, series, companions="measured, the paper's")


def _speed_ups(cells: Sequence[Cell], products: ModelledProducts) -> list[LineChart]:
    """Static and dynamic products over dense, a chart for each type and size, as calibrated."""
    drawn = []
    for kind, m, k, n in dict.fromkeys((c.type, c.m, c.k, c.n) for c in cells):
        mine = [c for c in cells if (c.type, c.m, c.k, c.n) == (kind, m, k, n) and c.block_size]
        series = []
        for colour, block in enumerate(dict.fromkeys(c.block_size for c in mine)):
            for method in dict.fromkeys(c.method for c in mine):
                found = [c for c in mine if (c.block_size, c.method) == (block, method)]
                series.append(Series(f"block {block}, {_NAMES[method]}", [c.density for c in found],
                                     [products.speed_up(c) for c in found], colour=colour,
                                     companion=method == "dynamic_sparse", in_legend=method == "static_sparse"))
        drawn.append(LineChart(f"{kind}, {product_name(m, k, n)}", _DENSITY, _SPEED_UP, series, {"break-even": 1.0},
                               "dynamic pattern"))
    return drawn


def _break_evens(evens: Sequence[BreakEven]) -> list[LineChart]:
    """Break-even by block size, a chart for each type and method, a line for each size, the law as its companion."""
    drawn = []
    axis = Axis("break-even density", "log2", reciprocal, end=1.0)
    for kind, method in dict.fromkeys((e.type, e.method) for e in evens):
        mine = [e for e in evens if (e.type, e.method) == (kind, method)]
        series = []
        for colour, (m, k) in enumerate(dict.fromkeys((e.m, e.k) for e in mine)):
            found = sorted((e for e in mine if (e.m, e.k) == (m, k)), key=lambda e: e.block_size)
            sides = [float(e.block_size) for e in found]
            series += [Series(product_name(m, k), sides, [e.calibrated for e in found], colour=colour),
                       Series(f"{product_name(m, k)}, law", sides, [e.law for e in found], colour=colour,
                              companion=True, in_legend=False)]
        drawn.append(LineChart(f"{kind}, {_NAMES[method]}", _BLOCK, axis, series, companions="the paper's power law"))
    return drawn
