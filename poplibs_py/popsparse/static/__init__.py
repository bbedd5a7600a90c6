"""Products with a sparse operand whose pattern stays the same."""

from ..matrix import OPERATORS
from ..products.prepared import PreparedDense, prepare_dense
from ..products.ready import PreparedSparse, prepare
from .api import dense_sparse_matmul, sparse_dense_matmul, sparse_grad_w
from .plan import (
    CompiledSparseMatmul,
    SparsePlan,
    compile_dense_sparse_matmul,
    compile_sparse_dense_matmul,
    plan_dense_sparse_matmul,
    plan_sparse_dense_matmul,
)

__all__ = [
    "CompiledSparseMatmul",
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
