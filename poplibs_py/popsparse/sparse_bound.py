"""How wrong a product of two block-sparse matrices may be."""

from __future__ import annotations

import numpy as np

from ..formats.bounds import Ball, matmul_ball
from .convert import pattern_of_mask
from .matrix import BlockSparseMatrix
from .reference import sampled
from .spmm.bound import most_terms, out_format_of


def sparse_sparse_matmul_bound(w: BlockSparseMatrix, v: BlockSparseMatrix, *, out_dtype: object = None) -> Ball:
    """Return exact results and radii of a `static.sparse_sparse_matmul` call, shaped like the result's blocks."""
    left, right = (x.copy() if x.is_transposed else x for x in (w, v))
    one, other = (x.to_dense(np.float64).reshape(x.groups, *x.shape) for x in (left, right))
    whole = matmul_ball(one, other, terms=most_terms(left)).rounded(out_format_of(None, out_dtype, w.format, v.format))
    masks = []
    for x in (left, right):
        p = x.pattern
        mask = np.zeros((p.groups * p.block_rows, p.block_columns), np.int64)
        mask[p.row_indices, p.column_indices] = 1
        masks.append(mask.reshape(p.groups, p.block_rows, p.block_columns))
    sides, shape = (left.block_shape[0], right.block_shape[1]), (left.shape[0], right.shape[1])
    p = pattern_of_mask(masks[0] @ masks[1] > 0, sides, shape)
    return Ball(*(sampled(part, p.block_shape, p.row_offsets, p.column_indices)
                  for part in (whole.centre, whole.radius)))
