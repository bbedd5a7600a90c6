"""Matrices made of new blocks at a pattern that is known, in compiled code: results, and tensors of other libraries."""

from __future__ import annotations

from ..formats import Format
from ..program import Wrapper
from .matrix import BlockSparseMatrix
from .parts import BLOCKS, kinds_of, parts_of
from .pattern import BlockPattern


def maker(pattern: BlockPattern, dtype: Format, transposed: bool = False) -> Wrapper:
    """Return what makes blocks into a matrix, or its transposed view: called with them, and with None.

    The blocks are not looked at: they are C-contiguous, of the pattern's shape and the format's dtype. What they hold
    outside the matrix is never read.
    """
    if transposed:
        pattern.transposed_index()
    kinds = kinds_of(pattern, dtype, 0)
    parts = parts_of(kinds, pattern, None, 0, transposed)
    settled = {"pattern": pattern, "_kinds": kinds, "format": dtype, "scale": 0, "is_transposed": transposed}
    return Wrapper(BlockSparseMatrix, "_blocks", (), settled, parts[:1 + BLOCKS], parts[2 + BLOCKS:])
