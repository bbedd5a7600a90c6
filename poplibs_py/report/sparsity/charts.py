"""The pictures of a sweep: what the records say about densities, block sizes, N, break-even, files and peers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from statistics import median

from ..chart import Axis, LineChart, Series, number, reciprocal
from .record import OURS, Record, product_name

_DENSITY = Axis("density", "log2", reciprocal, descending=True)
_BLOCK = Axis("block size", "log2")
_N = Axis("n, columns of X", "log2")
_SPEED_UP = Axis("times faster than dense", "log10", lambda value: f"{number(value)}x")
_IDEAL = Axis("share of the ideal speed-up", write=lambda value: f"{value:.0%}", end=0.0)
_BREAK_EVEN = {"break-even": 1.0}
_OF_IDEAL = attrgetter("of_ideal"), _IDEAL, {"ideal": 1.0}
_LEGEND, _TITLE = 44, 38
"""Characters of a file's name that a legend and a title have room for."""

Shape = tuple[int, int, int]
"""The m, k and n of a product."""

_METHODS = {"static_sparse": False, "dynamic_sparse": True}
"""Methods that the speed-up charts draw, and whether as companions."""

_Value = Callable[[Record], float | None]
_Place = Callable[[Record], float]


def by_density(records: Sequence[Record], type_name: str, shape: Shape) -> LineChart:
    """Speed-up over our dense product of the same type by density, one colour for each block size."""
    return _of_type(records, type_name, shape, _DENSITY, attrgetter("density"), _block_label)


def by_block(records: Sequence[Record], type_name: str, shape: Shape) -> LineChart:
    """Speed-up over dense by block size, one colour for each density."""
    return _of_type(records, type_name, shape, _BLOCK, _block, lambda r: f"density {reciprocal(r.density)}")


def ideal_by_density(records: Sequence[Record], type_name: str, shape: Shape) -> LineChart:
    """Speed-up over dense as a share of one over the density, by density, one colour for each block size."""
    return _of_type(records, type_name, shape, _DENSITY, attrgetter("density"), _block_label, *_OF_IDEAL)


def by_n(records: Sequence[Record], m: int, k: int, *, block: int, density: float) -> LineChart:
    """Speed-up over dense by n, one colour for each type."""
    chosen = [r for r in records if (r.m, r.k) == (m, k) and r.block_size == block and r.density == density]
    title = f"{product_name(m, k)}, block {block}, density {reciprocal(density)}"
    return _lines(title, chosen, _N, attrgetter("n"), lambda r: r.type)


def file_by_block(records: Sequence[Record], type_name: str, n: int) -> LineChart:
    """Speed-up over dense of the patterns of files by block size, one colour for each file."""
    return _of_files(records, type_name, n)


def ideal_by_block(records: Sequence[Record], type_name: str, n: int) -> LineChart:
    """The same speed-up as a share of one over the density of the blocks that are stored."""
    return _of_files(records, type_name, n, *_OF_IDEAL)


def file_by_n(records: Sequence[Record], source: str, block: int) -> LineChart:
    """Speed-up over dense of one file's pattern by n, one colour for each type."""
    chosen = [r for r in records if r.source == source and r.block_size == block]
    return _lines(f"{_names(records, _TITLE)[source]}, block {block}", chosen, _N, attrgetter("n"), lambda r: r.type)


def fill_chart(records: Sequence[Record]) -> LineChart:
    """The density of the blocks that hold a file's elements, by block size, one line for each file."""
    names, lines = _names(records), _points()
    for r in records:
        if r.method == "static_sparse":
            lines[names[r.source]][_block(r)].append(r.density)
    axis = Axis("density of the blocks stored", "log2", reciprocal)
    return LineChart("Patterns laid over blocks", _BLOCK, axis, [_series(*line) for line in lines.items()])


def file_times(records: Sequence[Record], source: str, n: int) -> LineChart:
    """Milliseconds of a product with one file's pattern by block size: ours in each type, each peer's fastest route."""
    chosen = [r for r in records if r.source == source and r.n == n and r.valid]
    blocks = {r.case: _block(r) for r in chosen if r.library == OURS and r.method == "static_sparse"}
    lines = _points()
    for r in chosen:
        if r.library == OURS and r.method == "static_sparse":
            lines[f"ours, {r.type}"][_block(r)].append(r.time_s * 1e3)
    for (library, case), seconds in _fastest(chosen, blocks).items():
        lines[_peer_name(library)][blocks[case]].append(seconds * 1e3)
    axis = Axis("milliseconds a product", "log10")
    return LineChart(f"{_names(records, _TITLE)[source]}, n = {n}", _BLOCK, axis, _beside_peers(lines))


def rate_chart(records: Sequence[Record], shape: Shape, block: int) -> LineChart:
    """GFLOP/s on stored values by density: our static product in each type, and the fastest route of each peer."""
    chosen = [r for r in records if r.valid and r.shape == shape and r.time_s > 0]
    stored = {r.case: r for r in chosen if r.method == "static_sparse" and r.block_size == block}
    lines = _points()
    for r in chosen:
        if r.method == "static_sparse" and r.block_size == block:
            lines[f"ours, {r.type}"][r.density].append(r.flop_rate / 1e9)
    for (library, case), seconds in _fastest(chosen, stored).items():
        lines[_peer_name(library)][stored[case].density].append(stored[case].flop_count / seconds / 1e9)
    axis = Axis("GFLOP/s on stored values", "log10")
    return LineChart(f"{product_name(*shape)}, block {block}", _DENSITY, axis, _beside_peers(lines))


def break_even_chart(records: Sequence[Record], shape: Shape) -> LineChart:
    """The density below which static beats dense, by block size, one colour for each type."""
    chosen = [r for r in records if r.method == "static_sparse" and r.shape == shape and r.valid and r.x_dense]
    series = []
    greatest = max((r.density for r in chosen), default=1.0)
    for type_name in dict.fromkeys(r.type for r in chosen):
        points: dict[float, list[float]] = defaultdict(list)
        for block in sorted({_block(r) for r in chosen}):
            rows = [(r.density, r.x_dense or 0.0) for r in chosen if r.type == type_name and _block(r) == block]
            density = break_even_density(rows)
            if density is not None:
                points[block].append(density)
        faster_everywhere = [block for block, densities in points.items() if densities == [greatest]]
        series.append(replace(_series(type_name, points), at_least=faster_everywhere))
    axis = Axis("break-even density", "log2", reciprocal, end=greatest)
    return LineChart(product_name(*shape), _BLOCK, axis, series, side_by_side=True)


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


def short_names(names: Iterable[str], most: int = _LEGEND) -> dict[str, str]:
    """Return names of at most so many characters that still differ: an ending that all share goes, then the middle.

    Examples
    --------
    >>> short_names(["layer_1_attention_q.smtx", "layer_2_ffn.smtx"], 15)
    {'layer_1_attention_q.smtx': 'layer_1…ntion_q', 'layer_2_ffn.smtx': 'layer_2_ffn'}
    """
    names = list(dict.fromkeys(names))
    endings = [Path(name).suffix for name in names]
    if len(names) > 1:
        endings = [names[0][at:] for at, character in enumerate(names[0]) if character in "._-"]
    ending = next((e for e in endings if all(name.endswith(e) and name != e for name in names)), "")
    short: dict[str, str] = {}
    for name in names:
        text = name.removesuffix(ending)
        if len(text) > most:
            tail = (most - 1) // 2
            text = f"{text[:most - 1 - tail]}…{text[-tail:]}"
        same = sum(other == text or other.startswith(f"{text} (") for other in short.values())
        short[name] = f"{text} ({same + 1})" if same else text
    return short


def _of_type(records: Sequence[Record], type_name: str, shape: Shape, axis: Axis, place: _Place,
             label: Callable[[Record], str], value: _Value = lambda r: r.x_dense, up: Axis = _SPEED_UP,
             levels: dict[str, float] = _BREAK_EVEN) -> LineChart:
    chosen = [r for r in records if r.type == type_name and r.shape == shape]
    return _lines(f"{type_name}, {product_name(*shape)}", chosen, axis, place, label, value, up, levels)


def _of_files(records: Sequence[Record], type_name: str, n: int, value: _Value = lambda r: r.x_dense,
              up: Axis = _SPEED_UP, levels: dict[str, float] = _BREAK_EVEN) -> LineChart:
    names = _names(records)
    chosen = [r for r in records if r.type == type_name and r.n == n and r.source]
    return _lines(f"{type_name}, n = {n}", chosen, _BLOCK, _block, lambda r: names[r.source], value, up, levels)


def _lines(title: str, records: Iterable[Record], axis: Axis, place: _Place, label: Callable[[Record], str],
           value: _Value = lambda r: r.x_dense, up: Axis = _SPEED_UP,
           levels: dict[str, float] = _BREAK_EVEN) -> LineChart:
    """A line for each label, and beside it a companion for the dynamic method."""
    lines: dict[tuple[str, str], dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    colours: dict[str, int] = {}
    for r in records:
        if r.method in _METHODS and r.valid and (shown := value(r)):
            colours.setdefault(label(r), len(colours))
            lines[label(r), r.method][place(r)].append(shown)
    methods = {method for _, method in lines}
    is_alone = len(methods) == 1
    series = [
        replace(_series(f"{name}, dynamic" if _METHODS[method] and not is_alone else name, points),
                companion=_METHODS[method] and not is_alone, colour=colours[name],
                in_legend=not _METHODS[method] or (name, "static_sparse") not in lines)
        for (name, method), points in lines.items()
    ]
    told = f", {next(iter(methods)).partition('_')[0]}" if is_alone else ""
    return LineChart(f"{title}{told}", axis, up, series, levels, "dynamic pattern")


def _points() -> dict[str, dict[float, list[float]]]:
    return defaultdict(lambda: defaultdict(list))


def _fastest(records: Iterable[Record], cases: Iterable[int]) -> dict[tuple[str, int], float]:
    """Seconds of each peer's fastest route to the forward product, by peer and case."""
    fastest: dict[tuple[str, int], float] = {}
    for r in records:
        if r.case in set(cases) and r.library != OURS and r.task == "forward":
            key = (r.library, r.case)
            fastest[key] = min(r.time_s, fastest.get(key, r.time_s))
    return fastest


def _beside_peers(lines: dict[str, dict[float, list[float]]]) -> list[Series]:
    return [replace(_series(name, points), dashed=not name.startswith("ours")) for name, points in lines.items()]


def _series(label: str, points: dict[float, list[float]]) -> Series:
    places = sorted(points)
    return Series(label, places, [median(points[place]) for place in places])


def _peer_name(library: str) -> str:
    return "numpy (dense)" if library == "numpy" else library


def _names(records: Sequence[Record], most: int = _LEGEND) -> dict[str, str]:
    return short_names((r.source for r in records if r.source), most)


def _block(record: Record) -> float:
    return float(record.block_size or 0)


def _block_label(record: Record) -> str:
    return f"block {record.block_size}"
