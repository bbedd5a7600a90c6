"""How wrong an experimental block-sparse product may be: as the products that it runs as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...formats.bounds import Ball
from ...ops import target_of
from ..matrix import BlockSparseMatrix
from ..modelled_bound import at_blocks, modelled_ball, sampled_ball
from ..reference import sampled, transposed
from ..sddmm.bound import stored_grad_w_bound
from ..softmax.params import check_masks
from ..spmm.bound import dense_sparse_matmul_bound
from .options import BsMatmulOptions
from .params import GRAIN


def bs_matmul_bound(x: Any, w: BlockSparseMatrix, *, out: Any = None, out_dtype: object = None,
                    options: Mapping[str, Any] | None = None, target: Any = None) -> Ball:
    """Return exact results and radii of a `bs_matmul` call."""
    partials = _partials(w, options)
    if target_of(target).kind == "host":
        return dense_sparse_matmul_bound(x, w, out=out, out_dtype=out_dtype)
    ball = modelled_ball(w.T, transposed(x), partials, w.block_shape[0])
    return Ball(transposed(ball.centre), transposed(ball.radius))


def bs_matmul_sampled_bound(w: BlockSparseMatrix, a: Any, b: Any, *, mask: str | Sequence[str] = "none",
                            out: Any = None, out_dtype: object = None, options: Mapping[str, Any] | None = None,
                            target: Any = None) -> Ball:
    """Return exact results and radii of a `bs_matmul_sampled` call, shaped like the result's blocks."""
    place, partials = w.copy() if w.is_transposed else w, _partials(w, options)
    p = place.pattern
    if target_of(target).kind == "host":
        ball = stored_grad_w_bound(place, a, transposed(b), out=out, out_dtype=out_dtype)
    else:
        parts = -(-np.shape(a)[-1] // GRAIN["half"])
        whole = sampled_ball(a, transposed(b), partials, parts, w.format).reshape(w.groups, *w.shape)
        ball = at_blocks(whole, place)
    distance = np.arange(w.shape[1]) - np.arange(w.shape[0])[:, None]
    stays = {"none": distance == distance, "zero_upper_triangle": distance <= 0, "zero_lower_triangle": distance >= 0}
    kept = sampled(np.stack([stays[m] for m in check_masks(mask, w.groups)]), p.block_shape, p.row_offsets,
                   p.column_indices)
    return Ball(*(np.where(kept, part, 0) for part in (ball.centre, ball.radius)))


def _partials(w: BlockSparseMatrix, options: Mapping[str, Any] | None) -> str:
    asked = BsMatmulOptions.parse(options).partials_type
    return asked if w.format.bits == 16 else "float"
