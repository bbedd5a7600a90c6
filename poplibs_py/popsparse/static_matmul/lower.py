"""From a static plan to what its tiles multiply, and to a program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...formats import Array
from ...memo import remembered
from ...program import Executable
from ..modelled import ColumnPart, Split, TileBlocks, lower_tiles
from ..operands import DenseLayout
from .model import StaticModel
from .plan import StaticPlan


@remembered(weight=128)
def tile_blocks(plan: StaticPlan) -> TileBlocks:
    """Return the blocks of each tile: in each part of N those of its band in their planned order, cut evenly."""
    p = plan.params
    pattern, order = p.pattern, plan.block_order()
    rows, columns = pattern.row_indices[order].astype(np.int64), pattern.column_indices[order].astype(np.int64)
    search = StaticModel(p, plan.options, plan.target).search
    parts: list[ColumnPart] = []
    splits: dict[int, tuple[int, Split, Array]] = {}
    for begin, end, first_tile, tiles in search.parts_of_n(plan.n_split):
        if begin >= p.n:
            continue
        if tiles not in splits:
            of_bands = search.tiles_of_bands(plan.k_split, tiles)
            starts, band_tile, band_block = [0], 0, 0
            numbers: list[int] = []
            for mine, blocks in zip(of_bands, plan.blocks_per_band, strict=True):
                each = -(-blocks // mine)
                pieces = -(-blocks // each)
                starts += [band_block + min((i + 1) * each, blocks) for i in range(pieces)]
                numbers += range(band_tile, band_tile + pieces)
                band_tile, band_block = band_tile + mine, band_block + blocks
            splits[tiles] = len(splits), Split(np.array(starts, np.int64), rows), np.array(numbers, np.int64)
        which, _, local = splits[tiles]
        parts.append(ColumnPart(begin, min(end, p.n) - begin, which, first_tile + local))
    return TileBlocks((*pattern.shape, p.n), p.side, p.data_type, plan.partials_type, plan.target.tiles, order, rows,
                      columns, tuple(parts), tuple(split for _, split, _ in splits.values()))


@remembered(weight=128)
def lower(plan: StaticPlan, transposed: bool, x: DenseLayout, y: DenseLayout) -> Executable:
    """Return the executable of a plan, which runs on the stored values, X and the result.

    Parameters
    ----------
    plan : StaticPlan
    transposed : bool
        Whether the stored matrix is the transpose of the plan's.
    x, y : DenseLayout
    """
    work = tile_blocks(plan)
    if transposed:
        work = replace(work, blocks=np.argsort(plan.params.pattern.transposed()[1])[work.blocks], transposed=True)
    return lower_tiles(work, x, y)
