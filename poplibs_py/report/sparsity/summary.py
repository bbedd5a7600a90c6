"""What a sweep found, on one screen: our rates by density, and the median ratios to the other libraries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from ...errors import all_of
from .. import text
from ..chart import reciprocal
from .methods import OURS
from .record import Record, product_name

__all__ = ["commonest_shape", "summary"]


def summary(records: Sequence[Record], peers: Sequence[str]) -> str:
    """Return two tables of the static products as text; nothing where none was measured.

    The first holds GFLOP/s on stored values for the shape with the most cases, by format and block and by density, with
    the times faster than our dense product of the same format in brackets. The second holds, for each format, the
    median over all cases of the times faster than each peer's fastest route.

    Parameters
    ----------
    records : sequence of Record
        What was measured.
    peers : sequence of str
        The libraries that took part.
    """
    records, peers = all_of("records", records, Record, "records"), all_of("peers", peers, str, "names")
    static = [r for r in records if r.library == OURS and r.method == "static_sparse" and r.valid]
    if not static:
        return ""
    return _rates(static) + (f"\n\n{_ratios(static, peers)}" if peers else "")


def commonest_shape(records: Sequence[Record]) -> tuple[int, int, int]:
    """Return the m, k and n of the most records; of the largest where several have as many."""
    shapes = [r.shape for r in records]
    return max(dict.fromkeys(shapes), key=lambda shape: (shapes.count(shape), shape))


def _rates(static: Sequence[Record]) -> str:
    shape = commonest_shape(static)
    cells: dict[tuple[str, int | None], dict[float, str]] = defaultdict(dict)
    for r in static:
        if r.shape == shape:
            beside = f" ({r.x_dense:.{1 if r.x_dense < 9.95 else 0}f})" if r.x_dense else ""
            cells[r.type, r.block_size][r.density] = f"{r.flop_rate / 1e9:.0f}{beside}"
    densities = sorted({density for row in cells.values() for density in row}, reverse=True)
    types = list(dict.fromkeys(r.type for r in static))
    order = sorted(cells, key=lambda key: (types.index(key[0]), key[1] or 0))
    rows = [[f"{kind}, {block}", *(cells[kind, block].get(density, "") for density in densities)]
            for kind, block in order]
    heads = ["format, block", f"density {reciprocal(densities[0])}", *map(reciprocal, densities[1:])]
    return (f"Static products, {product_name(*shape)}: GFLOP/s on stored values "
            f"(times faster than our dense product)\n{text.table(heads, rows)}")


def _ratios(static: Sequence[Record], peers: Sequence[str]) -> str:
    rows = []
    for kind in dict.fromkeys(r.type for r in static):
        chosen = [r for r in static if r.type == kind]
        ratios = [[value for r in chosen if (value := getattr(r, f"x_{peer}"))] for peer in peers]
        rows.append([f"{kind}, {len(chosen)} cases", *(median(found) if found else None for found in ratios)])
    heads = ["static, median of", *(f"x {peer}{' (dense)' if peer == 'numpy' else ''}" for peer in peers)]
    return f"Times faster than each library's fastest route, dense or sparse, in any format\n{text.table(heads, rows)}"
