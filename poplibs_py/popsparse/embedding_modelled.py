"""Rows of a dynamic sparse layer's weights by index, on a modelled machine: the layer's buckets, and what moves.

The rows are in the buckets of the layer's own plan. PopLibs' cost of its vertices for them is not known here: a plan
tells what tiles hold and receive, no cycles. The numbers are those of this CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..formats import Array
from ..planner import Explanation, Temporaries
from ..planner.explain import Explained, NoFlops
from ..planner.facts import PlanFacts, facts_of
from ..target import TYPE_SIZES, Target
from .fully_connected.lower import propagation_steps
from .fully_connected.modelled import lacks, partitioned, plan_of_call
from .fully_connected.plan import FullyConnectedPlan
from .matrix import BlockSparseMatrix
from .partitioner import SparsityData
from .plan_figures import facts_of_tiles

_INDEX = 4  # bytes


@dataclass(frozen=True, eq=False)
class EmbeddingTiles(NoFlops, Explained):
    """Rows of a layer's weights by index, in the buckets of its plan.

    Attributes
    ----------
    layer : FullyConnectedPlan
    data : SparsityData
        The weights in its buckets.
    rows : int
        How many indices there are.
    updates : bool
        Whether rows are added to, not read.
    """

    layer: FullyConnectedPlan
    data: SparsityData
    rows: int
    updates: bool

    @property
    def exchanged_bytes(self) -> int:
        """Bytes that tiles receive: the indices, everywhere; the rows; and buckets that spilled, as they travel."""
        (_, columns, _), (parts_x, _, parts_z) = self.data.layout.shape, self.data.layout.parts
        rows = self.rows * columns * TYPE_SIZES[self.data.layout.data_type] * (parts_x * parts_z if self.updates else 1)
        indices = self.rows * _INDEX * self.layer.tiles_used
        return indices + rows + self._bucket * self.data.layout.buckets * propagation_steps((self.data,))

    @property
    def _bucket(self) -> int:
        q = self.data.layout
        return q.value_room * TYPE_SIZES[q.data_type] + 2 * q.meta_room

    @property
    def temporaries(self) -> Temporaries:
        """Those of the layer's plan."""
        return self.layer.temporaries

    def tile_bytes(self) -> Array:
        """Return the bytes of buckets and indices on each tile."""
        held = np.zeros(self.layer.target.tiles, np.int64)
        held[:self.layer.tiles_used] = self._bucket + self.rows * _INDEX
        return held

    def explain(self) -> Explanation:
        """Return whose buckets they are, and what moves."""
        name, x, y, z = "embedding_update_add" if self.updates else "embedding_slice", *self.data.layout.parts
        return Explanation(f"{name} of {self.rows} rows of {self.layer.params}", {
            "layer": f"{x} x {y} x {z} parts of outputs, inputs and batch, on {self.layer.tiles_used:,} tiles",
            "buckets": f"{self.layer.bucket_values:,} values and {self.layer.bucket_meta:,} words of meta-information",
            "exchange": f"{self.exchanged_bytes:,} bytes"})


def embedding_lacks(w: Any, slices: tuple[Any, ...], out: Any, out_dtype: Any) -> str:
    """Return what of a call no vertex of PopLibs does, in words; an empty string if they do it all."""
    return lacks(w, slices, out if not isinstance(out, BlockSparseMatrix) else None, out_dtype)


def tiles_of(w: BlockSparseMatrix, rows: int, batch: int | None, target: Target, options: Mapping[str, Any] | None,
             more: Mapping[str, Any]) -> EmbeddingTiles | None:
    """Return what tiles have of a layer's weights and so many indices, where that is anything."""
    if not rows or 0 in w.shape:
        return None
    data, = partitioned(w, plan_of_call(w, rows if batch is None else batch, w.n_blocks, target, options, more))
    return EmbeddingTiles(data.plan, data, rows, "do_grad_w_pass" in more)


@facts_of.register
def _(plan: EmbeddingTiles) -> PlanFacts:
    """Return what a report keeps of a plan."""
    return facts_of_tiles(plan.explain(), plan.layer.target, plan.tile_bytes(), {})
