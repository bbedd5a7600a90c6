"""From a plan's work to a program of compiled vertices, in which nothing is left to Python.

What tiles exchange lies in the program's workspace: the partial sums ``[parts, groups, batch, outputs..., channels]``,
and where turns add in place the sums of the turns before. Stages of the reduction put their sums where their partials
were.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...config import settings
from ...formats import FP16, FP32, Array, Format
from ...kernels import select
from ...kernels.records import ACTIVATIONS, infinite_overflow
from ...memo import tabled
from ...ops import contiguous_strides
from ...program import ComputeSet, Exchange, Executable, Loop, Program, Segment, rounded, spread, threads_for
from ...target import LinearMapping, Target
from ..gemm._gemm import ITEM, VERTEX, Mode, Sums
from ..gemm.field import Neighbours
from ..gemm.lower import format_record, kernel_record, offsets
from ..gemm.options import GemmOptions
from ..gemm.params import GemmParams, MatrixLayout
from ..gemm.plan import Epilogue, GemmPlan, laid_out
from . import _partials
from .products import ArrayLayout, TileProduct, tile_products
from .together import beside
from .work import ConvWork

Steps = Iterator[ComputeSet | Exchange]

_SUMS = 1024  # that are worth an item of their own in what follows the tiles' products
_ROUNDED = 1 << 14  # the same where they are rounded at random: to find a place in the stream takes some 3 microseconds
_SET_FLOPS = 1 << 18  # of a compute set, for each thread: it takes some 10 microseconds, and to wake a thread takes 2
_LINE = 64  # columns of a result that lie apart: a share of those
_ROWS, _COLS = 256, 256  # of a rectangle: packed once, each number of an operand is multiplied so often
_FEW, _PANEL = 16, 1 << 16  # columns that leave lanes empty: rows are better there, in rectangles of so much of B,
_LINES = 1 << 15  # or so much of lines that neighbours share: these are read where they begin
_SPARE = 4  # rectangles for each thread, where their parts follow each other
_WHOLE, _DEPTH = 768, 512  # that are packed at once: up to so much, else so much
_NOMINAL = Target.host(1)


class TileCall(NamedTuple):
    """A call of a plan: how its operands lie, and what is done with the result.

    Attributes
    ----------
    x, w, out : ArrayLayout
        Of the input, the weights and the result, in the axes of `ConvWork.shapes`.
    bias : ArrayLayout, optional
        Of a bias, broadcast to the result.
    activation : str, optional
    update : float, optional
        Of sums that are added to the result: what they are multiplied by, rounded to its format before.
    stochastic : bool
        Whether roundings after the tiles' sums are stochastic, from the seed that a run is given; else to nearest even.
    threads : int, optional
        Threads to run on, at most: as many as the compute sets keep busy. The result does not depend on it.
    """

    x: ArrayLayout
    w: ArrayLayout
    out: ArrayLayout
    bias: ArrayLayout | None = None
    activation: str | None = None
    update: float | None = None
    stochastic: bool = False
    threads: int | None = None

    @property
    def plain(self) -> bool:
        """Whether the result is the sums alone."""
        return self.bias is None and self.activation is None and self.update is None


def lower(work: ConvWork, call: TileCall) -> Executable:
    """Return the executable of a plan's work.

    It runs on x, w, out, then the bias if there is one, then one uint64 where it rounds stochastically: the seed.
    """
    return lower_together(((work, call),))


def lower_together(works: Sequence[tuple[ConvWork, TileCall]], side_by_side: bool = True) -> Executable:
    """Return one executable of several plans' work, which runs on the operands of each, one seed for all after them.

    Parameters
    ----------
    works : sequence of (ConvWork, TileCall)
        Of one rounding, all of them.
    side_by_side : bool, optional
        Whether they run at once, on tiles of their own: then their loops have as many turns. Else one after another.
    """
    stochastic = works[0][1].stochastic
    seed = sum(3 + (call.bias is not None) for _, call in works)
    made, first, space = [], 0, 0
    for work, call in works:
        made.append(_Lowering(work, call, first, seed, seed + stochastic, space))
        first += 3 + (call.bias is not None)
        space += made[-1].held
    each = [lowering.steps() for lowering in made]
    steps, tiles = beside([one.tiles for one in made], each) if side_by_side else (sum(each, ()), max(
        one.tiles for one in made))
    keep = tuple(table for one in made for table in one.keep)
    program = Program(steps, seed + stochastic, tiles, max(one.arena for one in made), space, keep)
    wanted = [call.threads for _, call in works]
    most = min((n for n in wanted if n is not None), default=settings.num_threads)
    turns = max(1, *(work.turns for work, _ in works))
    return program.executable(threads_for(sum(one.flops for one in made), turns * _SET_FLOPS, most))


@dataclass
class _Lowering:
    """What every compute set of one plan's work needs: its first operand's number, its workspace's first byte."""

    work: ConvWork
    call: TileCall
    first: int
    seed: int
    workspace: int
    space: int

    def __post_init__(self) -> None:
        work, out = self.work, self.call.out
        self.out = self.first + 2  # after x and w; a bias follows
        self.tiles = max(1, work.plan.tiles_used)
        self.keep: list[Array] = []
        self.specs: dict[tuple[Any, ...], int] = {}
        self.arena = self.draws = self.flops = 0  # draws: stochastic roundings of a reduction, each of bits of its own
        plain = self.call.plain
        rounds_result = self.call.stochastic and out.format == FP16
        self.direct = work.direct and work.whole and plain and not rounds_result  # tiles write the result itself
        self.rows, self.cols = work.sums // max(1, work.params.out_channels), work.params.out_channels
        self.sums_lie = out if self.direct else _channels_last(work.shapes["out"])
        self.fan_in, self.chains = self._chains()
        self.parts = -(-work.parts // self.fan_in)
        partials = self.parts * work.sums * 4
        adds = work.depth_turns > 1
        self.reduced = self.space + partials * adds  # bytes to the sums that are reduced
        self.held = 0 if self.direct else partials + 4 * work.sums * adds

    def steps(self) -> tuple[ComputeSet | Exchange | Loop, ...]:
        """Every compute set of every turn."""
        w = self.work
        adds = w.depth_turns > 1
        clear = () if w.whole and (w.factor == 1 or w.direct) else (self._clear(),)
        received = Exchange("exchange operands", w.operand_bytes)
        body = (*clear * adds, received, self._products(), *(self._reduction() if adds else ()))
        after = (*(() if adds or w.direct else self._reduction()), *(() if self.direct else self._epilogue()))
        return (*(() if adds else clear), Loop(w.turns, body), *after)

    def _dealt(self, extent: int, least: int, unit: int = 1) -> tuple[Array, Array, Array]:
        """An extent dealt out to the tiles that the plan uses, `least` to each, in units: first, count, tile."""
        parts = threads_for(extent, least, self.tiles)
        edges = LinearMapping(extent, unit, parts).edges()
        return edges[:-1], np.diff(edges), spread(parts, self.tiles)

    # Partial products ------------------------------------------------------------------------------

    def _chains(self) -> tuple[int, list[list[TileProduct]]]:
        """The products that tiles make, and how many of them a chain has: parts of the same sums.

        What the first stage of the reduction adds is added as it is made, in its order, and no part is kept. Where
        there are too few sums for the threads, or parts are rounded at random in between, or tiles make some of the
        parts alone, each product is a chain of its own.
        """
        work, call = self.work, self.call
        made = [p.swap() if p.cols < _FEW and p.rows > 2 * p.cols else p
                for p in tile_products(work, call.x, call.w, self.sums_lie)]
        fan_in = work.stages[0] if work.stages and not (call.stochastic and work.between == FP16) else 1
        chains: dict[Any, list[TileProduct]] = {}
        for p in made:
            share = p.part // fan_in
            chains.setdefault((p.turn, share, p.rows, p.cols, p.groups, p.out, p.swapped), []).append(p)
        due = [min(fan_in, work.parts - chain[0].part // fan_in * fan_in) for chain in chains.values()]
        rectangles = sum(_count(chain) for chain in chains.values())
        threads = settings.num_threads if call.threads is None else call.threads
        if [len(chain) for chain in chains.values()] != due or rectangles < _SPARE * threads * work.turns:
            return 1, [[p] for p in made]
        # a sum of exact products that starts from +0 is never -0, so that to add nothing to it changes nothing
        exact = call.x.format != FP32 and work.partial == work.between == FP32
        return fan_in, [[p for p in chain if p.depth or not exact] or chain[:1] for chain in chains.values()]

    def _products(self) -> ComputeSet:
        """All partial sums, in rectangles of the products that tiles make together; a tile makes those of a chain.

        Those of the same share of the depth that are as far along follow each other: they meet the same elements.
        """
        made = [self._rectangles(chain) for chain in self.chains] or [np.zeros(0, ITEM)]
        lengths = np.array([len(chain) for chain in self.chains] or [1])
        items, counts = np.concatenate(made), np.array([len(x) for x in made]) // lengths
        turns = np.repeat([chain[0].turn for chain in self.chains] or [0], counts).astype(np.int64)
        along = np.concatenate([np.arange(n) / n for n in counts if n] or [np.zeros(0)])
        shares = np.repeat([chain[0].part // self.fan_in for chain in self.chains] or [0], counts)
        order = np.lexsort((along, shares, turns))
        lengths = np.repeat(lengths, counts)
        firsts, lengths = (np.cumsum(lengths) - lengths)[order], lengths[order]
        turns = turns[order]
        tiles = np.zeros(len(turns), np.int64)
        for turn in range(self.work.turns):
            first, end = np.searchsorted(turns, (turn, turn + 1))
            tiles[first:end] = spread(end - first, self.tiles)
        items = items[np.repeat(firsts + lengths - np.cumsum(lengths), lengths) + np.arange(len(items))]
        tiles, turns = (np.repeat(x, lengths) for x in (tiles, turns))
        return ComputeSet("compute", (Segment(VERTEX, items, tiles, turns),))

    def _rectangles(self, chain: list[TileProduct]) -> Array:
        """A chain's items: rectangles of each group, in each of them part after part."""
        p = chain[0]
        rows, cols = _shares(p.rows, _ROWS), _columns(chain)
        items = np.zeros((len(p.groups), rows.shape[1], cols.shape[1], len(chain)), ITEM)
        for number, p in enumerate(chain):
            self._fill(items[..., number], p, rows, cols, number > 0)
        return items.ravel()

    def _fill(self, items: Array, p: TileProduct, rows: Array, cols: Array, adds: bool) -> None:
        """A product's items; whether they add to the sums that are there."""
        self.flops += 2 * p.rows * p.cols * p.depth * len(p.groups)
        group, (r0, r1), (c0, c1) = np.array(p.groups)[:, None, None], rows[:, :, None], cols[:, None, :]
        items["spec"] = self._spec(p, int((r1 - r0).max()), int((c1 - c0).max()), adds)
        items["m"], items["n"] = r1 - r0, c1 - c0
        x, w, out = self.call.x.strides[1], self.call.w.strides[0], self.sums_lie.strides[1]
        x, w = (w, x) if p.swapped else (x, w)
        items["a"] = group * x + p.a.offset + (0 if p.a.field else r0 * p.a.row)
        items["b"] = group * w + p.b.offset + (0 if p.b.field else c0 * p.b.column)
        by_rows = p.out.field is not None and not p.swapped
        items["out"] = group * out + p.out.offset + (0 if by_rows else r0 * p.out.row) + c0 * p.out.column
        items["out"] += 0 if self.direct else self.space + p.part // self.fan_in * self.work.sums * 4
        items["first_row"], items["first_col"] = r0, c0
        near = _neighbours(p)
        b_field = near.lines if near else p.b.field
        for name, field in (("a_field", p.a.field), ("b_field", b_field), ("out_field", p.out.field)):
            if field is not None:
                record = field.record
                self.keep.append(record)
                items[name] = record.ctypes.data

    def _spec(self, p: TileProduct, rows: int, cols: int, adds: bool) -> int:
        """The record of a rectangle of so many rows and columns, whose sums may be added to what is there."""
        near = _neighbours(p)
        key = (rows, cols, p.depth, p.lap, p.swapped, adds, _packed(p.a), _packed(p.b, True),
               near and (near.lines.channels, *near[1:]),
               *((x.row, x.column, x.field is None) for x in (p.a, p.b, p.out)))
        address = self.specs.get(key)
        if address is None:
            plan = self._tile_plan(p, rows, cols, adds)
            self.arena = max(self.arena, plan.scratch_bytes)
            record = kernel_record(plan, self.first + p.swapped, self.first + (not p.swapped))
            spec = record[0]
            chunk, lap = (self.work.chunk, p.lap) if self.work.partial == FP16 else (p.depth, p.depth)
            spec["round_depth"], spec["round_lap"] = max(1, chunk), max(1, lap)
            spec["out_skip"] = (self.out if self.direct else self.workspace) - 2
            self.keep.append(record)
            address = self.specs[key] = int(record.ctypes.data)
        return address

    def _tile_plan(self, p: TileProduct, rows: int, cols: int, adds: bool) -> GemmPlan:
        """How the frame of dense products makes a rectangle, its operands packed in the arena."""
        w, call = self.work, self.call
        in_halves = w.partial == FP16 or (w.between == FP16 and not call.stochastic)
        params = GemmParams(rows, cols, p.depth, p.a, p.b, p.out)
        selection = select("dot", "multiply", "float32", consistent=True, cost=None if not p.swapped else (
            lambda k: -(-rows // k.block[0]) / (rows * k.block[1])))  # of a call's rows and columns, each is a chain
        width = selection.kernel.block[1]
        options = GemmOptions(partials_type="half" if in_halves else "float", reproducible=True)
        in_place = not (in_halves or self.direct or adds) and p.out.field is None and p.out.column == 4
        at_once = p.depth <= _WHOLE and not in_halves and p.out.column == 4 and not self.direct
        sums = Sums.IN_PLACE if in_place else Sums.TILE if at_once else Sums.BLOCK
        near = _neighbours(p)
        b_mode = int(Mode.NEIGHBOURS) if near else _packed(p.b, True)
        part = _DEPTH // near.lap * near.lap or near.lap if near else _DEPTH
        draft = GemmPlan(
            params, params, options, Epilogue(beta=float(adds)), _NOMINAL, FP32, selection, _packed(p.a),
            b_mode, int(sums), rows, rounded(cols, width), max(1, p.depth if p.depth <= _WHOLE else part), (1, 1), 1,
        )  # fmt: skip
        return replace(draft, layout=laid_out(draft, draft.mc, draft.nc))

    # Sums of partials ------------------------------------------------------------------------------

    def _clear(self) -> ComputeSet:
        """Zeros for sums that no tile makes: of outputs that dilation leaves out, of groups that a combined one holds
        where their channels are another tile's."""
        first, count, tiles = self._dealt(self.parts * self.work.sums, _ROUNDED)
        items = _items(_partials.CLEAR, operand=self.workspace, first=self.space + 4 * first, bytes=4 * count)
        return ComputeSet("compute", (Segment(_partials.CLEAR_VERTEX, items, tiles),))

    def _reduction(self) -> Steps:
        """The stages, what each exchanges rounded before; the last adds to the sums of the turns before."""
        w, stages = self.work, self.work.stages or (1,)
        at_random = self.call.stochastic and w.between == FP16
        draws = iter(range(1, len(stages) + 2))
        self.draws = at_random * (len(stages) + 1)
        yield Exchange("exchange partial sums", w.partial_bytes)
        if at_random:
            yield self._round_at_random(self.space, w.parts * w.sums, next(draws), self.draws)
        rounding = 0 if self.call.stochastic else _rounding(w.between)
        for number, (fan_in, (left, made)) in enumerate(zip(stages, w.reductions, strict=True)):
            to = self.reduced if made == 1 else self.space
            if number > 0 or self.fan_in == 1:
                yield self._reduce(fan_in, left, made, to, rounding)
            elif rounding or to != self.space:
                yield self._reduce(1, made, made, to, rounding)
            if at_random:
                yield self._round_at_random(to, made * w.sums, next(draws), self.draws)

    def _reduce(self, fan_in: int, left: int, made: int, to: int, rounding: int) -> ComputeSet:
        """Sums of `fan_in` partials each, one after another for each share of them: they may lie where partials did."""
        first, count, tiles = self._dealt(self.work.sums, _SUMS)
        step, sums = 4 * self.work.sums, np.arange(made)
        items = _items(
            _partials.REDUCE, operand=self.workspace, first=self.space + 4 * first[:, None] + sums * fan_in * step,
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
        """The cast to the result's format, then the bias and the activation, each rounding to it, or what is there."""
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
        phase = "activation" if activation is not None else "cast output" if call.update is None else "update"
        yield self._finish(phase, call.out, self.out, 0, activation, call.update)

    def _rounded(self, draw: int) -> Steps:
        """Sums to numbers of the result's format; the last cast rounds to nearest itself."""
        call, sums = self.call, self.work.sums
        if call.out.format != FP16:
            return
        if call.stochastic:
            yield self._round_at_random(self.reduced, sums, draw)
        elif not call.plain:
            first, count, tiles = self._dealt(sums, _SUMS)
            items = _items(_partials.REDUCE, operand=self.workspace, first=self.reduced + 4 * first,
                           to=self.reduced + 4 * first, count=count, fan_in=1, rounding=_rounding(FP16))
            yield ComputeSet("round", (Segment(_partials.REDUCE_VERTEX, items, tiles),))

    def _add(self, bias: ArrayLayout) -> ComputeSet:
        lines = self._lines(bias)
        items = _items(
            _partials.ADD, operand=self.workspace, first=self.reduced + 4 * self.cols * lines.row, rows=lines.rows,
            cols=self.cols, bias=self.out + 1, at=lines.at, line=lines.step, step=bias.strides[2],
            item=bias.format.itemsize, format=format_record(bias.format).ctypes.data,
            decode=select("dot", "decode", f"{bias.format}->{FP32}").kernel.address,
        ).ravel()  # fmt: skip
        return ComputeSet("bias", (Segment(_partials.ADD_VERTEX, items, spread(items.size, self.tiles)),))

    def _finish(self, phase: str, to: ArrayLayout, operand: int, at: int, activation: str | None,
                update: float | None = None) -> ComputeSet:
        beside = to.strides[2] == to.format.itemsize
        lines, cols = self._lines(to, 1 if beside else _ROWS), self.cols
        along = beside and lines.step == cols * to.strides[2]  # rows are one after another
        c0, c1 = (0, cols) if beside else _shares(cols, _LINE)
        row, count, place = (x[..., None] for x in (lines.row, lines.rows, lines.at))
        rows, width = (1, count * cols) if along else (count, c1 - c0)
        items = _items(
            _partials.FINISH, operand=self.workspace, first=self.reduced + 4 * (cols * row + c0), row=cols, rows=rows,
            cols=width, to=operand, out=at + place + c0 * to.strides[2], out_row=lines.step, out_col=to.strides[2],
            format=format_record(to.format).ctypes.data, overflow=infinite_overflow(to.format),
            activation=ACTIVATIONS.index(activation), alpha=1.0 if update is None else update,
            beta=float(update is not None),
            epilogue=select("dot", "epilogue", f"float32->{to.format}").kernel.address,
        ).ravel()  # fmt: skip
        return ComputeSet(phase, (Segment(_partials.FINISH_VERTEX, items, spread(items.size, self.tiles)),))

    def _lines(self, lie: ArrayLayout, least: int = 1) -> _Lines:
        """Rows of sums, a row for each output of an image, in runs that an array has one step apart; shared out.

        A share has so many rows at least, where a run has.
        """
        batch, groups, _, *outputs = self.work.shapes["out"]
        extents, strides = [batch, *outputs], [lie.strides[0], *lie.strides[3:]]
        run, step = 1, 0
        while extents and (run == 1 or extents[-1] == 1 or strides[-1] == run * step):
            extent, stride = extents.pop(), strides.pop()
            step = stride if run == 1 else step
            run *= extent
        starts = offsets(extents, strides)
        edges = LinearMapping(run, 1, threads_for(run * self.cols, _SUMS, max(1, run // least))).edges()
        first, group = edges[:-1], np.arange(groups)[:, None, None]
        return _Lines(group * self.rows // groups + np.arange(starts.size)[:, None] * run + first, np.diff(edges),
                      lie.offset + group * lie.strides[1] + starts[:, None] + first * step, step)


class _Lines(NamedTuple):
    """Runs of rows: the first's number, how many, bytes to it in an array, and from a row to the next there."""

    row: Array
    rows: Array
    at: Array
    step: int


def _channels_last(shape: tuple[int, ...]) -> ArrayLayout:
    """How FP32 sums lie: groups, batch, outputs, channels."""
    batch, _, channels, *outputs = shape
    group, row, *field, _ = contiguous_strides((1, batch, *outputs, channels), 4)
    return ArrayLayout(FP32, (row, group, 4, *field))


def _shares(extent: int, most: int) -> Array:
    """First and end of shares of an extent, none larger than the most: an array of [2, shares]."""
    edges = LinearMapping(extent, 1, max(1, -(-extent // most))).edges()
    return np.stack([edges[:-1], edges[1:]])


def _count(chain: list[TileProduct]) -> int:
    """Rectangles of each product of a chain."""
    p = chain[0]
    return len(p.groups) * -(-p.rows // _ROWS) * len(_columns(chain).T)


def _columns(chain: list[TileProduct]) -> Array:
    """First and end of the columns of rectangles: whole lines of neighbours, where these are short."""
    near = [_neighbours(p) for p in chain]
    lines = max(1, *(p.depth // (n.taps if n else 1) for n, p in zip(near, chain, strict=True)))
    most = max(_COLS, min((_LINES if near[0] else _PANEL) // lines, 16 * _COLS)) if chain[0].swapped else _COLS
    unit = near[0].width if near[0] and near[0].width <= most else 1
    return unit * _shares(chain[0].cols // unit, most // unit)


def _neighbours(p: TileProduct) -> Neighbours | None:
    """How lines of B serve several taps, if the block of depth that is packed at once takes all of these."""
    near = p.b.field.neighbours(p.b.format.itemsize) if p.b.field else None
    return near if near and near.lap <= _WHOLE and not p.b.scales else None


def _items(kind: np.dtype[np.void], **fields: Any) -> Array:
    """A table of items, each field an array or one number for all of them."""
    items = np.zeros(np.broadcast_shapes(*(np.shape(values) for values in fields.values())), kind)
    for name, values in fields.items():
        items[name] = values
    return items


def _packed(operand: MatrixLayout, columns: bool = False) -> int:
    """How an operand comes into the arena: line by line in the direction in which its elements are closer.

    The positions of a field are its columns, or its rows.
    """
    if operand.field is not None:
        along = operand.field.along_depth(operand.format.itemsize)
        return int(Mode.TRANSPOSED if along == columns else Mode.LINES)
    return int(Mode.TRANSPOSED if 0 < abs(operand.row) < abs(operand.column) else Mode.LINES)


@tabled(64)
def _rounding(f: Format) -> int:
    return select("dot", "round", "float16").kernel.address if f == FP16 else 0
