"""Windows of arrays at offsets on a modelled machine, in steps on its tiles: PopLibs' dynamic slices, loops of them.

Sliced axes lie whole on each tile; the elements of the others are dealt out, eight bytes at a time. Axes are sliced one
after another, that first of which least is left. An update slices down to the last of them, and writes back from there.
Windows at several vectors of indices are taken one by one: PopLibs' counted loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from ...planner.tile_plan import Step, TilePlan, Vertex, memory_of, work_of
from ...target import Target
from ...target.types import TYPE_BYTES
from ..vertices.operands import elementwise_vertices, vertices_lack
from ..vertices.slices import dynamic_slice_1d_cycles

_GRAIN_BYTES, _INDEX_BYTES = 8, 4
_COMBINED = {"add": "ADD", "mul": "MULTIPLY", "max": "MAXIMUM", "min": "MINIMUM"}


@dataclass(frozen=True)
class Sliced:
    """An array that is read or updated in windows.

    Attributes
    ----------
    shape : tuple of int
        Of the array.
    window : tuple of int
        Its shape.
    axes : tuple of int
        Those that there is an offset for, or along which a window is a part of the array.
    times : int or None
        How many windows there are, of which each has a vector of indices; None for a single one with offsets.
    """

    shape: tuple[int, ...]
    window: tuple[int, ...]
    axes: tuple[int, ...]
    times: int | None = None

    @property
    def order(self) -> tuple[int, ...]:
        """Axes as they are sliced: that first of which least is left."""
        return tuple(sorted(self.axes, key=lambda d: self.window[d] / max(1, self.shape[d])))

    @property
    def beside(self) -> int:
        """Elements of the axes that are not sliced."""
        return prod(n for d, n in enumerate(self.window) if d not in self.axes)


def windows_plan(target: Target, data_type: str, sliced: Sliced, update: str) -> TilePlan | str:
    """Return what reading or updating windows does on the tiles, or what no vertex does of it.

    Parameters
    ----------
    target : Target
    data_type : str
        PopLibs' word.
    sliced : Sliced
    update : str
        What an update does; empty where windows are read.
    """
    combined = _COMBINED.get(update, "")
    if combined and vertices_lack(combined, data_type, True, (False, False)):
        return f"({update}) on {data_type}"
    walk = _Walk(target, data_type, sliced)
    steps = tuple(walk.steps(update, combined)) if prod(sliced.window) and sliced.times != 0 else ()
    window, shape = (" x ".join(map(str, extents)) for extents in (sliced.window, sliced.shape))
    what = f"{update or 'slice'} {window} of {shape} {data_type}"
    times = "" if sliced.times is None else f", {sliced.times:,} times"
    sizes = walk.tile_elements() * TYPE_BYTES[data_type]
    whole, part = prod(sliced.shape[d] for d in sliced.axes), prod(sliced.window[d] for d in sliced.axes)
    part *= 1 if sliced.times is None else sliced.times
    memory = memory_of(target, sizes * (whole + bool(update) * part), sizes * (not update) * part, steps)
    order = ", then ".join(str(d) for d in sliced.order) or "none"
    mapping = f"sliced axes on each of {len(sizes):,} tiles, {int(sizes.max(initial=0)):,} bytes of the others at most"
    decisions = ("mapping", mapping), ("axes", f"sliced in the order {order}")
    return TilePlan(what + times, target, steps, memory, decisions)


class _Walk:
    """The steps of a call."""

    def __init__(self, target: Target, data_type: str, sliced: Sliced) -> None:
        self.target, self.data_type, self.sliced = target, data_type, sliced
        size = TYPE_BYTES[data_type]
        grain = max(1, _GRAIN_BYTES // size)
        each = -(-sliced.beside // (grain * target.tiles)) * grain
        full, rest = divmod(sliced.beside, max(1, each))
        self.shares = [(n, tiles) for n, tiles in ((each, full), (rest, 1)) if n and tiles]
        self.size, self.times = size, 1 if sliced.times is None else sliced.times

    def tile_elements(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Elements of the axes that are not sliced, on each tile that has some."""
        return np.repeat([n for n, _ in self.shares], [tiles for _, tiles in self.shares]).astype(np.int64)

    def steps(self, update: str, combined: str) -> Iterator[Step]:
        """One after another."""
        s, extents = self.sliced, {d: self.sliced.shape[d] for d in self.sliced.axes}
        looped, held = s.times is not None, [dict(extents)]
        if looped:
            yield self._one("slice indices", "DynamicSlice1D", ("unsigned int",), len(s.axes), 1)
            if update:
                yield self._step("slice updates", "DynamicSlice1D", 1, prod(s.window[d] for d in s.axes), 0)
        read = s.order if not update or combined else s.order[:-1]
        kept = 0
        for place, d in enumerate(read):
            inner = prod(n for axis, n in held[-1].items() if axis != d)
            held.append(held[-1] | {d: s.window[d]})
            kept += prod(held[-1].values()) * (place + 1 < len(s.order) or looped or bool(update))
            yield self._step("slice", "DynamicSlice1D", s.window[d], inner, kept)
        if not update:
            if looped:
                yield self._step("write result", "DynamicUpdateSlice1D", 1, prod(s.window[d] for d in s.axes), kept)
            return
        if combined:
            part = prod(s.window[d] for d in s.axes)
            work = work_of(self.target, [(n * part, tiles) for n, tiles in self.shares],
                           lambda n: elementwise_vertices(self.target, combined, self.data_type, n, in_place=True,
                                                          numbers=(False, False)))
            yield Step("combine", work, kept * self._most * self.size, self.times)
        for place in reversed(range(len(s.order))):
            d = s.order[place]
            inner = prod(n for axis, n in held[place].items() if axis != d)
            yield self._step("update", "DynamicUpdateSlice1D", s.window[d], inner, kept)

    @property
    def _most(self) -> int:
        return max((n for n, _ in self.shares), default=0)

    def _step(self, name: str, vertex: str, slices: int, inner: int, kept: int) -> Step:
        """A compute set of all tiles that hold elements; each receives the offset, but the one that has it."""
        def vertices(elements: int) -> tuple[Vertex, ...]:
            cycles = dynamic_slice_1d_cycles(self.target, self.data_type, elements // max(1, slices), slices)
            return (Vertex(vertex, (self.data_type,), ((elements // max(1, slices), slices),), cycles, "tile"),)

        several = sum(tiles for _, tiles in self.shares) > 1
        received: Callable[[int], int] = lambda _: _INDEX_BYTES * several  # noqa: E731
        shares = [(n * inner * slices, tiles) for n, tiles in self.shares]
        work = work_of(self.target, shares, vertices, received)
        return Step(name, work, kept * self._most * self.size + _INDEX_BYTES * several, self.times)

    def _one(self, name: str, vertex: str, types: tuple[str, ...], region: int, slices: int) -> Step:
        """A vertex of one tile."""
        cycles = dynamic_slice_1d_cycles(self.target, types[0], region, slices)
        made = (Vertex(vertex, types, ((region, slices),), cycles, "tile"),)
        return Step(name, work_of(self.target, [(region * slices, 1)], lambda _: made), _INDEX_BYTES, self.times)
