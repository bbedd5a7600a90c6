"""How slices by index are lowered: params to a program of the slices family.

What a call asks for, how its arrays lie and what an index is to each axis, is a `SliceParams`: nothing else decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...formats import FP32, Array, Format
from ...formats.reference import encode
from ...kernels import Selection, select
from ...kernels.records import dtype_of, numbers_of
from ...log import tell
from ...memo import remembered
from ...ops import OwnNumber, host_target, merged_axes
from ...ops.one_kernel import OneKernel, fill_cast, shared
from ...planner import Memory, Temporaries
from ...planner.ladder import within
from ...program import Executable, Program, threads_for, whole_lines
from ...target import Target

LEAST_ROOM = 256
"""Updates that are sorted at a time, at the least."""

_AXIS, _COMPONENT, _WINDOW = (dtype_of(f"pop_slices_{name}") for name in ("axis", "component", "window"))
_SPEC, _ITEM = dtype_of("pop_slices"), dtype_of("pop_slices_item")
_POLICIES, _UPDATES, _ELEMENTS = (numbers_of(name) for name in ("index_policy", "update", "slice_element"))
_THREAD_BYTES, _THREAD_LOOKUPS = 1 << 17, 1 << 14  # that are worth a thread
_KEY_BYTES = 16  # of a lookup that is sorted, with the copy's
_LINE = 64  # what a thread's temporary bytes are a multiple of


class Axis(NamedTuple):
    """An axis of the lookups: strides of the indices, of the table, of the other array."""

    extent: int
    indices: int
    table: int
    other: int


class Component(NamedTuple):
    """One of the indices of a lookup: where it is, below what it is good, and how far apart its places are."""

    offset: int
    limit: int
    step: int


class Window(NamedTuple):
    """An axis of a lookup's slice. Where it wraps it begins at the index of a component."""

    extent: int
    table: int
    other: int
    component: int = -1
    modulus: int = 0


class SliceParams(NamedTuple):
    """What is read or updated by index, and how the arrays lie; all strides are in bytes.

    Attributes
    ----------
    kernel : str
        ``"take"`` or ``"put"``, ``"bag"`` or ``"sequence"``.
    policy : str
        What becomes of a bad index.
    index_dtype : str
        Of the indices.
    axes : tuple of Axis
        Of the lookups.
    components : tuple of Component
    windows : tuple of Window
        Of a slice.
    table, other : Format or numpy.dtype
        Of the elements of the table, and of what is read or of the updates.
    update : str
        What an update does.
    scale : float
        Of updates that are added.
    own : OwnNumber or None
        What a further operand holds in the place of that, where each call has a number of its own.
    overlaps : bool
        Whether slices of two places may share elements.
    room : int
        Updates that a thread sorts at a time; 0 for all.
    tells : bool
        Whether a program says whether there was a bad index, as `lower_check`'s does, in a further operand.
    """

    kernel: str
    policy: str
    index_dtype: str
    axes: tuple[Axis, ...]
    components: tuple[Component, ...]
    windows: tuple[Window, ...]
    table: Any
    other: Any
    update: str = "set"
    scale: float = 1.0
    own: OwnNumber | None = None
    overlaps: bool = False
    room: int = 0
    tells: bool = False

    @property
    def lookups(self) -> int:
        """How many there are."""
        return prod(axis.extent for axis in self.axes)

    @property
    def places(self) -> int:
        """Of the table: what one index, or one in each group, can name."""
        return prod(c.limit for c in self.components) * prod(axis.extent for axis in self.axes if axis.table)

    @property
    def elements(self) -> int:
        """Of a slice."""
        return prod(window.extent for window in self.windows)

    @property
    def grouped(self) -> bool:
        """Whether the updates of a place are taken together, and rounded once."""
        exact = self.update in ("set", "max", "min") or not isinstance(self.table, Format) or self.table == FP32
        return self.kernel == "put" and not exact and not self.overlaps

    def __str__(self) -> str:
        what = f"update ({self.update})" if self.kernel == "put" else self.kernel
        return f"{what} {self.lookups:,} slices of {self.elements:,} {self.table}, {self.places:,} places"


@dataclass(frozen=True)
class Layout:
    """What each axis of the arrays of a call is, by number; None where an array has no such axis.

    Attributes
    ----------
    axes : tuple
        Of the lookups: extent, axis of the indices, of the table, of the other array.
    components : tuple
        The indices of a lookup: the axis of the table, and how many places it has.
    windows : tuple
        Of a slice: extent, axis of the table, of the other array, and whether it wraps: the number of the component
        that it begins at, or -1.
    vector : int or None
        The axis of the indices that a lookup's lie along.
    """

    axes: tuple[tuple[int, int | None, int | None, int | None], ...]
    components: tuple[tuple[int, int], ...]
    windows: tuple[tuple[int, int, int | None, int], ...]
    vector: int | None = None

    @property
    def overlaps(self) -> bool:
        """Whether the slices of two places may share elements."""
        named = {axis for axis, _ in self.components}
        return any(extent > 1 and axis in named for extent, axis, _, _ in self.windows)

    def params(self, kernel: str, policy: str, indices: Array, table: Array, other: Array, elements: Any,
               **how: Any) -> SliceParams:
        """Return the params of a call on arrays that lie so."""
        def step(array: Array, axis: int | None) -> int:
            return 0 if axis is None else array.strides[axis]

        axes = (Axis(n, step(indices, i), step(table, t), step(other, o)) for n, i, t, o in self.axes)
        vector = step(indices, self.vector)
        components = (Component(k * vector, limit, step(table, t)) for k, (t, limit) in enumerate(self.components))
        windows = (Window(n, step(table, t), step(other, o), k, table.shape[t] if k >= 0 else 0)
                   for n, t, o, k in self.windows)
        return SliceParams(kernel, policy, indices.dtype.name, tuple(axes), tuple(components), tuple(windows),
                           elements[0], elements[1], overlaps=self.overlaps, **how)


def _merged_windows(windows: tuple[Window, ...]) -> list[Window]:
    """Windows, of which those that begin at no index may be walked as one."""
    made: list[Window] = []
    for apart, some in groupby(windows, lambda window: window.component >= 0):
        made += some if apart else [Window(n, *steps) for n, steps in merged_axes((w.extent, w[1:3]) for w in some)]
    return made


def arena_bytes(room: int) -> int:
    """Return the temporary bytes of a thread that sorts so many updates at a time."""
    return select("slices", "put", "any").kernel.block[2] + _KEY_BYTES * room


@remembered()
def lower(params: SliceParams, threads: int) -> OneKernel:
    """Return the program of a call of one lookup or more, on at most so many threads.

    Operands of ``"take"`` are the table, the indices and the result, of ``"put"`` the indices, the updates, the table
    and perhaps the words of the call.
    """
    p = params
    selection = select("slices", p.kernel, "any")
    room = (p.room or p.lookups) if p.grouped else 0
    spec, tables = _fill(p, room)
    threads, units = _threads_of(p, threads), _units_of(p)
    step = shared(selection.kernel, _ITEM, spec, units, threads)
    arena = arena_bytes(room) if p.kernel == "put" else 0
    program = Program((step,), 3 + (p.own is not None) + p.tells, threads, arena, tables=(spec, *tables))
    way = "one after another" if not p.grouped else f"those of a place together, {room:,} sorted at a time"
    made = _program(p, program.executable(threads), selection, lower, (p, threads), way)
    tell("popops", made)
    return made


def _units_of(p: SliceParams) -> int:
    """What threads share: look-ups, or places to write to."""
    return p.lookups if p.kernel == "take" else p.places


def _threads_of(p: SliceParams, threads: int) -> int:
    """How many threads a call takes, of so many."""
    most = max(1, p.lookups * p.elements * p.table.itemsize // _THREAD_BYTES, p.lookups // _THREAD_LOOKUPS)
    return 1 if p.overlaps else threads_for(most, 1, min(threads, _units_of(p)))


def within_memory(op: str, params: SliceParams, memory: Memory, target: Target | None = None) -> OneKernel:
    """Return the program, which sorts as many updates at a time as the limit lets it beside what tells of bad indices;
    its `temporaries` count both."""
    p, host = params, host_target(target, op)
    threads, checks = _threads_of(p, host.tiles), check_bytes(p, host.tiles)
    least = min(p.lookups, LEAST_ROOM) if p.grouped else 0

    def taken(made: OneKernel) -> int:
        return made.executable.temporary_bytes + checks

    def planned(limit: int | None) -> OneKernel | None:
        if limit is None:
            return lower(p, host.tiles)
        room = 0
        if p.grouped:
            left = (limit * threads - checks) // threads // _LINE * _LINE
            room = min(p.lookups, (left - arena_bytes(0)) // _KEY_BYTES)
        made = lower(p._replace(room=room), host.tiles) if room >= least else None
        return made if made is not None and taken(made) <= limit * threads else None

    def fewest() -> int:
        return taken(lower(p._replace(room=least), host.tiles))

    made, raised = within(op, planned, memory, host, fewest, threads)
    return replace(made, temporaries=Temporaries.of_threads(taken(made), memory.limit(host), raised, threads))


@remembered()
def lower_bags(params: SliceParams, bags: int, stride: int, mean: bool, weighted: bool, threads: int) -> OneKernel:
    """Return the program of so many bags, whose results are `stride` bytes apart.

    Its operands are the table, the indices, the ends of bags with a 0 before, in int64, the result, and perhaps weights
    in float32 and what `SliceParams.tells` says.
    """
    p, selection = params, select("slices", "bag", "any")
    spec, tables = _fill(p, 0)
    spec["bag"], spec["mean"], spec["weighted"] = stride, mean, weighted
    most = p.lookups * p.elements * p.table.itemsize // _THREAD_BYTES
    threads = threads_for(most, 1, min(threads, bags))
    step = shared(selection.kernel, _ITEM, spec, bags, threads)
    program = Program((step,), 4 + weighted + p.tells, threads, selection.kernel.block[2], tables=(spec, *tables))
    again = params, bags, stride, mean, weighted, threads
    return _program(p, program.executable(threads), selection, lower_bags, again, f"{bags:,} bags")


@remembered()
def lower_sequences(params: SliceParams, threads: int) -> OneKernel:
    """Return the program of sequences of rows: the table's component, then the result's.

    Its operands are the table, lengths, first rows of the table and of the result in int64, and the result.
    """
    p, selection = params, select("slices", "sequence", "any")
    spec, tables = _fill(p, 0)
    rows = p.components[1].limit
    threads = threads_for(rows * p.elements * p.table.itemsize // _THREAD_BYTES, 1, min(threads, rows))
    step = shared(selection.kernel, _ITEM, spec, rows, threads)
    program = Program((step,), 5, threads, tables=(spec, *tables))
    return _program(p, program.executable(threads), selection, lower_sequences, (p, threads), "sequences")


def _program(p: SliceParams, executable: Executable, selection: Selection, lower: Any, again: Any,
             way: str) -> OneKernel:
    """What runs, and for a reader how it goes."""
    return OneKernel(p, executable, selection, (lower, again), {
        "way": way, "bad indices": p.policy}, temporaries=Temporaries(executable.temporary_bytes, None))


@remembered()
def lower_check(params: SliceParams, threads: int) -> tuple[Executable, int]:
    """Return what finds bad indices, and how many shares it has; each tells in an int64 whether it found one.

    Its operands are the indices and the array of those.
    """
    axes = tuple(axis._replace(table=0, other=0) for axis in params.axes if axis.indices)
    p = params._replace(axes=axes, policy="raise", windows=(), tells=False)
    threads = threads_for(p.lookups, 8 * _THREAD_LOOKUPS, threads)
    spec, tables = _fill(p, 0)
    step = shared(select("slices", "check", "any").kernel, _ITEM, spec, p.lookups, threads)
    return Program((step,), 2, threads, tables=(spec, *tables)).executable(threads), threads


def check_bytes(params: SliceParams, threads: int) -> int:
    """Return the temporary bytes, at the most, in which a check of bad indices tells what it found, or the program
    itself does; 0 where nothing checks them."""
    if params.policy != "raise" or not params.components:
        return 0
    return whole_lines(8 * max(lower_check(params, threads)[1], _threads_of(params, threads)))


def _fill(p: SliceParams, room: int) -> tuple[Array, list[Array]]:
    """The record, and the tables that it points to."""
    spec, wraps = np.zeros(1, _SPEC), any(w.component >= 0 for w in p.windows)
    axes = [Axis(n, *steps) for n, steps in merged_axes((axis[0], axis[1:]) for axis in p.axes)]
    axes = axes or [Axis(1, 0, 0, 0)]
    windows = _merged_windows(p.windows) or [Window(1, 0, p.other.itemsize)]
    place = 1
    placed_axes: list[tuple[int, ...]] = []
    components: list[tuple[int, ...]] = []
    for component in reversed(p.components):
        wrapped = any(w.component == len(p.components) - 1 - len(components) for w in p.windows)
        components.insert(0, (component.offset, component.limit, 0 if wrapped else component.step, place))
        place *= max(1, component.limit)
    for axis in reversed(axes):
        placed_axes.insert(0, (*axis, place if axis.table else 0))
        place *= axis.extent if axis.table else 1
    tables = [np.array(placed_axes, _AXIS), np.array(components, _COMPONENT), np.array(list(windows), _WINDOW)]
    for name, table in zip(("axes", "components", "windows"), tables, strict=True):
        spec[name], spec[f"{name}_count"] = table.ctypes.data, len(table)
    [run, *rest] = windows
    one = not rest and run.component < 0 and (run.extent == 1 or (run.table, run.other) == (
        p.table.itemsize, p.other.itemsize))
    index = np.dtype(p.index_dtype)
    spec["lookups"], spec["wraps"] = p.lookups, wraps
    spec["row"] = run.extent * p.table.itemsize if one else 0
    spec["index_bytes"], spec["index_signed"] = index.itemsize, index.kind == "i"
    spec["policy"], spec["update"] = _POLICIES[p.policy], _UPDATES[p.update]
    spec["table_bytes"], spec["other_bytes"] = p.table.itemsize, p.other.itemsize
    spec["grouped"], spec["room"], spec["tells"] = p.grouped, room, p.tells
    whole = not isinstance(p.table, Format)
    spec["scale" if whole else "factor"] = p.scale
    spec["scale_word"], spec["scale_whole"] = p.own or (-1, False)
    if p.policy == "nan":
        spec["nan"] = encode(np.array(np.nan), p.table)
    if p.kernel == "bag" or (p.kernel == "put" and p.update != "set"):
        spec["element"] = _ELEMENTS[p.table.name if whole else FP32.name]
        _codecs(spec, p)
    return spec, tables


def _codecs(spec: Array, p: SliceParams) -> None:
    """Decoders and encoders of what is no FP32 and no whole number."""
    for fmt, cast, decode in ((p.table, "read", "decode"), (p.other, "read_other", "decode_other")):
        if isinstance(fmt, Format) and fmt != FP32:
            fill_cast(spec, fmt, 0, False, cast, decode)
    written = p.other if p.kernel == "bag" else p.table
    if isinstance(written, Format) and written != FP32:
        fill_cast(spec, written, 0, True, "write", "encode")
