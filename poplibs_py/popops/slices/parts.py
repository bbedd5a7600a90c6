"""Updates of rows as a modelled machine's plan cuts them: in turns, and in each on copies of the table.

A turn takes the next look-ups of each table in their order, and each copy a run of those. A copy adds up (multiplies)
what comes to a row, from zero (one), in FP32, and rounds that to the plan's partial sums. Those of all copies are taken
in ascending order, in FP32, and so is the row with what they make; the row is rounded once in each turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...config import settings
from ...errors import InvalidIndexError
from ...formats import FP16, FP32, Array
from .lower import Axis, Component, SliceParams, Window, lower

_INDEX = np.dtype(np.int64)


def rows_named(flat: Array, entries: int, policy: str) -> tuple[Any, Array]:
    """Return which look-ups have a row, and which row that is."""
    bad = (flat < 0) | (flat.astype(np.uint64) >= np.uint64(entries))
    if not bad.any():
        return slice(None), flat.astype(np.int64)
    if policy == "raise" or (not entries and policy in ("clip", "wrap", "poplibs")):
        at = int(np.argmax(bad))
        raise InvalidIndexError(f"indices: got {flat[at]}, look-up {at}; allowed: 0 to {entries - 1}")
    if policy in ("skip", "zero"):
        return ~bad, flat[~bad].astype(np.int64)
    small = np.where(bad, np.zeros((), flat.dtype), flat).astype(np.int64)
    if policy == "wrap":
        small = (flat % flat.dtype.type(entries) if flat.dtype.kind == "u" and entries <= np.iinfo(flat.dtype).max
                 else flat.astype(np.int64) % entries if flat.dtype != np.uint64 else small).astype(np.int64)
    elif policy == "clip":
        small = np.where(bad & (flat > 0), entries - 1, small)
    return slice(None), small


@dataclass(frozen=True, eq=False)
class RowParts:
    """What updates rows so; called as the program of a host's update is.

    Attributes
    ----------
    front : int
        1 where the first axis of all arrays is that of several tables, else 0.
    groups, entries, lookups, axis : int
        Tables, their rows, look-ups of each, and the axis that rows are of.
    turns, copies : int
    partial, element : numpy.dtype
        Of a copy's sums, and of the table and its updates: float32 or float16.
    policy, update : str
    scale : float
    """

    front: int
    groups: int
    entries: int
    lookups: int
    axis: int
    turns: int
    copies: int
    partial: Any
    element: Any
    policy: str
    update: str
    scale: float

    def __call__(self, indices: Array, updates: Array, result: Array) -> None:
        seen = np.moveaxis(result, self.axis, self.front)
        table = np.array(seen, order="C").reshape(self.groups * self.entries, -1)
        given = np.ascontiguousarray(updates).reshape(self.groups, self.lookups, table.shape[1])
        places = self._places(indices)
        each = -(-self.lookups // (self.turns * self.copies))
        for begin in range(0, self.lookups, each * self.copies):
            turn = slice(begin, begin + each * self.copies)
            at, u = places[:, turn], np.ascontiguousarray(given[:, turn]).reshape(-1, table.shape[1])
            if self.copies == 1:
                self._put(table, at.ravel(), u, self.scale)
                continue
            keys = np.where(at < 0, -1, at * self.copies + np.arange(at.shape[1]) // each)
            sums, keys = self._together(keys.ravel(), u, self.scale)
            with np.errstate(all="ignore"):
                sums = sums.astype(self.partial).astype(np.float32)
            self._put(table, *self._together(np.where(keys < 0, -1, keys // self.copies), sums, 1.0)[::-1], 1.0)
        seen[...] = table.reshape(seen.shape)

    def _places(self, indices: Array) -> Array:
        """Rows of all tables taken together, [groups, look-ups]; -1 for those that lead nowhere."""
        kept, named = rows_named(indices.ravel(), self.entries, self.policy)
        places = np.full(indices.size, -1, _INDEX)
        groups = np.repeat(np.arange(self.groups), self.lookups)
        places[kept] = named + groups[kept] * self.entries
        return places.reshape(self.groups, self.lookups)

    def _together(self, keys: Array, u: Array, scale: float) -> tuple[Array, Array]:
        """What the updates of each key make, and the keys, ascending; -1 for the rest of so many."""
        distinct, inverse = np.unique(keys, return_inverse=True)
        sums = np.full(u.shape, float(self.update == "mul"), np.float32)
        self._put(sums, inverse.astype(_INDEX).reshape(-1), u, scale)
        names = np.full(len(keys), -1, _INDEX)
        names[:len(distinct)] = distinct
        return sums, names

    def _put(self, table: Array, at: Array, u: Array, scale: float) -> None:
        """Update rows in the order of the look-ups."""
        (places, width), formats = table.shape, (FP32, FP16)
        element, other = (formats[array.dtype == np.float16] for array in (table, u))
        params = SliceParams("put", "skip", _INDEX.name, (Axis(len(at), _INDEX.itemsize, 0, width * u.itemsize),),
                             (Component(0, places, width * table.itemsize),),
                             (Window(width, table.itemsize, u.itemsize),), element, other, update=self.update,
                             scale=scale)
        lower(params, settings.num_threads).executable(np.ascontiguousarray(at), u, table)
