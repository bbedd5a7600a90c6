"""Softmax over stored blocks on a modelled machine: which tile has which rows, and what PopLibs has not.

PopLibs' cost of it is not known here: the plan tells what tiles hold and how evenly, no cycles. The numbers are those
of this CPU's kernels, which are the same at every level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...formats import Array, Format
from ...planner import Explanation
from ...planner.explain import Explained, NoFlops
from ...planner.facts import Load, PlanFacts, facts_of
from ...target import TYPE_SIZES, Target
from ...target.types import type_of
from ..pattern import BlockPattern
from ..plan_figures import facts_of_tiles


@dataclass(frozen=True)
class SoftmaxTiles(NoFlops, Explained):
    """Block rows dealt to tiles in order, each with about as many stored blocks.

    Attributes
    ----------
    pattern : BlockPattern
        As it is stored.
    data_type : str
    matrices : int
        Operands and the result.
    target : Target
    """

    pattern: BlockPattern
    data_type: str
    matrices: int
    target: Target

    @property
    def temporaries(self) -> None:
        """None: there is no limit on them."""

    @property
    def exchanged_bytes(self) -> int:
        """Bytes that all tiles receive: none."""
        return 0

    def tile_blocks(self) -> Array:
        """Return the stored blocks of each tile."""
        counts = np.diff(self.pattern.row_offsets)
        middle = 2 * np.cumsum(counts) - counts
        tile = middle * self.target.tiles // (2 * max(1, int(counts.sum())))
        return np.bincount(tile[counts > 0], counts[counts > 0], self.target.tiles).astype(np.int64)

    def tile_bytes(self) -> Array:
        """Return the bytes of operands and result on each tile."""
        high, wide = self.pattern.block_shape
        held: Array = self.tile_blocks() * (high * wide * self.matrices * TYPE_SIZES[self.data_type])
        return held

    def explain(self) -> Explanation:
        """Return what was decided, and how evenly work lies."""
        load, p = Load.of(self.tile_blocks()), self.pattern
        name = "bs_softmax" if self.matrices == 2 else "bs_softmax_grad"
        problem = f"{name} of {p.n_blocks} blocks of {p.block_shape[0]} x {p.block_shape[1]}, {self.data_type}"
        return Explanation(problem, {"tiles": f"{load.used:,} of {self.target.tiles:,}, whole rows of blocks each",
                                     "balance": f"{load.balance:.3f}, the fullest tile has {load.most:,} blocks"})


def wholly_masked(pattern: BlockPattern, masks: tuple[str, ...]) -> bool:
    """Whether a block lies wholly in the triangle that the mask of its group leaves out."""
    group, down = np.divmod(pattern.row_indices, max(1, pattern.block_rows))
    (high, wide), across = pattern.block_shape, pattern.column_indices.astype(np.int64)
    above = across * wide >= (down.astype(np.int64) + 1) * high
    below = (across + 1) * wide <= down.astype(np.int64) * high
    beyond = np.array([mask == "zero_upper_triangle" for mask in masks])[group] & above
    beyond |= np.array([mask == "zero_lower_triangle" for mask in masks])[group] & below
    return bool(beyond.any())


def lacks(pattern: BlockPattern, masks: tuple[str, ...], formats: tuple[tuple[Format, int], ...]) -> str:
    """Return what of a softmax no vertex of PopLibs does, in words; an empty string if they do it all."""
    kinds = {type_of(fmt) for fmt, _ in formats}
    if len(kinds) > 1 or not kinds <= {"half", "float"}:
        return f"of {' to '.join(dict.fromkeys(fmt.name for fmt, _ in formats))}"
    if pattern.is_ragged:
        return "but of blocks that divide the matrix"
    return "with blocks that lie wholly in the masked triangle" if wholly_masked(pattern, masks) else ""


@facts_of.register
def _(plan: SoftmaxTiles) -> PlanFacts:
    """Return what a report keeps of a plan."""
    return facts_of_tiles(plan.explain(), plan.target, plan.tile_bytes(),
                          {"stored blocks of a tile": Load.of(plan.tile_blocks())})
