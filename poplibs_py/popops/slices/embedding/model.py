"""What an embedding costs on a modelled machine, for many partitions of the table and its lookups at once.

Tables are cut by rows (``sliced``), by columns in grains (``unsliced``) and apart (``group``). Lookups are cut over
tiles, each of which then has a copy of its part of the table (``parallel``), and into turns (``serial``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import lcm
from typing import Any, NamedTuple

import numpy as np

from ....target import Target
from ....target.exchange import cycles_to_receive
from ....target.types import TYPE_BYTES, vector_of
from ...vertices.cast import cast_vertex_cycles
from ...vertices.fill import fill_vertex_cycles
from ...vertices.reductions import strided_reduce_cycles
from ...vertices.scaled import scaled_1d_cycles
from ...vertices.slices import multi_slice_cycles, multi_update_op_cycles
from .options import EmbeddingOptions
from .params import EmbeddingParams

_ATOM = 8  # bytes that a tile reads at once
_LEAST_INDICES = 32  # on a tile


class Partition(NamedTuple):
    """How an embedding is cut, or many ways at once.

    Attributes
    ----------
    precopy : int
        1 where tiles copy their part of the table before the first turn, else in each.
    serial, parallel : int or ndarray
        Of the lookups.
    sliced, unsliced, group : int or ndarray
        Of the tables.
    """

    precopy: int
    serial: Any
    parallel: Any
    sliced: Any
    unsliced: Any
    group: Any


def _cdiv(a: Any, b: Any) -> Any:
    return -(-a // b)


def _each(cycles: Callable[[int], int], counts: Any) -> Any:
    """What a vertex takes for each of many counts; vertices are asked once for equal ones."""
    distinct, places = np.unique(counts, return_inverse=True)
    return np.array([cycles(int(n)) for n in distinct])[places].reshape(np.shape(counts))


class _Held(NamedTuple):
    """What a tile holds: columns in grains, rows, lookups (all, in a part of the rows), tables, bytes of the part."""

    columns: Any
    rows: Any
    lookups: Any
    lookups_of_part: Any
    groups: Any
    stored: Any
    base: Any
    spread: Any


@dataclass(frozen=True)
class EmbeddingModel:
    """The costs of one embedding."""

    target: Target
    params: EmbeddingParams
    options: EmbeddingOptions

    @cached_property
    def size(self) -> int:
        """Bytes of an element."""
        return TYPE_BYTES[self.params.data_type]

    @cached_property
    def grain(self) -> int:
        """Columns that stay together."""
        return min(self.params.width, lcm(_ATOM, self.size) // self.size)

    @cached_property
    def grains(self) -> int:
        """Of a row."""
        return -(-self.params.width // self.grain)

    @cached_property
    def partial(self) -> str:
        """The type of updates' sums."""
        chosen = self.options.partial_type if self.options.operation_for_update == "add" else ""
        return chosen or self.params.data_type

    @cached_property
    def operation(self) -> str:
        """What updates do, as vertices have it."""
        return self.options.operation_for_update.upper()

    @cached_property
    def casts(self) -> bool:
        """Whether updates are cast."""
        return self.partial != self.params.data_type

    @cached_property
    def indices_of_tile(self) -> int:
        """Indices that lie together."""
        lookups = self.params.most_lookups
        return max(min(lookups, _LEAST_INDICES), -(-lookups // self.target.tiles))

    def exchange(self, size: Any) -> Any:
        """Cycles to receive so many bytes."""
        return cycles_to_receive(self.target, size)

    def held(self, at: Partition) -> _Held:
        """What a tile holds."""
        p, bytes_of_grain = self.params, self.grain * self.size
        columns, rows = _cdiv(self.grains, at.unsliced), _cdiv(p.entries, at.sliced)
        lookups, groups = _cdiv(p.most_lookups, at.serial * at.parallel), _cdiv(p.groups, at.group)
        base = columns * rows * bytes_of_grain * groups
        spread = base - _cdiv(p.entries * self.grains * p.groups, self.target.tiles) * bytes_of_grain
        return _Held(columns, rows, lookups, _cdiv(lookups, at.sliced), groups,
                     _cdiv(columns * rows, at.parallel), base, spread)

    def allowed(self, at: Partition) -> Any:
        """Whether the table takes no less memory than spread evenly, and tiles are busy enough to look up all rows."""
        held = self.held(at)
        fits = held.spread >= 0
        if not self.options.used_for_slice:
            return fits
        p = self.params
        work = _cdiv(p.most_lookups * p.groups * p.width * self.size, _ATOM)
        tiles = at.serial * at.parallel * at.unsliced * at.group
        return fits & (work <= tiles * self._slice_compute(held, held.columns * self.grain, held.lookups))

    # Reading rows ----------------------------------------------------------------------------------------

    def _slice_compute(self, held: _Held, elements: Any, lookups: Any) -> Any:
        """Cycles of a tile to copy the rows that it has of so many lookups."""
        p, each = self.params, _cdiv(lookups, self.target.workers)
        here = each if self.options.one_point else _cdiv(each * held.rows, p.entries)
        single = p.most_lookups == 1 and self.grain * self.size % 4 == 0
        return held.groups * multi_slice_cycles(self.target, p.data_type, elements, each, here, split=single)

    def slice_temporaries(self, at: Partition) -> tuple[Any, Any]:
        """Temporary bytes of a tile that looks up rows, and of one that joins what parts of the table have."""
        held, rows = self.held(at), self.grain * self.size
        copied, joined = self.slice_received(at)
        found = (at.sliced > 1) * held.lookups * held.columns * rows * held.groups
        return (copied + found + 4 * held.lookups * held.groups,
                found + joined + 4 * held.lookups_of_part * held.groups + at.precopy * copied)

    def slice_received(self, at: Partition) -> tuple[Any, Any]:
        """Bytes that a tile receives: of the table, and of the rows that parts of it have."""
        held = self.held(at)
        moved = at.sliced * held.lookups_of_part * held.columns * self.grain * self.size * held.groups
        return np.maximum((at.parallel > 1) * held.base, held.spread), (at.sliced > 1) * moved

    def slice_bytes(self, at: Partition) -> Any:
        """Most temporary bytes of a tile."""
        return np.maximum(*self.slice_temporaries(at))

    def slice_cycles(self, at: Partition) -> dict[str, Any]:
        """Cycles by PopLibs' names."""
        held, cut = self.held(at), at.sliced > 1
        copy, moved = (self.exchange(size) for size in self.slice_received(at))
        found = {
            "slicePrecopyCycles": at.precopy * copy,
            "sliceFirstStageExchangeCycles": (1 - at.precopy) * copy,
            "sliceFirstStageComputeCycles": self._slice_compute(held, held.columns * self.grain, held.lookups),
            "sliceSecondStageExchangeCycles": moved,
            # PopLibs counts grains for elements here
            "sliceSecondStageComputeCycles": cut * self._slice_compute(held, held.columns, held.lookups_of_part),
        }
        turn = sum(cycles for name, cycles in found.items() if name != "slicePrecopyCycles")
        return found | {"sliceCyclesPerSerialSplit": turn,
                        "sliceTotalCycles": turn * at.serial + found["slicePrecopyCycles"]}

    # Updating rows ---------------------------------------------------------------------------------------

    def update_temporaries(self, at: Partition) -> tuple[Any, Any, Any]:
        """Temporary bytes of a tile that casts rows, that updates its part of the table, that adds up copies of it."""
        held, size = self.held(at), TYPE_BYTES[self.partial] * self.grain
        cast = self.casts * held.lookups_of_part * held.columns * size
        rows = (at.sliced > 1) * held.lookups * held.columns * size
        partials = (at.parallel > 1) * held.rows * held.columns * size
        first = np.where(at.sliced == 1, cast, 0) + rows + partials + 4 * held.lookups
        cast, first, summed = (held.spread + held.groups * some for some in (cast + rows, first, 2 * partials))
        return cast, first, summed

    def update_received(self, at: Partition) -> tuple[Any, Any]:
        """Bytes that a tile receives: of rows, and of copies of its part of the table."""
        held = self.held(at)
        rows = (at.sliced > 1) * held.lookups * held.columns * self.grain * TYPE_BYTES[self.partial] * held.groups
        outputs = _cdiv(held.rows * held.columns * self.grain * held.groups, at.parallel)
        return rows, (at.parallel > 1) * at.parallel * outputs * 4

    def update_bytes(self, at: Partition) -> Any:
        """Most temporary bytes of a tile."""
        cast, first, summed = self.update_temporaries(at)
        return np.maximum(np.maximum(cast, first), summed)

    def update_cycles(self, at: Partition, ordered: bool) -> dict[str, Any]:
        """Cycles by PopLibs' names; `ordered` where it is used that indices are sorted."""
        held, target, op, data = self.held(at), self.target, self.operation, self.params.data_type
        copies, (sent, _) = at.parallel > 1, self.update_received(at)
        stored = held.groups * held.stored * self.grain
        found = {"updateRearrangeBaseCycles": 2 * self.exchange(held.spread)}
        if self.casts:
            rows = held.groups * held.lookups_of_part * held.columns * self.grain
            found["updateCastSlicesCycles"] = self._cast(data, self.partial, rows)
        partials = held.rows * held.columns * self.grain * held.groups
        zeroed = fill_vertex_cycles("float", ((self._of_a_worker(partials, 2), 1),), two_d=False)
        found["updateZeroPartialsCycles"] = copies * target.workers * zeroed
        found["updateFirstStageExchangeCycles"] = self.exchange(sent)
        found["updateFirstStageComputeCycles"] = held.groups * self._update_compute(held, ordered)
        if op != "NONE":
            found |= self._reduction(at, partials)
        if op == "ADD":
            if self.casts:
                found["updateCastBasePreCycles"] = self._cast(data, self.partial, stored)
                found["updateCastBasePostCycles"] = self._cast(self.partial, data, stored)
            found["updateFinalElemwiseCycles"] = copies * _each(lambda n: scaled_1d_cycles(
                target, "ScaledAdd", ("float",) * 3, n, constrained=True, far=True), np.where(copies, stored, 1))
        elif op != "NONE":
            found["updateFinalElemwiseCycles"] = copies * _cdiv(stored, vector_of(target, data))
        return found | {"updateTotalCycles": sum(found.values()) * at.serial}

    def _cast(self, source: str, result: str, elements: Any) -> Any:
        return _each(lambda n: cast_vertex_cycles(self.target, "Cast1D", source, result, ((n, 1),)), elements)

    def _of_a_worker(self, elements: Any, least: int = 1) -> Any:
        """A worker's share, in pairs of which it has at least so many."""
        return np.minimum(elements, 2 * np.maximum(_cdiv(_cdiv(elements, 2), self.target.workers), least))

    def _update_compute(self, held: _Held, ordered: bool) -> Any:
        """Cycles of a tile to update the rows that it has of one table."""
        p, o, rows = self.params, self.options, _cdiv(held.rows, self.target.workers)
        if o.one_point:
            each, here = p.most_lookups, held.lookups
        else:
            each = _cdiv(p.most_lookups, p.entries)
            here = _cdiv(held.lookups * rows, p.entries)
            if ordered:
                here = np.minimum(_cdiv(rows * p.most_lookups, p.entries), held.lookups)
        kind = "float" if self.casts else p.data_type
        elements, subword = held.columns * self.grain, self.grain * self.size % 4 != 0
        if self.operation == "NONE":
            return multi_slice_cycles(self.target, kind, elements, held.lookups, here, each, update=True,
                                      in_order=ordered, split=p.most_lookups == 1 and not subword)
        return multi_update_op_cycles(self.target, kind, self.operation, elements, held.lookups, here, each,
                                      subword=subword, scaled=True, in_order=ordered)

    def _reduction(self, at: Partition, partials: Any) -> dict[str, Any]:
        """Cycles to sum what the copies of a part of the table have got."""
        copies = at.parallel > 1
        outputs = _cdiv(partials, at.parallel)
        cycles = strided_reduce_cycles(self.target, self.operation, ("float", "float"), at.parallel,
                                       self._of_a_worker(outputs), outputs)
        return {"updateReduceExchangeCycles": self.exchange(self.update_received(at)[1]),
                "updateReduceComputeCycles": copies * self.target.workers * cycles}

    # Both ------------------------------------------------------------------------------------------------

    def peak_bytes(self, at: Partition) -> Any:
        """Most temporary bytes of a tile in reading and updating."""
        peak = np.zeros(np.shape(at.parallel), np.int64)
        if self.options.used_for_slice:
            peak = np.maximum(peak, self.slice_bytes(at))
        if self.options.used_for_update:
            peak = np.maximum(peak, self.update_bytes(at))
        return peak

    def total_cycles(self, at: Partition, ordered: bool) -> Any:
        """Cycles of reading and updating."""
        total = np.zeros(np.shape(at.parallel), np.int64)
        if self.options.used_for_slice:
            total = total + self.slice_cycles(at)["sliceTotalCycles"]
        if self.options.used_for_update:
            total = total + self.update_cycles(at, ordered)["updateTotalCycles"]
        return total

    def least_cycles(self, at: Partition, ordered: bool) -> Any:
        """No more than `total_cycles`, and sooner told: what tiles compute first."""
        held, total = self.held(at), np.zeros(np.shape(at.parallel), np.int64)
        if self.options.used_for_slice:
            total = total + self._slice_compute(held, held.columns * self.grain, held.lookups)
        if self.options.used_for_update:
            total = total + held.groups * self._update_compute(held, ordered) + 2 * self.exchange(held.spread)
        return total * at.serial

    def code_bytes(self, at: Partition) -> Any:
        """Bytes of the programs that exchange."""
        held, copies, cut = self.held(at), at.parallel > 1, at.sliced > 1
        messages = _cdiv(held.lookups, self.indices_of_tile)
        total = 0
        if self.options.used_for_slice:
            total = total + 4 * held.groups * (at.parallel * copies + 2 * messages + at.sliced * cut)
        if self.options.used_for_update:
            total = total + 4 * held.groups * (messages + at.parallel * copies)
        return total

    def costs(self, at: Partition, ordered: bool) -> dict[str, int]:
        """Everything that one partition costs, by PopLibs' names; what is nothing is left out."""
        held = self.held(at)
        found: dict[str, Any] = {
            "baseStorageBytesPerTile": held.stored * self.grain * self.size,  # PopLibs counts one table
            "exchangeCodeBytes": self.code_bytes(at), "peakTempBytes": self.peak_bytes(at),
            "totalCycles": self.total_cycles(at, ordered)}
        if self.options.used_for_slice:
            found |= {"sliceTempBytes": self.slice_bytes(at)} | self.slice_cycles(at)
        if self.options.used_for_update:
            found |= {"updateTempBytes": self.update_bytes(at)} | self.update_cycles(at, ordered)
        return {name: int(value) for name, value in found.items() if value}
