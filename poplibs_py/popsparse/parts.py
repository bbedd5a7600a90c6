"""What a block-sparse matrix is to a call: what programs depend on of it, and the arrays that they run on."""

from __future__ import annotations

from typing import Any

from ..formats import Array, Format
from ..memo import tabled
from .pattern import BlockPattern, room_for

Kinds = tuple[tuple[object, ...], ...]
Parts = tuple[Any, ...]

ROW_OFFSETS, COLUMN_INDICES, BLOCKS, SCALES = range(4)
"""Where the arrays of `parts_of` are; the last only where each block has a scale of its own."""

_INDEX = 3  # arrays of a transposed pattern


def kinds_of(pattern: BlockPattern, dtype: Format, scale: int | Array) -> Kinds:
    """Return one object each for what programs do not tell apart: a matrix, that with the index of its transpose, its
    transposed view, and that with the index.

    All patterns for which programs have as much room are one kind.
    """
    one = scale if isinstance(scale, int) else None
    rows = room_for(pattern.longest_row)
    return _kinds(pattern.shape, pattern.block_shape, pattern.groups, room_for(pattern.n_blocks), rows, dtype, one)


@tabled(4096)
def _kinds(*facts: object) -> Kinds:
    return tuple((*facts, transposed, indexed) for transposed in (False, True) for indexed in (False, True))


def parts_of(kinds: Kinds, pattern: BlockPattern, blocks: Array | None, scale: int | Array,
             is_transposed: bool) -> Parts:
    """Return what `program.key_by_parts` takes of a matrix: its kind, then its arrays."""
    kind = kinds[2 * is_transposed + (pattern._index is not None)]
    scales = () if isinstance(scale, int) else (scale,)
    return kind, pattern._row_offsets, pattern._column_indices, blocks, *scales, *(pattern._index or ())


def index_places(parts: Parts) -> range:
    """Return where among a matrix's arrays the index of its transpose is."""
    return range(len(parts) - 1 - _INDEX, len(parts) - 1)
