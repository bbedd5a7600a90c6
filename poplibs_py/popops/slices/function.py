"""Updates of slices by a function of what is there and of the update, in the order of the look-ups.

Look-ups that lead to different places are taken together: their slices are read, go through the function's one kernel
beside the updates, and are written. Those of one place follow one another, in rounds; so do all where slices overlap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ...config import settings
from ...errors import bad_argument
from ...formats import Array, Format
from ...ops import Operand, host_target
from ...ops.road import Told
from ...planner import Memory, Temporaries
from ...planner.explain import Composition
from ...planner.ladder import within
from ...program import Executable
from ...target import Target
from ..maps.lower import lowered
from ..maps.request import Outputs, Worded, expressions_of, map_program, worded
from .lower import Axis, Component, Layout, SliceParams, Window, lower
from .parts import rows_named

_ROOM_BYTES = 1 << 20  # of look-ups that are taken at a time, by default: what a core's second-level cache holds
_INDEX = np.dtype(np.int64)
_KEY_BYTES = 9 * _INDEX.itemsize  # of a look-up whose turn is looked for


def function_of(operation: Any, table: Operand, updates: Operand, scale: Any) -> Worded:
    """Return the expression of an update function, with its words, or raise where it gives other elements."""
    outputs, several = expressions_of(operation, 2)
    if several:
        raise bad_argument("operation", f"a function of {len(outputs)} results", "a function of one")
    if scale != 1:
        raise bad_argument("scale", scale, "1 where operation is a function")
    elements = [x.array.dtype if x.format is None else x.format for x in (table, updates)]
    (made,) = lowered(outputs, tuple(elements), (None,), False, False).elements
    if made != elements[0] and not (isinstance(made, Format) and isinstance(elements[0], Format)):
        raise bad_argument("operation", f"a function whose result is {made}",
                           f"one of {elements[0]}, as x has" if table.format is None else "one of numbers of a format")
    return worded(operation, outputs, "operation")


@dataclass(frozen=True, eq=False)
class SliceFunction:
    """What updates slices so; called as the program of another update is.

    Attributes
    ----------
    outputs : tuple of Expression
        The function of old and new, words in the place of numbers.
    layout : Layout
        Of the call; the other array is the updates.
    params : SliceParams
        Of the call.
    room : int
        Look-ups that are taken at a time, a power of two.
    temporaries : Temporaries or None
        What those need, and may take.
    """

    outputs: Outputs
    layout: Layout
    params: SliceParams
    room: int
    temporaries: Temporaries | None = None

    def __call__(self, indices: Array, updates: Array, result: Array, words: Array) -> None:
        given, vectors = self._by_lookup(indices, updates)
        front = vectors.shape[:-1]
        lookups = prod(front)
        programs: dict[int, tuple[Executable, ...]] = {}
        for begin in range(0, lookups, self.room):
            every = np.arange(begin, min(begin + self.room, lookups))
            kept, places = self._places(vectors[np.unravel_index(every, front)])
            every = every[kept]
            for some in self._turns(places):
                old, new = (np.empty((len(some), *given.shape[len(front):]), array.dtype) for array in (result, given))
                new[...] = given[np.unravel_index(every[some], front)]
                take, function, put = programs.get(len(some)) or programs.setdefault(
                    len(some), self._programs(old, new, result))
                at = places[some]
                take(result, at, old)
                function(old, new, old, *(words,)[:function.operands - 3])
                put(at, old, result)

    def _by_lookup(self, indices: Array, updates: Array) -> tuple[Array, Array]:
        """The updates and the indices, axes of the look-ups first, those of a slice or of a vector last."""
        vector = self.layout.vector
        vectors = indices[..., None] if vector is None else np.moveaxis(indices, vector, -1)
        batch = [o for _, i, _, o in self.layout.axes if i is not None and o is not None]
        kept = [o for _, _, o in self._windows() if o is not None]
        return updates.transpose(batch + kept)[None], vectors[None]

    def _windows(self) -> list[tuple[int, int, int | None]]:
        """The axes of a whole slice: extent, axis of the table, of the updates."""
        whole = [(n, t, o) for n, _, t, o in self.layout.axes if t is not None]
        return whole + [(n, t, o) for n, t, o, _ in self.layout.windows]

    def _places(self, vectors: Array) -> tuple[Array, Array]:
        """Which look-ups have a place, and the indices that lead there."""
        kept, places = np.ones(len(vectors), bool), np.zeros(vectors.shape, _INDEX)
        for k, (_, limit) in enumerate(self.layout.components):
            good, named = rows_named(vectors[:, k], max(0, limit), self.params.policy)
            places[good, k] = named
            if isinstance(good, np.ndarray):
                kept &= good
        return kept, places[kept]

    def _turns(self, places: Array) -> list[Array]:
        """The numbers of look-ups that can be taken together, in order: as many as a power of two."""
        order, counts = np.arange(len(places)), np.ones(len(places), _INDEX)
        if not self.params.overlaps and len(places):
            limits = [max(1, limit) for _, limit in self.layout.components]
            keys = places @ np.array([prod(limits[k + 1:]) for k in range(len(limits))], _INDEX)
            order = np.argsort(keys, kind="stable")
            first = np.r_[True, np.diff(keys[order]) != 0]
            steps = np.arange(len(keys))
            turns = np.empty(len(keys), _INDEX)
            turns[order] = steps - np.maximum.accumulate(np.where(first, steps, 0))
            order, counts = np.argsort(turns, kind="stable"), np.bincount(turns)
        made, begin = [], 0
        for count in counts.tolist():
            end = begin + count
            while begin < end:
                size = 1 << (end - begin).bit_length() - 1
                made.append(order[begin:begin + size])
                begin += size
        return made

    def _programs(self, old: Array, new: Array, result: Array) -> tuple[Executable, ...]:
        """What reads so many slices, what the function does to them, what writes them."""
        p, components = self.params, self.layout.components
        step = old.itemsize
        windows: list[Window] = []
        for n, t, o in reversed(self._windows()):
            windows.insert(0, Window(n, result.strides[t], step))
            step *= 1 if o is None else n
        made = SliceParams("take", "skip", _INDEX.name,
                           (Axis(len(old), len(components) * _INDEX.itemsize, 0, old.strides[0]),),
                           tuple(Component(k * _INDEX.itemsize, limit, result.strides[t])
                                 for k, (t, limit) in enumerate(components)),
                           tuple(windows), p.table, p.table, overlaps=p.overlaps)
        function = map_program(self.outputs, (old, new), old)
        take, put = (lower(made._replace(kernel=kernel), settings.num_threads).executable for kernel in ("take", "put"))
        return take, function, put

    def told(self) -> Told:
        """Return what tells of it."""
        problem = str(self.params).replace("(set)", "(function)")
        return Composition(problem, f"slices take, map, put: {self.room:,} look-ups at a time",
                           self.temporaries).told()


def within_limit(op: str, outputs: Outputs, layout: Layout, params: SliceParams, memory: Memory,
                 target: Target | None = None) -> SliceFunction:
    """Return what updates slices by a function within a call's limit on memory: that of a thread, for all of them."""
    each = _KEY_BYTES + (1 + len(layout.components)) * 2 * _INDEX.itemsize
    elements = params.elements * prod(n for n, _, t, _ in layout.axes if t is not None)
    each += elements * (params.table.itemsize + params.other.itemsize)

    def room_of(limit: int) -> int:
        fits = min(limit, _ROOM_BYTES) // each
        return 1 << fits.bit_length() - 1 if fits else 0

    def planned(limit: int | None) -> SliceFunction | None:
        room = (room_of(_ROOM_BYTES) or 1) if limit is None else room_of(limit)
        return SliceFunction(outputs, layout, params, room) if room else None

    host = host_target(target, op)
    made, raised = within(op, planned, memory, host, lambda: each, threads=1)
    return replace(made, temporaries=Temporaries(made.room * each, memory.limit(host), raised))

