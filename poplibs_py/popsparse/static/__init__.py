"""Products with a sparse operand whose pattern stays the same."""

from ..matrix import OPERATORS
from ..spmm.plan import SparsePlan
from ..spmm.prepared_dense import PreparedDense, prepare_dense
from ..spmm.prepared_sparse import PreparedSparse, prepare
from .api import (
    compile_dense_sparse_matmul,
    compile_sparse_dense_matmul,
    dense_sparse_matmul,
    plan_dense_sparse_matmul,
    plan_sparse_dense_matmul,
    sparse_dense_matmul,
    sparse_grad_w,
)

__all__ = [
    "PreparedDense",
    "PreparedSparse",
    "SparsePlan",
    "compile_dense_sparse_matmul",
    "compile_sparse_dense_matmul",
    "dense_sparse_matmul",
    "plan_dense_sparse_matmul",
    "plan_sparse_dense_matmul",
    "prepare",
    "prepare_dense",
    "sparse_dense_matmul",
    "sparse_grad_w",
]

OPERATORS.update({"w @ x": sparse_dense_matmul, "x @ w": dense_sparse_matmul})
