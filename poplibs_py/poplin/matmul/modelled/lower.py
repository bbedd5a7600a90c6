"""From a modelled product's work to compute sets that the executor runs with compiled kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from time import perf_counter
from typing import Any

import numpy as np

from ....config import settings
from ....formats import FP16, FP32, Format
from ....kernels import select
from ....kernels.records import infinite_overflow
from ....popops import cast
from ....program import Executable, temporary
from ....target import Target
from .. import _partials
from .._matmul import ITEM, VERTEX, Mode, Sums
from ..layout import laid_out
from ..lower import format_record, kernel_record
from ..options import MatmulOptions
from ..params import MatmulParams, Operand
from ..plan import Epilogue, HostPlan
from .work import TileWork

__all__ = ["Step", "TileProgram", "lower_work"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Step:
    """One compute set: its phase, the arrays it takes, and how it runs."""

    phase: str
    arrays: tuple[str, ...]
    run: Callable[..., None]


class TileProgram:
    """A modelled product made of compiled vertices.

    Attributes
    ----------
    work : TileWork
        What it follows.
    steps : tuple of Step
        Compute sets in order.
    arena_bytes : int
        Bytes laid out for the tile that needs most; a thread has one arena and runs its tiles one after another.
    """

    def __init__(self, work: TileWork, steps: tuple[Step, ...], arena_bytes: int, keep: list[Array]) -> None:
        self.work = work
        self.steps = steps
        self.arena_bytes = arena_bytes
        self._keep = keep  # items hold addresses of these

    def run(self, a: Array, b: Array, out: Array) -> dict[str, float]:
        """Run on operands [g, m, k] and [g, k, n] that lie as lowered for; return the wall seconds of each phase."""
        w = self.work
        arrays = {"a": a, "b": b, "out": out}
        if not w.direct:
            sums = (w.groups, w.m, w.n)
            combined = w.plan.transforms[0].combine_conv_groups_factor > 1
            arrays["partials"] = temporary((w.parts, *sums))
            if combined:
                arrays["partials"][...] = 0
            arrays["reduced"] = temporary(sums)
            for i in range(len(w.stages) - 1):
                arrays[f"stage {i}"] = temporary((_left(w, i + 1), *sums))
        seconds: dict[str, float] = {}
        for step in self.steps:
            began = perf_counter()
            step.run(*(arrays[name] for name in step.arrays))
            seconds[step.phase] = seconds.get(step.phase, 0.0) + perf_counter() - began
        return seconds


def _left(work: TileWork, stages: int) -> int:
    """Partials left after some stages of the reduction."""
    left = work.parts
    for fan_in in work.stages[:stages]:
        left = -(-left // fan_in)
    return left


def round_at_random(sums: Array, seed: int, count: int) -> None:
    """Round FP32 sums in place to FP16 values, with random bits of their own for each `count`."""
    sums[...] = cast(sums, FP16, rounding="stochastic", seed=(seed + count) % 2**64).astype(np.float32)


def lower_work(work: TileWork, a: Operand, b: Operand, out: Operand, threads: int | None = None,
               seed: int | None = None) -> TileProgram:
    """Lower a product's work for operands that lie as described.

    Parameters
    ----------
    work : TileWork
        What the tiles do.
    a, b, out : Operand
        Formats, strides and scales of [g, m, k], [g, k, n] and [g, m, n]; ``batch`` holds the group's stride.
    threads : int, optional
        Threads to run on; the result does not depend on it.
    seed : int, optional
        Round what tiles exchange stochastically, from this seed; to nearest even by default.
    """
    workers = settings.num_threads if threads is None else threads
    return _Lowering(work, a, b, out, workers, seed).program()


class _Lowering:
    """What every step of one lowering needs."""

    def __init__(self, work: TileWork, a: Operand, b: Operand, out: Operand, threads: int, seed: int | None) -> None:
        self.work, self.a, self.b, self.out = work, a, b, out
        self.threads, self.seed = threads, seed
        self.rounds = 0  # stochastic roundings so far: each draws bits of its own
        self.keep: list[Array] = []
        self.arena_bytes = 0
        cells = work.n * 4
        partials = Operand(FP32, cells, 4, (work.m * cells,))
        self.result = out if work.direct else partials

    def program(self) -> TileProgram:
        """Every step of every turn."""
        w = self.work
        steps: list[Step] = []
        for turn in range(w.turns):
            steps.append(self._compute(turn))
            if w.depth_turns > 1:
                steps += self._reduce(turn)
        if not w.direct:
            steps += self._reduce(0) if w.depth_turns == 1 else []
            steps.append(self._finish())
        return TileProgram(w, tuple(steps), self.arena_bytes, self.keep)

    def _executable(self, vertex: int, items: Array, tiles: Array, operands: int, scratch: int) -> Executable:
        return Executable([[(vertex, items, tiles)]], operands, self.work.plan.target_tiles, scratch, 0, self.threads)

    # Partial products ------------------------------------------------------------------------------

    def _compute(self, turn: int) -> Step:
        pieces = self.work.of_turn(turn)
        items = np.zeros(len(pieces), ITEM)
        scratch = 0
        for depth in np.unique(pieces["depth"]):
            chosen = pieces["depth"] == depth
            plan = self._tile_plan(pieces[chosen])
            items["spec"][chosen] = self._spec(plan)
            scratch = max(scratch, plan.scratch_bytes)
        self.arena_bytes = max(self.arena_bytes, scratch)
        a, b, out = self.a, self.b, self.result
        group, row, col, at = (pieces[name] for name in ("group", "row", "col", "from_depth"))
        items["a"] = group * a.batch[0] + row * a.row + at * a.column
        items["b"] = group * b.batch[0] + at * b.row + col * b.column
        items["out"] = group * out.batch[0] + row * out.row + col * out.column
        if not self.work.direct:
            items["out"] += pieces["part"] * (self.work.groups * out.batch[0])
        items["m"], items["n"] = pieces["rows"], pieces["cols"]
        run = self._executable(VERTEX, items, pieces["tile"], 3, scratch)
        return Step("compute", ("a", "b", "out" if self.work.direct else "partials"), run)

    def _tile_plan(self, pieces: Array) -> HostPlan:
        """How the frame of dense products does these pieces: all of a tile's operands packed in its arena."""
        w = self.work
        m, n, depth = (int(pieces[name].max()) for name in ("rows", "cols", "depth"))
        rounded = w.partial == FP16 or (w.between == FP16 and self.seed is None)
        params = MatmulParams(m, n, depth, self.a, self.b, self.result)
        selection = select("dot", "multiply", "float32", consistent=True)
        cols = selection.kernel.block[1]
        options = MatmulOptions(partials_type="half" if rounded else "float", reproducible=True)
        in_place = not (rounded or w.direct)
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
        self.keep.append(record)
        return int(record.ctypes.data)

    # Sums of partials ------------------------------------------------------------------------------

    def _shares(self) -> tuple[Array, Array, Array]:
        """The sums dealt out to the tiles that the plan uses: first number, count, tile."""
        w = self.work
        total = w.groups * w.m * w.n
        edges = np.linspace(0, total, w.plan.tiles_used + 1).astype(np.int64)
        return edges[:-1], np.diff(edges), np.sort(np.fromiter(w.plan.tile_indices(), np.int64))

    def _reduce(self, depth_turn: int) -> list[Step]:
        w = self.work
        total = w.groups * w.m * w.n
        first, count, tiles = self._shares()
        names = ["partials", *(f"stage {i}" for i in range(len(w.stages) - 1)), "reduced"]
        steps = self._round_at_random("partials")
        for i, fan_in in enumerate(w.stages or (1,)):
            last = i == len(names) - 2
            given, made = _left(w, i), _left(w, i + 1)
            items = np.zeros((len(first), made), _partials.REDUCE)
            sums = np.arange(made, dtype=np.int64)
            items["first"] = first[:, None] + sums * fan_in * total
            items["to"] = first[:, None] + sums * total
            items["count"] = count[:, None]
            items["fan_in"] = np.minimum(fan_in, given - sums * fan_in)
            items["step"] = total
            items["accumulate"] = last and depth_turn > 0
            items["rounding"] = _rounding(w.between) if self.seed is None else 0
            run = self._executable(_partials.REDUCE_VERTEX, items.ravel(), np.repeat(tiles, made), 2, 0)
            steps.append(Step("reduce", (names[i], names[i + 1]), run))
            steps += self._round_at_random(names[i + 1])
        return steps

    def _round_at_random(self, name: str) -> list[Step]:
        """A step that rounds what tiles exchange stochastically, where that was asked for."""
        if self.seed is None or self.work.between != FP16:
            return []
        self.rounds += 1
        return [Step("round", (name,), partial(round_at_random, seed=self.seed, count=self.rounds))]

    def _finish(self) -> Step:
        w = self.work
        rows = w.groups * w.m
        items = np.zeros(rows, _partials.FINISH)
        row = np.arange(rows, dtype=np.int64)
        items["first"], items["row"], items["rows"], items["cols"] = row * w.n, w.n, 1, w.n
        items["out"] = row // max(1, w.m) * self.out.batch[0] + row % max(1, w.m) * self.out.row
        items["out_row"], items["out_col"] = self.out.row, self.out.column
        items["format"] = format_record(self.out.format).ctypes.data
        items["overflow"] = infinite_overflow(self.out.format)
        items["epilogue"] = select("dot", "epilogue", f"float32->{self.out.format}").kernel.address
        tiles = row * w.plan.target_tiles // max(1, rows)
        return Step("cast output", ("reduced", "out"), self._executable(_partials.FINISH_VERTEX, items, tiles, 2, 0))


_NOMINAL = Target.host(1)


def _packed(operand: Operand) -> int:
    """How an operand comes into the arena: line by line in the direction in which it is contiguous."""
    return int(Mode.TURNED if operand.row == operand.format.itemsize != operand.column else Mode.LINES)


@cache
def _rounding(f: Format) -> int:
    return select("dot", "round", "float16").kernel.address if f == FP16 else 0
