"""PopSparse: block-sparse matrices and their products."""

from .matrix import BlockSparseMatrix
from .pattern import BlockPattern

__all__ = ["BlockPattern", "BlockSparseMatrix"]
