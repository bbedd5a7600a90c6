"""Products of a recurrent layer with block-sparse weights, and gradients at their blocks: by the ops of popsparse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from ...errors import bad_argument
from ...formats import FP32, Array, Format
from ...memo import remembered
from ...ops import Operand
from ...planner import Memory
from ...poplin.gemm.params import MatrixLayout
from ...popsparse.matrix import BlockSparseMatrix
from ...popsparse.operands import DenseLayout, sparse_operand
from ...popsparse.pattern import room_for
from ...popsparse.sddmm.api import sddmm_request
from ...popsparse.spmm.lower import items_of, lower_prepare
from ...popsparse.spmm.model import compute_format_of
from ...popsparse.spmm.params import SpmmParams
from ...popsparse.spmm.plan import SparsePlan, plan_spmm
from ...program import Executable, Segment, host_program
from ...target import Target
from .builder import NOTHING, Builder, Lie
from .products import in_turns


@dataclass(frozen=True)
class Blocks:
    """What programs know of block-sparse weights: all of a kind are alike.

    Attributes
    ----------
    block_shape : (int, int)
    room : int
        About how many there are: at least as many.
    rows, columns : int
        Of blocks, of a gate.
    gates : int
    turned : bool
        Whether what is stored is the transpose.
    scale : int or None
        Exponent of the scale of all blocks, or None where each has its own.
    """

    block_shape: tuple[int, int]
    room: int
    rows: int
    columns: int
    gates: int
    turned: bool
    scale: int | None

    @classmethod
    def of(cls, w: BlockSparseMatrix) -> Self:
        """Return what is known of a matrix."""
        p, turned = w.pattern, w.is_transposed
        rows, columns = (p.block_columns, p.block_rows) if turned else (p.block_rows, p.block_columns)
        return cls(w.block_shape, room_for(w.n_blocks), rows, columns, w.groups, turned,
                   w.scale if isinstance(w.scale, int) else None)


class Stored(NamedTuple):
    """What block-sparse weights have in memory, or what stands for it: offsets of block rows, block columns, values;
    the places of the blocks where a transpose is stored; scales where each block has its own."""

    offsets: Any
    columns: Any
    values: Any
    order: Any
    scales: Any

    @classmethod
    def of(cls, name: str, w: BlockSparseMatrix) -> Self:
        """Return them as operands."""
        x = sparse_operand(name, w)
        return cls(x.offsets, x.columns, x.values, x.order, x.scales)

    def lies(self, blocks: Blocks) -> list[Lie | None]:
        """Return how they lie, with room for any weights of the kind."""
        return [Lie.of(self.offsets),
                *(x if x is None else Lie.in_order((blocks.room, *x.shape[1:]), x.array.dtype) for x in self[1:])]


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


def _merge(b: Blocks, gates: Sequence[int], back: bool, offsets: Array, columns: Array, values: Array, order: Array,
           scales: Array, *to: Array) -> None:
    """Write the weights of some gates side by side as those of one matrix; `back`, with the index of its transpose."""
    groups, rows = np.divmod(np.repeat(np.arange(b.gates * b.rows), np.diff(offsets)), b.rows)
    of_gate, wide = np.full(b.gates, -1), b.columns * len(gates)
    of_gate[list(gates)] = np.arange(len(gates))
    [chosen] = np.nonzero(of_gate[groups] >= 0)
    rows, across = rows[chosen], columns[chosen] + of_gate[groups[chosen]] * b.columns
    lines = np.argsort(rows * wide + across)
    rows, across, chosen, n = rows[lines], across[lines], chosen[lines], len(chosen)
    stored = order[chosen] if b.turned else chosen
    to_offsets, to_columns, to_values, to_order, to_scales = to
    if b.turned:
        to_values[:n] = values[stored].swapaxes(1, 2)
    else:
        np.take(values, stored, 0, to_values[:n], "clip")  # no numbers are copied twice
    if b.scale is None:
        to_scales[:n] = scales[stored]
    if back:
        places = np.argsort(across * b.rows + rows)
        to_order[:n], rows, across = places, across[places], rows[places]
    to_columns[:n] = across
    to_offsets[...] = np.searchsorted(rows, np.arange(to_offsets.size))


@dataclass(frozen=True, eq=False)
class SparseStep:
    """A product of every step with block-sparse weights, or of all steps; see `StepProduct`.

    Attributes
    ----------
    plan : SparsePlan
        Of the product, whose values are decoded before.
    offset : int
        Bytes to the first of the dense operand.
    blocks : Blocks
        Of the weights, all gates'.
    """

    plan: SparsePlan
    offset: int
    blocks: Blocks

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
        """Return values as kernels read them, row offsets, block columns, and the places of a transpose's blocks: of
        what is `Stored` of weights."""
        b, p = self.blocks, self.plan.params
        plan = _plan(replace(p, prepared=None, w_scale=b.scale), self.plan.target)
        rows = b.columns * len(gates) if p.transposed else b.rows
        offsets, columns = (builder.room((n,), x.dtype) for n, x in ((rows + 1, w.offsets), (b.room, w.columns)))
        order = builder.room((b.room,), np.int32) if p.transposed else NOTHING
        own = (b.room, *b.block_shape), w.values.dtype
        values = builder.room(*((max(plan.values_bytes, 1),), np.uint8) if plan.decodes else own)
        with builder.passing():
            blocks = builder.room(*own) if plan.decodes else values
            scales = builder.room((b.room,), w.scales.dtype) if b.scale is None else NOTHING
            held = (NOTHING if x is None else x for x in w)
            builder.run(partial(_merge, b, tuple(gates), p.transposed), *held, offsets, columns, blocks, order, scales)
            if plan.decodes and b.room:
                more = [order] * p.transposed + [scales] * (b.scale is None)
                builder.run(lower_prepare(plan), offsets, columns, blocks, values, *more)
        return values, offsets, columns, order

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
    return SparseStep(_plan(params, target), a.offset, blocks)


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
