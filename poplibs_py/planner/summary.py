"""What a plan says of itself, for people and programs: its table, its JSON and comparisons are made from one summary.

An op's plan registers how it is summarised (`summarised`); the forms are the same for all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import singledispatch
from typing import Any

from .ladder import Temporaries


@dataclasses.dataclass(frozen=True)
class AxisShare:
    """How an axis is cut.

    Attributes
    ----------
    name : str
        What it is, such as ``"M"`` or ``"output channels"``.
    size : int
        Elements.
    tiles, turns : int
        Parts across tiles, and in the serial loop.
    most, least : int
        Elements that a tile has of it in a turn.
    """

    name: str
    size: int
    tiles: int
    turns: int
    most: int
    least: int


@dataclasses.dataclass(frozen=True)
class Phase:
    """One phase of a pass.

    Attributes
    ----------
    name : str
    cycles : int
        Of one turn.
    times : int
        Turns that have it.
    bytes : int
        Temporary bytes on a tile.
    """

    name: str
    cycles: int
    times: int
    bytes: int


@dataclasses.dataclass(frozen=True)
class PlanSummary:
    """The figures of a plan.

    Attributes
    ----------
    problem : str
        The op with its sizes and types.
    data_type : str
        The operands'.
    machine : str
        Name, tiles, their memory and clock.
    options : dict of str to str
        Those that are not at their defaults, and the proportion of memory.
    decisions : dict of str to str
        What was decided beside the splits: a word for the decision, and the decision in words.
    axes : tuple of AxisShare
    passes : dict of str to tuple of Phase
        The phases of each pass: one, or those of a joint plan.
    cycles : int
        In all.
    seconds : float
        At the machine's clock.
    teraflops, peak_teraflops : float
        Useful arithmetic for each second, and the most that the machine's fastest vertex for the operands' type does.
    exchange_cycles : int
        Of the cycles, those in which tiles receive.
    operand_bytes, result_bytes : int
        On a tile, were they spread evenly over the machine.
    temporaries : Temporaries
        Of the tile that needs most.
    memory_bytes, tile_bytes : int
        Operands, results and temporaries together, and what a tile has. Code is not counted.
    most_macs, least_macs : int
        Multiply-accumulates of the tile that has most, and of the one of those used that has least, in a pass.
    """

    problem: str
    data_type: str
    machine: str
    options: dict[str, str]
    decisions: dict[str, str]
    axes: tuple[AxisShare, ...]
    passes: dict[str, tuple[Phase, ...]]
    cycles: int
    seconds: float
    teraflops: float
    peak_teraflops: float
    exchange_cycles: int
    operand_bytes: int
    result_bytes: int
    temporaries: Temporaries
    memory_bytes: int
    tile_bytes: int
    most_macs: int
    least_macs: int

    @property
    def fits(self) -> bool:
        """Whether temporaries keep to the limit, and all together to the tile's memory."""
        return self.temporaries.fits and self.memory_bytes <= self.tile_bytes

    @property
    def split(self) -> str:
        """How the axes are cut, in words."""
        cut = (f"{a.name} {a.tiles:,}" + (f" x {a.turns:,} turns" if a.turns > 1 else "") for a in self.axes)
        return ", ".join(cut)

    @property
    def spent(self) -> str:
        """The cycles of each phase in all of its turns, in words."""
        return "; ".join(f"{name} {', '.join(f'{p.name} {p.cycles * p.times:,}' for p in phases) or 'none'}".lstrip()
                         for name, phases in self.passes.items())

    @property
    def share_of_peak(self) -> float:
        """Useful arithmetic over the most that the machine does for the type."""
        return self.teraflops / self.peak_teraflops if self.peak_teraflops else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return dataclasses.asdict(self) | {"fits": self.fits, "share_of_peak": self.share_of_peak}

    def figures(self) -> dict[str, str]:
        """Return the figures that plans are compared by, in words."""
        exchange = self.exchange_cycles / self.cycles if self.cycles else 0.0
        room = "fits" if self.memory_bytes <= self.tile_bytes else "DOES NOT FIT"
        least = self.least_macs / max(self.most_macs, 1)
        return {"cycles": f"{self.cycles:,}", "time": f"{self.seconds * 1e6:,.1f} us",
                "rate": f"{self.teraflops:,.1f} of {self.peak_teraflops:,.1f} TFLOP/s, {self.share_of_peak:.1%}",
                "exchange": f"{self.exchange_cycles:,} cycles, {exchange:.1%}",
                "temporary": str(self.temporaries),
                "memory": f"{_bytes(self.memory_bytes)} on a tile of {self.tile_bytes:,}: {room}",
                "load": f"emptiest tile {least:.1%} of the fullest" if self.most_macs else "nothing to multiply"}

    def lines(self) -> Iterator[str]:
        """The table that `print` shows."""
        said = ", ".join(f"{key} {value}" for key, value in self.options.items())
        for word, text in {"problem": self.problem, "machine": self.machine, "options": said, **self.decisions}.items():
            yield f"{word:<12}{text}"
        yield ""
        yield f"{'axis':<36}{'size':>10}{'across tiles':>14}{'in a loop':>11}{'of a tile':>18}"
        for axis in self.axes:
            has = f"{axis.most:,}" if axis.most == axis.least else f"{axis.least:,} to {axis.most:,}"
            yield f"{axis.name:<36}{axis.size:>10,}{axis.tiles:>14,}{axis.turns:>11,}{has:>18}"
        for name, phases in self.passes.items():
            yield ""
            yield f"{f'{name} phase'.strip():<36}{'cycles':>14}{'times':>8}{'bytes':>12}"
            for p in phases:
                yield f"{p.name:<36}{p.cycles:>14,}{p.times:>8}{f'{p.bytes:,}' if p.bytes else '':>12}"
            if not phases:
                yield "none: the result is empty"
            if len(self.passes) > 1:
                yield f"{'in all':<36}{sum(p.cycles * p.times for p in phases):>14,}"
        yield ""
        if len(self.passes) > 1:
            yield f"all {len(self.passes)} passes together:"
        yield from (f"{word:<12}{text}" for word, text in self.figures().items())
        yield (f"{'':<12}the rate is of the machine's fastest vertex for {self.data_type}; memory is operands "
               f"({self.operand_bytes:,}) and results ({self.result_bytes:,}), spread evenly,")
        yield f"{'':<12}and temporaries, without code; the fullest tile has {self.most_macs:,} multiply-accumulates"

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _bytes(count: int) -> str:
    return f"{count:,} byte{'' if count == 1 else 's'}"


@singledispatch
def summarised(plan: Any) -> PlanSummary:
    """Summarise a plan; an op registers how its plans are."""
    raise NotImplementedError(type(plan).__name__)


def compared(summaries: Sequence[PlanSummary]) -> str:
    """Return a table of plans side by side, named by machine and proportion of memory."""
    heads = [f"{s.machine.partition(':')[0]}, {s.options.get('proportion', '')}" for s in summaries]
    rows = [("plan", *heads), ("problem", *(s.problem for s in summaries)), ("split", *(s.split for s in summaries)),
            ("method", *(s.decisions.get("method", "") for s in summaries))]
    figures = [s.figures() for s in summaries]
    rows += [(word, *(f[word] for f in figures)) for word in figures[0]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)
