"""How attention is lowered: params to a program of the attention family, which calls the kernels of dense products.

What a strip of queries, a tile of keys and their scores take in a thread's arena is counted here, and nowhere else.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import BF16, FP32, Format
from ...kernels import Kernel, Selection, kernels, select
from ...kernels.records import dtype_of, format_facts, kernel_format
from ...log import tell
from ...memo import remembered
from ...ops.one_kernel import OneKernel, fill_cast, shared
from ...program import Program, threads_for, whole_lines
from .params import AttentionParams, HeadsLayout

_SPEC, _ITEM = dtype_of("pop_attention"), dtype_of("pop_attention_item")
_STRIP, _BACK_STRIP = 48, 96  # most queries at a time
_TILE, _BACK_TILE = 256, 128  # keys whose scores are held: what sums' bits depend on, so the same at every level
_NARROW = 32  # columns of a panel of narrow blocks
_LINE, _GRAIN = 64, 16  # bytes of a cache line; columns of sums and of panels
_PIECES = 32  # POP_ATTENTION_PIECES
_THREAD_FLOPS = 1 << 21  # that are worth a thread
_FIELDS = ("q", "k", "v", "mask", "y", "lse", "grad", "q_grad", "k_grad", "v_grad")


def _up(n: int, grain: int) -> int:
    return -(-n // grain) * grain


def _multiply(p: AttentionParams, rows: int) -> tuple[Selection, Format]:
    """The kernel of products, and what it computes in."""
    wanted = p.compute_format
    if wanted == BF16 and not multiplies_bf16():
        wanted = FP32

    def cost(k: Kernel) -> float:
        if k.grain[0] > 1:  # a matrix unit takes no columns of weights as rows
            return 1e6 if p.backward else 0.0
        columns = 128 if rows <= 2 else 64  # a row alone needs as many sums as there are steps in the pipes
        return 1.0 + abs(k.block[1] - columns) + (1e3 if (k.block[0] <= 2) != (rows <= 2) else 0.0)

    return select("dot", "multiply", wanted.name, cost=cost), wanted


class _Walk:
    """How queries and keys are dealt out: strips, tiles, chunks."""

    def __init__(self, p: AttentionParams) -> None:
        most = _BACK_STRIP if p.backward else _STRIP
        tile = _BACK_TILE if p.backward else _TILE
        if p.block_shape is None:
            self.block_rows, self.row_count = max(1, p.queries), min(1, p.queries)
            self.block_columns, self.column_count = tile, -(-p.keys // tile)
        else:
            self.block_rows, self.block_columns = p.block_shape
            self.row_count, self.column_count = -(-p.queries // self.block_rows), -(-p.keys // self.block_columns)
        inside = min(self.block_rows, max(1, p.queries))
        self.strip = -(-inside // -(-inside // most))
        self.row_strips = -(-inside // self.strip)
        self.strip_heads = 1
        if p.block_shape is None and not p.backward and p.queries and p.queries <= most:
            self.strip_heads = min(p.shares, max(1, most // p.queries))
        self.strips = self.row_strips * self.row_count * -(-p.shares // self.strip_heads)
        self.tile = min(tile, self.block_columns, max(1, p.keys))
        self.column_tiles = -(-self.block_columns // self.tile)
        self.chunk = tile if p.block_shape is None else 2 * tile  # of a pattern's rows most have no more
        self.rows = self.strip * self.strip_heads


class _Arena:
    """Rooms, one after another."""

    def __init__(self) -> None:
        self.size = 0

    def room(self, size: int) -> int:
        """Return where a room of so many bytes begins."""
        at, self.size = self.size, self.size + whole_lines(size)
        return at


def _panel(walk: _Walk, kernel: Kernel) -> tuple[int, int]:
    """Columns of a panel of tokens, and rows that its products take at once: blocks of few columns leave none empty."""
    rows, wide, _ = kernel.block
    if kernel.grain[0] > 1 or walk.tile > _NARROW or wide <= _NARROW:
        return wide, rows
    return _NARROW, max(k.block[0] for k in kernels("dot") if k.address == kernel.address)


def _lay(spec: Any, p: AttentionParams, walk: _Walk, kernel: Kernel, elements: int, kept: bool) -> int:
    """Say where everything is in a thread's arena; return its size."""
    grain, wide = max(kernel.grain[2], 1), _panel(walk, kernel)[0]
    d, e = p.widths
    q_cells, v_cells = _up(d, grain) // elements, _up(e, grain) // elements
    q_line, v_line = _up(d, _GRAIN), _up(e, _GRAIN)
    rows = walk.rows + 2 * kernel.grain[0]  # matrix units read whole tiles
    depth = max(grain, _GRAIN)
    line = _up(max(walk.chunk, _up(walk.tile, depth)), depth) + _GRAIN
    spec["q_cells"], spec["v_cells"], spec["q_line"], spec["v_line"] = q_cells, v_cells, q_line, v_line
    spec["score_line"] = line
    slot, tile_cells = _Arena(), _up(walk.tile, grain) // elements
    slot.room(4 * (_up(walk.tile, wide) if kept or p.backward else wide) * q_cells)
    spec["values_at"] = slot.room(4 * (_up(walk.tile, wide) * v_cells if p.backward else tile_cells * v_line))
    spec["lines_at"] = slot.room(4 * tile_cells * q_line if p.backward else 0)
    spec["slot"] = slot.size
    arena, tiles = _Arena(), walk.column_count * walk.column_tiles
    spec["slots_at"] = arena.room(slot.size * (tiles if kept else _PIECES if p.block_shape else 1))
    spec["packed_at"] = arena.room(tiles)
    codes, strip_cells = 4 // elements, _up(walk.rows, elements) // elements
    scores = 4 * rows * line

    def one(name: str, size: int) -> None:
        spec[f"{name}_at"] = arena.room(size)

    one("q", 4 * rows * q_cells)
    one("scores", scores)
    one("sums", 4 * rows * (q_line if p.backward else v_line))
    one("state", 8 * walk.rows)
    one("stage", max(4 * _GRAIN * max(q_cells, v_cells), 16 * max(d, e), 4 * line) + 2 * _LINE)
    spec["weights_at"] = spec["scores_at"]
    if elements == 2:
        one("weights", codes * rows * line)
    if p.backward:
        one("grad", 4 * rows * v_cells)
        one("q_lines", 4 * strip_cells * q_line)
        one("grad_lines", 4 * strip_cells * v_line)
        one("deltas", scores)
        spec["delta_weights_at"] = spec["deltas_at"]
        if elements == 2:
            one("delta_weights", codes * rows * line)
            one("pairs", 4 * strip_cells * line)
            one("delta_pairs", 4 * strip_cells * line)
        one("k_sums", 4 * (p.keys + 1) * q_line)
        one("v_sums", 4 * (p.keys + 1) * v_line)
    return arena.size


def _fill(slot: Any, x: HeadsLayout, compute: Format) -> None:
    """How one operand is read or written."""
    slot["operand"], slot["offset"], slot["width"], slot["bytes"] = x.operand, x.offset, x.width, x.bytes
    slot["batch"], slot["head"], slot["token"] = x.batch, x.head, x.token
    if x.format is None:
        return
    fmt, name = x.format, kernel_format(x.format)
    slot["format"] = format_facts(fmt, x.exponent)
    if not x.written:
        slot["copied"] = fmt == compute and not x.exponent
        if compute == FP32 or fmt == BF16:
            slot["decode"] = select("dot", "decode", f"{name}->{compute.name}").kernel.address
    if fmt != FP32 or x.exponent:
        fill_cast(slot, fmt, x.exponent, x.written)


@remembered()
def lower(p: AttentionParams, threads: int, kept: bool) -> OneKernel:
    """Return the program of a call: all keys of a head kept packed, or as many as a strip takes at once."""
    walk = _Walk(p)
    product, compute = _multiply(p, walk.rows)
    kernel, elements = product.kernel, 2 if compute == BF16 else 1
    selection = select("attention", "backward" if p.backward else "forward", compute.name)
    spec = np.zeros(1, _SPEC)
    arena = _lay(spec, p, walk, kernel, elements, kept)
    spec["multiply"], spec["elements"] = kernel.address, elements
    spec["transpose"] = select("dot", "transpose", "cells").kernel.address
    spec["interleave"] = select("dot", "interleave", "bfloat16").kernel.address
    if kernel.grain[0] > 1:
        spec["begin"], spec["end"] = (select("dot", op, compute.name).kernel.address for op in ("begin", "end"))
    spec["rows_at_once"], spec["cols_at_once"], spec["depth_grain"] = kernel.block[0], kernel.block[1], kernel.grain[2]
    spec["panel"], spec["panel_rows"] = _panel(walk, kernel)
    for name in ("heads", "shares", "queries", "keys", "causal", "scale", "patterns"):
        spec[name] = getattr(p, name)
    spec["origin"], spec["kept"] = p.query_offset, kept
    for name in ("strip", "strip_heads", "strips", "tile", "chunk", "block_rows", "block_columns", "row_count",
                 "column_count", "row_strips", "column_tiles"):
        spec[name] = getattr(walk, name)
    spec["offsets"], spec["columns"] = (-1, -1) if p.block_shape is None else (p.arrays - 3, p.arrays - 2)
    for name in _FIELDS:
        spec[name]["operand"] = -1
        x = p.lies(name)
        if x is not None:
            _fill(spec[name][0], x, compute if name in ("q", "k", "v", "grad") else FP32)
    once = not (kept or p.backward) and spec["v"]["copied"]
    spec["in_place"] = once and elements == 1
    if once and spec["k"]["copied"]:
        for name in _in_place(p, walk, kernel, elements):
            spec[name] = select("dot", f"multiply_{name}", compute.name).kernel.address
    mask = p.lies("mask")
    spec["truths"] = mask is not None and mask.format is None
    units = p.batch * p.heads * (1 if p.backward else walk.strips)
    threads = threads_for(p.flops, _THREAD_FLOPS, min(threads, max(1, units)))
    step = shared(selection.kernel, _ITEM, spec, units, threads)
    executable = Program((step,), p.arrays, threads, arena, tables=(spec,)).executable(threads)
    made = OneKernel(p, executable, selection, (lower, (p, threads, kept)), {
        "products": product.kernel.label, "keys": "packed once" if kept else "packed by strips",
        "memory": f"{arena:,} bytes a thread"})
    tell("popnn", made)
    return made


def _in_place(p: AttentionParams, walk: _Walk, kernel: Kernel, elements: int) -> tuple[str, ...]:
    """Kernels of keys and values as they lie, where queries are so few that packing takes longer than multiplying."""
    if walk.rows > 2 or p.block_shape is not None or kernel.grain[0] > 1:
        return ()
    if elements == 2:
        return ("dots", "apart") if p.widths[0] % kernel.grain[2] == 0 else ()
    return tuple(k.op.removeprefix("multiply_") for k in kernels("dot") if k.op == "multiply_across")[:1]


def several_strips(p: AttentionParams) -> bool:
    """Whether the same keys are read by more than one strip of queries."""
    return _Walk(p).strips > 1


def multiplies_bf16() -> bool:
    """Whether a kernel that may run here multiplies BF16."""
    return any(k.op == "multiply" and k.formats == BF16.name for k in kernels("dot"))
