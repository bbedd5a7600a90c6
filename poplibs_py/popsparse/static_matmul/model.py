"""What PopLibs' static planner knows of a product: the order of rows and columns, and what the search is told.

The search, ``src_cython/popsparse/_static_search.pyx``, has the costs. For a part of N and the band of columns with the
most blocks for each tile: exchange of dense rows and of values, multiplication, partial sums zeroed, exchanged and
reduced, the result moved. A uniform pattern is assumed, with a standard deviation on top. PopLibs' quirks are kept: the
result's move counts bytes as cycles, a band's tiles are clipped as if none were taken yet, and the sum by which tiles
are shared out begins at 1.
"""

from __future__ import annotations

import numpy as np

from ...formats import Array
from ...target import TYPE_SIZES, Target, memory_limit
from ._search import StaticSearch
from .options import MOST_BANDS, StaticOptions
from .params import StaticParams

_MOST_N_SPLIT, _MOST_K_SPLIT = 32, 128
_REJECTED = 0.1
"""Rows and columns with no more than this share of the blocks of an even spread are left out of the estimate."""


def planned_order(counts: Array, n_blocks: int, preprocess: bool) -> tuple[Array, int]:
    """Return the order of rows, or of columns, and how many of them the planner counts.

    Parameters
    ----------
    counts : numpy.ndarray of int
        Blocks of each.
    n_blocks : int
        In all.
    preprocess : bool
        Whether those that are nearly empty come last, by descending count, and are not counted: at least one is.
    """
    if not preprocess:
        return np.arange(counts.size), counts.size
    order = np.argsort(-counts, kind="stable")
    kept = max(1, int(np.count_nonzero(counts > _REJECTED * n_blocks / counts.size)))
    return np.concatenate([np.sort(order[:kept]), order[kept:]]), kept


class StaticModel:
    """A product on a machine, ready to be searched.

    Attributes
    ----------
    row_order, column_order : numpy.ndarray of int
        Which block row, and column, is first, second …: PopLibs' permutations.
    search : StaticSearch
        The compiled search.
    """

    def __init__(self, params: StaticParams, options: StaticOptions, target: Target) -> None:
        pattern, width = params.pattern, target.vector_width(params.data_type)
        rows = np.diff(pattern.row_offsets).astype(np.int64)
        columns = np.bincount(pattern.column_indices, minlength=pattern.block_columns).astype(np.int64)
        preprocess = options.enable_preprocessing
        self.row_order, m_plan = planned_order(rows, pattern.n_blocks, preprocess)
        self.column_order, k_plan = planned_order(columns, pattern.n_blocks, preprocess)
        bus = target.tiles_per_exchange_bus
        k_grain = 1 if params.side == 1 else width
        n_most = min(_MOST_N_SPLIT, -(-params.n // width))
        k_most = min(_MOST_K_SPLIT, -(-k_plan // k_grain), MOST_BANDS)
        self.search = StaticSearch(np.ascontiguousarray(columns[self.column_order]), {
            "tiles": target.tiles, "tile_grain": 1 if target.tiles < bus else bus, "workers": target.workers,
            "exchange_bytes": max(1, int(target.exchange_bytes_per_cycle)), "data_path_bits": target.data_path_bits,
            "m": pattern.shape[0], "n_padded": -(-params.n // width) * width, "n_grain": width, "m_plan": m_plan,
            "k_plan": k_plan, "density": min(pattern.n_blocks / (m_plan * k_plan), 1.0), "blocks": pattern.n_blocks,
            "side": params.side, "size": TYPE_SIZES[params.data_type],
            "partial_size": TYPE_SIZES[options.partials_type or params.data_type],
            "limit": memory_limit(target, options.available_memory_proportion) or 0,
            "n_splits": (options.n_split or 1, options.n_split or n_most),
            "bands": (options.num_bands or 1, options.num_bands or k_most)})
