"""PopLibs' experimental block-sparse products, on this CPU and on modelled machines: described, and planned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...checks import instance
from ...formats import Array
from ...ops import Request, placed_request
from ...planner import Memory
from ...target import Target, TargetLike, modelled_machine
from ...target.types import data_type
from ..matrix import BlockSparseMatrix
from ..operands import check_matrix, matrix_result, sparse_operand, wrapping
from ..parts import BLOCKS
from ..pattern import BlockPattern
from ..sddmm.api import sddmm_request
from ..softmax.params import check_masks
from ..spmm.api import Epilogue, spmm_request
from ..spmm.params import SWAPPED
from ..verbs import sparse_op
from .options import BsMatmulOptions
from .params import BsMatmulParams
from .plan import BsMatmulPlan, plan_product


@sparse_op("popsparse::experimental::bsMatMul", bound="experimental.bound")
def bs_matmul(x: Array, w: BlockSparseMatrix, *, out: Any = None, out_dtype: object = None,
              available_memory_proportion: float | None = None, strict_memory: bool = False,
              options: Mapping[str, Any] | None = None, target: TargetLike = None) -> Any:
    """Multiply a dense by a block-sparse matrix: ``Y = X W``.

    Parameters
    ----------
    x : array_like or QuarterArray, shape (..., m, k), or (groups, m, k) where `w` has groups
    w : BlockSparseMatrix, shape (k, n)
        PopLibs' "needs transpose" is ``w.T``.
    options : mapping, optional
        PopLibs' ``numberOfPass``, ``memoryCycleRatio`` and ``partitionMethod``, and ``partialsType``, which steer a
        modelled machine and change nothing on this CPU; ``availableMemoryProportion``. See `BsMatmulOptions`.
    target : Target or str, optional
        The machine; by default this CPU. On a modelled one blocks are dealt to tiles in PopLibs' strips, or plain runs.
        Operands and result are FP16 or FP32 alike, blocks square; their sides, and m, are multiples of 16 (FP16) or 8.

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::experimental::bsMatMul`` of a dense by a sparse operand. On this CPU it is
    `popsparse.static.dense_sparse_matmul`, bit for bit. On a modelled machine a tile adds up its blocks of a column,
    and the tiles' sums are added in ascending order, as static products there.

    Examples
    --------
    >>> from poplibs_py.popsparse import BlockSparseMatrix, experimental
    >>> w = BlockSparseMatrix.from_dense(np.eye(16, dtype=np.float32) * 3, 8)
    >>> experimental.bs_matmul(np.ones((8, 16), np.float32), w, target="gc200").max()
    np.float32(3.0)
    """
    (checked, memory), how = _read(options, available_memory_proportion, strict_memory), Epilogue(out, out_dtype)

    def there(machine: Target) -> Request | str:
        from .modelled import lacks, product_request  # only here: to import it takes its time

        return lacks(w, (x,), how, ("none",) * getattr(w, "groups", 1)) or product_request(
            w, _logical(w), x, how, checked, machine)

    op = "popsparse.experimental.bs_matmul"
    return placed_request(op, target, there, lambda placed: spmm_request(
        op, sparse_operand("w", w, True), x, how, memory, SWAPPED, placed=placed))


@sparse_op("popsparse::experimental::bsMatMul", bound="experimental.bound")
def bs_matmul_sampled(w: BlockSparseMatrix, a: Array, b: Array, *, mask: str | Sequence[str] = "none",
                      out: BlockSparseMatrix | None = None, out_dtype: object = None,
                      available_memory_proportion: float | None = None, strict_memory: bool = False,
                      options: Mapping[str, Any] | None = None, target: TargetLike = None) -> Any:
    """Multiply two dense matrices at the stored blocks of a pattern, ``A B``, as scores of block-sparse attention.

    Parameters
    ----------
    w : BlockSparseMatrix, shape (m, n)
        Its values are not read.
    a : array_like or QuarterArray, shape (m, k), or (groups, m, k) where `w` has groups
    b : array_like or QuarterArray, shape (k, n), or (groups, k, n)
    mask : {"none", "zero_upper_triangle", "zero_lower_triangle"} or one for each group, optional
        Elements above (below) the diagonal become zero, those of blocks that lie wholly there too.
    out : BlockSparseMatrix, optional
        Where to write the result: a matrix of the same pattern, not transposed.
    options : mapping, optional
        As `bs_matmul` takes them.
    target : Target or str, optional
        As for `bs_matmul`; k is such a multiple too. PopLibs refuses blocks that lie wholly in the masked triangle.

    Returns
    -------
    BlockSparseMatrix
        `out`, or a new matrix that shares `w`'s pattern.

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::experimental::bsMatMul`` of two dense operands, with its ``SubBlockMask``.
    On this CPU the values are those of `popsparse.static.sparse_grad_w`, bit for bit. On a modelled machine a tile
    makes whole blocks, each sum one chain of FP32 fused multiply-adds; half partial sums are rounded behind each 16 of
    the depth.

    Examples
    --------
    >>> from poplibs_py.popsparse import BlockSparseMatrix, experimental
    >>> place = BlockSparseMatrix.from_mask([[True, False], [True, True]], 2)
    >>> a = np.ones((4, 3), np.float32)
    >>> experimental.bs_matmul_sampled(place, a, a.T, mask="zero_upper_triangle").to_dense()
    array([[3., 0., 0., 0.],
           [3., 3., 0., 0.],
           [3., 3., 3., 0.],
           [3., 3., 3., 3.]], dtype=float32)
    """
    checked, memory = _read(options, available_memory_proportion, strict_memory)
    place = check_matrix("w", w)
    masks = check_masks(mask, place.groups)
    given = None if out is None else matrix_result(out, _logical(place))
    how = Epilogue(out if given is None else given._blocks, out_dtype)
    place = place.copy() if place.is_transposed else place

    def there(machine: Target) -> Request | str:
        from .modelled import lacks, samples_request  # only here: to import it takes its time

        return lacks(w, (a, b), how, masks) or samples_request(place, a, b, how, checked, machine)

    stored = None if given is None else given._parts[1 + BLOCKS]
    op = "popsparse.experimental.bs_matmul_sampled"
    request = placed_request(op, target, there, lambda placed: sddmm_request(
        op, place, a, b, stored, out_dtype, memory, y_name="a", x_name="b", x_form="swapped", placed=placed))
    made = request.receiver
    if given is None:
        request = request.with_(wrap=wrapping(place.pattern, made.format, made.scale), first=place)
    else:
        request = request.with_(receiver=replace(made, given=out, place=("out", BLOCKS)))
    if any(m != "none" for m in masks):
        return request.with_(program=_masking(request.program, place.pattern, masks), keep=False)
    return request.with_(keep=request.keep and place is w)


def plan_bs_matmul(w: BlockSparseMatrix | BlockPattern, rows: int, *, dtype: object = None,
                   target: Target | str = "gc200", options: Mapping[str, Any] | None = None) -> BsMatmulPlan:
    """Plan ``X W``, X of so many rows, for a modelled machine.

    Corresponds to the partition that PopLibs' ``popsparse::experimental::bsMatMul`` makes. PopLibs has no model of its
    cost: the plan tells which tile has what, and how evenly.

    Parameters
    ----------
    w : BlockSparseMatrix or BlockPattern, shape (k, n)
    rows : int
    dtype : Format, dtype or str, optional
        FP16 or FP32; by default that of `w`, and FP16 for a pattern.
    target : Target or str, optional
        The machine (default GC200).
    options : mapping, optional
        See `BsMatmulOptions`.

    Examples
    --------
    >>> from poplibs_py.popsparse import banded_pattern
    >>> from poplibs_py.popsparse.experimental import plan_bs_matmul
    >>> plan = plan_bs_matmul(banded_pattern(1024, 1024, 16, 1, 1), 64)
    >>> plan.tiles_used, plan.balance[1]
    (190, 1282)
    """
    return _plan(w, rows, dtype, target, options, False)


def plan_bs_matmul_sampled(w: BlockSparseMatrix | BlockPattern, depth: int, *, dtype: object = None,
                           target: Target | str = "gc200", options: Mapping[str, Any] | None = None) -> BsMatmulPlan:
    """Plan two dense matrices at the pattern of `w`, with so many numbers in a sum, as `plan_bs_matmul` plans.

    Parameters
    ----------
    w : BlockSparseMatrix or BlockPattern, shape (m, n)
    depth : int
    dtype, target, options
        As for `plan_bs_matmul`.
    """
    return _plan(w, depth, dtype, target, options, True)


def _read(options: Mapping[str, Any] | None, proportion: float | None, strict: bool) -> tuple[BsMatmulOptions, Memory]:
    """Return a call's options, and its limit on this CPU's memory."""
    more = {} if proportion is None else {"available_memory_proportion": proportion}
    checked = BsMatmulOptions.parse(options, **more)
    return checked, Memory(checked.available_memory_proportion or None, strict)


def _plan(w: Any, extent: Any, dtype: object, target: Any, options: Any, samples: bool) -> BsMatmulPlan:
    instance("w", w, (BlockSparseMatrix, BlockPattern), "a BlockSparseMatrix or a BlockPattern")
    pattern, usual = (w, "half") if isinstance(w, BlockPattern) else (_logical(w), w.format)
    kind = data_type("dtype", usual if dtype is None else dtype, ("half", "float"))
    params, machine = BsMatmulParams(pattern, extent, kind, samples), modelled_machine(target)
    return plan_product(params, BsMatmulOptions.parse(options), machine)


def _logical(w: BlockSparseMatrix) -> BlockPattern:
    return w.pattern.transposed()[0] if w.is_transposed else w.pattern


def _masking(program: Callable[..., Any] | None, pattern: BlockPattern, masks: tuple[str, ...]) -> Callable[..., None]:
    """Return what sets what masks leave out to zero behind a program."""
    which, keep = masked(pattern, masks)

    def run(*arrays: Array) -> None:
        if program is not None:
            program(*arrays)
        result = arrays[-1].view(f"u{arrays[-1].itemsize}")
        result[which] *= keep

    return run


def masked(pattern: BlockPattern, masks: tuple[str, ...]) -> tuple[Array, Array]:
    """Return which blocks have elements that masks leave out, and for each element of those whether it stays."""
    high, wide = pattern.block_shape
    group, row = np.divmod(pattern.row_indices, max(1, pattern.block_rows))
    sign = np.array([MASK_SIGNS[mask] for mask in masks])[group]
    corner = pattern.column_indices.astype(np.int64) * wide - row.astype(np.int64) * high
    beyond = np.where(sign > 0, corner + wide - 1 > 0, (sign < 0) & (corner - high + 1 < 0))
    which = np.flatnonzero(beyond & (sign != 0))
    distance = corner[which, None, None] + np.arange(wide) - np.arange(high)[:, None]
    return which, distance * sign[which, None, None] <= 0


MASK_SIGNS = {"none": 0, "zero_upper_triangle": 1, "zero_lower_triangle": -1}
"""Which side of the diagonal a mask leaves out."""
