"""Sparse products as the tiles of a modelled machine make them: which blocks each tile multiplies, as a program.

A part of the dense operand's columns is shared by some tiles, and each of these has a piece of the blocks. A tile's
partial sums are rows of its own; the pieces' rows are then added, and what no block reaches is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..config import settings
from ..formats import FP16, FP32, Array, Format, format_of
from ..kernels import Kernel, select
from ..kernels.records import ACTIVATIONS, FORMAT_NUMBERS, dtype_of, infinite_overflow
from ..ops import AS_ASKED, Receiver, Request
from ..planner.explain import Plan
from ..poplin.gemm.lower import format_record
from ..poplin.tile_conv import _partials
from ..program import ComputeSet, Exchange, Executable, Program, Segment, spread, threads_for, whole_lines
from ..target import TYPE_SIZES, LinearMapping
from ..target.types import type_of
from ._tiles import BLOCKS, BLOCKS_VERTEX
from .matrix import BlockSparseMatrix
from .operands import DenseLayout, dense_operand, product_format

_PANEL = dtype_of("pop_panel_item")
_VALUES, _X, _OUT, _WORK = range(4)  # a program's operands, its workspace last
_SUMS = 1024  # worth an item of their own
_CLEARED = 1 << 16
_SET_FLOPS = 1 << 20  # for each thread


class ColumnPart(NamedTuple):
    """Columns of the dense operand that some tiles share.

    Attributes
    ----------
    first, columns : int
    split : int
        How the blocks are cut among the tiles: which of `TileBlocks.splits`.
    tiles : numpy.ndarray of int
        The tile of each piece, ascending.
    """

    first: int
    columns: int
    split: int
    tiles: Array


@dataclass(frozen=True, eq=False)
class Split:
    """Blocks cut in pieces.

    Attributes
    ----------
    starts : numpy.ndarray of int
        Where pieces begin, and the last ends.
    rows : numpy.ndarray of int
        The block row of each block.
    """

    starts: Array
    rows: Array

    @cached_property
    def sums(self) -> tuple[Array, Array, Array]:
        """Which sums each block adds to; the block rows that have any, and where those of each begin.

        A piece has a row of sums for each block row that it meets. Those of a block row lie side by side, by piece.
        """
        pieces = np.repeat(np.arange(self.starts.size - 1), np.diff(self.starts))
        keys, which = np.unique(self.rows.astype(np.int64) * self.starts.size + pieces, return_inverse=True)
        met, begins = np.unique(keys // self.starts.size, return_index=True)
        return which, met, np.append(begins, keys.size)


class TileFormats:
    """The formats of what tiles multiply."""

    data_type: str
    partials_type: str

    @property
    def kind(self) -> Format:
        """Format of operands and result."""
        return FP16 if self.data_type == "half" else FP32

    @property
    def partial(self) -> Format:
        """Format of partial sums."""
        return FP16 if self.partials_type == "half" else FP32

    @property
    def rounding(self) -> int:
        """Where the kernel is that rounds partial sums, if one does."""
        return select("dot", "round", "float16").kernel.address if self.partial == FP16 else 0


@dataclass(frozen=True, eq=False)
class TileBlocks(TileFormats):
    """What the tiles of a sparse product multiply.

    Attributes
    ----------
    shape : (int, int, int)
        m, k and n of the product; m and k of all groups together.
    side : int
        Of a block.
    data_type, partials_type : str
        ``"half"`` or ``"float"``.
    machine_tiles : int
    blocks, rows, columns : numpy.ndarray of int
        Which of the pattern's blocks comes first, second …; its block row and block column.
    parts : tuple of ColumnPart
    splits : tuple of Split
    transposed : bool
        Whether the pattern is a transpose, whose stored blocks are transposed.
    received : (int, int), optional
        Bytes of operands, and of partial sums, that tiles receive in all; by default what their blocks ask for.
    groups : int
        Products that are made at once: blocks of a group meet its own rows of m and of k alone.
    """

    shape: tuple[int, int, int]
    side: int
    data_type: str
    partials_type: str
    machine_tiles: int
    blocks: Array
    rows: Array
    columns: Array
    parts: tuple[ColumnPart, ...]
    splits: tuple[Split, ...] = field(default=())
    transposed: bool = False
    received: tuple[int, int] | None = None
    groups: int = 1

    def tile_macs(self) -> Array:
        """Multiply-accumulates of each tile."""
        macs = np.zeros(self.machine_tiles, np.int64)
        for part in self.parts:
            macs[part.tiles] += np.diff(self.splits[part.split].starts) * self.side**2 * part.columns
        return macs

    def tile_bytes(self) -> Array:
        """Bytes of dense rows, values and partial sums on each tile, in the plan's types."""
        size, partial = TYPE_SIZES[self.data_type], TYPE_SIZES[self.partials_type]
        held = np.zeros(self.machine_tiles, np.int64)
        for part in self.parts:
            split = self.splits[part.split]
            dense, sums = distinct(split.starts, self.columns), distinct(split.starts, self.rows)
            values = np.diff(split.starts) * self.side**2 * size
            held[part.tiles] += values + self.side * part.columns * (dense * size + sums * partial)
        return held

    def exchanged(self) -> tuple[int, int]:
        """Bytes of dense rows and values, and of partial sums, that tiles receive in all."""
        if self.received is not None:
            return self.received
        size, partial = TYPE_SIZES[self.data_type], TYPE_SIZES[self.partials_type]
        operands = sums = 0
        for part in self.parts:
            split = self.splits[part.split]
            dense = int(distinct(split.starts, self.columns).sum())
            operands += size * self.side * part.columns * dense
            if len(self.parts) > 1:
                operands += size * self.side**2 * int(split.starts[-1])
            _, met, begins = split.sums
            sums += partial * self.side * part.columns * (int(begins[-1]) - met.size)
        return operands, sums


def distinct(starts: Array, numbers: Array) -> Array:
    """Return how many different numbers the blocks of each piece have."""
    pieces, most = np.repeat(np.arange(starts.size - 1), np.diff(starts)), int(numbers.max(initial=0)) + 1
    return np.bincount(np.unique(pieces * most + numbers) // most, minlength=starts.size - 1)


def multiply_kernel() -> Kernel:
    """Return the kernel that makes tiles' products: of the same bits at every level."""
    return select("dot", "multiply", "float32", consistent=True).kernel


def empty_request(receiver: Receiver) -> Request:
    """Describe a product of nothing, whose sums are zero."""
    if receiver.array.size:
        receiver.array[...] = 0
    return Request(None, (), receiver, lambda: ("an empty product", "none", None), placed=AS_ASKED)


def tiles_request(program: Executable, operands: tuple[Any, ...], receiver: Receiver, plan: Plan, what: str,
                  loads: Callable[[], tuple[Array, Array]], measured: Callable[[], dict[str, Any]]) -> Request:
    """Describe a product on tiles.

    Parameters
    ----------
    program, operands, receiver
        As a `Request` has them.
    plan : Plan
        What a `Run` tells of it.
    what : str
        What is computed, for a reader.
    loads : callable
        Returns the bytes, and the multiply-accumulates, of each tile.
    measured : callable
        Returns what else a `Run` tells.
    """
    def measure() -> dict[str, Any]:
        held, done = loads()
        return {**measured(), "tile_bytes": held, "tile_macs": done, "exchanged_bytes": program.program.exchanged_bytes}

    return Request(program, operands, receiver, lambda: (what, multiply_kernel().label, plan), placed=AS_ASKED,
                   keep=False, measure=measure)


def product_lacks(w: Any, operands: tuple[Any, ...], out: Any, out_dtype: Any, bias: Any, activation: Any,
                  sides: Callable[[int], bool], named: str, groups: bool = False) -> str:
    """Return what of a sparse product no vertex of PopLibs does, in words; an empty string if they do it all.

    Parameters
    ----------
    w, out, out_dtype, bias, activation
        As the product takes them.
    operands : tuple
        What it takes that is dense.
    sides : callable
        Whether there are vertices for square blocks of a side.
    named : str
        Which there are.
    groups : bool, optional
        Whether there may be several groups.
    """
    if any(hasattr(operand, "compute_format") for operand in (w, *operands)):
        return "of an operand that is prepared for this CPU"
    if not isinstance(w, BlockSparseMatrix):
        return ""  # refused further on
    if bias is not None or activation is not None:
        return "with a bias or an activation: PopLibs' sparse products have none"
    p = w.pattern
    square = p.block_shape[0] == p.block_shape[1] and sides(p.block_shape[0])
    if (p.groups != 1 and not groups) or p.is_ragged or not square:
        return f"but {'' if groups else 'of one group, '}in square blocks of side {named} that divide the matrix"
    for value in operands:
        dense = dense_operand("x", value)
        if type_of(w.format) not in ("half", "float") or dense.format != w.format:
            return f"of {w.format} and {dense.format}"
        if dense.array.ndim > 2 and p.groups == 1:
            return "of a batch of matrices"
    if out is not None:
        made = dense_operand("out", out).format
    else:
        made = product_format(w.format) if out_dtype is None else format_of(out_dtype, "out_dtype")
    return "" if made == w.format else f"of {w.format} to {made}"


def lower_tiles(work: TileBlocks, x: DenseLayout, y: DenseLayout) -> Executable:
    """Return the executable of a product, which runs on the stored values, X and the result.

    Parameters
    ----------
    work : TileBlocks
    x, y : DenseLayout
        How X, [k, n], and the result, [m, n], lie.
    """
    lowering = _Lowering(work)
    operands, sums = work.exchanged()
    every: tuple[ComputeSet | Exchange, ...] = (
        Exchange("exchange of dense rows and values", operands), lowering.decode(x), lowering.clear(),
        lowering.multiply(), Exchange("exchange of partials", sums), lowering.reduce(), lowering.finish(y))
    steps = tuple(step for step in every if isinstance(step, Exchange) or any(s.items.size for s in step.segments))
    program = Program(steps, 3, work.machine_tiles, 0, lowering.workspace, tuple(lowering.tables.values()))
    flops = 2 * int(work.tile_macs().sum())
    return program.executable(threads_for(flops, _SET_FLOPS, settings.num_threads))


class _Lowering:
    """Where everything lies in the workspace: values, X, partial sums of each part, results of each part; all FP32."""

    def __init__(self, work: TileBlocks) -> None:
        m, k, n = work.shape
        self.work, self.x_row = work, 4 * n
        self.x = whole_lines(4 * work.blocks.size * work.side**2)
        at = self.x + whole_lines(4 * k * n)
        self.partials, self.results = [], []
        self.cleared = at
        for part in work.parts:
            self.partials.append(at)
            at += whole_lines(4 * int(work.splits[part.split].sums[2][-1]) * work.side * part.columns)
        for part in work.parts:
            self.results.append(at)
            at += whole_lines(4 * m * part.columns)
        self.workspace = at
        self.tables: dict[tuple[int, int], Array] = {}

    def _dealt(self, items: Array, vertex: int, phase: str) -> ComputeSet:
        flat = items.ravel()
        return ComputeSet(phase, (Segment(vertex, flat, spread(flat.size, self.work.machine_tiles)),))

    def decode(self, x: DenseLayout) -> ComputeSet:
        """Values and X as FP32, in the workspace."""
        _, k, n = self.work.shape
        area, count, depth = self.work.side**2, self.work.blocks.size, k // self.work.groups
        size = self.work.kind.itemsize
        values = decoding(self.work.kind.name, (count, area), _VALUES, 0, (area * size, size), 0, 4 * area)
        every = [values, *(decoding(x.format, (depth, n), _X, group * x.strides[0], x.strides[1:],
                                    self.x + group * depth * self.x_row, self.x_row)
                           for group in range(self.work.groups))]
        return ComputeSet("decode", tuple(Segment(vertex, items, spread(items.size, self.work.machine_tiles))
                                           for vertex, items in every if items.size))

    def clear(self) -> ComputeSet:
        """Zeros for all sums."""
        items = clearing(self.cleared, self.workspace - self.cleared)
        return self._dealt(items, _partials.CLEAR_VERTEX, "zero partials")

    def multiply(self) -> ComputeSet:
        """Each tile's blocks."""
        work, made, tiles = self.work, [], []
        line, cell = 4 * work.side, 4
        for part, at in zip(work.parts, self.partials, strict=True):
            starts = work.splits[part.split].starts
            items = block_items(self._table(part), starts)
            items["x_first"], items["sums_first"] = self.x + 4 * part.first, at
            items["columns"] = part.columns
            items["side"] = items["cells"] = work.side
            items["value_row"], items["value_cell"] = (cell, line) if work.transposed else (line, cell)
            items["x_row"], items["rounding"] = self.x_row, work.rounding
            made.append(items)
            tiles.append(part.tiles)
        items, numbers = np.concatenate(made), np.concatenate(tiles)
        order = np.argsort(numbers, kind="stable")
        return ComputeSet("multiply", (Segment(BLOCKS_VERTEX, items[order], numbers[order]),))

    def _table(self, part: ColumnPart) -> Array:
        """Where each block's values, rows of X and sums begin: one table for parts that differ in their place alone."""
        key = part.split, part.columns
        if key not in self.tables:
            work, side = self.work, self.work.side
            table = np.empty((work.blocks.size, 3), np.int64)
            table[:, 0] = work.blocks * np.int64(4 * side**2)
            table[:, 1] = work.columns * np.int64(side * self.x_row)
            table[:, 2] = work.splits[part.split].sums[0] * np.int64(4 * side * part.columns)
            self.tables[key] = table
        return self.tables[key]

    def reduce(self) -> ComputeSet:
        """The rows of sums of each block row added, by tile, and rounded once to the type of partial sums."""
        work, made = self.work, []
        for part, partials, results in zip(work.parts, self.partials, self.results, strict=True):
            _, met, begins = work.splits[part.split].sums
            step = 4 * work.side * part.columns
            items = np.zeros(met.size, _partials.REDUCE)
            items["operand"], items["first"], items["to"] = _WORK, partials + begins[:-1] * step, results + met * step
            items["count"], items["fan_in"], items["step"] = work.side * part.columns, np.diff(begins), step
            items["rounding"] = work.rounding
            made.append(items)
        return self._dealt(np.concatenate(made), _partials.REDUCE_VERTEX, "reduce")

    def finish(self, y: DenseLayout) -> ComputeSet:
        """The result, rounded once to its format."""
        made = list(self._finished(y))
        return self._dealt(np.concatenate(made), _partials.FINISH_VERTEX, "cast output")

    def _finished(self, y: DenseLayout) -> Iterator[Array]:
        rows = self.work.shape[0] // self.work.groups
        for part, at in zip(self.work.parts, self.results, strict=True):
            for group in range(self.work.groups):
                yield finishing(self.work.kind, (rows, part.columns), at + 4 * part.columns * rows * group,
                                group * y.strides[0] + part.first * y.strides[2], y.strides[1:])


def clearing(first: int, size: int) -> Array:
    """Return items that set so many bytes of the workspace to zero."""
    items = np.zeros(-(-size // _CLEARED), _partials.CLEAR)
    items["operand"], items["first"] = _WORK, first + _CLEARED * np.arange(items.size)
    items["bytes"] = np.minimum(_CLEARED, first + size - items["first"])
    return items


def block_items(table: Array, edges: Array) -> Array:
    """Return items that multiply the blocks between the edges, lines of a table of where values, X and sums begin."""
    kernel, items = multiply_kernel(), np.zeros(edges.size - 1, BLOCKS)
    items["values"] = items["x"] = items["sums"] = _WORK
    items["table"], items["count"] = table.ctypes.data + edges[:-1] * table.strides[0], np.diff(edges)
    items["high"], items["wide"] = kernel.block[:2]
    items["multiply"] = kernel.address
    return items


def decoding(dtype: str, shape: tuple[int, int], operand: int, first: int, strides: tuple[int, ...], to: int,
             to_row: int) -> tuple[int, Array]:
    """Return the vertex, and its items, that make a matrix FP32 numbers in the workspace of a program of 3 operands.

    Parameters
    ----------
    dtype : str
        Its format.
    shape : (int, int)
    operand : int
        Which it is.
    first : int
        Bytes to its first number.
    strides : (int, int)
        Bytes from a row to the next, and along a row.
    to, to_row : int
        Where it goes, and bytes from a row to the next there.
    """
    (rows, columns), kernel = shape, select("sparse", "panel", f"{dtype}->float32").kernel
    parts = max(1, min(rows, rows * columns // _CLEARED)) if rows * columns else 0
    items = np.zeros(parts, _PANEL)
    items["from"], items["from_offset"], items["to"], items["to_offset"] = operand, first, _WORK, to
    items["row"], items["column"], items["to_row"] = *strides, to_row
    items["rows"], items["columns"] = rows, columns
    items["part"], items["parts"] = np.arange(parts), parts
    items["format"] = FORMAT_NUMBERS[dtype]
    return kernel.address, items


def finishing(to_dtype: Format, shape: tuple[int, int], at: int, first: int, strides: tuple[int, ...]) -> Array:
    """Return the items that round a contiguous matrix of sums in the workspace once to the result, as `decoding`."""
    rows, columns = shape
    edges = LinearMapping(rows, 1, max(1, min(rows, rows * columns // _SUMS))).edges()
    items = np.zeros(edges.size - 1, _partials.FINISH)
    items["operand"], items["first"], items["row"] = _WORK, at + 4 * columns * edges[:-1], columns
    items["rows"], items["cols"], items["to"] = np.diff(edges), columns, _OUT
    items["out"], items["out_row"], items["out_col"] = first + edges[:-1] * strides[0], *strides
    items["format"], items["overflow"] = format_record(to_dtype).ctypes.data, infinite_overflow(to_dtype)
    items["activation"], items["alpha"] = ACTIVATIONS.index(None), 1
    items["epilogue"] = select("dot", "epilogue", f"float32->{to_dtype}").kernel.address
    return items
