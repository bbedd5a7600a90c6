"""How many blocks a dynamic product makes room for."""

from __future__ import annotations

import math
import sys
import threading

from ..checks import real
from ..errors import CapacityWarning, warn
from ..immutable import kind_of
from ..program import key_by_parts
from .pattern import MAX_EXTENT, as_block_shape, as_extent, as_shape

_MOST = sys.float_info.max
_growing = threading.Lock()


class Capacity:
    """Room for the blocks of patterns to come: you say it once, and it grows by itself with a warning.

    A program for a dynamic product depends on shapes, formats and this number, not on the pattern. So all patterns with
    this many blocks or fewer share it.

    Parameters
    ----------
    n_blocks : int
        Blocks to make room for, of all groups together.

    Notes
    -----
    It stands for what PopLibs' ``popsparse::dynamic::FullyConnectedParams`` fixes when a layer is created. There a
    pattern that does not fit its buckets is an error; here the capacity grows.

    Examples
    --------
    >>> Capacity.with_nz_ratio((64, 128), 8, 0.25).n_blocks
    42
    """

    __slots__ = ("_blocks", "_parts")

    _parts: tuple[object, ...]

    def __init__(self, n_blocks: int) -> None:
        self._blocks = as_extent("n_blocks", n_blocks, 0)
        self._parts = (kind_of("Capacity", self._blocks),)

    @property
    def n_blocks(self) -> int:
        """Blocks that there is room for now."""
        return self._blocks

    @classmethod
    def with_nz_ratio(cls, shape: object, block_shape: object, nz_ratio: float, *, groups: int = 1,
                      oversize: float = 0.3) -> Capacity:
        """Make room for a share of all blocks, and a proportion more.

        Parameters
        ----------
        shape : (int, int)
            Rows and columns of each group's matrix, in elements.
        block_shape : int or (int, int)
        nz_ratio : float
            Stored blocks divided by all blocks, from 0 to 1.
        groups : int, optional
        oversize : float, optional
            How much more, in proportion; PopLibs' ``metaInfoBucketOversizeProportion`` (default 0.3).
        """
        ratio = real("nz_ratio", nz_ratio, "a number from 0 to 1", 0, 1)
        more = 1 + real("oversize", oversize, f"a number from 0 to {_MOST:.4g}", 0, _MOST)
        n_groups = as_extent("groups", groups, 1)
        extents = zip(as_shape(shape, n_groups), as_block_shape(block_shape), strict=True)
        everywhere = n_groups * math.prod(-(-extent // side) for extent, side in extents)
        wanted = min(float(MAX_EXTENT), everywhere * ratio * more)
        return cls(min(everywhere, math.ceil(wanted)))

    def room_for(self, n_blocks: int) -> int:
        """Return the capacity if it holds this many blocks, else what `hold` would make of it."""
        wanted, now = as_extent("n_blocks", n_blocks, 0), self._blocks
        return now if wanted <= now else max(wanted, now + now // 4)

    def hold(self, n_blocks: int) -> int:
        """Return the capacity, grown with a `CapacityWarning` so that it holds this many blocks.

        From any thread: it never becomes less than another call made it.
        """
        grown, before = self.room_for(n_blocks), self._blocks
        if grown > before:
            warn(f"capacity: got a pattern of {n_blocks} blocks; room was made for {before}, now for {grown}",
                 CapacityWarning)
            with _growing:
                self._blocks = max(self._blocks, grown)
                self._parts = (kind_of("Capacity", self._blocks),)
        return self._blocks

    def __repr__(self) -> str:
        return f"Capacity({self.n_blocks})"


key_by_parts(Capacity)
