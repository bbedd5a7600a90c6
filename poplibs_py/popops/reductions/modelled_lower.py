"""How the sums and products of a modelled machine's reductions run, in the order of their plan; and the same in NumPy.

A program has a compute set for each stage, and one more where workers share rows; and where partial results are halves
one that rounds them. The totals of a stage lie one after another in the workspace, those of a share in a row; what a
stage reads is where the stage before left it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...formats import FP16, FP32, Array, Format
from ...formats.format import preset_of
from ...formats.reference import decode
from ...kernels import select
from ...kernels.records import dtype_of, format_facts, infinite_overflow
from ...memo import remembered
from ...program import ComputeSet, Executable, Program, Segment, threads_for
from .. import _chains
from .modelled import ReducePlan
from .stages_modelled import Share, Source, sources_of

CHAINED = {"ADD": 0, "SQUARE_ADD": 1, "MUL": 2}
"""The operations whose numbers depend on the order, and what the vertex calls them."""

_OPERAND, _RESULT, _WORKSPACE = range(3)
_THREAD_ELEMENTS = 1 << 15
_RESULTS = 4096  # of an item
_CAST = dtype_of("pop_cast")


@dataclass(frozen=True)
class TiledReduction:
    """What runs, ready."""

    plan: ReducePlan
    executable: Executable


class _Chains:
    """The items of a compute set."""

    def __init__(self) -> None:
        self.items: list[tuple[int, ...]] = []
        self.tiles: list[int] = []

    def add(self, tile: int, *fields: int) -> None:
        self.tiles.append(tile)
        self.items.append(fields)

    def steps(self, phase: str) -> Iterator[ComputeSet]:
        if self.items:
            items = np.array(self.items, _chains.ITEM)
            yield ComputeSet(phase, (Segment(_chains.CHAIN_VERTEX, items, np.array(self.tiles)),))


class _Lies:
    """Where the numbers of a stage lie, by column and place in the column."""

    def __init__(self, sources: Sequence[Source], base: int, outputs: int) -> None:
        """Cut the columns into runs that the same sources have; all bytes are of the workspace."""
        edges = sorted({0, outputs, *(edge for s in sources for edge in s[:2])})
        place = {edge: i for i, edge in enumerate(edges)}
        held: list[list[int]] = [[] for _ in edges]
        for begin, end, slot in sources:
            for i in range(place[begin], place[end]):
                held[i].append(base + 4 * (slot + edges[i] - begin))
        self.edges, self.places = edges, [np.array(at, np.int64) for at in held]
        self.next = 0

    def within(self, begin: int, end: int) -> Iterator[tuple[int, int, Array]]:
        """The runs of columns between two, and where the numbers of the first column are."""
        i = int(np.searchsorted(self.edges, begin, "right")) - 1
        while begin < end:
            stop = min(end, self.edges[i + 1])
            yield begin, stop, self.places[i] + 4 * (begin - self.edges[i])
            begin, i = stop, i + 1


@remembered(weight=16)
def lower_tiled(plan: ReducePlan, source: Format, column: int, row: int, result: Format, scale: float, update: bool,
                threads: int) -> TiledReduction:
    """Return the program of a reduction whose operand has columns and rows so many bytes apart.

    Parameters
    ----------
    plan : ReducePlan
    source : Format
    column, row : int
        Bytes from a column, and from a row, to the next.
    result : Format
        The result is in C order.
    scale : float
        What totals are multiplied by, in FP32.
    update : bool
        Whether what the result holds is added.
    threads : int
    """
    tables, codec = _decoder(source)
    step, begin, lies = CHAINED[plan.vertex_op], 0, None
    steps: list[ComputeSet] = []
    for stage, shares in enumerate(plan.order):
        first, joins, end = _Chains(), _Chains(), begin
        inner = parted = begin + 4 * sum(s.end - s.begin for s in shares)
        for share in shares:
            width, to = share.end - share.begin, end
            end += 4 * width
            if len(share.parts) > 1:
                joins.add(share.tile, _WORKSPACE, parted, width, 4, len(share.parts), 4 * width, to, step & 2, 0, 4, 0,
                          0)
                to = parted
                parted += 4 * width * len(share.parts)
            for at, part in _parts(share):
                if lies is None:
                    first.add(share.tile, _OPERAND, share.begin * column + at * row, width, column, part, row, to, step,
                              0, source.itemsize, *codec)
                else:
                    _read(first, share, lies, at, part, to, step)
                to += 4 * width
        name, final = plan.steps[stage].name, stage + 1 == len(plan.order)
        steps += first.steps(name)
        for kind, low, high in ((plan.partials.inside, inner, parted), (plan.partials.between, begin, inner)):
            steps += joins.steps(name) if low == begin else ()
            if kind == "half" and low < high and not (final and low == begin):
                items, more = _finish(FP16, low, (high - low) // 4, 1.0, False)
                steps.append(ComputeSet(name, (Segment(_chains.SETTLE_VERTEX, items, np.arange(len(items))),)))
                tables = [*tables, *more]
        lies = None if final else _Lies(sources_of(shares), begin, plan.outputs)
        last, begin, step = begin, parted, step & 2
    items, more = _finish(result, last, plan.outputs, scale, update)
    steps.append(ComputeSet(plan.steps[-1].name, (Segment(_chains.FINISH_VERTEX, items, np.arange(len(items))),)))
    threads = threads_for(plan.factor * plan.outputs, _THREAD_ELEMENTS, threads)
    tiles = max(plan.target.tiles, -(-begin // (4 * _RESULTS)))
    program = Program(tuple(steps), 2, tiles, 0, begin, tables=(*tables, *more))
    return TiledReduction(plan, program.executable(threads))


def _parts(share: Share) -> Iterator[tuple[int, int]]:
    """The first number of each part, and how many."""
    at = share.first
    for part in share.parts:
        yield at, part
        at += part


def _read(chains: _Chains, share: Share, lies: _Lies, at: int, part: int, to: int, step: int) -> None:
    """Add what a part of a share reads of the stage before."""
    for begin, end, places in lies.within(share.begin, share.end):
        own = places[at:at + part]
        steps, place = np.diff(own), to + 4 * (begin - share.begin)
        if len(own) == 1 or (steps == steps[0]).all():
            row = int(steps[0]) if len(steps) else 4
            chains.add(share.tile, _WORKSPACE, int(own[0]), end - begin, 4, part, row, place, step, 0, 4, 0, 0)
            continue
        for joins, first in enumerate(own.tolist()):
            chains.add(share.tile, _WORKSPACE, first, end - begin, 4, 1, 4, place, step, int(joins > 0), 4, 0, 0)


def _decoder(source: Format) -> tuple[list[Array], tuple[int, int]]:
    """What reads a format, and the addresses of that."""
    if source == FP32:
        return [], (0, 0)
    cast = np.zeros(1, _CAST)
    cast["from"], cast["to"] = format_facts(source), format_facts(FP32)
    return [cast], (select("cast", "decode", f"{source.name}->float32").kernel.address, cast.ctypes.data)


def _finish(result: Format, first: int, outputs: int, scale: float, update: bool) -> tuple[Array, list[Array]]:
    """The items that write results, and what they point to."""
    begins = np.arange(0, outputs, _RESULTS)
    items = np.zeros(len(begins), _chains.FINISH)
    items["first"], items["count"] = first + 4 * begins, np.minimum(_RESULTS, outputs - begins)
    items["to"], items["item"] = begins * result.itemsize, result.itemsize
    items["scale"], items["update"] = scale, update
    if result == FP32:
        return items, []
    write, (items["decode"], items["before"]) = np.zeros(1, _CAST), (codec := _decoder(result))[1]
    write["from"], write["to"], write["overflow"] = format_facts(FP32), format_facts(result), infinite_overflow(result)
    items["encode"] = select("cast", "encode", f"float32->{result.name}").kernel.address
    items["write"] = write.ctypes.data
    return items, [write, *codec[0]]


# The same in NumPy ---------------------------------------------------------------------------------------


def interpret_reduction(plan: ReducePlan, x: Array, scale: float = 1.0) -> Array:
    """Return the FP32 totals of a plan, an element after another in NumPy: what its contract says, plainly.

    Parameters
    ----------
    plan : ReducePlan
        Of `popops.plan_reduce`, for a sum, a sum of squares or a product.
    x : array
        Of float32 or float16, of the plan's shape.
    scale : float, optional
        What totals are multiplied by.

    Returns
    -------
    numpy.ndarray of float32
        Results in C order, before they are rounded to their format.
    """
    fmt = preset_of(x.dtype)
    assert fmt is not None
    numbers = x if fmt == FP32 else decode(x.view(f"u{x.itemsize}"), fmt)
    kept = [d for d, (_, reduced) in enumerate(plan.dims) if not reduced]
    over = [d for d, (_, reduced) in enumerate(plan.dims) if reduced]
    columns = np.asarray(numbers, np.float32).reshape([n for n, _ in plan.dims]).transpose(*kept, *over)
    held: list[Array] = list(columns.reshape(plan.outputs, plan.factor))
    op = plan.vertex_op
    with np.errstate(all="ignore"):
        if op == "SQUARE_ADD":
            held = [column * column for column in held]
        for shares in plan.order:
            made: list[list[np.float32]] = [[] for _ in held]
            for share in shares:
                for column in range(share.begin, share.end):
                    parts = [_chain(held[column][at:at + part], op) for at, part in _parts(share)]
                    if len(parts) > 1:
                        parts = [_settled(part, plan.partials.inside) for part in parts]
                    total = _chain(parts, op)
                    made[column].append(total if shares is plan.order[-1] else _settled(total, plan.partials.between))
            held = [np.array(column, np.float32) for column in made]
        return np.array([column[0] for column in held], np.float32) * np.float32(scale)


def _settled(number: np.float32, kind: str) -> np.float32:
    """A partial result as its type holds it."""
    return np.float32(np.float16(number)) if kind == "half" else number


def _chain(numbers: Sequence[np.float32] | Array, op: str) -> np.float32:
    """FP32 numbers taken one after another."""
    total = np.float32(numbers[0])
    for number in numbers[1:]:
        total = total * number if op == "MUL" else total + number
    return total
