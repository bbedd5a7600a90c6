"""From a plan's work to a program of compiled vertices, in which nothing is left to Python.

What tiles exchange lies in the program's workspace: the partial sums ``[parts, groups, m, n]``, and where turns add in
place the sums of the turns before. Stages of the reduction put their sums where their partials were.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...config import settings
from ...formats import FP16, FP32, Format
from ...kernels import select
from ...kernels.records import ACTIVATIONS, infinite_overflow
from ...program import ComputeSet, Exchange, Executable, Loop, Program, Segment, spread, threads_for
from ...target import LinearMapping, Target
from ..gemm._gemm import ITEM, VERTEX, Mode, Sums
from ..gemm.lower import format_record, kernel_record
from ..gemm.options import GemmOptions
from ..gemm.params import GemmParams, MatrixLayout
from ..gemm.plan import Epilogue, GemmPlan, laid_out
from . import _partials
from .work import TileWork

__all__ = ["TileCall", "lower"]

Array = np.ndarray[Any, Any]
Steps = Iterator[ComputeSet | Exchange]

_OUT, _BIAS = 2, 3  # operands after a and b: the bias and the seed, where there are, then the workspace
_SUMS = 1024  # that are worth an item of their own in what follows the tiles' products
_ROUNDED = 1 << 14  # the same where they are rounded at random: to find a place in the stream takes some 3 microseconds
_SET_FLOPS = 1 << 18  # of a compute set, for each thread: it takes some 10 microseconds, and to wake a thread takes 2
_NOMINAL = Target.host(1)


class TileCall(NamedTuple):
    """A call of a plan: how its operands lie, and what is done with the result.

    Attributes
    ----------
    a, b, out : MatrixLayout
        Formats, strides and scales of [g, m, k], [g, k, n] and [g, m, n]; ``batch`` holds the group's stride.
    bias : MatrixLayout, optional
        Of a bias, broadcast to [g, m, n].
    activation : str, optional
    stochastic : bool
        Whether roundings after the tiles' sums are stochastic, from the seed that a run is given; else to nearest even.
    threads : int, optional
        Threads to run on, at most: as many as the compute sets keep busy. The result does not depend on it.
    """

    a: MatrixLayout
    b: MatrixLayout
    out: MatrixLayout
    bias: MatrixLayout | None = None
    activation: str | None = None
    stochastic: bool = False
    threads: int | None = None


def lower(work: TileWork, call: TileCall) -> Executable:
    """Return the executable of a plan's work.

    It runs on a, b, out, then the bias if there is one, then one uint64 where it rounds stochastically: the seed.
    """
    return _Lowering(work, call).executable()


@dataclass
class _Lowering:
    """What every compute set of one lowering needs."""

    work: TileWork
    call: TileCall

    def __post_init__(self) -> None:
        work, out = self.work, self.call.out
        self.seed = _BIAS + (self.call.bias is not None)
        self.workspace = self.seed + self.call.stochastic
        self.tiles = np.sort(np.fromiter(work.plan.tile_indices(), np.int64))
        self.keep: list[Array] = []
        self.arena = self.draws = 0  # stochastic roundings of a reduction: each draws bits of its own
        plain = self.call.bias is None and self.call.activation is None
        rounds_result = self.call.stochastic and out.format == FP16
        self.direct = work.direct and plain and not rounds_result  # tiles write the result itself
        cells = work.n * 4
        self.sums_lie = out if self.direct else MatrixLayout(FP32, cells, 4, (work.m * cells,))
        self.reduced = work.parts * work.sums * 4 if work.depth_turns > 1 else 0  # bytes to the sums that are reduced

    def executable(self) -> Executable:
        """Every compute set of every turn."""
        w = self.work
        adds = w.depth_turns > 1
        combined = w.plan.transforms[0].combine_conv_groups_factor > 1 and not w.direct
        clear = (self._clear(),) if combined else ()
        received = Exchange("exchange operands", w.operand_bytes)
        body = (*clear * adds, received, self._products(), *(self._reduction() if adds else ()))
        after = (*(() if adds or w.direct else self._reduction()), *(() if self.direct else self._epilogue()))
        steps = (*(() if adds else clear), Loop(w.turns, body), *after)
        flops = 2 * int((w.pieces["rows"] * w.pieces["cols"] * w.pieces["depth"]).sum())
        most = settings.num_threads if self.call.threads is None else self.call.threads
        held = 0 if self.direct else w.sums * (w.parts + adds)
        program = Program(steps, self.workspace, len(self.tiles), self.arena, 4 * held, tuple(self.keep))
        return program.executable(threads_for(flops, max(1, w.turns) * _SET_FLOPS, most))

    def _dealt(self, extent: int, least: int, unit: int = 1) -> tuple[Array, Array, Array]:
        """An extent dealt out to the tiles that the plan uses, `least` to each, in units: first, count, tile."""
        parts = threads_for(extent, least, len(self.tiles))
        edges = LinearMapping(extent, unit, parts).edges()
        return edges[:-1], np.diff(edges), spread(parts, len(self.tiles))

    # Partial products ------------------------------------------------------------------------------

    def _products(self) -> ComputeSet:
        """All pieces of work."""
        pieces, call, lie = self.work.pieces, self.call, self.sums_lie
        items = np.zeros(len(pieces), ITEM)
        for depth in np.unique(pieces["depth"]):
            chosen = pieces["depth"] == depth
            plan = self._tile_plan(pieces[chosen])
            items["spec"][chosen] = self._spec(plan)
            self.arena = max(self.arena, plan.scratch_bytes)
        group, row, col, at = (pieces[name] for name in ("group", "row", "col", "from_depth"))
        items["a"] = group * call.a.batch[0] + row * call.a.row + at * call.a.column
        items["b"] = group * call.b.batch[0] + at * call.b.row + col * call.b.column
        items["out"] = group * lie.batch[0] + row * lie.row + col * lie.column
        if not self.direct:
            items["out"] += pieces["part"] * self.work.sums * 4
        items["m"], items["n"] = pieces["rows"], pieces["cols"]
        tiles = np.searchsorted(self.tiles, pieces["tile"])
        return ComputeSet("compute", (Segment(VERTEX, items, tiles, pieces["turn"]),))

    def _tile_plan(self, pieces: Array) -> GemmPlan:
        """How the frame of dense products does these pieces: all of a tile's operands packed in its arena."""
        w, call = self.work, self.call
        m, n, depth = (int(pieces[name].max()) for name in ("rows", "cols", "depth"))
        rounded = w.partial == FP16 or (w.between == FP16 and not call.stochastic)
        params = GemmParams(m, n, depth, call.a, call.b, self.sums_lie)
        selection = select("dot", "multiply", "float32", consistent=True)
        cols = selection.kernel.block[1]
        options = GemmOptions(partials_type="half" if rounded else "float", reproducible=True)
        in_place = not (rounded or self.direct)
        draft = GemmPlan(
            params, params, options, Epilogue(), _NOMINAL, FP32, selection, _packed(call.a), _packed(call.b),
            int(Sums.IN_PLACE if in_place else Sums.BLOCK), m,
            -(-n // cols) * cols, max(1, depth), (1, 1), 1,
        )  # fmt: skip
        return replace(draft, layout=laid_out(draft, draft.mc, draft.nc))

    def _spec(self, plan: GemmPlan) -> int:
        record = kernel_record(plan)
        spec = record[0]
        spec["round_depth"] = self.work.chunk if self.work.partial == FP16 else plan.kc
        spec["out_skip"] = 0 if self.direct else self.workspace - _OUT
        self.keep.append(record)
        return int(record.ctypes.data)

    # Sums of partials ------------------------------------------------------------------------------

    def _clear(self) -> ComputeSet:
        """Zeros for the partial sums: of combined groups some shares of the depth hold other groups' channels only."""
        first, count, tiles = self._dealt(self.work.parts * self.work.sums, _ROUNDED)
        items = _items(_partials.CLEAR, operand=self.workspace, first=4 * first, bytes=4 * count)
        return ComputeSet("compute", (Segment(_partials.CLEAR_VERTEX, items, tiles),))

    def _reduction(self) -> Steps:
        """The stages, what each exchanges rounded before; the last adds to the sums of the turns before."""
        w, stages = self.work, self.work.stages or (1,)
        at_random = self.call.stochastic and w.between == FP16
        draws = iter(range(1, len(stages) + 2))
        self.draws = at_random * (len(stages) + 1)
        yield Exchange("exchange partial sums", w.partial_bytes)
        if at_random:
            yield self._round_at_random(0, w.parts * w.sums, next(draws), self.draws)
        for fan_in, (left, made) in zip(stages, w.reductions, strict=True):
            to = self.reduced if made == 1 else 0
            yield self._reduce(fan_in, left, made, to, 0 if self.call.stochastic else _rounding(w.between))
            if at_random:
                yield self._round_at_random(to, made * w.sums, next(draws), self.draws)

    def _reduce(self, fan_in: int, left: int, made: int, to: int, rounding: int) -> ComputeSet:
        """Sums of `fan_in` partials each, one after another for each share of them: they may lie where partials did."""
        first, count, tiles = self._dealt(self.work.sums, _SUMS)
        step, sums = 4 * self.work.sums, np.arange(made)
        items = _items(
            _partials.REDUCE, operand=self.workspace, first=4 * first[:, None] + sums * fan_in * step,
            to=4 * first[:, None] + sums * step + to, count=count[:, None],
            fan_in=np.minimum(fan_in, left - sums * fan_in), step=step, accumulate=made == 1, rounding=rounding,
        )  # fmt: skip
        return ComputeSet("reduce", (Segment(_partials.REDUCE_VERTEX, items.ravel(), np.repeat(tiles, made)),))

    def _round_at_random(self, at: int, count: int, draw: int, turn_draws: int = 0) -> ComputeSet:
        first, counts, tiles = self._dealt(count, _ROUNDED, 32)
        items = _items(
            _partials.ROUND, operand=self.workspace, first=at + 4 * first, count=counts, place=first, seed=self.seed,
            draw=draw, turn_draws=turn_draws,
            rounding=select("dot", "round_at_random", "float16").kernel.address,
        )  # fmt: skip
        return ComputeSet("round", (Segment(_partials.ROUND_VERTEX, items, tiles),))

    # The result from the sums ----------------------------------------------------------------------

    def _epilogue(self) -> Steps:
        """The cast to the result's format, and after it the bias and the activation, each rounding to that format."""
        call, draws = self.call, self.draws * self.work.depth_turns
        yield from self._rounded(0)
        if call.bias is not None:
            yield self._add(call.bias)
            yield from self._rounded(draws + 1)
        activation = call.activation
        if activation is not None and call.stochastic:
            lie = self.sums_lie
            yield self._finish("activation", lie, self.workspace, self.reduced, activation)
            yield from self._rounded(draws + 2)
            activation = None
        yield self._finish("cast output" if activation is None else "activation", call.out, _OUT, 0, activation)

    def _rounded(self, draw: int) -> Steps:
        """Sums to numbers of the result's format; the last cast rounds to nearest itself."""
        call, sums = self.call, self.work.sums
        if call.out.format != FP16:
            return
        if call.stochastic:
            yield self._round_at_random(self.reduced, sums, draw)
        elif call.bias is not None or call.activation is not None:
            first, count, tiles = self._dealt(sums, _SUMS)
            items = _items(_partials.REDUCE, operand=self.workspace, first=self.reduced + 4 * first,
                           to=self.reduced + 4 * first, count=count, fan_in=1, rounding=_rounding(FP16))
            yield ComputeSet("round", (Segment(_partials.REDUCE_VERTEX, items, tiles),))

    def _add(self, bias: MatrixLayout) -> ComputeSet:
        m, n = self.work.m, self.work.n
        first, rows, group = self._dealt_rows(m)
        items = _items(
            _partials.ADD, operand=self.workspace, first=self.reduced + 4 * n * (group * m + first), rows=rows, cols=n,
            bias=_BIAS, at=group * bias.batch[0] + first * bias.row, line=bias.row, step=bias.column,
            item=bias.format.itemsize, format=format_record(bias.format).ctypes.data,
            decode=select("dot", "decode", f"{bias.format}->{FP32}").kernel.address,
        ).ravel()  # fmt: skip
        return ComputeSet("bias", (Segment(_partials.ADD_VERTEX, items, spread(items.size, len(self.tiles))),))

    def _finish(self, phase: str, to: MatrixLayout, operand: int, at: int, activation: str | None) -> ComputeSet:
        m, n = self.work.m, self.work.n
        along = to.column == to.format.itemsize and to.row == n * to.column  # contiguous: dealt out by elements
        extent, width, step = (m * n, 1, to.column) if along else (m, n, to.row)
        first, count, group = self._dealt_rows(extent)
        items = _items(
            _partials.FINISH, operand=self.workspace, first=self.reduced + 4 * width * (group * extent + first), row=n,
            rows=1 if along else count, cols=count if along else n, to=operand,
            out=at + group * to.batch[0] + first * step, out_row=to.row, out_col=to.column,
            format=format_record(to.format).ctypes.data, overflow=infinite_overflow(to.format),
            activation=ACTIVATIONS.index(activation),
            epilogue=select("dot", "epilogue", f"float32->{to.format}").kernel.address,
        ).ravel()  # fmt: skip
        return ComputeSet(phase, (Segment(_partials.FINISH_VERTEX, items, spread(items.size, len(self.tiles))),))

    def _dealt_rows(self, extent: int) -> tuple[Array, Array, Array]:
        """Rows, or elements, of each group in shares: first, count, and the group along an axis of its own."""
        parts = threads_for(self.work.m * self.work.n, _SUMS, extent)
        edges = LinearMapping(extent, 1, parts).edges()
        return edges[:-1], np.diff(edges), np.arange(self.work.groups)[:, None]


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
