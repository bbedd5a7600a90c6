"""The plan of attention on this CPU: its kernels, threads, strips of queries and tiles of keys, and what they take.

What a strip, a tile and their scores take in a thread's arena is counted here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ...formats import BF16, FP32, Format
from ...kernels import Kernel, Selection, kernels, select
from ...kernels.records import ATTENTION_PIECES, kernel_format
from ...memo import remembered
from ...planner.explain import Explanation, considered_kernels
from ...poplin.gemm.model import matrix_unit
from ...poplin.gemm.plan import Scratched, begins, on_lines
from ...program import rounded, threads_for
from .params import AttentionParams, HeadsLayout

_STRIP, _BACK_STRIP, _UNIT_STRIP = 48, 96, 64  # most queries at a time, and where a matrix unit multiplies
_TILE, _BACK_TILE, _UNIT_TILE = 256, 128, 1024
"""Keys whose scores are held, and where a matrix unit multiplies: what the bits of sums depend on."""
_NARROW = 32  # columns of a panel of narrow blocks
_LINE, _GRAIN = 64, 16  # bytes of a cache line; columns of sums and of panels
_THREAD_FLOPS = 1 << 21  # that are worth a thread
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
        most, tile = ((_BACK_STRIP, _BACK_TILE) if p.backward else (_STRIP, _TILE) if not on_tiles(p)
                      else (_UNIT_STRIP, _UNIT_TILE if p.block_shape is None else _TILE))
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
class AttentionPlan(Scratched):
    """How a call of attention runs on this CPU.

    Attributes
    ----------
    params : AttentionParams
    kept : bool
        Whether all keys of a head are kept packed; else as many as a strip takes at once.
    walk : Walk
    selection, product : Selection
        The kernel that walks, and that of products, which it calls.
    compute_format : Format
        What products are done in.
    panel, panel_rows : int
        Columns of a panel of tokens, and rows that its products take at once.
    in_place : dict of str to Kernel
        The kernels of keys and of values as they lie, where these are not packed, by the fields of ``pop_attention``.
    units, threads : int
        Into how many units the work is cut, and for how many threads.
    memory_limit, raised : int or None
        Bytes that a thread may take, and what became of that limit, as `temporaries` has it of all threads.
    """

    params: AttentionParams
    kept: bool
    walk: Walk
    selection: Selection
    product: Selection
    compute_format: Format
    panel: int
    panel_rows: int
    in_place: Mapping[str, Kernel]
    units: int
    threads: int
    memory_limit: int | None
    raised: int | None = None

    def __hash__(self) -> int:
        return hash(self.params)

    @property
    def elements(self) -> int:
        """Numbers of a 4-byte cell."""
        return 2 if self.compute_format == BF16 else 1

    @property
    def flops(self) -> int:
        """Floating-point operations of the products."""
        return self.params.flops

    @property
    def values_in_place(self) -> bool:
        """Whether the kernel of products multiplies values where they lie."""
        v = self.params.lies("v")
        lie_so = v is not None and v.format == self.compute_format and not v.exponent
        return lie_so and self.elements == 1 and not (self.kept or self.params.backward)

    @property
    def lines(self) -> dict[str, int]:
        """Cells of a packed row of queries and of values, numbers of a line across them, of a row of scores."""
        (d, e), grain, walk = self.params.widths, self._grain, self.walk
        depth = max(grain, _GRAIN)
        scores = rounded(max(walk.chunk, rounded(walk.tile, depth)), depth) + _GRAIN
        return {"q_cells": rounded(d, grain) // self.elements, "v_cells": rounded(e, grain) // self.elements,
                "q_line": rounded(d, _GRAIN), "v_line": rounded(e, _GRAIN), "score_line": scores}

    @property
    def _grain(self) -> int:
        return max(self.product.kernel.grain[2], 1)

    @property
    def slot(self) -> tuple[tuple[str, int], ...]:
        """Bytes of each part of a tile of keys that is packed, in order."""
        tile, back, lines = self.walk.tile, self.params.backward, self.lines
        columns, cells = rounded(tile, self.panel), rounded(tile, self._grain) // self.elements
        return on_lines(keys=4 * (columns if self.kept or back else self.panel) * lines["q_cells"],
                        values=4 * (columns * lines["v_cells"] if back else cells * lines["v_line"]),
                        lines=4 * cells * lines["q_line"] if back else 0)

    @property
    def layout(self) -> tuple[tuple[str, int], ...]:
        """Bytes of each part of a thread's arena, in order."""
        p, walk, lines = self.params, self.walk, self.lines
        rows = walk.rows + 2 * self.product.kernel.grain[0]  # matrix units read whole tiles
        q, v, line = lines["q_cells"], lines["v_cells"], lines["score_line"]
        codes, cells = 4 // self.elements * rows * line, rounded(walk.rows, self._grain) // self.elements
        tiles = walk.column_count * walk.column_tiles
        slots = tiles if self.kept else ATTENTION_PIECES if p.block_shape else 1
        parts = {
            "slots": slots * sum(size for _, size in self.slot), "packed": tiles, "q": 4 * rows * q,
            "scores": 4 * rows * line, "sums": 4 * rows * (lines["q_line"] if p.backward else lines["v_line"]),
            "state": 8 * walk.rows, "stage": max(4 * _GRAIN * max(q, v), 16 * max(p.widths), 4 * line) + 2 * _LINE}
        if self.elements == 2:
            parts["weights"] = codes
        if p.backward:
            parts |= {"grad": 4 * rows * v, "q_lines": 4 * cells * lines["q_line"],
                      "grad_lines": 4 * cells * lines["v_line"], "deltas": 4 * rows * line}
            if self.elements == 2:
                parts |= {"delta_weights": codes, "pairs": 4 * cells * line, "delta_pairs": 4 * cells * line}
            if self.product.kernel.takes_tiles:
                parts |= {"turned": 4 * cells * line, "delta_turned": 4 * cells * line}
            parts |= {"k_sums": 4 * (p.keys + 1) * lines["q_line"], "v_sums": 4 * (p.keys + 1) * lines["v_line"]}
        return on_lines(**parts)

    @property
    def places(self) -> dict[str, int]:
        """Where everything is in a thread's arena, by the fields of ``pop_attention``: weights where scores were."""
        at, slot = begins(self.layout), begins(self.slot)
        at = {"weights": at["scores"], "values": slot["values"], "lines": slot["lines"]} | at
        if self.params.backward:
            at = {"delta_weights": at["deltas"]} | at
        return {f"{name}_at": place for name, place in at.items()} | {"slot": sum(size for _, size in self.slot)}

    def explain(self) -> Explanation:
        """Return what was decided, and the kernels that were considered."""
        packed = "packed once" if self.kept else "packed by strips"
        own = {op: f"read where they lie: {kernel.label}" for op, kernel in self.in_place.items()}
        decisions = {
            "kernel": self.kernel.label,
            "products": f"{self.product.kernel.label}, compute format {self.compute_format}",
            "keys": next((own[op] for op in ("across", "dots") if op in own), packed),
            "values": own.get("apart", "read where they lie" if self.values_in_place else packed),
            "threads": f"{self.threads}, {self.units} {'heads' if self.params.backward else 'strips of queries'}",
            **self.scratch_decisions,
        }
        return Explanation(str(self.params), decisions, considered_kernels(self.selection))


@remembered()
def plan_attention(p: AttentionParams, threads: int, kept: bool, memory_limit: int | None = None) -> AttentionPlan:
    """Plan a call on at most so many threads: all keys of a head kept packed, or as many as a strip takes at once."""
    walk = Walk.of(p)
    product, compute = _multiply(p, walk.rows)
    in_place = {} if kept or p.backward else _in_place(p, walk, product.kernel, compute)
    units = p.batch * p.heads * (1 if p.backward else walk.strips)
    selection = select("attention", "backward" if p.backward else "forward", compute.name)
    threads = threads_for(p.flops, _THREAD_FLOPS, min(threads, max(1, units)))
    return AttentionPlan(p, kept, walk, selection, product, compute, *_panel(walk, product.kernel), in_place, units,
                         threads, memory_limit)


def _multiply(p: AttentionParams, rows: int) -> tuple[Selection, Format]:
    """The kernel of products, and what it computes in."""
    wanted = p.compute_format
    if wanted == BF16 and not multiplies_bf16():
        wanted = FP32

    def cost(k: Kernel) -> float:
        if k.takes_tiles:  # a matrix unit takes no tokens as they lie
            return 1e6 if rows <= _FEW and p.block_shape is None else 0.0
        columns = 128 if rows <= 2 else 64  # a row alone needs as many sums as there are steps in the pipes
        return 1.0 + abs(k.block[1] - columns) + (1e3 if (k.block[0] <= 2) != (rows <= 2) else 0.0)

    return select("dot", "multiply", wanted.name, cost=cost), wanted


def _panel(walk: Walk, kernel: Kernel) -> tuple[int, int]:
    """Columns of a panel of tokens, and rows that its products take at once: blocks of few columns leave none empty."""
    rows, wide, _ = kernel.block
    if kernel.takes_tiles or walk.tile > _NARROW or wide <= _NARROW:
        return wide, rows
    return _NARROW, max(k.block[0] for k in kernels("dot") if k.address == kernel.address)


def _in_place(p: AttentionParams, walk: Walk, kernel: Kernel, compute: Format) -> dict[str, Kernel]:
    """Kernels of keys and values as they lie, where queries are so few that packing takes longer than multiplying."""
    k = p.lies("k")
    few = _FEW if k is None or k.format == compute else _FEW_DECODED
    if walk.rows > few or p.block_shape is not None or kernel.takes_tiles:
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


def on_tiles(p: AttentionParams) -> bool:
    """Whether a matrix unit may multiply."""
    return p.compute_format == BF16 and matrix_unit() is not None


def several_strips(p: AttentionParams) -> bool:
    """Whether the same keys are read by more than one strip of queries."""
    return Walk.of(p).strips > 1


def multiplies_bf16() -> bool:
    """Whether a kernel that may run here multiplies BF16."""
    return any(k.op == "multiply" and k.formats == BF16.name for k in kernels("dot"))
