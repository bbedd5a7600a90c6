"""From the plan of a sparse product to a program that serves every pattern of its kind."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...formats import Array, format_of
from ...kernels.records import ACTIVATIONS, FORMAT_NUMBERS, STREAM_BYTES, dtype_of, infinite_overflow
from ...kernels.registry import Kernel, select
from ...log import tell
from ...memo import remembered
from ...program import Executable, Segment, host_program, spread, temporary, whole_lines
from ...target import LinearMapping
from ..operands import SparseOperand
from .params import BiasLayout, SpmmParams, itemsize_of
from .plan import SparsePlan

MULTIPLY = dtype_of("pop_sparse_item")
"""One part of the block rows of one group: ``Y = W X``."""

READY = dtype_of("pop_ready_item")
"""One share of the values, decoded."""

PANEL = dtype_of("pop_panel_item")
"""One share of the rows of a dense operand, decoded and made contiguous."""

_ALIGNMENT = 64
_PLACES_AT_ONCE = 256
_OFFSETS, _COLUMNS, _VALUES, _X, _Y, _MORE = range(6)  # a program's operands, in order


@remembered()
def lower(plan: SparsePlan) -> Executable:
    """Return the executable of a product.

    Its operands are row offsets, column indices, values, X, Y, then those of these that there are: the places of a
    transposed pattern's blocks, the bias, the scales of the blocks.
    """
    tell("popsparse", plan)
    n_operands = n_operands_of(plan)
    items, tiles = items_of(plan)
    first: list[Segment] = []
    if plan.decodes:
        first.append(_decoding(plan, n_operands, _MORE, n_operands - 1))
    if plan.bias_bytes:
        assert plan.params.bias is not None
        first.append(_bias_decoding(plan, plan.params.bias, n_operands))
    product = Segment(plan.kernel.address, items, tiles)
    return host_program(tuple(first), (product,), operands=n_operands, threads=plan.threads,
                        arena_bytes=plan.scratch_bytes, workspace_bytes=plan.workspace_bytes)


def n_operands_of(plan: SparsePlan) -> int:
    """Return how many arrays a call passes."""
    p = plan.params
    return _MORE + p.transposed + (p.bias is not None) + _scaled(plan)


def _scaled(plan: SparsePlan) -> bool:
    return plan.params.w_scale is None and plan.params.prepared is None


@remembered(weight=16)
def lower_prepare(plan: SparsePlan) -> Executable:
    """Return what decodes the values of a product's W.

    Its operands are row offsets, column indices, values, where the decoded ones go, then those of these that there are:
    the places of a transposed pattern's blocks, the scales of the blocks.
    """
    n_operands = 4 + plan.params.transposed + _scaled(plan)
    return host_program((_decoding(plan, 3, 4, n_operands - 1),), operands=n_operands, threads=plan.threads)


def _decoding(plan: SparsePlan, to: int, order: int, scales: int) -> Segment:
    p = plan.params
    items = np.zeros(plan.threads, READY)
    stored_rows = p.shape[1] if p.transposed else p.shape[0]
    n_rows = p.groups * -(-stored_rows // p.block_shape[0])
    if p.transposed:  # as many blocks as the transpose's offsets end at
        n_rows = p.groups * -(-p.shape[0] // p.block_shape[1])
    items["n_rows"] = n_rows
    items["from"], items["to"], items["scales"] = _VALUES, to, scales if p.w_scale is None else -1
    items["order"] = order if plan.reorders else -1
    items["part"], items["parts"] = np.arange(plan.threads), plan.threads
    items["format"], items["scale"] = FORMAT_NUMBERS[p.w_format], p.w_scale or 0
    items["block_rows"], items["block_columns"] = p.block_shape
    items["pairs"] = plan.pairs
    return Segment(ready_kernel(plan).address, items, np.arange(plan.threads))


def ready_kernel(plan: SparsePlan) -> Kernel:
    """Return the kernel that decodes the values of a product's W."""
    p = plan.params
    op = "ready_tiles" if plan.tiles and (p.transposed or plan.compute_format == "float16") else "ready"
    return select("sparse", op, f"{p.w_format}->{plan.compute_format}").kernel


def _bias_decoding(plan: SparsePlan, bias: BiasLayout, to: int) -> Segment:
    """The bias as contiguous FP32 after W's values in the workspace."""
    p = plan.params
    groups = np.arange(p.groups)
    items = np.zeros(p.groups, PANEL)
    items["from"], items["to"] = _MORE + p.transposed, to
    items["from_offset"], items["column"] = groups * bias.group, bias.step
    items["to_offset"] = whole_lines(plan.values_bytes) + groups * 4 * p.shape[0]
    items["rows"], items["columns"], items["parts"] = 1, p.shape[0], 1
    items["format"] = FORMAT_NUMBERS[bias.format]
    kernel = select("sparse", "panel", f"{bias.format}->float32").kernel
    return Segment(kernel.address, items, spread(p.groups, plan.threads))


def items_of(plan: SparsePlan) -> tuple[Array, Array]:
    """Return the work items of the multiplication and the tile of each."""
    p = plan.params
    shares = 1 if p.groups >= plan.threads else plan.threads
    by_columns = plan.packs and p.columns >= shares * plan.strip
    items = np.zeros((shares, p.groups), MULTIPLY)
    share, groups = np.arange(shares)[:, None], np.arange(p.groups)
    _describe(items, plan)
    items["origin"] = groups * items["n_rows"]
    first = np.zeros_like(share)
    if by_columns:
        edges = LinearMapping(p.columns, plan.strip, shares).edges()
        first, items["columns"] = edges[:-1, None], np.diff(edges)[:, None]
        items["parts"] = 1
    else:
        items["part"], items["parts"] = share, shares
    items["x_offset"] = groups * p.x.strides[0] + first // plan.strip * items["x_strip"]
    items["y_offset"] = groups * p.y.strides[0] + first * p.y.strides[2]
    if p.bias is not None:
        items["bias"] = n_operands_of(plan) if plan.bias_bytes else _MORE + p.transposed
        items["bias_offset"] = (whole_lines(plan.values_bytes) + groups * 4 * p.shape[0] if plan.bias_bytes
                                else groups * p.bias.group)
    flat = items.reshape(-1)
    return flat, spread(flat.size, plan.threads)


def _describe(items: Array, plan: SparsePlan) -> None:
    # What all items of a product share.
    p = plan.params
    block_rows, block_depth = p.block_shape[::-1] if p.transposed else p.block_shape
    items["offsets"], items["inner"], items["values"], items["x"], items["y"] = range(_MORE)
    if plan.decodes:
        items["values"] = n_operands_of(plan)
    items["order"] = _MORE if p.transposed and not plan.reorders else -1
    items["bias"] = -1
    items["n_rows"] = -(-p.shape[0] // block_rows)
    items["rows"], items["depth"] = p.shape
    items["columns"] = p.columns
    items["block_rows"], items["block_depth"] = block_rows, block_depth
    items["value_block"] = plan.block_bytes
    items["value_row"], items["value_depth"] = _value_strides(plan)
    items["x_row"], items["x_column"] = p.x.strides[1:]
    items["y_row"], items["y_column"] = p.y.strides[1:]
    items["x_format"], items["x_scale"] = FORMAT_NUMBERS[p.x.format], p.x.scale
    items["y_format"], items["y_scale"] = FORMAT_NUMBERS[p.y.format], p.y.scale
    items["strip"] = plan.strip
    x_rows = -(-p.shape[1] // 2) if p.x.pairs else p.shape[1]
    items["x_strip"] = x_rows * p.x.strides[1] if p.x.panel else plan.strip * p.x.strides[2]
    items["x_pairs"] = p.x.pairs
    items["pack"], items["finish"] = plan.packs, plan.finishes
    items["stream"] = (not plan.finishes and p.y.format == "float32" and p.y.strides[1] % _ALIGNMENT == 0
                       and 4 * p.shape[0] * p.columns > STREAM_BYTES["rows"])
    items["activation"] = ACTIVATIONS.index(p.activation)
    items["overflow"] = infinite_overflow(format_of(p.y.format))


def _value_strides(plan: SparsePlan) -> tuple[int, int]:
    # From one row of op(W) to the next, and along the sum: one element, or one pair where that is BF16.
    p: SpmmParams = plan.params
    size = itemsize_of("bfloat16" if plan.compute_format == "bfloat16" else "float32")
    line = p.block_shape[1] * size
    if plan.tiles:
        return p.block_shape[0 if p.transposed else 1] * 2, 4
    if plan.compute_format == "bfloat16":
        return (4, 2 * line) if p.transposed else (line, 4)
    return (size, line) if p.transposed else (line, size)


def run_slices(plan: SparsePlan, w: SparseOperand, x: Array, y: Array, bias: Array | None) -> None:
    """Run a product whose W is decoded some block rows at a time: each slice of these as a product of its own.

    All of W decoded would exceed the limit on memory. A row of the result belongs to one slice, so that its sum is what
    the whole product would give. The bias has a row for each group.
    """
    p = plan.params
    offsets, columns = w.offsets.array, w.columns.array
    height, area = p.block_shape[1 if p.transposed else 0], p.block_shape[0] * p.block_shape[1]
    codes = w.values.array.reshape(-1, area)
    codes = codes.view(f"u{codes.itemsize}")
    scales = None if w.scales is None else w.scales.array.reshape(-1)
    gather = None if w.order is None else _Gather(plan, codes, scales)
    n_rows = -(-p.shape[0] // height)
    for group in range(p.groups):
        dense, made = (x[group] if x.ndim > 2 else x), (y[group] if y.ndim == 3 else y)
        for first, last, cut in _slices(plan, offsets, group, n_rows):
            rows = slice(first * height, min(last * height, p.shape[0]))
            values, more = codes[cut], [] if bias is None else [bias[group, rows]]
            own = [] if scales is None else [scales[cut]]
            if gather is not None:
                assert w.order is not None
                values, own, places = gather.blocks(w.order.array[cut])
                more.insert(0, places)
            row = first + group * n_rows
            part = offsets[row:row + last - first + 1] - cut.start
            lower(_piece(plan, rows.stop - rows.start))(part, columns[cut], values, dense, made[rows], *more, *own)


def _piece(plan: SparsePlan, rows: int) -> SparsePlan:
    p = plan.params
    bias = None if p.bias is None else BiasLayout(p.bias.format, 0, p.bias.step, p.bias.aligned)
    params = replace(p, shape=(rows, p.shape[1]), groups=1, room=plan.slice_blocks, bias=bias)
    return replace(plan, params=params, slice_blocks=0, gathered_bytes=0, bias_bytes=plan.bias_bytes and 4 * rows)


def _slices(plan: SparsePlan, offsets: Array, group: int, n_rows: int) -> Iterator[tuple[int, int, slice]]:
    # Block rows from and to, and their blocks; of all slices but the last as many rows, so that they share a program.
    own = offsets[group * n_rows:(group + 1) * n_rows + 1]
    step = max(1, n_rows)
    while step > 1 and np.max(np.diff(own[np.minimum(np.arange(0, n_rows + step, step), n_rows)])) > plan.slice_blocks:
        step = -(-step // 2)
    for first in range(0, n_rows, step):
        last = min(first + step, n_rows)
        yield first, last, slice(int(own[first]), int(own[last]))


class _Gather:
    """Blocks of a transpose, which lie apart, made neighbours in counted memory: the plan's `gathered_bytes`."""

    def __init__(self, plan: SparsePlan, codes: Array, scales: Array | None) -> None:
        n, self._sources = plan.slice_blocks, [codes] if scales is None else [codes, scales]
        room, at = temporary((plan.gathered_bytes,), np.uint8), 0
        parts = []
        for dtype, shape in ((np.dtype(np.intp), ()), (np.dtype(np.int32), ()),
                             *((source.dtype, source.shape[1:]) for source in self._sources)):
            size = n * math.prod(shape) * dtype.itemsize
            parts.append(room[at:at + size].view(dtype).reshape(n, *shape))
            at += size
        self._index, self._places, *self._gathered = parts
        for first in range(0, n, _PLACES_AT_ONCE):
            end = min(n, first + _PLACES_AT_ONCE)
            self._places[first:end] = np.arange(first, end)

    def blocks(self, order: Array) -> tuple[Array, list[Array], Array]:
        """Return the codes and the scales, if there are any, of the blocks at these places, and their places now."""
        n = len(order)
        index = self._index[:n]  # NumPy would make one of its own of any other type
        index[...] = order
        codes, *scales = [np.take(source, index, axis=0, out=room[:n], mode="clip")
                          for source, room in zip(self._sources, self._gathered, strict=True)]
        return codes, scales, self._places[:n]
