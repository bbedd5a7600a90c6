"""The pictures of a sweep: what the records say about densities, block sizes, N and break-even."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Any

from ..chart import Axis, LineChart, Series, number, reciprocal
from .record import Record, product_name

__all__ = ["break_even_chart", "break_even_density", "by_block", "by_density", "by_n", "rate_chart"]

_DENSITY = Axis("density", "log2", reciprocal, descending=True)
_BLOCK = Axis("block size", "log2")
_N = Axis("n, columns of X", "log2")
_SPEED_UP = Axis("times faster than dense", "log10", lambda value: f"{number(value)}x")
_BREAK_EVEN = {"break-even": 1.0}

Shape = tuple[int, int, int]
"""The m, k and n of a product."""

_STYLES = {"static_sparse": False, "dynamic_sparse": True}
"""Methods that the speed-up charts draw, and whether dashed."""


def by_density(records: Sequence[Record], type_name: str, shape: Shape) -> LineChart:
    """Speed-up over our dense product of the same type by density, one colour for each block size."""
    return _of_type(records, type_name, shape, _DENSITY, lambda r: r.density, "block {block_size}")


def by_block(records: Sequence[Record], type_name: str, shape: Shape) -> LineChart:
    """Speed-up over dense by block size, one colour for each density."""
    return _of_type(records, type_name, shape, _BLOCK, lambda r: float(r.block_size or 0), "density {density}")


def _of_type(records: Sequence[Record], type_name: str, shape: Shape, *how: Any) -> LineChart:
    chosen = [r for r in records if r.type == type_name and r.shape == shape]
    return _speed_ups(f"{type_name}, {product_name(*shape)}", chosen, *how)


def by_n(records: Sequence[Record], m: int, k: int, *, block: int, density: float) -> LineChart:
    """Speed-up over dense by n, one colour for each type."""
    chosen = [r for r in records if (r.m, r.k) == (m, k) and r.block_size == block and r.density == density]
    title = f"{product_name(m, k)}, block {block}, density {reciprocal(density)}"
    return _speed_ups(title, chosen, _N, lambda r: float(r.n), "{type}")


def _speed_ups(title: str, records: Iterable[Record], axis: Axis, place: Callable[[Record], float],
               label: str) -> LineChart:
    lines: dict[tuple[str, str], dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    colours: dict[str, int] = {}
    for record in records:
        if record.method in _STYLES and record.x_dense and record.valid:
            name = label.format(block_size=record.block_size, density=reciprocal(record.density), type=record.type)
            colours.setdefault(name, len(colours))
            lines[name, record.method][place(record)].append(record.x_dense)
    several = len({method for _, method in lines}) > 1
    series = [
        _series(name if not (several and _STYLES[method]) else f"{name}, dynamic", points, _STYLES[method],
                colours[name], in_legend=not _STYLES[method] or (name, "static_sparse") not in lines)
        for (name, method), points in lines.items()
    ]
    return LineChart(title, axis, _SPEED_UP, series, _BREAK_EVEN)


def rate_chart(records: Sequence[Record], shape: Shape, block: int) -> LineChart:
    """GFLOP/s on stored values by density: our static product in each type, and the fastest route of each peer."""
    lines: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for r in records:
        if not (r.valid and r.shape == shape and r.time_s > 0):
            continue
        if r.method == "static_sparse" and r.block_size == block:
            lines[f"ours, {r.type}"][r.density].append(r.flop_rate / 1e9)
    for (library, density), rates in _peer_rates(records, shape, block).items():
        lines["numpy (dense)" if library == "numpy" else library][density].append(max(rates))
    axis = Axis("GFLOP/s on stored values", "log10")
    series = [_series(name, points, dashed=not name.startswith("ours")) for name, points in lines.items()]
    return LineChart(f"{product_name(*shape)}, block {block}", _DENSITY, axis, series)


def _peer_rates(records: Sequence[Record], shape: Shape, block: int) -> dict[tuple[str, float], list[float]]:
    """GFLOP/s of each peer's routes in the cases of one block size, by peer and density."""
    cases = {r.case: r for r in records if r.block_size == block and r.shape == shape}
    rates: dict[tuple[str, float], list[float]] = defaultdict(list)
    for r in records:
        if r.case in cases and r.library != "poplibs_py" and r.valid and "grad" not in r.method:
            stored = cases[r.case]
            rates[r.library, stored.density].append(stored.flop_count / r.time_s / 1e9)
    return rates


def break_even_chart(records: Sequence[Record], shape: Shape) -> LineChart:
    """The density below which static beats dense, by block size, one line for each type."""
    chosen = [r for r in records if r.method == "static_sparse" and r.shape == shape and r.valid and r.x_dense]
    series = []
    greatest = max((r.density for r in chosen), default=1.0)
    for type_name in dict.fromkeys(r.type for r in chosen):
        points: dict[float, list[float]] = defaultdict(list)
        for block in sorted({r.block_size or 0 for r in chosen}):
            rows = [(r.density, r.x_dense or 0.0) for r in chosen if r.type == type_name and r.block_size == block]
            density = break_even_density(rows)
            if density is not None:
                points[float(block)].append(density)
        faster_everywhere = [block for block, densities in points.items() if densities == [greatest]]
        series.append(replace(_series(type_name, points), at_least=faster_everywhere))
    axis = Axis("break-even density", "log2", reciprocal, end=greatest)
    return LineChart(product_name(*shape), _BLOCK, axis, series)


def break_even_density(points: Sequence[tuple[float, float]]) -> float | None:
    """Return the density at which the speed-up is one, between measured densities on logarithmic axes.

    Parameters
    ----------
    points : sequence of (float, float)
        Densities and speed-ups, in any order.

    Returns
    -------
    float or None
        The highest measured density where the speed-up is above one throughout; None where it never is.

    Examples
    --------
    >>> round(break_even_density([(1 / 4, 0.5), (1 / 16, 2.0)]), 6)
    0.125
    >>> break_even_density([(1 / 4, 3.0), (1 / 16, 9.0)])
    0.25
    """
    ordered = sorted(points)
    for (low, faster), (high, slower) in pairwise(ordered):
        if faster >= 1 > slower:
            share = math.log(faster) / (math.log(faster) - math.log(slower))
            return math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    if ordered and all(speed_up >= 1 for _, speed_up in ordered):
        return ordered[-1][0]
    return None


def _series(label: str, points: dict[float, list[float]], dashed: bool = False, colour: int | None = None, *,
            in_legend: bool = True) -> Series:
    places = sorted(points)
    return Series(label, places, [median(points[place]) for place in places], dashed, colour, in_legend)
