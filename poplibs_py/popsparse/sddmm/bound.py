"""How wrong a sampled product may be: in balls around the exact result, as `spmm.bound` has them."""

from __future__ import annotations

from typing import Any

from ...formats import Array, format_of
from ...formats.bounds import Ball, matmul_ball
from ...formats.reference import values
from ...ops import target_of
from ...poplin.product.bound import finished_ball, scale_of
from ..fully_connected.bound import gradient_ball
from ..matrix import BlockSparseMatrix
from ..modelled_bound import at_blocks
from ..reference import by_group
from ..spmm.bound import check_memory, out_format_of
from ..spmm.model import compute_format_of


def fully_connected_sparse_grad_w_bound(w: BlockSparseMatrix, grads: Array, acts: Array, *, capacity: object = None,
                                        target: Any = None, **keywords: Any) -> Ball:
    """Return exact results and radii of a `dynamic.fully_connected_sparse_grad_w` call, shaped like the blocks."""
    left, right = by_group(grads, w.groups), by_group(acts, w.groups)
    if target_of(target).kind != "host":
        return at_blocks(gradient_ball(w, left, right, target_of(target), keywords.get("options")), w)
    return stored_grad_w_bound(w, left, right, **keywords)


def stored_grad_w_bound(w: BlockSparseMatrix, grads: Any, x: Any, *, out: Any = None, out_dtype: object = None,
                        **memory: object) -> Ball:
    """Return exact results and radii of a `static.sparse_grad_w` call, shaped like the blocks."""
    check_memory(memory)
    return at_blocks(sparse_grad_w_bound(w, grads, x, out=out, out_dtype=out_dtype), w)


def sparse_grad_w_bound(w: BlockSparseMatrix, grads: Any, x: Any, *, out: Any = None, out_dtype: object = None) -> Ball:
    """Return exact results and radii of a `static.sparse_grad_w` call, each as a dense (groups, m, k) array.

    Values are promised at the stored elements only.
    """
    formats = [format_of(getattr(a, "format", a)) for a in (grads, x)]
    flushes = compute_format_of(formats[0].name, formats[1].name) == "bfloat16"
    left, right = values(grads), values(x)
    ball = matmul_ball(left, right.swapaxes(-1, -2), terms=left.shape[-1], flushes=flushes)
    ball = finished_ball(ball, None, None, out_format_of(out, out_dtype, *formats), scale_of(out))
    return ball.reshape(w.groups, *w.shape)
