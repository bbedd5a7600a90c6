"""The plan of a function of rows: how its rows lie, what takes them, and on how many threads."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

from ...formats import BF16, FP16, FP32, Format
from ...kernels import Selection, kernels, select
from ...kernels.records import ROWS
from ...ops import merged_axes
from ...program import threads_for, whole_lines
from .params import EACH_SEGMENT, RowOperand, RowsParams

Axes = list[tuple[int, tuple[int, ...]]]
"""Extents, and each operand's strides."""
_THREAD_ELEMENTS = 1 << 15  # that are worth a thread
_TOGETHER_BYTES = 1 << 20  # of rows that are taken together
_COLUMNS_LEAST = 16  # rows side by side that are taken as columns


class Columns(NamedTuple):
    """How rows lie whose places are columns side by side, as pop_rows has it; or are, once they are `brought`."""

    element: Format
    kept: Axes
    reduced: Axes
    unit: int
    sharing: int
    interval: int
    brought: bool = False


class RowsPlan(NamedTuple):
    """How the rows of a function lie, what takes them, and on how many threads.

    Attributes
    ----------
    params : RowsParams
    n, rows, segments : int
        Elements of a row, rows, and segments of a row.
    kept, reduced : Axes
        As the kernel walks along them.
    inner : Axes
        Those of a row, or of its segment.
    columns : Columns or None
    compute_format : Format
        What the kernel takes numbers in.
    selection : Selection
    threads : int
    """

    params: RowsParams
    n: int
    rows: int
    segments: int
    kept: Axes
    reduced: Axes
    inner: Axes
    columns: Columns | None
    compute_format: Format
    selection: Selection
    threads: int = 1

    def __reduce__(self) -> tuple[Callable[..., RowsPlan], tuple[Any, ...]]:
        return plan_rows, (self.params, self.threads)

    @property
    def words(self) -> str:
        """How rows are taken, in words."""
        how = "row by row"
        if self.columns is not None:
            how = "brought to columns" if self.columns.brought else "places side by side, as columns"
        return f"{self.rows:,} of {self.n:,} numbers, {how}, taken as {self.compute_format}"

    @property
    def units(self) -> int:
        """Into how many units the work is cut; those of columns do not pass the end of what lies side by side."""
        if self.columns is None:
            return -(-self.rows // self.selection.kernel.block[1])
        if self.columns.brought:
            return -(-self.rows // self.columns.unit)
        return -(-self.kept[-1][0] // self.columns.unit) * prod(extent for extent, _ in self.kept[:-1])

    @property
    def room(self) -> int:
        """Bytes that a kernel takes of its own: of columns their strip and its powers, of 16 bits some rows in FP32."""
        if self.columns is not None:
            strip, _, _ = self.selection.kernel.block
            powers = 4 * self.n * strip if self.params.op.brief else 0
            return whole_lines((self.columns.unit + strip) * self.selection.kernel.grain[2] + powers)
        if self.compute_format == FP32:
            return 0
        return whole_lines(4 * self.n * next((rows for most, rows in ROWS["at once"] if self.n <= most), 1))

    def at_once(self, k: int, x: RowOperand) -> int:
        """How many rows of an operand are taken together; 1 where it is used as it lies, 0 where each is brought."""
        if self.columns is not None:
            return self.columns.unit if self.columns.brought and not x.single else 1
        wanted = self.compute_format if k in self.params.op.wide else FP32
        along = x.single or self._along(k, x)
        apart = self.kept[-1][1][k]  # from row to row, which kernels count in numbers
        if x.element == wanted and not x.exponent and along and apart % wanted.itemsize == 0:
            return 1
        return self.together if not x.single and (along or self.turned(k, x)) else 0

    def _along(self, k: int, x: RowOperand) -> bool:
        """Whether an operand's numbers lie one after another along a row."""
        size, steps = self.inner[0]
        return len(self.inner) == 1 and (steps[k] == x.element.itemsize or size == 1)

    def turned(self, k: int, x: RowOperand) -> bool:
        """Whether an operand's rows lie side by side."""
        return not x.single and self.kept[-1][1][k] == x.element.itemsize

    @property
    def together(self) -> int:
        """How many rows are brought together, that lie side by side or one after another; 0 for one."""
        side_by_side = self.kept[-1][0]
        if self.n < 2 or side_by_side < 4:
            return 0
        if any(x is not None and self.turned(k, x) for k, x in enumerate(self.params.operands)):
            return next((rows for rows in (16, 8, 4) if 4 * self.n * rows <= _TOGETHER_BYTES), 0)
        return next((rows & -4 for most, rows in ROWS["at once"] if self.n <= most), 0)  # kernels take whole fours


def plan_rows(p: RowsParams, threads: int) -> RowsPlan:
    """Return how a function's rows lie, its kernel, and how many threads of so many they are worth."""
    kept = _merged([d for d in range(len(p.shape)) if d not in p.axes], p, False)
    outer = [] if p.segments is None or p.shape[p.segments] == 1 else _merged([p.segments], p, True)
    reduced = outer + _merged([d for d in p.axes if d != p.segments], p, True)
    n, rows = prod(extent for extent, _ in reduced), prod(extent for extent, _ in kept)
    inner, segments = reduced[len(outer):], max(1, outer[0][0]) if outer else 1
    plain = not p.op.brief or (p.factor == 0.0 if p.op.smooths else p.scale == 1.0)  # powers are of numbers as they are
    columns = _columns(p, kept, reduced, len(outer)) if n <= p.op.columns and plain else None
    if columns is None and 1 < n <= p.op.brought and rows >= _COLUMNS_LEAST and plain and not outer:
        columns = _brought(p, kept, reduced)
    if columns is None:
        body, compute_format = p.body, _compute_format(p, inner)
    else:
        body, kept, reduced, compute_format = f"{p.body}_columns", columns.kept, columns.reduced, columns.element
    selection = select("rows", body, compute_format.name)
    plan = RowsPlan(p, n, rows, segments, kept, reduced, inner, columns, compute_format, selection)
    return plan._replace(threads=max(1, threads_for(n * rows, _THREAD_ELEMENTS, min(threads, plan.units))))


def _merged(axes: list[int], p: RowsParams, inside: bool) -> Axes:
    """Axes and each operand's strides along them, neighbours that lie as one made one."""
    found = ((p.shape[d], tuple(0 if x is None or (inside and x.single == 1) else x.strides[d] for x in p.operands))
             for d in axes)
    return merged_axes(found) or [(1, (0,) * len(p.operands))]


def _columns(p: RowsParams, kept: Axes, reduced: Axes, outer: int) -> Columns | None:
    """How rows or segments lie, where they are columns whose places are at one stride; else None."""
    if len(reduced) - outer > 1 or not reduced[-1][0]:
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
        found = Columns(first, kept, reduced, strip, 1, 1)
    elif outer and beside(reduced[0]):
        groups = last[0] if within(reduced[0], last[1]) else 1
        merged, unit = kept[:-1] if groups > 1 else kept, size * max(1, strip // max(1, size))
        found = Columns(first, [*merged, (groups * size, steps)], reduced[1:], min(unit, groups * size), size, 1)
    elif outer and beside(last) and within(last, steps):
        both = last[0] * size
        found = Columns(first, [*kept[:-1], (both, last[1])], reduced[1:], both, size, last[0])
    else:
        return None
    return found if found.kept[-1][0] >= _COLUMNS_LEAST else None


def _brought(p: RowsParams, kept: Axes, reduced: Axes) -> Columns | None:
    """Short rows of one axis as columns of FP32; None where their kernel needs more than their numbers.

    What is one for each row is read and written where it lies, along one axis, and in the kernel's format.
    """
    others = [x for k, x in enumerate(p.operands) if x is not None and (x.single or k not in p.op.wide)]
    if len(reduced) > 1 or not all(x.single for x in others):
        return None
    if others and (len(kept) > 1 or any(x.element != FP32 or x.exponent for _, x in p.numbers)):
        return None
    strip = select("rows", f"{p.body}_columns", FP32.name).kernel.block[0]
    return Columns(FP32, kept, reduced, strip, 1, 1, brought=True)


def _compute_format(p: RowsParams, inner: Axes) -> Format:
    """The format that the kernel takes numbers in: theirs, where all lie one after another in one of 16 bits."""
    wide = p.numbers
    if not wide or wide[0][1].element not in (FP16, BF16) or len(inner) > 1:
        return FP32
    first: Format = wide[0][1].element
    built = any(k.op == p.body and k.formats == first.name for k in kernels("rows"))
    alike = all(x.element == first and not x.exponent and (x.single or inner[0][1][k] == 2) for k, x in wide)
    smoothed = p.op.smooths and p.factor != 0
    return first if built and alike and not smoothed else FP32
