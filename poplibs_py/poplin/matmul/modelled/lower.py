"""From a modelled product's work to one executable of compiled vertices, in which nothing is left to Python.

What tiles exchange lies in the executable's workspace: the partial sums ``[parts, groups, m, n]``, and where turns add
in place the sums of the turns before. Stages of the reduction put their sums where their partials were.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from ....config import settings
from ....formats import FP16, FP32, Format
from ....kernels import select
from ....kernels.records import infinite_overflow
from ....program import Executable
from ....target import Target
from .. import _partials
from .._matmul import ITEM, VERTEX, Mode, Sums
from ..lower import format_record, kernel_record
from ..options import MatmulOptions
from ..params import MatmulParams, MatrixLayout
from ..plan import Epilogue, HostPlan, laid_out
from .work import TileWork

__all__ = ["TileProgram", "lower_work"]

Array = np.ndarray[Any, Any]
Segment = tuple[int, Array, Array]  # vertex, items, the tile of each

_OUT, _SEED = 2, 3  # operands after a and b; the workspace is the one after the last
_SUMS = 1024  # that are worth an item of their own in what follows the tiles' products
_ROUNDED = 1 << 14  # the same where they are rounded at random: to find a place in the stream takes some 3 microseconds
_SET_FLOPS = 1 << 18  # of a compute set, for each thread: it takes some 10 microseconds, and to wake a thread takes 2


@dataclass(frozen=True, eq=False)
class TileProgram:
    """A modelled product made of compiled vertices.

    Attributes
    ----------
    work : TileWork
        What it follows.
    executable : Executable
        Runs on a, b, out and, where it rounds stochastically, one uint64: the seed.
    phases : tuple of str
        Of each of its compute sets.
    """

    work: TileWork
    executable: Executable
    phases: tuple[str, ...]

    @property
    def arena_bytes(self) -> int:
        """Bytes laid out for the tile that needs most; a thread has one arena and runs its tiles one after another."""
        return self.executable.scratch_bytes


def lower_work(work: TileWork, a: MatrixLayout, b: MatrixLayout, out: MatrixLayout, threads: int | None = None,
               stochastic: bool = False) -> TileProgram:
    """Lower a product's work for operands that lie as described.

    Parameters
    ----------
    work : TileWork
        What the tiles do.
    a, b, out : MatrixLayout
        Formats, strides and scales of [g, m, k], [g, k, n] and [g, m, n]; ``batch`` holds the group's stride.
    threads : int, optional
        Threads to run on, at most: as many as the compute sets keep busy. The result does not depend on it.
    stochastic : bool, optional
        Round what tiles exchange and the result stochastically, from the seed that a run is given; to nearest even by
        default.
    """
    most = settings.num_threads if threads is None else threads
    return _Lowering(work, a, b, out, stochastic).program(most)


class _Lowering:
    """What every compute set of one lowering needs."""

    def __init__(self, work: TileWork, a: MatrixLayout, b: MatrixLayout, out: MatrixLayout, stochastic: bool) -> None:
        self.work, self.a, self.b, self.out, self.stochastic = work, a, b, out, stochastic
        self.workspace = _SEED + stochastic
        self.tiles = np.sort(np.fromiter(work.plan.tile_indices(), np.int64))
        self.keep: list[Array] = []
        self.scratch = 0
        self.draws = 0  # stochastic roundings so far: each draws bits of its own
        self.sums = work.groups * work.m * work.n
        self.direct = work.direct and not self._rounds_result  # tiles write the result itself
        cells = work.n * 4
        self.result = out if self.direct else MatrixLayout(FP32, cells, 4, (work.m * cells,))
        self.reduced = work.parts * self.sums * 4 if work.depth_turns > 1 else 0  # bytes to the sums that are reduced
        self.sets: list[tuple[str, Segment]] = []

    @property
    def _rounds_result(self) -> bool:
        return self.stochastic and self.out.format == FP16

    def program(self, most_threads: int) -> TileProgram:
        """Every compute set of every turn."""
        w = self.work
        items, spread = self._pieces()
        ends = np.searchsorted(w.pieces["turn"], np.arange(w.turns + 1))
        combined = w.plan.transforms[0].combine_conv_groups_factor > 1
        for turn in range(w.turns):
            if combined and not w.direct and (turn == 0 or w.depth_turns > 1):
                self._clear()
            pieces = slice(ends[turn], ends[turn + 1])
            self.sets.append(("compute", (VERTEX, items[pieces], spread[pieces])))
            if w.depth_turns > 1:
                self._reduce(turn)
        if not w.direct and w.depth_turns == 1:
            self._reduce(0)
        if not self.direct:
            self._finish()
        flops = 2 * int((w.pieces["rows"] * w.pieces["cols"] * w.pieces["depth"]).sum())
        threads = max(1, min(most_threads, flops // (max(1, w.turns) * _SET_FLOPS)))
        held = 0 if self.direct else self.sums * (w.parts + (w.depth_turns > 1))
        executable = Executable([[segment] for _, segment in self.sets], self.workspace, len(self.tiles), self.scratch,
                                4 * held, threads, self.keep)
        return TileProgram(w, executable, tuple(phase for phase, _ in self.sets))

    def _dealt(self, extent: int, least: int, unit: int = 1) -> tuple[Array, Array, Array]:
        """An extent dealt out to the tiles that the plan uses, `least` to each, in units: first, count, tile."""
        parts = max(1, min(len(self.tiles), extent // least))
        units = -(-extent // unit)
        edges = np.minimum(np.arange(parts + 1) * units // parts * unit, extent)
        return edges[:-1], np.diff(edges), np.arange(parts) * len(self.tiles) // parts

    # Partial products ------------------------------------------------------------------------------

    def _pieces(self) -> tuple[Array, Array]:
        """Items of all pieces of work, and where among the tiles that the plan uses theirs is."""
        pieces = self.work.pieces
        items = np.zeros(len(pieces), ITEM)
        for depth in np.unique(pieces["depth"]):
            chosen = pieces["depth"] == depth
            plan = self._tile_plan(pieces[chosen])
            items["spec"][chosen] = self._spec(plan)
            self.scratch = max(self.scratch, plan.scratch_bytes)
        a, b, out = self.a, self.b, self.result
        group, row, col, at = (pieces[name] for name in ("group", "row", "col", "from_depth"))
        items["a"] = group * a.batch[0] + row * a.row + at * a.column
        items["b"] = group * b.batch[0] + at * b.row + col * b.column
        items["out"] = group * out.batch[0] + row * out.row + col * out.column
        if not self.direct:
            items["out"] += pieces["part"] * self.sums * 4
        items["m"], items["n"] = pieces["rows"], pieces["cols"]
        return items, np.searchsorted(self.tiles, pieces["tile"])

    def _tile_plan(self, pieces: Array) -> HostPlan:
        """How the frame of dense products does these pieces: all of a tile's operands packed in its arena."""
        w = self.work
        m, n, depth = (int(pieces[name].max()) for name in ("rows", "cols", "depth"))
        rounded = w.partial == FP16 or (w.between == FP16 and not self.stochastic)
        params = MatmulParams(m, n, depth, self.a, self.b, self.result)
        selection = select("dot", "multiply", "float32", consistent=True)
        cols = selection.kernel.block[1]
        options = MatmulOptions(partials_type="half" if rounded else "float", reproducible=True)
        in_place = not (rounded or self.direct)
        draft = HostPlan(
            params, params, options, Epilogue(), _NOMINAL, FP32, selection, _packed(self.a), _packed(self.b),
            int(Sums.IN_PLACE if in_place else Sums.BLOCK), m,
            -(-n // cols) * cols, max(1, depth), (1, 1), 1,
        )  # fmt: skip
        return replace(draft, layout=laid_out(draft, draft.mc, draft.nc))

    def _spec(self, plan: HostPlan) -> int:
        record = kernel_record(plan)
        spec = record[0]
        spec["round_depth"] = self.work.chunk if self.work.partial == FP16 else plan.kc
        spec["out_skip"] = 0 if self.direct else self.workspace - _OUT
        self.keep.append(record)
        return int(record.ctypes.data)

    # Sums of partials ------------------------------------------------------------------------------

    def _add(self, phase: str, vertex: int, items: Array, tiles: Array) -> None:
        self.sets.append((phase, (vertex, items, tiles)))

    def _clear(self) -> None:
        """Zeros for the partial sums: of combined groups some shares of the depth hold other groups' channels only."""
        first, count, tiles = self._dealt(self.work.parts * self.sums, _ROUNDED)
        items = _items(_partials.CLEAR, operand=self.workspace, first=4 * first, bytes=4 * count)
        self._add("compute", _partials.CLEAR_VERTEX, items, tiles)

    def _reduce(self, depth_turn: int) -> None:
        w = self.work
        first, count, tiles = self._dealt(self.sums, _SUMS)
        self._round_at_random(0, w.parts * self.sums)
        stages, left = w.stages or (1,), w.parts
        for i, fan_in in enumerate(stages):
            last, made = i == len(stages) - 1, -(-left // fan_in)
            sums = np.arange(made)
            items = _items(  # one after another for each share of the sums, which may then lie where the partials did
                _partials.REDUCE, operand=self.workspace,
                first=4 * (first[:, None] + sums * fan_in * self.sums),
                to=4 * (first[:, None] + sums * self.sums) + (self.reduced if last else 0),
                count=count[:, None], fan_in=np.minimum(fan_in, left - sums * fan_in), step=4 * self.sums,
                accumulate=last and depth_turn > 0, rounding=0 if self.stochastic else _rounding(w.between),
            )  # fmt: skip
            self._add("reduce", _partials.REDUCE_VERTEX, items.ravel(), np.repeat(tiles, made))
            self._round_at_random(self.reduced if last else 0, made * self.sums)
            left = made

    def _round_at_random(self, at: int, count: int) -> None:
        """Round what tiles exchange stochastically, where that was asked for."""
        if self.stochastic and self.work.between == FP16:
            self.draws += 1
            self._round(at, count, self.draws)

    def _round(self, at: int, count: int, draw: int) -> None:
        first, counts, tiles = self._dealt(count, _ROUNDED, 32)
        items = _items(
            _partials.ROUND, operand=self.workspace, first=at + 4 * first, count=counts, place=first, seed=_SEED,
            draw=draw, rounding=select("dot", "round_at_random", "float16").kernel.address,
        )  # fmt: skip
        self._add("round", _partials.ROUND_VERTEX, items, tiles)

    def _finish(self) -> None:
        """The result from the sums."""
        out = self.out
        if self._rounds_result:  # to numbers of its format, which the cast then keeps
            self._round(self.reduced, self.sums, 0)
        m, n = self.work.m, self.work.n
        along = out.column == out.format.itemsize and out.row == n * out.column  # contiguous: dealt out by elements
        extent, width, step = (m * n, 1, out.column) if along else (m, n, out.row)
        parts = max(1, min(extent, m * n // _SUMS))
        edges = np.arange(parts + 1) * extent // parts
        first, count, group = edges[:-1], np.diff(edges), np.arange(self.work.groups)[:, None]
        items = _items(
            _partials.FINISH, operand=self.workspace, first=self.reduced + 4 * width * (group * extent + first), row=n,
            rows=1 if along else count, cols=count if along else n, to=_OUT, out=group * out.batch[0] + first * step,
            out_row=out.row, out_col=out.column, format=format_record(out.format).ctypes.data,
            overflow=infinite_overflow(out.format),
            epilogue=select("dot", "epilogue", f"float32->{out.format}").kernel.address,
        ).ravel()  # fmt: skip
        self._add("cast output", _partials.FINISH_VERTEX, items, np.arange(items.size) * len(self.tiles) // items.size)


_NOMINAL = Target.host(1)


def _items(kind: np.dtype[np.void], **fields: Any) -> Array:
    """A table of items, each field an array or one number for all of them."""
    items = np.zeros(np.broadcast_shapes(*(np.shape(values) for values in fields.values())), kind)
    for name, values in fields.items():
        items[name] = values
    return items


def _packed(operand: MatrixLayout) -> int:
    """How an operand comes into the arena: line by line in the direction in which it is contiguous."""
    return int(Mode.TRANSPOSED if operand.row == operand.format.itemsize != operand.column else Mode.LINES)


@cache
def _rounding(f: Format) -> int:
    return select("dot", "round", "float16").kernel.address if f == FP16 else 0
