"""Products with a sparse operand whose pattern is new at each call."""

from .api import (
    dense_sparse_matmul,
    fully_connected_fwd,
    fully_connected_grad_a,
    fully_connected_sparse_grad_w,
    sparse_dense_matmul,
)
from .capacity import Capacity

__all__ = [
    "Capacity",
    "dense_sparse_matmul",
    "fully_connected_fwd",
    "fully_connected_grad_a",
    "fully_connected_sparse_grad_w",
    "sparse_dense_matmul",
]
