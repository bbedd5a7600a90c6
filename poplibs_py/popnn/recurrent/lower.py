"""Work items of the kernels between products: which numbers of a step are where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...formats import FP32, Format
from ...kernels import Selection, select
from ...kernels.records import FORMAT_NUMBERS, dtype_of, numbers_of
from ...program import Segment, spread, threads_for
from .params import RnnParams

CHUNK = 256
"""Columns that a kernel works on at once: POP_CHUNK of kernels/cells/rows.h."""

SCRATCH = 9 * CHUNK * 4
"""Bytes of a kernel's rows."""

FORWARD = ("input", "product", "bias", "cell", "last", "out", "saved", "lengths", "attention", "reset_state", "second",
           "old")
BACKWARD = ("grads", "carried", "held", "cell", "saved", "old", "out_grad", "lengths", "out", "init", "attention",
            "attention_grad", "reset")
"""The sides of the kernels' items, in their order: kernels/cells/forward.h and backward.h."""

PROJECTIONS = ("project", "project_grad")
"""The kernels whose columns are those of a projection."""

_ITEM, _ACTIVATIONS = dtype_of("pop_cell_item"), numbers_of("cell_activation")
_PLANES = _ITEM["sides"].base["planes"].shape[0]
_WORK = 1 << 15  # numbers of gates that are worth a thread
_GRAIN = 64  # columns that a share is whole multiples of


@dataclass(frozen=True)
class Side:
    """Where a kernel's numbers are.

    Attributes
    ----------
    operand : int
        Of the program.
    plane : int
        Numbers of a plane.
    planes : int
        Of a row; 0 where all rows have the same.
    steps : bool
        Whether each step has its own, the batch of a step behind that of the one before.
    format : Format
    offset : int
        Bytes to the first.
    order : tuple of int
        Which plane each of the kernel's is; by default they have the kernel's order.
    """

    operand: int
    plane: int = 0
    planes: int = 1
    steps: bool = False
    format: Format = FP32
    offset: int = 0
    order: tuple[int, ...] = ()

    def strides(self, batch: int) -> tuple[int, int, tuple[int, ...]]:
        """Return the bytes from a step and from a row to the next, and to each plane of a row."""
        plane = self.plane * self.format.itemsize
        places = tuple(plane * at for at in (*self.order, *range(len(self.order), _PLANES)))
        return (batch * self.planes * plane if self.steps else 0), self.planes * plane, places


@dataclass(frozen=True)
class Strided(Side):
    """Numbers with strides of their own: a number for each row, or one for each of its steps."""

    row: int = 0
    step: int = 0

    def strides(self, batch: int) -> tuple[int, int, tuple[int, ...]]:
        return self.step, self.row, (0,) * _PLANES


def cells(p: RnnParams, kernel: str, names: tuple[str, ...], sides: Mapping[str, Side | None], threads: int,
          backward: bool = False, phase: int = 1) -> tuple[Segment, Selection]:
    """Return the work of a kernel in each turn of a loop, shared by at most so many threads."""
    selection = select("cells", kernel, p.state.name)
    columns = p.projected if kernel in PROJECTIONS else p.outputs
    threads = threads_for(p.batch * columns * p.gates, _WORK, threads)
    by_rows = p.batch >= threads or p.attention
    extent, grain = (p.batch, 1) if by_rows else (columns, _GRAIN)
    units = -(-extent // grain)
    threads = min(threads, max(1, units))
    edges = np.minimum(np.arange(threads + 1) * units // threads * grain, extent)
    items = np.zeros(threads, _ITEM)
    items["count"], items["columns"] = p.batch, columns
    first, count = ("first", "count") if by_rows else ("column", "columns")
    items[first], items[count] = edges[:-1], np.diff(edges)
    items["steps"], items["backward"], items["phase"] = p.steps, backward, phase
    items["activation"], items["recurrent"] = _ACTIVATIONS[p.activation], _ACTIVATIONS[p.recurrent_activation]
    items["constant_slope"], items["reset_after"] = p.constant_slope, p.cell.apart
    items["format"] = FORMAT_NUMBERS[p.state.name]
    items["sides"]["operand"] = -1
    for number, name in enumerate(names):
        side = sides.get(name)
        if side is not None:
            _describe(items["sides"][:, number], side, p.batch)
    return Segment(selection.kernel.address, items, spread(threads, threads)), selection


def _describe(record: Any, side: Side, batch: int) -> None:
    record["operand"], record["offset"] = side.operand, side.offset
    record["format"] = FORMAT_NUMBERS[side.format.name]
    record["step"], record["row"], record["planes"] = side.strides(batch)
