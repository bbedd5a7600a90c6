"""The plan of attention on this CPU: the kernel of products, strips of queries and tiles of keys, and what they take.

What a strip, a tile and their scores take in a thread's arena is counted here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ...formats import BF16, FP32, Format
from ...kernels import Kernel, Selection, kernels, select
from ...kernels.records import ATTENTION_PIECES, kernel_format
from ...program import rounded, whole_lines
from .params import AttentionParams, HeadsLayout

_STRIP, _BACK_STRIP = 48, 96  # most queries at a time
_TILE, _BACK_TILE = 256, 128  # keys whose scores are held: what sums' bits depend on, so the same at every level
_NARROW = 32  # columns of a panel of narrow blocks
_LINE, _GRAIN = 64, 16  # bytes of a cache line; columns of sums and of panels
_FEW, _FEW_DECODED = 2, 4  # most queries of a strip that meet keys where these lie, and keys that are decoded there


class Walk(NamedTuple):
    """How queries and keys are dealt out, as ``pop_attention`` has it: strips, tiles, chunks."""

    block_rows: int
    block_columns: int
    row_count: int
    column_count: int
    strip: int
    row_strips: int
    strip_heads: int
    strips: int
    tile: int
    column_tiles: int
    chunk: int

    @classmethod
    def of(cls, p: AttentionParams) -> Walk:
        """Return that of a call."""
        most = _BACK_STRIP if p.backward else _STRIP
        tile = _BACK_TILE if p.backward else _TILE
        if p.block_shape is None:
            block_rows, row_count = max(1, p.queries), min(1, p.queries)
            block_columns, column_count = tile, -(-p.keys // tile)
        else:
            block_rows, block_columns = p.block_shape
            row_count, column_count = -(-p.queries // block_rows), -(-p.keys // block_columns)
        inside = min(block_rows, max(1, p.queries))
        strip = -(-inside // -(-inside // most))
        row_strips, strip_heads = -(-inside // strip), 1
        if p.block_shape is None and not p.backward and p.queries and p.queries <= most:
            strip_heads = min(p.shares, max(1, most // p.queries))
        strips = row_strips * row_count * -(-p.shares // strip_heads)
        at_once = min(tile, block_columns, max(1, p.keys))
        chunk = tile if p.block_shape is None else 2 * tile  # of a pattern's rows most have no more
        return cls(block_rows, block_columns, row_count, column_count, strip, row_strips, strip_heads, strips, at_once,
                   -(-block_columns // at_once), chunk)

    @property
    def rows(self) -> int:
        """Queries of a strip, of all heads that it has."""
        return self.strip * self.strip_heads


@dataclass(frozen=True)
class AttentionPlan:
    """How a call of attention runs on this CPU.

    Attributes
    ----------
    params : AttentionParams
    kept : bool
        Whether all keys of a head are kept packed; else as many as a strip takes at once.
    walk : Walk
    product : Selection
        The kernel of products.
    compute : Format
        What it computes in.
    panel, panel_rows : int
        Columns of a panel of tokens, and rows that its products take at once.
    places : dict of str to int
        Where everything is in a thread's arena, and lines there, as ``pop_attention`` has them.
    arena_bytes : int
        That a thread takes.
    in_place : dict of str to Kernel
        The kernels of keys and of values as they lie, where these are not packed, by the fields of ``pop_attention``.
    """

    params: AttentionParams
    kept: bool
    walk: Walk
    product: Selection
    compute: Format
    panel: int
    panel_rows: int
    places: Mapping[str, int]
    arena_bytes: int
    in_place: Mapping[str, Kernel]

    @property
    def elements(self) -> int:
        """Numbers of a 4-byte cell."""
        return 2 if self.compute == BF16 else 1

    @property
    def units(self) -> int:
        """Into how many units the work is cut."""
        p = self.params
        return p.batch * p.heads * (1 if p.backward else self.walk.strips)


def plan_attention(p: AttentionParams, kept: bool) -> AttentionPlan:
    """Plan a call: all keys of a head kept packed, or as many as a strip takes at once."""
    walk = Walk.of(p)
    product, compute = _multiply(p, walk.rows)
    kernel, elements = product.kernel, 2 if compute == BF16 else 1
    places, arena_bytes = _laid(p, walk, kernel, elements, kept)
    in_place = {} if kept or p.backward else _in_place(p, walk, kernel, compute)
    return AttentionPlan(p, kept, walk, product, compute, *_panel(walk, kernel), places, arena_bytes, in_place)


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


class _Arena:
    """Rooms, one after another."""

    def __init__(self) -> None:
        self.size = 0

    def room(self, size: int) -> int:
        """Return where a room of so many bytes begins."""
        at, self.size = self.size, self.size + whole_lines(size)
        return at


def _panel(walk: Walk, kernel: Kernel) -> tuple[int, int]:
    """Columns of a panel of tokens, and rows that its products take at once: blocks of few columns leave none empty."""
    rows, wide, _ = kernel.block
    if kernel.grain[0] > 1 or walk.tile > _NARROW or wide <= _NARROW:
        return wide, rows
    return _NARROW, max(k.block[0] for k in kernels("dot") if k.address == kernel.address)


def _laid(p: AttentionParams, walk: Walk, kernel: Kernel, elements: int, kept: bool) -> tuple[dict[str, int], int]:
    """Where everything is in a thread's arena, and its size."""
    places: dict[str, int] = {}
    grain, wide = max(kernel.grain[2], 1), _panel(walk, kernel)[0]
    d, e = p.widths
    q_cells, v_cells = rounded(d, grain) // elements, rounded(e, grain) // elements
    q_line, v_line = rounded(d, _GRAIN), rounded(e, _GRAIN)
    rows = walk.rows + 2 * kernel.grain[0]  # matrix units read whole tiles
    depth = max(grain, _GRAIN)
    line = rounded(max(walk.chunk, rounded(walk.tile, depth)), depth) + _GRAIN
    places |= {"q_cells": q_cells, "v_cells": v_cells, "q_line": q_line, "v_line": v_line, "score_line": line}
    slot, tile_cells = _Arena(), rounded(walk.tile, grain) // elements
    slot.room(4 * (rounded(walk.tile, wide) if kept or p.backward else wide) * q_cells)
    places["values_at"] = slot.room(4 * (rounded(walk.tile, wide) * v_cells if p.backward else tile_cells * v_line))
    places["lines_at"] = slot.room(4 * tile_cells * q_line if p.backward else 0)
    places["slot"] = slot.size
    arena, tiles = _Arena(), walk.column_count * walk.column_tiles
    places["slots_at"] = arena.room(slot.size * (tiles if kept else ATTENTION_PIECES if p.block_shape else 1))
    places["packed_at"] = arena.room(tiles)
    codes, strip_cells = 4 // elements, rounded(walk.rows, elements) // elements
    scores = 4 * rows * line

    def one(name: str, size: int) -> None:
        places[f"{name}_at"] = arena.room(size)

    one("q", 4 * rows * q_cells)
    one("scores", scores)
    one("sums", 4 * rows * (q_line if p.backward else v_line))
    one("state", 8 * walk.rows)
    one("stage", max(4 * _GRAIN * max(q_cells, v_cells), 16 * max(d, e), 4 * line) + 2 * _LINE)
    places["weights_at"] = places["scores_at"]
    if elements == 2:
        one("weights", codes * rows * line)
    if p.backward:
        one("grad", 4 * rows * v_cells)
        one("q_lines", 4 * strip_cells * q_line)
        one("grad_lines", 4 * strip_cells * v_line)
        one("deltas", scores)
        places["delta_weights_at"] = places["deltas_at"]
        if elements == 2:
            one("delta_weights", codes * rows * line)
            one("pairs", 4 * strip_cells * line)
            one("delta_pairs", 4 * strip_cells * line)
        one("k_sums", 4 * (p.keys + 1) * q_line)
        one("v_sums", 4 * (p.keys + 1) * v_line)
    return places, arena.size


def _in_place(p: AttentionParams, walk: Walk, kernel: Kernel, compute: Format) -> dict[str, Kernel]:
    """Kernels of keys and values as they lie, where queries are so few that packing takes longer than multiplying."""
    k = p.lies("k")
    few = _FEW if k is None or k.format == compute else _FEW_DECODED
    if walk.rows > few or p.block_shape is not None or kernel.grain[0] > 1:
        return {}
    if compute == BF16 and p.widths[0] % kernel.grain[2]:
        return {}
    ops = {"dots" if compute == BF16 else "across": "k", "apart": "v"}
    found = {op: _as_it_lies(f"multiply_{op}", p.lies(name), kernel, compute) for op, name in ops.items()}
    return {op: k for op, k in found.items() if k is not None}


def _as_it_lies(op: str, x: HeadsLayout | None, product: Kernel, compute: Format) -> Kernel | None:
    """The kernel of the product's level that multiplies an operand in the format that it has, or None."""
    assert x is not None
    assert x.format is not None
    own = kernel_format(x.format, bool(x.exponent))
    formats = own if x.format == compute else f"{compute.name},{own}"
    fit = (k for k in kernels("dot") if (k.op, k.formats, k.level) == (op, formats, product.level))
    return next(fit, None)


def several_strips(p: AttentionParams) -> bool:
    """Whether the same keys are read by more than one strip of queries."""
    return Walk.of(p).strips > 1


def multiplies_bf16() -> bool:
    """Whether a kernel that may run here multiplies BF16."""
    return any(k.op == "multiply" and k.formats == BF16.name for k in kernels("dot"))
