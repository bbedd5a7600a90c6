"""What a sweep found, on one screen: our rates, how they compare (worst, median, best) with what, how it was run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ...checks import all_of, instance
from .. import tables
from ..chart import reciprocal
from ..conditions import Conditions
from .record import OURS, Record, product_name

Row = list[str | float | None]


@dataclass(frozen=True)
class Spread:
    """The worst, the median and the best of a figure over some records, for which more is better.

    Attributes
    ----------
    worst, best : Record
        Where it is worst and best.
    values : sequence of float
        The figure of each record, ascending.
    """

    worst: Record
    best: Record
    values: Sequence[float]

    @property
    def median(self) -> float:
        """The median of the values."""
        return median(self.values)

    def write(self, how: Callable[[float], str]) -> str:
        """Return the three as text, or the one that there is.

        Parameters
        ----------
        how : callable
            Writes one value.
        """
        if len(self.values) == 1:
            return how(self.values[0])
        return " .. ".join(map(how, (self.values[0], self.median, self.values[-1])))


def spread_of(records: Sequence[Record], column: str) -> Spread | None:
    """Return the spread of a column over the records that have it; None where none has."""
    found = sorted(((value, i) for i, r in enumerate(records) if (value := getattr(r, column))))
    if not found:
        return None
    return Spread(records[found[0][1]], records[found[-1][1]], [value for value, _ in found])


def summary(records: Sequence[Record], peers: Sequence[str]) -> str:
    """Return tables of the static products as text; nothing where none was measured.

    The first holds GFLOP/s on stored values, with the times faster than our dense product of the same format in
    brackets: for the shape with the most cases by density, or for the patterns of files by block size. The last is
    `headline`.

    Parameters
    ----------
    records : sequence of Record
        What was measured.
    peers : sequence of str
        The libraries that took part.
    """
    records, peers = all_of("records", records, Record, "records"), all_of("peers", peers, str, "names")
    static = static_rows(records)
    if not static:
        return ""
    drawn = [r for r in static if not r.source]
    parts = [_rates(drawn)] if drawn else []
    parts += [_file_rates([r for r in static if r.source])] if len(drawn) < len(static) else []
    heads, rows = headline(records, peers)
    title = ("Static products, worst .. median .. best: times faster than our dense product of the same format,\n"
             "that as a share of 1/density, and times faster than each library's fastest route in any format")
    return "\n\n".join([*parts, f"{title}\n{tables.table(heads, rows)}"])


def static_rows(records: Sequence[Record]) -> list[Record]:
    """Return our right rows of static forward products."""
    return [r for r in records if r.library == OURS and r.method == "static_sparse" and r.valid]


def commonest(values: Iterable[Any]) -> Any:
    """Return what occurs most often, the largest where several do: of the shapes, say, or the n of records."""
    counts = Counter(values)
    return max(counts, key=lambda one: (counts[one], one))


def headline(records: Sequence[Record], peers: Sequence[str]) -> tuple[list[str], list[Row]]:
    """Return the heads and the rows of a table: how each format and block size compares with what.

    A row is about one block size, and about one file where patterns come from files, for a median over several would
    mix unlike products.

    Parameters
    ----------
    records : sequence of Record
        What was measured.
    peers : sequence of str
        The libraries that took part.
    """
    static = static_rows(records)
    groups: dict[tuple[str, str, int], list[Record]] = defaultdict(list)
    for r in static:
        groups[r.source, r.type, r.block_size or 0].append(r)
    order, types = list(dict.fromkeys(r.source for r in static)), list(dict.fromkeys(r.type for r in static))
    columns = ["x_dense", "of_ideal", *(f"x_{peer}" for peer in peers)]
    rows: list[Row] = []
    for source, kind, block in sorted(groups, key=lambda key: (order.index(key[0]), types.index(key[1]), key[2])):
        chosen = groups[source, kind, block]
        spreads = [spread_of(chosen, column) for column in columns]
        cells = [spread.write(percent if column == "of_ideal" else times) if spread else None
                 for column, spread in zip(columns, spreads, strict=True)]
        rows.append([*[source] * any(order), f"{kind}, {block}", len(chosen), *cells])
    heads = [*["file"] * any(order), "format, block", "cases", "x dense", "of ideal",
             *(f"x {peer}{' (dense)' if peer == 'numpy' else ''}" for peer in peers)]
    return heads, rows


def how_it_was_run(records: Sequence[Record], conditions: Conditions) -> list[tuple[str, str]]:
    """Return the conditions of a run and its rounds, as pairs of a heading and a text."""
    records = all_of("records", records, Record, "records")
    instance("conditions", conditions, Conditions, "Conditions")
    timed = [r for r in records if r.rounds]
    full, few = [r for r in timed if not r.few_rounds], [r for r in timed if r.few_rounds]
    told = []
    if full:
        rounds = " to ".join(map(str, sorted({min(r.rounds for r in full), max(r.rounds for r in full)})))
        told.append(f"{_rows(full)}: medians of {rounds} rounds")
    if few:
        told.append(f"{_rows(few)}, of slow products or of a library's slower routes: fewer, as each says")
    return [*conditions.rows(), ("rounds", "; ".join(told) or "nothing was timed")]


def times(value: float) -> str:
    """Write a ratio.

    Examples
    --------
    >>> times(2.449), times(14.1), times(0.031)
    ('2.4', '14', '0.03')
    """
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 0.95 else f"{value:.2f}"


def percent(value: float) -> str:
    """Write a share in percent."""
    return f"{value:.0%}"


def _rows(records: Sequence[Record]) -> str:
    return f"{len(records)} row{'s' * (len(records) != 1)}"


def _rates(static: Sequence[Record]) -> str:
    shape = commonest(r.shape for r in static)
    cells: dict[tuple[str, int | None], dict[float, str]] = defaultdict(dict)
    for r in static:
        if r.shape == shape:
            cells[r.type, r.block_size][r.density] = _rate(r)
    densities = sorted({density for row in cells.values() for density in row}, reverse=True)
    types = list(dict.fromkeys(r.type for r in static))
    order = sorted(cells, key=lambda key: (types.index(key[0]), key[1] or 0))
    rows = [[f"{kind}, {block}", *(cells[kind, block].get(density, "") for density in densities)]
            for kind, block in order]
    heads = ["format, block", f"density {reciprocal(densities[0])}", *map(reciprocal, densities[1:])]
    return (f"Static products, {product_name(*shape)}: GFLOP/s on stored values "
            f"(times faster than our dense product)\n{tables.table(heads, rows)}")


def _file_rates(static: Sequence[Record]) -> str:
    n = commonest(r.n for r in static)
    static = [r for r in static if r.n == n]
    blocks = sorted({r.block_size or 0 for r in static})
    rows = []
    for source in dict.fromkeys(r.source for r in static):
        of_file = {(r.type, r.block_size): r for r in static if r.source == source}
        density = {block: reciprocal(r.density) for (_, block), r in of_file.items()}
        rows.append([source, "density stored", *(density.get(block, "") for block in blocks)])
        rows += [[source, kind, *(_rate(of_file[kind, block]) if (kind, block) in of_file else "" for block in blocks)]
                 for kind in dict.fromkeys(kind for kind, _ in of_file)]
    heads = ["file", "format", *(f"block {block}" for block in blocks)]
    return (f"Static products of files, n = {n}: GFLOP/s on stored values "
            f"(times faster than our dense product)\n{tables.table(heads, rows)}")


def _rate(record: Record) -> str:
    beside = f" ({times(record.x_dense)})" if record.x_dense else ""
    return f"{record.flop_rate / 1e9:.0f}{beside}"
