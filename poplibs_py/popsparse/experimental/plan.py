"""What becomes of an experimental block-sparse product on a modelled machine: which tile has what, and how evenly.

PopLibs has no model of its cost: a plan tells the balance of tiles and what they hold and receive, no cycles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...errors import MemoryLimitError, bad_argument
from ...formats import Array
from ...log import tell
from ...planner import Explanation
from ...planner.explain import Explained, NoFlops
from ...planner.facts import Load, PlanFacts, facts_of
from ...target import TYPE_SIZES, Target
from ..modelled import ColumnPart, Split, TileBlocks, distinct
from ..plan_figures import facts_of_tiles
from ..samples_modelled import TileSamples
from .model import balance_of, grid_of, run_tiles, strip_tiles
from .options import BsMatmulOptions
from .params import GRAIN, BsMatmulParams


@dataclass(frozen=True)
class BsMatmulPlan(NoFlops, Explained):
    """A plan of `plan_bs_matmul` or `plan_bs_matmul_sampled`.

    Attributes
    ----------
    params : BsMatmulParams
    options : BsMatmulOptions
    target : Target
    """

    params: BsMatmulParams
    options: BsMatmulOptions
    target: Target

    @property
    def partials_type(self) -> str:
        """Type of partial sums."""
        return "float" if "float" in (self.params.data_type, self.options.partials_type) else "half"

    @property
    def passes(self) -> int:
        """Parts of the dense operand's rows that are made one after the other."""
        return min(self.options.number_of_pass, self.params.extent) if not self.params.samples else 1

    @cached_property
    def work(self) -> TileBlocks | TileSamples:
        """What each tile multiplies."""
        return _samples(self) if self.params.samples else _blocks(self)

    def tile_loads(self) -> tuple[Array, Array]:
        """Return the bytes of operands and sums, and the multiply-accumulates, of each tile."""
        work = self.work
        if isinstance(work, TileBlocks):
            each = len(work.parts) // self.passes
            widest = max(range(0, len(work.parts), each), key=lambda i: sum(p.columns for p in work.parts[i:i + each]))
            return replace(work, parts=work.parts[widest:widest + each]).tile_bytes(), work.tile_macs()
        (_, k, _), area = self.params.shape, self.params.side**2
        size, partial = TYPE_SIZES[self.params.data_type], TYPE_SIZES[self.partials_type]
        held, done = np.zeros((2, self.target.tiles), np.int64)
        counts = np.diff(work.starts)
        lines = sum(distinct(work.starts, numbers) for numbers in (work.rows, work.columns))
        held[work.tiles] = lines * self.params.side * k * size + counts * area * partial
        done[work.tiles] = counts * area * k
        return held, done

    @property
    def exchanged_bytes(self) -> int:
        """Bytes that tiles receive in all."""
        work = self.work
        return sum(work.exchanged()) if isinstance(work, TileBlocks) else work.received

    @property
    def balance(self) -> tuple[float, int]:
        """PopLibs' measure of balance, 1 where all tiles that work do the same; and how many tiles have no work."""
        return balance_of(self.tile_loads()[1])

    @property
    def tiles_used(self) -> int:
        """Tiles that have blocks."""
        return int(np.count_nonzero(self.tile_loads()[1]))

    def explain(self) -> Explanation:
        """Return what was decided, and how evenly work lies."""
        (held, done), (balance, empty) = self.tile_loads(), self.balance
        return Explanation(f"{'bs_matmul_sampled' if self.params.samples else 'bs_matmul'} {self.params}", {
            "partition": self.options.partition_method,
            "types": f"{self.params.data_type}, partial sums {self.partials_type}", "passes": str(self.passes),
            "tiles": f"{self.target.tiles - empty:,} of {self.target.tiles:,}",
            "balance": f"{balance:.3f}, the fullest tile has {int(done.max(initial=0)):,} multiply-accumulates",
            "memory": f"{int(held.max(initial=0)):,} of {self.target.bytes_per_tile:,} bytes on the fullest tile",
            "exchange": f"{self.exchanged_bytes:,} bytes"})


def plan_product(params: BsMatmulParams, options: BsMatmulOptions, target: Target) -> BsMatmulPlan:
    """Plan a checked product, or raise where PopLibs has none of its kind."""
    if options.number_of_pass > 1 and params.pattern.groups > 1:
        raise bad_argument("numberOfPass", options.number_of_pass, "1, as there are groups")
    if params.pattern.groups > target.tiles:
        raise bad_argument("pattern", f"{params.pattern.groups} groups", f"at most the {target.tiles} tiles")
    plan = BsMatmulPlan(params, options, target)
    most = int(plan.tile_loads()[0].max(initial=0))
    if most > target.bytes_per_tile:
        raise MemoryLimitError(f"numberOfPass: got {options.number_of_pass}, where a tile holds {most:,} bytes; "
                               f"allowed: what fits the {target.bytes_per_tile:,} of a tile, such as more passes")
    tell("popsparse", plan)
    return plan


def _by_column(plan: BsMatmulPlan) -> tuple[Array, Array, Array, Array, int]:
    """Return block columns and rows of the blocks in the order of their tiles; which each is; its tile; tiles a group.

    Rows and columns of a group come behind those of the groups before it.
    """
    p = plan.params.pattern
    turned, order = p.transposed()
    columns, rows = turned.row_indices.astype(np.int64), turned.column_indices.astype(np.int64)
    group = columns // p.block_columns
    rows = rows + group * p.block_rows
    each = plan.target.tiles // p.groups
    naive = plan.options.partition_method == "block-naive"
    if naive and not plan.params.samples:
        each = grid_of(each, -(-plan.params.extent // plan.params.side))[1]
    tile = np.zeros(columns.size, np.int64)
    for g in range(p.groups):
        mine = group == g
        counts = np.bincount(columns[mine] - g * p.block_columns, minlength=p.block_columns)
        tile[mine] = run_tiles(int(counts.sum()), each) if naive else strip_tiles(counts, each)
    keys = np.lexsort((rows, columns, tile + group * each))
    return columns[keys], rows[keys], order[keys], (tile + group * each)[keys], each


def _blocks(plan: BsMatmulPlan) -> TileBlocks:
    """A dense by a sparse matrix: the transposed product, for parts of the dense one's rows."""
    p, (m, k, n) = plan.params, plan.params.shape
    columns, rows, order, tile, each = _by_column(plan)
    tiles, begins = np.unique(tile, return_index=True)
    split = Split(np.append(begins, columns.size), columns)
    passes, groups = plan.passes, p.pattern.groups
    if plan.options.partition_method == "block-naive":
        parts, _ = grid_of(plan.target.tiles // groups, -(-m // p.side))
        edges = np.arange(passes * parts + 1) * m // (passes * parts)
        group, local = np.divmod(tiles, each)
        numbers = [(group * parts + i % parts) * each + local for i in range(passes * parts)]
    else:
        edges, numbers = np.arange(passes + 1) * m // passes, [tiles] * passes
    cut = tuple(ColumnPart(int(first), int(end - first), 0, where)
                for first, end, where in zip(edges[:-1], edges[1:], numbers, strict=True) if end > first)
    return TileBlocks((groups * n, groups * k, m), p.side, p.data_type, plan.partials_type, plan.target.tiles, order,
                      columns, rows, cut, (split,), True, None, groups)


def _samples(plan: BsMatmulPlan) -> TileSamples:
    """Two dense matrices at a pattern: each block whole on a tile."""
    p, (m, k, n), groups = plan.params, plan.params.shape, plan.params.pattern.groups
    columns, rows, order, tile, _ = _by_column(plan)
    tiles, begins = np.unique(tile, return_index=True)
    starts = np.append(begins, rows.size)
    lines = sum(int(distinct(starts, numbers).sum()) for numbers in (rows, columns))
    received = lines * p.side * k * TYPE_SIZES[p.data_type]
    edges = np.append(np.arange(0, k, GRAIN[p.data_type]), k)
    return TileSamples((groups * m, groups * n, k), p.side, p.data_type, plan.partials_type, plan.target.tiles, rows,
                       columns, order.astype(np.int64), starts, tiles, np.zeros(tiles.size, np.int64), edges, received,
                       (p.pattern.n_blocks, p.side), groups)


@facts_of.register
def _(plan: BsMatmulPlan) -> PlanFacts:
    """Return what a report keeps of a plan."""
    held, done = plan.tile_loads()
    return facts_of_tiles(plan.explain(), plan.target, held, {
        "multiply-accumulates of a tile": Load.of(done), "bytes of a tile": Load.of(held)})
