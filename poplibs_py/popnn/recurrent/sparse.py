"""Products of a recurrent layer with block-sparse weights, and gradients at their blocks: by the ops of popsparse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...errors import bad_argument
from ...formats import FP32, Array, Format
from ...memo import remembered
from ...ops import Operand
from ...planner import Memory
from ...poplin.gemm.params import MatrixLayout
from ...popsparse.matrix import BlockSparseMatrix
from ...popsparse.operands import DenseLayout, sparse_operand
from ...popsparse.pattern import BlockPattern, room_for
from ...popsparse.sddmm.api import sddmm_request
from ...popsparse.spmm.lower import items_of, lower_prepare
from ...popsparse.spmm.model import compute_format_of
from ...popsparse.spmm.params import SpmmParams
from ...popsparse.spmm.plan import SparsePlan, plan_spmm
from ...program import Executable, Segment, host_program
from ...target import Target
from .builder import NOTHING, Builder
from .products import in_turns


@dataclass(frozen=True)
class Blocks:
    """What plans know of block-sparse weights: the shape of a block, and about how many there are."""

    block_shape: tuple[int, int]
    room: int


def checked_blocks(name: str, w: BlockSparseMatrix, shape: tuple[int | str, ...]) -> tuple[int, ...]:
    """Check block-sparse weights [gates, rows, columns], gates as groups, and return their shape, or raise."""
    gates = shape[0] if len(shape) == 3 else 1
    got = (*((w.groups,) if len(shape) == 3 else ()), *w.shape)
    fits = all(isinstance(n, str) or n == m for n, m in zip(shape, got, strict=True)) and w.groups == gates
    if not fits:
        raise bad_argument(name, f"a matrix of {w.groups} groups of shape {w.shape}",
                           f"{gates} groups, one of each gate: shape ({', '.join(map(str, shape))})")
    if gates != 1 and w.shape[1] % w.block_shape[1]:
        raise bad_argument(name, f"blocks of {w.block_shape}", f"blocks that divide the {w.shape[1]} columns of a gate")
    return got


def dense_of(w: BlockSparseMatrix) -> Array:
    """Return block-sparse weights as dense ones."""
    made: Array = w.to_dense()
    return made if made.ndim == 3 else made[None]


def at_blocks(w: BlockSparseMatrix, dense: Array) -> Array:
    """Return the blocks that a matrix stores of dense numbers [gates, rows, columns], zeros beyond the edges."""
    p = w.pattern
    dense = dense.swapaxes(1, 2) if w.is_transposed else dense
    (high, wide), shape = p.block_shape, (p.groups, p.block_rows, p.block_columns)
    padded = np.zeros((p.groups, shape[1] * high, shape[2] * wide), dense.dtype)
    padded[:, : dense.shape[1], : dense.shape[2]] = dense
    groups, rows = np.divmod(p.row_indices, p.block_rows)
    made: Array = padded.reshape(p.groups, shape[1], high, shape[2], wide)[groups, rows, :, p.column_indices]
    return made


def merged(w: BlockSparseMatrix, gates: Sequence[int]) -> BlockSparseMatrix:
    """Return the weights of some gates side by side as one matrix."""
    pattern, blocks, scale = w.pattern, w._blocks, w.scale
    if w.is_transposed:
        pattern, order = pattern.transposed()
        blocks, scale = blocks[order].swapaxes(1, 2), scale if isinstance(scale, int) else scale[order]
    wide, of_gate = pattern.block_columns, np.full(w.groups, -1)
    of_gate[list(gates)] = np.arange(len(gates))
    groups, rows = np.divmod(pattern.row_indices, pattern.block_rows)
    [chosen] = np.nonzero(of_gate[groups] >= 0)
    columns = pattern.column_indices[chosen] + of_gate[groups[chosen]] * wide
    shape = pattern.shape[0], pattern.shape[1] * len(gates)
    made, places = BlockPattern.from_pairs(shape, pattern.block_shape, rows[chosen], columns)
    chosen = chosen if places is None else chosen[places]
    own = scale if isinstance(scale, int) else scale[chosen]
    return BlockSparseMatrix(made, np.ascontiguousarray(blocks[chosen]), w.format, own)


@dataclass(frozen=True, eq=False)
class SparseStep:
    """A product of every step with block-sparse weights, or of all steps; see `StepProduct`.

    Attributes
    ----------
    plan : SparsePlan
        Of the product, whose values are decoded before.
    offset : int
        Bytes to the first of the dense operand.
    """

    plan: SparsePlan
    offset: int

    @property
    def n(self) -> int:
        """Columns of the result."""
        return self.plan.params.shape[0]

    @property
    def told(self) -> str:
        """What it is, in words."""
        p = self.plan.params
        return f"{self.plan.kernel.label} [{p.columns}, {p.shape[1]}] x {p.room} blocks of {p.block_shape}"

    @property
    def scratch_bytes(self) -> int:
        """Bytes of a thread."""
        return self.plan.scratch_bytes

    def pack(self, builder: Builder, w: Any, gates: Sequence[int], by_columns: bool, back: bool) -> tuple[Array, ...]:
        """Return values as kernels read them, row offsets, block columns, and the places of a transpose's blocks."""
        p, matrix = self.plan.params, merged(w, gates)
        read = sparse_operand("weights", matrix, p.transposed)
        plan = _plan(replace(p, prepared=None, w_scale=read.scale), self.plan.target)
        values = matrix._blocks
        if plan.decodes:
            values = builder.room((max(plan.values_bytes, 1),), np.uint8)
            more = [x.array for x in (read.order, read.scales) if x is not None]
            if matrix.n_blocks:
                builder.run(lower_prepare(plan), read.offsets.array, read.columns.array, read.values.array, values,
                            *more)
        return values, read.offsets.array, read.columns.array, NOTHING if read.order is None else read.order.array

    def segment(self, a: int, slots: Sequence[int], out: int, turns: int = 1,
                turn: int = 0) -> tuple[Segment, list[Any]]:
        """Return the work of a product in a loop; see `StepProduct.segment`."""
        items, tiles = items_of(self.plan)
        items["values"], items["offsets"], items["inner"] = slots[:3]
        items["x"], items["y"] = a, out
        items["order"][items["order"] >= 0] = slots[3]
        items["x_offset"] += self.offset
        return in_turns(self.plan.kernel.address, items, tiles, "x_offset", turns, turn), []

    @property
    def executable(self) -> Executable:
        """What runs it alone: of the dense operand, what `pack` returned, and the result."""
        return _alone(self)


@remembered(weight=4)
def _alone(step: SparseStep) -> Executable:
    work, _ = step.segment(0, (1, 2, 3, 4), 5)
    return host_program((work,), operands=6, threads=step.plan.threads, arena_bytes=step.plan.scratch_bytes)


def _plan(params: SpmmParams, target: Target) -> SparsePlan:
    return plan_spmm("popnn.recurrent", params, Memory(), target, lambda: 0)


@remembered(weight=4)
def sparse_step(m: int, k: int, n: int, a: MatrixLayout, b: Format, blocks: Blocks, back: bool, target: Target,
                out: Format = FP32) -> SparseStep:
    """Plan a product of m rows that lie like `a` with block-sparse weights; `back` with their transpose."""
    x = DenseLayout(a.format.name, (0, a.column, a.row if m > 1 else a.format.itemsize))
    y = DenseLayout(out.name, (0, out.itemsize, out.itemsize * (n if m > 1 else 1)))
    compute = compute_format_of(b.name, a.format.name, blocks.block_shape)
    params = SpmmParams((n, k), blocks.block_shape, 1, m, blocks.room, blocks.room, not back, b.name, 0, x, y,
                        prepared=compute)
    return SparseStep(_plan(params, target), a.offset)


def blocks_of(w: BlockSparseMatrix) -> Blocks:
    """Return what plans know of a matrix."""
    return Blocks(w.block_shape, room_for(w.n_blocks))


def stored_gradients(builder: Builder, w: BlockSparseMatrix, left: Array, grads: Array, to: Array) -> None:
    """Write ``left' grads`` at the blocks of a matrix: of operands [gates, rows of the sum, columns].

    Parameters
    ----------
    builder : Builder
    w : BlockSparseMatrix
    left, grads : numpy.ndarray
    to : numpy.ndarray
        As the matrix's blocks, FP32.
    """
    first, second = (x.swapaxes(1, 2) if w.groups > 1 else x[0].T for x in (left, grads))
    made = sddmm_request("popnn.recurrent", w, first, second, to, None, Memory())
    if made.program is not None:
        builder.run(made.program, *(x.array if isinstance(x, Operand) else made.receiver.array for x in made.operands))
