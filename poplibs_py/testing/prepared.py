"""Products of an operand that was prepared just before, as ops to check."""

from __future__ import annotations

from typing import Any

from ..formats import format_of
from ..poplin import matmul, prepare
from ..popsparse import BlockSparseMatrix, static


def matmul_prepared(a: Any, b: Any, **keywords: Any) -> Any:
    """Prepare `b` for operands like `a`, and multiply: the contract is that of `poplin.matmul`."""
    return matmul(a, prepare(b, a_dtype=format_of(getattr(a, "format", a))), **keywords)


def matmul_prepared_left(a: Any, b: Any, **keywords: Any) -> Any:
    """Prepare `a` for operands like `b`, and multiply: the contract is that of `poplin.matmul`."""
    return matmul(prepare(a, side="left", b_dtype=format_of(getattr(b, "format", b))), b, **keywords)


def sparse_dense_matmul_prepared(w: BlockSparseMatrix, x: Any, **keywords: Any) -> Any:
    """Prepare `x` for matrices like `w`, and multiply: the contract is that of `static.sparse_dense_matmul`."""
    return static.sparse_dense_matmul(w, static.prepare_dense(x, w.format), **keywords)


def dense_sparse_matmul_prepared(x: Any, w: BlockSparseMatrix, **keywords: Any) -> Any:
    """Prepare `x` for matrices like `w`, and multiply: the contract is that of `static.dense_sparse_matmul`."""
    return static.dense_sparse_matmul(static.prepare_dense(x, w.format, side="left"), w, **keywords)
