"""How wrong a sparse product may be: its contract, repeated in balls around the exact result.

Operands are decoded exactly and a sum over stored elements is that of the dense matrix with fewer terms: with t the
most stored elements that one sum meets, a sum of t terms in FP32 in any order errs by at most ``gamma_t`` times the
sum of the magnitudes (see `poplibs_py.formats.bounds`). Units that multiply BF16 may flush subnormals; matrix units
that take an FP16 number as two of BF16 add four terms for each. Bias and activation are rounded to FP32 in turn, and
the result once to its format.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import check_keys
from ...formats import Array, Format, format_of
from ...formats.bounds import Ball, matmul_ball
from ...formats.reference import values
from ...ops import target_of
from ...poplin.product.bound import finished_ball, scale_of
from ..fully_connected.bound import dynamic_ball
from ..matrix import BlockSparseMatrix
from ..operands import product_format
from ..reference import by_group, dense_of, transposed
from ..static_matmul.bound import static_ball
from .model import compute_format_of

_SPLIT_PASSES = 4
_MEMORY = ("available_memory_proportion", "strict_memory", "options")


def sparse_dense_matmul_bound(w: BlockSparseMatrix, x: Any, *, out: Any = None, out_dtype: object = None,
                              bias: Any = None, activation: str | None = None, target: Any = None,
                              **memory: Any) -> Ball:
    """Return exact results and radii of a `static.sparse_dense_matmul` call; a dynamic one has the same.

    Parameters
    ----------
    w, x, out, out_dtype, bias, activation
        As the product takes them.
    target : Target or str, optional
        As the static product takes it: a modelled machine's plan decides how often sums are rounded.
    **memory
        What limits its temporary bytes and changes no bit of it on this CPU.

    Examples
    --------
    >>> import numpy as np
    >>> w = BlockSparseMatrix.from_dense(np.eye(4, dtype=np.float32), 2)
    >>> ball = sparse_dense_matmul_bound(w, np.ones((4, 1), np.float32))
    >>> float(ball.centre[3, 0]), float(ball.radius[3, 0]) < 1e-6
    (1.0, True)
    """
    check_memory(memory)
    if target_of(target).kind != "host":
        return static_ball(w, x, target_of(target), memory.get("options"),
                           memory.get("available_memory_proportion"))
    x_format = format_of(getattr(x, "format", x))
    wanted = out_format_of(out, out_dtype, w.format, x_format)
    compute = compute_format_of(w.format.name, x_format.name, w.block_shape)
    dense = values(x)
    vector = dense.ndim == 1
    columns = dense[:, None] if vector else dense
    ball = _stored_ball(w, columns, compute == "bfloat16", _SPLIT_PASSES if compute == "float16" else 1)
    column = None if bias is None else np.asarray(bias, np.float32)
    if column is not None and w.groups == 1:
        column = column.reshape(w.shape[0], 1)
    elif column is not None and column.shape in ((w.shape[0],), (w.groups, w.shape[0])):
        column = column[..., None]
    ball = finished_ball(ball, column, activation, wanted, scale_of(out))
    return ball.reshape(w.shape[0]) if vector else ball


def dense_sparse_matmul_bound(x: Any, w: BlockSparseMatrix, *, out: Any = None, out_dtype: object = None,
                              bias: Any = None, activation: str | None = None, **memory: Any) -> Ball:
    """Return exact results and radii of a `static.dense_sparse_matmul` call: those of the transposes, transposed."""
    if bias is not None and np.ndim(bias) > 1 and np.shape(bias)[-2] == 1:  # an axis for the rows of Y
        bias = np.asarray(bias)[..., 0, :]
    ball = sparse_dense_matmul_bound(w.T, transposed(x), out=out, out_dtype=out_dtype, bias=bias, activation=activation,
                                     **memory)
    return Ball(transposed(ball.centre), transposed(ball.radius))


def dynamic_sparse_dense_matmul_bound(w: BlockSparseMatrix, x: Any, *, transpose_lhs: bool = False,
                                      transpose_rhs: bool = False, capacity: object = None, target: Any = None,
                                      **keywords: Any) -> Ball:
    """Return exact results and radii of a `dynamic.sparse_dense_matmul` call."""
    right = transposed(x) if transpose_rhs else x
    left = w.T if transpose_lhs else w
    if target_of(target).kind != "host":
        return dynamic_ball(left, right, keywords.get("options"))
    return sparse_dense_matmul_bound(left, right, **keywords)


def dynamic_dense_sparse_matmul_bound(x: Any, w: BlockSparseMatrix, *, transpose_lhs: bool = False,
                                      transpose_rhs: bool = False, capacity: object = None, target: Any = None,
                                      **keywords: Any) -> Ball:
    """Return exact results and radii of a `dynamic.dense_sparse_matmul` call."""
    left, right = transposed(x) if transpose_lhs else x, w.T if transpose_rhs else w
    if target_of(target).kind != "host":
        ball = dynamic_ball(right.T, transposed(left), keywords.get("options"))
        return Ball(transposed(ball.centre), transposed(ball.radius))
    return dense_sparse_matmul_bound(left, right, **keywords)


def fully_connected_fwd_bound(w: BlockSparseMatrix, acts: Array, *, capacity: object = None, target: Any = None,
                              **keywords: Any) -> Ball:
    """Return exact results and radii of a `dynamic.fully_connected_fwd` call."""
    x = by_group(acts, w.groups)
    if target_of(target).kind != "host":
        ball = dynamic_ball(w, x, keywords.get("options"))
    else:
        ball = sparse_dense_matmul_bound(w, x, **keywords)
    shape = len(acts), w.groups * w.shape[0]
    return Ball(*(part.reshape(w.groups, w.shape[0], len(acts)).transpose(2, 0, 1).reshape(shape)
                  for part in (ball.centre, ball.radius)))


def fully_connected_grad_a_bound(w: BlockSparseMatrix, grads: Array, **keywords: Any) -> Ball:
    """Return exact results and radii of a `dynamic.fully_connected_grad_a` call."""
    return fully_connected_fwd_bound(w.T, grads, **keywords)


def out_format_of(out: Any, out_dtype: object, *operands: Format) -> Format:
    """Return the format of a result."""
    if out_dtype is not None:
        return format_of(out_dtype)
    return product_format(*operands) if out is None else format_of(getattr(out, "format", out))


def check_memory(given: Mapping[str, object]) -> None:
    """Raise unless all keywords are of those that limit temporary memory."""
    check_keys("keywords", given, _MEMORY, keywords=True)


def _stored_ball(w: BlockSparseMatrix, x: Array, flushes: bool, passes: int) -> Ball:
    """Bound the sums over stored elements: what is not stored adds nothing, not even where X is infinite or NaN."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        dense = w.to_dense(np.float64)
    if np.isfinite(x).all():
        return matmul_ball(dense, x, terms=passes * most_terms(w), flushes=flushes)
    if w.groups == 1 and x.ndim > 2:
        balls = [_stored_ball(w, matrix, flushes, passes) for matrix in x.reshape(-1, *x.shape[-2:])]
        shape = (*x.shape[:-2], w.shape[0], x.shape[-1])
        return Ball(np.reshape([b.centre for b in balls], shape), np.reshape([b.radius for b in balls], shape))
    p = w.pattern
    ones = np.ones((p.n_blocks, *p.block_shape))
    stored = dense_of(p.shape, p.block_shape, p.row_offsets, p.column_indices, ones, p.groups) != 0
    stored = stored.swapaxes(1, 2) if w.is_transposed else stored
    dense, columns = dense.reshape(stored.shape), x.reshape(w.groups, *x.shape[-2:])
    rows = [matmul_ball(dense[g, r][keep][None], columns[g][keep], terms=passes * int(keep.sum()), flushes=flushes)
            for g in range(w.groups) for r, keep in enumerate(stored[g])]
    shape = (*x.shape[:-2], w.shape[0], x.shape[-1])
    return Ball(np.reshape([b.centre for b in rows], shape), np.reshape([b.radius for b in rows], shape))


def most_terms(w: BlockSparseMatrix) -> int:
    """Return how many stored elements one sum of a product meets at most, padding included."""
    pattern = w.pattern
    if w.is_transposed:
        per_column = np.bincount(pattern.column_indices, minlength=1)
        return int(per_column.max(initial=0)) * pattern.block_shape[0]
    return int(np.diff(pattern.row_offsets).max(initial=0)) * pattern.block_shape[1]
