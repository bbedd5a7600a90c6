"""What the greatest elements of rows, or sorting them, cost on a modelled machine: PopLibs' bitonic program.

Steps compare elements a distance apart and swap them. Each is a copy, which brings together on a tile what it compares,
and one vertex for each tile that is used, whose workers share its comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...target import Target


class _Cost(NamedTuple):
    """Cycles of a worker's loops over comparisons, blocks of them and entries of its list."""

    inner: int
    first: int
    outer: int
    first_outer: int
    entry: int
    begin: int


_COSTS = {
    ("keys", True): _Cost(13, 13, 13, 3, 17, 40), ("keys", False): _Cost(12, 12, 17, 3, 22, 42),
    ("values", True): _Cost(11, 8, 11, 11, 4, 23), ("values", False): _Cost(17, 17, 22, 5, 30, 43),
    ("secondary", True): _Cost(25, 25, 24, 6, 30, 45), ("secondary", False): _Cost(27, 27, 25, 7, 30, 49),
}  # fmt: skip
_FLOATS = ("float", "half")
_OF_A_TILE = 19

_Counts = int | np.ndarray[Any, np.dtype[np.int64]]


def _entry_cycles(cost: _Cost, block: _Counts, count: _Counts, first: _Counts, left: _Counts, flip: int) -> Any:
    """Cycles of a worker for an entry of its list, or for many at once.

    Parameters
    ----------
    cost : _Cost
    block, count, first : int or ndarray
        Comparisons of a block, of all and up to the end of the first block.
    left : int or ndarray
        Comparisons until the order changes.
    flip : int
    """
    changes = np.maximum(0, 1 + (count - left) // flip)
    blocks = -((first - count) // block)  # after the first
    return (cost.entry + cost.first + (count - 1) * cost.inner + cost.first_outer + blocks * cost.outer + 2 * changes)


@dataclass(frozen=True)
class Step:
    """One comparison of a program.

    Attributes
    ----------
    elements : int
        Keys that are copied before it, over all rows; and as many values.
    tiles : int
        That are used.
    cycles : int
        Of the slowest tile.
    """

    elements: int
    tiles: int
    cycles: int


@dataclass(frozen=True)
class BitonicProgram:
    """The steps that find the greatest or least elements of rows.

    Attributes
    ----------
    steps : tuple of Step
    values : bool
        Whether values move with the keys.
    """

    steps: tuple[Step, ...]
    values: bool

    @property
    def copies(self) -> tuple[int, ...]:
        """Bytes of the copies, in order."""
        return tuple(4 * step.elements for step in self.steps for _ in range(1 + self.values))

    @property
    def cycles(self) -> int:
        """Of all comparisons, copies not counted."""
        return sum(step.cycles for step in self.steps)


class _Compared(NamedTuple):
    """A step before it is mapped: elements of a row that are there and that take part, distance, change of order."""

    elements: int
    active: int
    distance: int
    flip: int


def _log2(number: int) -> int:
    return (number - 1).bit_length()


def _compared(elements: int, count: int, largest: bool, in_order: bool, ascending: bool) -> Iterator[_Compared]:
    """The steps for one row."""
    if elements == 1 or (count == elements and not in_order):
        return
    log_count, log_all = _log2(count), _log2(elements)
    kept = 1 << log_count
    for stage in range(log_all):
        distance, merges, active = 1 << min(stage, log_count), stage >= log_count, elements
        if stage + 1 < log_count and elements % (2 * distance) in (0, elements % (4 * distance)):
            active -= elements % (4 * distance)
        yield _Compared(elements, active, distance, 1 << (log_all - 1) if merges else distance)
        if merges and elements > kept:
            whole = elements // (2 * kept)
            elements = whole * kept + min(elements - 2 * kept * whole, kept)
        greatest_first = ascending if stage == log_all - 1 else largest
        step = distance // 2
        while step:
            yield _Compared(elements, min(active, elements), step, min(distance, kept // 2))
            if stage + 1 >= log_count:
                elements -= _dropped(elements, kept, step, count, greatest_first == largest)
            step //= 2


def _dropped(elements: int, kept: int, step: int, count: int, from_start: bool) -> int:
    """The elements of the last, incomplete run that cannot be among the `count` that are asked for."""
    last = (elements - 1) % kept + 1
    if (elements - last) // kept % 2:
        from_start = not from_start
    dropped = step if from_start else (last - 1) % step + 1
    return dropped if last - dropped >= count else 0


def _step_cycles(target: Target, cost: _Cost, comparisons: int, block: int, flip: int) -> tuple[int, int]:
    """Tiles that share a step's comparisons, and the cycles of the slowest.

    A tile's comparisons are part of a block or a whole one, whole blocks, and part of one; a worker has up to an entry
    of each.
    """
    each = -(-comparisons // target.tiles)
    tile_begin = np.arange(0, comparisons, each)[:, None]
    tile_end = np.minimum(tile_begin + each, comparisons)
    inside = np.minimum(tile_end, (tile_begin // block + 1) * block)
    whole = np.maximum(inside, tile_end // block * block)
    share = -(-(tile_end - tile_begin) // target.workers)
    begin = tile_begin + share * np.arange(target.workers)
    end = np.minimum(begin + share, tile_end)
    left, cycles, none_yet = flip - begin % flip, np.full(begin.shape, cost.begin), np.ones(begin.shape, bool)
    for start, stop, width in ((tile_begin, inside, inside - tile_begin), (inside, whole, np.full_like(inside, block)),
                               (whole, tile_end, tile_end - whole)):
        low = np.maximum(begin, start)
        count, width = np.minimum(end, stop) - low, np.maximum(width, 1)
        first = np.minimum(count, np.where(none_yet, width - (low - start) % width, width))
        cycles += np.where(count > 0, _entry_cycles(cost, width, count, first, left, flip), 0)
        none_yet &= count <= 0
    slowest = int(np.where(begin < tile_end, cycles, 0).max())
    return len(tile_begin), _OF_A_TILE + target.workers * slowest


def bitonic_program(target: Target, elements: int, count: int, *, batch: int = 1, key_type: str = "float",
                    values: bool = False, secondary: bool = False, largest: bool = True, in_order: bool = False,
                    ascending: bool = False) -> BitonicProgram:
    """Return the program that finds the greatest or least elements of rows (PopLibs' ``topK``; ``sort`` of all).

    Parameters
    ----------
    target : Target
    elements, count : int
        Of a row; those that are asked for.
    batch : int, optional
        Rows.
    key_type : str, optional
        What is compared; halves are cast to floats before and back after.
    values, secondary : bool, optional
        Whether values move with the keys, and whether they decide between equal ones.
    largest : bool, optional
        Greatest or least elements.
    in_order, ascending : bool, optional
        Whether they are sorted, and which way.

    Examples
    --------
    >>> from poplibs_py.popops.vertices.sort import bitonic_program
    >>> from poplibs_py.target import Target
    >>> program = bitonic_program(Target.gc200(), 1024, 1, batch=2, key_type="unsigned int")
    >>> len(program.steps), sum(program.copies), program.cycles
    (10, 16368, 4942)
    """
    cost = _COSTS["secondary" if secondary else "values" if values else "keys", key_type in _FLOATS]
    steps = []
    for step in _compared(elements, count, largest, in_order, ascending):
        active, distance, flip = step.active * batch, step.distance * batch, step.flip * batch
        rest = active % (2 * distance)
        comparisons = active // (2 * distance) * distance + rest - min(rest, distance)
        tiles, cycles = _step_cycles(target, cost, comparisons, distance, flip)
        steps.append(Step(step.elements * batch, tiles, cycles))
    return BitonicProgram(tuple(steps), values or secondary)
