"""The kinds of poolings, by what becomes of a window, and their passes: records that all stations ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from ...popops.reductions.lower import Way
from .reference import maxima, sums


class Loops(NamedTuple):
    """Cycles of a worker of a modelled machine.

    Attributes
    ----------
    enter : int
        Before its rows.
    load, step : int
        Of a load in a window at the first position, and at each further one.
    group : int
        Between groups of channels.
    begin : int
        More to begin, as the planner has it.
    """

    enter: int
    load: int
    step: int
    group: int
    begin: int = 0


class TilePass(NamedTuple):
    """A pass on a modelled machine: its vertex, and how many fields and arrays of windows' results it reads."""

    vertex: str
    loops: Loops
    fields: int
    windows: int


@dataclass(frozen=True, eq=False)
class PoolKind:
    """What becomes of a window.

    Attributes
    ----------
    kernel : str
        Of the pooling on this CPU.
    gradient : str
        Which pass its gradient is.
    chooses : bool
        Whether a result is one of its window's elements: exact, and its gradient theirs that are equal to it, so that
        fields and results are operands of that, and ties may share it.
    divides : bool
        Whether it divides by how many elements there are.
    reduction : Way
        What it is where the window is the whole field.
    vertex : str
        That reduction's operation on modelled machines.
    reference : callable
        Returns what windows' elements come to, in float64, but for the division.
    none : float
        What stands for an element that is not there.
    tiles : mapping of str to TilePass
        Its passes on modelled machines, by direction.
    preferred : mapping of str to int
        Channels of a group that PopLibs would rather have, by type.
    """

    kernel: str
    gradient: str
    chooses: bool
    divides: bool
    reduction: Way
    vertex: str
    reference: Callable[[Any], Any]
    none: float
    tiles: Mapping[str, TilePass]
    preferred: Mapping[str, int]


_MAX, _SUM = Loops(3, 4, 3, 4), Loops(4, 5, 3, 4)
_ADDED: dict[str, Any] = {
    "kernel": "sum", "gradient": "gradient", "chooses": False, "reduction": Way("sum", "sum", "plain"), "vertex": "ADD",
    "reference": sums, "none": 0.0, "preferred": {"half": 16, "float": 4},
    "tiles": {"fwd": TilePass("SumPooling", _SUM, 1, 0), "bwd": TilePass("SumPooling", _SUM, 0, 1)}}

KINDS = {
    "max": PoolKind("max", "max_gradient", True, False, Way("max", "max", "plain"), "MAX", maxima, -inf,
                    {"fwd": TilePass("MaxPooling", _MAX, 1, 0),
                     "bwd": TilePass("MaxPoolingGrad", Loops(3, 7, 5, 6, 10), 1, 2),
                     "scale": TilePass("MaxPoolingGradientScale", _MAX, 1, 1)},
                    {"half": 16, "float": 8}),
    "avg": PoolKind(divides=True, **_ADDED),
    "sum": PoolKind(divides=False, **_ADDED),
}
"""By the word that a call has for it."""

READ, SECOND, THIRD, MADE = range(4)
"""Places among the operands of a work record."""


@dataclass(frozen=True, eq=False)
class PoolPass:
    """What this CPU does in one program.

    Attributes
    ----------
    program : {"walk", "lines", "field"}
        Its shape: rows that are read once each; lines of windows that are kept while rows of the field pass; or one
        axis, which is all of the field.
    kernel : str
        Empty for that of the kind.
    operands : tuple of int
        The places of what is read, in order, and of what is made.
    forward : bool
        Whether the field is read and windows are made.
    strided : bool
        Whether what is read may have strides.
    whole : str
        What it is where the window is the whole field, if that is another pass: "reduction", or a pass's name.
    by_place : bool
        Whether places are an operand.
    finds_places : bool
        Whether places are made too, behind the results.
    """

    program: str
    kernel: str
    operands: tuple[int, ...] = (READ, MADE)
    forward: bool = False
    strided: bool = False
    whole: str = ""
    by_place: bool = False
    finds_places: bool = False


PASSES = {
    "pool": PoolPass("walk", "", forward=True, strided=True, whole="reduction"),
    "max_places": PoolPass("walk", "max_places", forward=True, strided=True, finds_places=True),
    "gradient": PoolPass("walk", "", strided=True, whole="spread"),
    "spread": PoolPass("field", "spread", strided=True),
    "max_gradient": PoolPass("lines", "max_gradient", (READ, SECOND, THIRD, MADE)),
    "window_gradient": PoolPass("lines", "max_gradient", (READ, THIRD, MADE), by_place=True),
    "place_gradient": PoolPass("field", "place_gradient", (READ, SECOND, MADE), by_place=True),
}
"""By name."""
