"""Products with a sparse operand whose pattern stays the same."""

from .api import dense_sparse_matmul, sparse_dense_matmul

__all__ = ["dense_sparse_matmul", "sparse_dense_matmul"]
