"""What PopLibs' static planner decides, and which tile has what by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...formats import Array
from ...planner import Explanation, PlanSummary, Temporaries
from ...planner.explain import NoFlops
from ...planner.facts import PlanFacts, facts_of, facts_of_summary
from ...planner.ladder import Limited
from ...planner.summary import AxisShare, Phase, summarised
from ...target import TYPE_SIZES, Target
from ..plan_figures import summary_of
from .model import StaticModel
from .options import StaticOptions
from .params import StaticParams

_EXCHANGES = ("exchange of dense rows", "exchange of values", "exchange of partials")


class TileShare(NamedTuple):
    """What a tile multiplies.

    Attributes
    ----------
    tile : int
    columns : (int, int)
        Where its columns of the dense operand begin and end; the last may be padding.
    band : int
        Its band of the sparse operand's columns.
    blocks : (int, int)
        Where its blocks begin and end, in `StaticPlan.block_order`.
    """

    tile: int
    columns: tuple[int, int]
    band: int
    blocks: tuple[int, int]


@dataclass(frozen=True)
class StaticPlan(Limited, NoFlops):
    """A plan of a product with a sparse operand whose pattern is known. PopLibs' ``static_::Partition``.

    Attributes
    ----------
    params : StaticParams
    options : StaticOptions
    target : Target
    n_split : int
        Parts of the dense operand's columns.
    k_split : int
        Column bands that were tried for.
    boundaries : tuple of int
        Block columns, in their planned order, where bands begin and end.
    blocks_per_band : tuple of int
    most_columns : int
        Block columns with blocks of the widest band.
    cycles, temp_bytes : int
        Of the tile that takes most.
    limit : int
        Temporary bytes that a tile may take.
    phases : dict of str to int
        Cycles of each phase.
    row_order, column_order : numpy.ndarray of int
        Which block row, and column, comes first, second …: PopLibs' permutations.
    """

    params: StaticParams
    options: StaticOptions
    target: Target
    n_split: int
    k_split: int
    boundaries: tuple[int, ...]
    blocks_per_band: tuple[int, ...]
    most_columns: int
    cycles: int
    temp_bytes: int
    limit: int
    phases: dict[str, int] = field(hash=False)
    row_order: Array = field(repr=False, compare=False)
    column_order: Array = field(repr=False, compare=False)

    @property
    def temporaries(self) -> Temporaries:
        """Temporary bytes of the tile that needs most: a plan that does not keep to its limit is not made."""
        return Temporaries(self.temp_bytes, self.limit, of="a tile")

    @property
    def summary(self) -> PlanSummary:
        """What it says of itself: problem, splits, cycles, time, rate, memory, load. ``print(plan)`` shows it."""
        return summarised(self)

    @property
    def partials_type(self) -> str:
        """Type of partial sums."""
        return self.options.partials_type or self.params.data_type

    def block_order(self) -> Array:
        """Which of the pattern's blocks is first, second …: by band, by planned row, by planned column."""
        pattern = self.params.pattern
        rows, columns = (np.empty(order.size, np.int64) for order in (self.row_order, self.column_order))
        rows[self.row_order] = np.arange(rows.size)
        columns[self.column_order] = np.arange(columns.size)
        at = columns[pattern.column_indices]
        bands = np.searchsorted(np.array(self.boundaries[1:], np.int64), at, "right")
        return np.lexsort((at, rows[pattern.row_indices], bands))

    def tiles(self) -> Iterator[TileShare]:
        """Tell which tile multiplies what: those that have blocks, in ascending order."""
        model = StaticModel(self.params, self.options, self.target)
        starts = np.concatenate([[0], np.cumsum(self.blocks_per_band)]).tolist()
        for begin, end, first, tiles in model.search.parts_of_n(self.n_split):
            for band, mine in enumerate(model.search.tiles_of_bands(self.k_split, tiles)):
                blocks = self.blocks_per_band[band]
                each = -(-blocks // mine)
                for i in range(-(-blocks // each)):
                    share = (starts[band] + i * each, starts[band] + min((i + 1) * each, blocks))
                    yield TileShare(first + i, (begin, end), band, share)
                first += mine

    def explain(self) -> Explanation:
        """Return what was planned, and what was decided."""
        return Explanation(f"static sparse_dense_matmul {self.params}", self._decisions())

    def golden(self) -> dict[str, Any]:
        """Return the fields of PopLibs' plan by the names that test data have for them."""
        return {"nnzBlocks": self.params.pattern.n_blocks, "nSplit": self.n_split, "bands": len(self.blocks_per_band),
                "maxBand": self.most_columns, "cycles": self.cycles, "memory": self.temp_bytes,
                "boundaries": list(self.boundaries), "nzPerBand": list(self.blocks_per_band),
                "rowPerm8": self.row_order[:8].tolist(), "colPerm8": self.column_order[:8].tolist()}

    def __str__(self) -> str:
        return str(self.summary)

    def _decisions(self) -> dict[str, str]:
        widths = [end - begin for begin, end in pairwise(self.boundaries)]
        spread = f" of {min(widths)} to {max(widths)} block columns" if widths else ""
        return {
            "columns": f"{len(widths)} bands{spread}, {min(self.blocks_per_band, default=0)} to "
                       f"{max(self.blocks_per_band, default=0)} blocks",
            "N": f"{self.n_split} parts",
            "types": f"{self.params.data_type}, partial sums {self.partials_type}",
        }


@summarised.register
def _(plan: StaticPlan) -> PlanSummary:
    """Summarise a plan of `plan_static_matmul`."""
    p, size = plan.params, TYPE_SIZES[plan.params.data_type]
    (m, k), area, tiles = p.pattern.shape, p.side**2, plan.target.tiles
    shares = [(end - begin) * (last - first) for _, (begin, end), _, (first, last) in plan.tiles()]
    operands, result = -(-(p.pattern.n_blocks * area + k * p.n) * size // tiles), -(-m * p.n * size // tiles)
    bands = len(plan.blocks_per_band)
    axes = (AxisShare("M", m, 1, 1, m, m),
            AxisShare("K", k, bands, 1, p.side * plan.most_columns, 0) if bands else AxisShare("K", k, 1, 1, k, k),
            AxisShare("N", p.n, plan.n_split, 1, -(-p.n // plan.n_split), p.n // plan.n_split))
    phases = tuple(Phase(name, cycles, 1, 0) for name, cycles in plan.phases.items() if cycles)
    return summary_of(
        plan, f"static sparse_dense_matmul {p}", axes, {"": phases},
        decisions={**plan._decisions(), "tiles": f"{len(shares):,} of {tiles:,}"}, macs=p.pattern.n_blocks * area * p.n,
        exchange_cycles=sum(plan.phases.get(name, 0) for name in _EXCHANGES), tile_bytes=(operands, result),
        tile_macs=(area * max(shares, default=0), area * min(shares, default=0)))


@facts_of.register
def _(plan: StaticPlan) -> PlanFacts:
    """Return what a report keeps of a plan; where its blocks lie on tiles, a run tells."""
    return facts_of_summary(plan.summary, plan.target)
