"""Products with a sparse operand whose pattern stays the same."""

from ..products.prepared import PreparedDense, prepare_dense
from .api import dense_sparse_matmul, sparse_dense_matmul, sparse_grad_w

__all__ = ["PreparedDense", "dense_sparse_matmul", "prepare_dense", "sparse_dense_matmul", "sparse_grad_w"]
