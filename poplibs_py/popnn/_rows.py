"""How functions of rows are lowered: params to a program of the rows family.

A row is the elements along the reduced axes, in C order. What is repeated along axes has strides of zero there, and
what there is one of for each row is `single`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..config import settings
from ..formats import BF16, FP16, FP32, Format
from ..kernels import Selection, kernels, select
from ..kernels.records import ROWS, dtype_of
from ..memo import remembered
from ..ops import Operand, Placed, Receiver, Request, contiguous_strides, merged_axes
from ..ops.one_kernel import OneKernel, fill_cast, from_to, shared
from ..ops.parts import Results
from ..program import ComputeSet, Program, threads_for, whole_lines
from ._row_ops import ROW_OPS, RowOp

Axes = list[tuple[int, tuple[int, ...]]]
"""Extents, and each operand's strides."""
_SPEC, _ITEM = dtype_of("pop_rows"), dtype_of("pop_rows_item")
_THREAD_ELEMENTS = 1 << 15  # that are worth a thread
_TOGETHER_BYTES = 1 << 20  # of rows that are taken together
_COLUMNS_LEAST = 16  # rows side by side that are taken as columns
EACH_SEGMENT: int = ROWS["each segment"]
NO_STATISTICS: int = ROWS["no statistics"]
"""Of a norm, for `centred`: its numbers are scaled and shifted as they are."""


class RowOperand(NamedTuple):
    """How an operand lies in the shape whose rows are taken.

    Attributes
    ----------
    operand : int
        Which of the call's.
    element : Format or numpy.dtype
        Of truth values, or of labels, where it is a dtype.
    strides : tuple of int
        In bytes.
    exponent : int
        Of the scale that all its elements share.
    single : int
        Whether there is one for each row, or for each of its segments (`EACH_SEGMENT`).
    written : bool
    offset : int
        Bytes of the first element.
    """

    operand: int
    element: Any
    strides: tuple[int, ...]
    exponent: int = 0
    single: int = False
    written: bool = False
    offset: int = 0


class RowsParams(NamedTuple):
    """What is computed of rows, and how operands lie.

    Attributes
    ----------
    body : str
        The kernel, one of `ROW_OPS`.
    shape : tuple of int
    axes : tuple of int
        Along which a row goes, ascending.
    operands : tuple of RowOperand or None
        In the kernel's order.
    arrays : int
        That a call passes.
    scale, factor, epsilon, centred
        As pop_rows has them.
    segments : int or None
        The first of the axes, where sums along the others are added then.
    raw : bool
        As pop_rows has it.
    """

    body: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    operands: tuple[RowOperand | None, ...]
    arrays: int
    scale: float = 1.0
    factor: float = 1.0
    epsilon: float = 0.0
    centred: int = True
    segments: int | None = None
    raw: bool = False

    @property
    def op(self) -> RowOp:
        """What its kernel needs."""
        return ROW_OPS[self.body]

    @property
    def numbers(self) -> list[tuple[int, RowOperand]]:
        """Operands that are numbers in the kernel's format, and their places."""
        return [(k, x) for k in self.op.wide if (x := self.operands[k]) is not None]

    def __str__(self) -> str:
        numbers = [x for x in self.operands if x is not None and isinstance(x.element, Format)]
        formats = from_to(*([x.element for x in numbers if x.written == written] for written in (False, True)))
        return f"{self.body} {list(self.shape)} along {list(self.axes)}, {formats}"


def row_of(x: Operand, number: int, shape: tuple[int, ...], single: int = False) -> RowOperand:
    """Return how an operand of this shape, or one that broadcasts to it, lies; a receiver is written."""
    array = x.array if isinstance(x, Receiver) else np.broadcast_to(x.array, shape)
    element = array.dtype if x.format is None else x.format
    return RowOperand(number, element, array.strides, x.scale, single, isinstance(x, Receiver))


def repeated(own: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the strides of an array in C order along the axes of a shape to which it broadcasts."""
    return tuple(0 if n == 1 else step for n, step in zip(own, contiguous_strides(own, itemsize), strict=True))


def rows_request(steps: tuple[RowsParams, ...], operands: tuple[Any, ...], to: Receiver | Results,
                 placed: Placed[Any] | None = None, workspace: int = 0, **more: Any) -> Request:
    """Describe a call of a program of rows, of one function or of several one after another."""
    program = lower(steps, settings.num_threads, workspace)
    return Request.to(to, program.executable, operands, program.told, placed=placed, **more)


def _merged(axes: list[int], p: RowsParams, inside: bool) -> Axes:
    """Axes and each operand's strides along them, neighbours that lie as one made one."""
    found = ((p.shape[d], tuple(0 if x is None or (inside and x.single == 1) else x.strides[d] for x in p.operands))
             for d in axes)
    return merged_axes(found) or [(1, (0,) * len(p.operands))]


def _fill_operand(slot: Any, x: RowOperand) -> None:
    """How one operand is read or written, but for its strides."""
    element = x.element
    slot["operand"], slot["written"], slot["single"], slot["offset"] = x.operand, x.written, x.single, x.offset
    slot["code_bytes"] = element.itemsize
    if not isinstance(element, Format):
        slot["truths"] = element == np.bool_
    elif element != FP32 or x.exponent:
        fill_cast(slot, element, x.exponent, x.written)


@remembered()
def lower(steps: tuple[RowsParams, ...], threads: int, workspace: int = 0) -> OneKernel:
    """Return the program of functions of rows, one after another; the workspace is the operand after the last.

    What is told of it is told of the function that takes rows as they come; others are of a number for each channel.
    """
    plans = [_planned(p, threads) for p in steps]
    made = [_lowered(p, plan) for p, plan in zip(steps, plans, strict=True)]
    most, arena = max(plan.threads for plan in plans), max(arena for _, arena, _ in made)
    program = Program(tuple(step for step, *_ in made), steps[0].arrays, most, arena, workspace,
                      tables=tuple(spec for *_, spec in made))
    main = next((number for number, p in enumerate(steps) if p.op.wide), 0)
    decided = {"rows": plans[main].words}
    if len(plans) > 1:
        decided["steps"] = ", then ".join(plan.selection.kernel.label for plan in plans)
    return OneKernel(steps[main], program.executable(most), plans[main].selection, (lower, (steps, most, workspace)),
                     decided)


class _RowsPlan(NamedTuple):
    """How the rows of a function lie, what takes them, and on how many threads.

    Attributes
    ----------
    n, rows, segments : int
        Elements of a row, rows, and segments of a row.
    kept, reduced : Axes
        As the kernel walks along them.
    run : Axes
        Those of a row, or of its segment.
    columns : _Columns or None
    taken : Format
        What the kernel takes numbers in.
    selection : Selection
    threads : int
    """

    n: int
    rows: int
    segments: int
    kept: Axes
    reduced: Axes
    run: Axes
    columns: _Columns | None
    taken: Format
    selection: Selection
    threads: int = 1

    @property
    def words(self) -> str:
        """How rows are taken, in words."""
        how = "places side by side, as columns" if self.columns else "row by row"
        return f"{self.rows:,} of {self.n:,} numbers, {how}, taken as {self.taken}"

    @property
    def units(self) -> int:
        """Into how many units the work is cut; those of columns do not pass the end of what lies side by side."""
        if self.columns is None:
            return -(-self.rows // self.selection.kernel.block[1])
        return -(-self.kept[-1][0] // self.columns.unit) * prod(extent for extent, _ in self.kept[:-1])

    @property
    def room(self) -> int:
        """Bytes that a kernel takes of its own: of columns their strip, of 16 bits some rows in FP32."""
        if self.columns is not None:
            return whole_lines((self.columns.unit + self.selection.kernel.block[0]) * self.selection.kernel.grain[2])
        if self.taken == FP32:
            return 0
        return whole_lines(4 * self.n * next((rows for most, rows in ROWS["at once"] if self.n <= most), 1))

    def at_once(self, k: int, x: RowOperand, wanted: Format) -> int:
        """How many rows of an operand are taken together; 1 where it is used as it lies, 0 where each is brought."""
        if self.columns is not None:
            return 1
        along = x.single or (len(self.run) == 1 and (self.run[0][1][k] == wanted.itemsize or self.run[0][0] == 1))
        apart = self.kept[-1][1][k]  # from row to row, which kernels count in numbers
        if x.element == wanted and not x.exponent and along and apart % wanted.itemsize == 0:
            return 1
        beside = not x.single and apart == x.element.itemsize
        return _together(self.n, self.kept[-1][0]) if beside else 0


def _planned(p: RowsParams, threads: int) -> _RowsPlan:
    """Return how a function's rows lie, its kernel, and how many threads of so many they are worth."""
    plan = _lies(p)
    return plan._replace(threads=max(1, threads_for(plan.n * plan.rows, _THREAD_ELEMENTS, min(threads, plan.units))))


def _lies(p: RowsParams) -> _RowsPlan:
    """The same for one thread."""
    kept = _merged([d for d in range(len(p.shape)) if d not in p.axes], p, False)
    outer = [] if p.segments is None or p.shape[p.segments] == 1 else _merged([p.segments], p, True)
    reduced = outer + _merged([d for d in p.axes if d != p.segments], p, True)
    n, rows = prod(extent for extent, _ in reduced), prod(extent for extent, _ in kept)
    run, segments = reduced[len(outer):], max(1, outer[0][0]) if outer else 1
    columns = _columns(p, kept, reduced, len(outer)) if p.op.columns else None
    if columns is None:
        taken = _taken(p, run)
        return _RowsPlan(n, rows, segments, kept, reduced, run, None, taken, select("rows", p.body, taken.name))
    selection = select("rows", f"{p.body}_columns", columns.element.name)
    return _RowsPlan(n, rows, segments, columns.kept, columns.reduced, run, columns, columns.element, selection)


def _lowered(p: RowsParams, plan: _RowsPlan) -> tuple[ComputeSet, int, Any]:
    """The vertices of one function, a thread's arena in bytes, the record."""
    spec = np.zeros(1, _SPEC)
    for name in ("scale", "factor", "epsilon", "centred", "raw"):
        spec[name] = getattr(p, name)
    if p.op.brief and p.operands[0] is not None and p.operands[0].element in (FP16, BF16):
        spec["centred"] = ROWS["brief"]
    spec["n"], spec["segments"] = plan.n, plan.segments
    for name in ("unit", "sharing", "interval") if plan.columns else ():
        spec[name] = getattr(plan.columns, name)
    for name, axes in (("kept", plan.kept), ("reduced", plan.reduced)):
        spec[f"{name}_count"] = len(axes)
        spec[name][0, :len(axes)] = [extent for extent, _ in axes]
    spec["codes"] = arena = _fill_operands(spec["operands"][0], p, plan)
    kernel = plan.selection.kernel
    return shared(kernel, _ITEM, spec, plan.units, plan.threads), arena + kernel.block[2], spec


def _fill_operands(slots: Any, p: RowsParams, plan: _RowsPlan) -> int:
    """Fill in how operands are read and written; return how many bytes of the arena are taken then."""
    slots["operand"] = -1
    arena = plan.room
    for k, x in enumerate(p.operands):
        if x is None:
            continue
        slot, at_once = slots[k], plan.at_once(k, x, plan.taken if k in p.op.wide else FP32)
        _fill_operand(slot, x)
        for name, axes in (("kept", plan.kept), ("reduced", plan.reduced)):
            slot[name][:len(axes)] = [strides[k] for _, strides in axes]
        slot["constant"] = not x.written and not any(strides[k] for _, strides in plan.kept)
        slot["direct"], slot["room"] = at_once, arena
        if at_once != 1:
            singles = plan.segments if x.single == EACH_SEGMENT else 1
            arena += whole_lines(4 * singles if x.single else 4 * plan.n * max(1, at_once))
    return arena


def _together(n: int, side_by_side: int) -> int:
    """How many rows that lie side by side are taken together: a square's, or what there is room for."""
    return 0 if n < 2 or side_by_side < 4 else next((rows for rows in (16, 8, 4) if 4 * n * rows <= _TOGETHER_BYTES), 0)


class _Columns(NamedTuple):
    """How rows lie whose places are columns side by side, as pop_rows has it."""

    element: Format
    kept: Axes
    reduced: Axes
    unit: int
    sharing: int
    interval: int


def _columns(p: RowsParams, kept: Axes, reduced: Axes, outer: int) -> _Columns | None:
    """How norms' rows or segments lie, where they are columns whose places are at one stride; else None."""
    if len(reduced) - outer > 1 or reduced[-1][0] < 2:
        return None
    wide = p.numbers
    first = wide[0][1].element
    single = all(x is None or x.single for k, x in enumerate(p.operands) if k not in p.op.wide)
    alike = single and all(x.element == first and not x.exponent for _, x in wide)
    strip = next((k.block[0] for k in kernels("rows") if k.op == p.body + "_columns" and k.formats == first.name), 0)
    if not alike or not strip:
        return None

    def beside(axis: tuple[int, tuple[int, ...]]) -> bool:
        return all(axis[1][k] == first.itemsize for k, _ in wide)

    def within(inner: tuple[int, tuple[int, ...]], steps: tuple[int, ...]) -> bool:
        return all(step == inner[0] * own for step, own in zip(steps, inner[1], strict=True))

    last, (size, steps) = kept[-1], reduced[0]
    # Channels are last. Batch norm's are rows of their own. A group's are segments of its row: where they lie side by
    # side, whole groups make a unit, and where they lie apart, modulo the groups, all channels do.
    if beside(last) and (not outer or EACH_SEGMENT not in [x.single for x in p.operands if x is not None]):
        found = _Columns(first, kept, reduced, strip, 1, 1)
    elif outer and beside(reduced[0]):
        groups = last[0] if within(reduced[0], last[1]) else 1
        merged, unit = kept[:-1] if groups > 1 else kept, size * max(1, strip // max(1, size))
        found = _Columns(first, [*merged, (groups * size, steps)], reduced[1:], min(unit, groups * size), size, 1)
    elif outer and beside(last) and within(last, steps):
        both = last[0] * size
        found = _Columns(first, [*kept[:-1], (both, last[1])], reduced[1:], both, size, last[0])
    else:
        return None
    return found if found.kept[-1][0] >= _COLUMNS_LEAST else None


def _taken(p: RowsParams, reduced: list[tuple[int, tuple[int, ...]]]) -> Format:
    """The format that the kernel takes numbers in: theirs, where all lie one after another in one of 16 bits."""
    wide = p.numbers
    if not wide or wide[0][1].element not in (FP16, BF16) or len(reduced) > 1:
        return FP32
    first: Format = wide[0][1].element
    built = any(k.op == p.body and k.formats == first.name for k in kernels("rows"))
    alike = all(x.element == first and not x.exponent and (x.single or reduced[0][1][k] == 2) for k, x in wide)
    smoothed = p.op.smooths and p.factor != 0
    return first if built and alike and not smoothed else FP32
