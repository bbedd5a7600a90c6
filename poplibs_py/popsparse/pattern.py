"""Where the blocks of a block-sparse matrix are: checked once, then immutable and shared."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..checks import real, whole
from ..errors import bad_argument, bad_type
from ..formats import Array
from ..formats.arrays import as_array
from ..immutable import Immutable, frozen, holding, settle, token_of
from ..target.host_memory import check_memory
from ._pattern import check
from ._transpose import transpose

MAX_EXTENT = 2**31 - 1
"""Most rows (of all groups together) and most columns, so that block numbers fit int32 and their products int64."""

MAX_BLOCK_SIDE = 2**15

_FAULTS = {
    "start": ("row_offsets", "offsets that begin at 0"), "descent": ("row_offsets", "offsets that do not descend"),
    "end": ("row_offsets", "offsets that end at the number of blocks"),
    "range": ("column_indices", "block numbers from 0 to {last}"), "duplicate": ("column_indices", "each block once"),
    "order": ("column_indices", "indices that ascend within each block row")}


class BlockPattern(Immutable):
    """The pattern of a block-sparse matrix, or of a group of matrices of one shape.

    Block row ``i`` holds the blocks ``row_offsets[i]`` to ``row_offsets[i + 1]``; block ``j`` lies in block column
    ``column_indices[j]``. With groups, the block rows of all groups follow one another.

    Parameters
    ----------
    shape : (int, int)
        Rows and columns of each group, in elements; zero is allowed.
    block_shape : int or (int, int)
        Rows and columns of a block, each from 1 to 32768. It need not divide `shape`: the last blocks then reach over
        the edge.
    row_offsets : array_like of int, shape (groups * block rows + 1,)
    column_indices : array_like of int, shape (n_blocks,)
        Block numbers, ascending within each block row.
    groups : int, optional
        How many matrices there are (default 1).

    Raises
    ------
    InvalidArgumentError
        If the parts do not describe a pattern, or one of 2^31 blocks or more. Nothing that passes can lead a kernel
        outside its operands, and the arrays cannot be written to afterwards.

    Examples
    --------
    >>> pattern = BlockPattern((4, 6), 2, [0, 1, 3], [2, 0, 1])
    >>> pattern.n_blocks, pattern.density
    (3, 0.5)
    """

    __slots__ = ("__weakref__", "_column_indices", "_index", "_row_offsets", "block_shape", "groups", "shape")

    shape: tuple[int, int]
    block_shape: tuple[int, int]
    groups: int
    _row_offsets: Array
    _column_indices: Array
    _index: tuple[Array, Array, Array] | None

    @holding
    def __init__(self, shape: object, block_shape: object, row_offsets: object, column_indices: object,
                 groups: object = 1) -> None:
        n_groups = as_extent("groups", groups, 1)
        self._set(groups=n_groups, shape=as_shape(shape, n_groups), block_shape=as_block_shape(block_shape))
        offsets = index_array("row_offsets", row_offsets)
        rows = self.groups * self.block_rows
        if offsets.size != rows + 1:
            raise bad_argument("row_offsets", f"{offsets.size} offsets",
                               f"one more than there are block rows, {rows + 1}")
        columns = index_array("column_indices", column_indices, self.block_columns)
        offsets, columns = frozen(offsets), frozen(columns)  # first: nothing can change what has been checked
        fault, position = check(offsets, columns, self.block_columns)
        if fault:
            raise _fault(fault, position, offsets, columns, self.block_columns)
        self._set(_row_offsets=offsets, _column_indices=columns, _index=None)

    @classmethod
    def _of_parts(cls, shape: tuple[int, int], block_shape: tuple[int, int], row_offsets: Array, column_indices: Array,
                  groups: int = 1) -> BlockPattern:
        # From part of a pattern: what was checked there fits here too.
        made = cls.__new__(cls)
        made._set(groups=groups, shape=shape, block_shape=block_shape, _row_offsets=frozen(row_offsets),
                  _column_indices=frozen(column_indices), _index=None)
        return made

    @classmethod
    @holding
    def from_pairs(cls, shape: object, block_shape: object, row_indices: object, column_indices: object,
                   groups: object = 1) -> tuple[BlockPattern, Array | None]:
        """Build a pattern from the block row and block column of each block, in any order.

        Returns
        -------
        pattern : BlockPattern
        order : numpy.ndarray or None
            Which of the blocks passed in is the pattern's first, second …; None where they are in order already.
        """
        n_groups = as_extent("groups", groups, 1)
        rows_and_columns = as_shape(shape, n_groups)
        sides = as_block_shape(block_shape)
        block_rows = n_groups * -(-rows_and_columns[0] // sides[0])
        check_offsets(rows_and_columns, block_rows)
        block_columns = -(-rows_and_columns[1] // sides[1])
        rows = index_array("row_indices", row_indices, block_rows)
        columns = index_array("column_indices", column_indices, block_columns)
        if rows.size != columns.size:
            raise bad_argument("row_indices", f"{rows.size} indices", f"as many as column_indices, {columns.size}")
        key = rows.astype(np.int64) * block_columns + columns
        order = None if np.all(key[1:] > key[:-1]) else np.argsort(key)
        if order is not None:
            key, rows, columns = key[order], rows[order], columns[order]
            twice = np.flatnonzero(key[1:] == key[:-1])
            if twice.size:
                i = twice[0]
                raise bad_argument("column_indices", f"block ({rows[i]}, {columns[i]}) twice", "each block once")
        offsets = np.zeros(block_rows + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=block_rows), out=offsets[1:])
        return cls(rows_and_columns, sides, offsets, columns, n_groups), order

    @property
    def row_offsets(self) -> Array:
        """Where each block row's blocks begin, and the last ends; read-only."""
        return self._row_offsets.view()

    @property
    def column_indices(self) -> Array:
        """Block column of each block; read-only."""
        return self._column_indices.view()

    @property
    def block_rows(self) -> int:
        """Block rows of each group."""
        return -(-self.shape[0] // self.block_shape[0])

    @property
    def block_columns(self) -> int:
        """Block columns."""
        return -(-self.shape[1] // self.block_shape[1])

    @property
    def n_blocks(self) -> int:
        """Stored blocks, of all groups together."""
        return int(self.column_indices.size)

    @property
    def longest_row(self) -> int:
        """Stored blocks of the block row that has most."""
        return int(np.maximum.reduce(self.row_offsets[1:] - self.row_offsets[:-1], initial=0))

    @property
    def density(self) -> float:
        """Stored blocks divided by all blocks; 0 where there is none."""
        everywhere = self.groups * self.block_rows * self.block_columns
        return self.n_blocks / everywhere if everywhere else 0.0

    @property
    def is_ragged(self) -> bool:
        """Whether the last block row or block column reaches over the edge."""
        return any(extent % side for extent, side in zip(self.shape, self.block_shape, strict=True))

    @property
    def row_indices(self) -> Array:
        """The block row of each block, counted through all groups: int32, computed anew."""
        return np.repeat(np.arange(self.row_offsets.size - 1, dtype=np.int32), np.diff(self.row_offsets))

    def transposed(self) -> tuple[BlockPattern, Array]:
        """Return the pattern of the transpose, and which of this pattern's blocks is its first, second …"""
        offsets, rows, order = self._index or self._transposed_index()
        n = self.n_blocks
        shape, block_shape = self.shape[::-1], self.block_shape[::-1]
        return BlockPattern(shape, block_shape, offsets, rows[:n], self.groups), order[:n]

    def transposed_index(self) -> tuple[Array, Array, Array]:
        """Return the transpose's row offsets, column indices and `transposed`'s places, each at least one long.

        They are made when they are first asked for, and kept.
        """
        if self._index is None:
            settle(self, "_index", self._transposed_index())
        assert self._index is not None
        return self._index

    def _transposed_index(self) -> tuple[Array, Array, Array]:
        check_offsets(self.shape[::-1], self.groups * self.block_columns)
        return transpose(self.row_offsets, self.column_indices, self.groups, self.block_columns)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BlockPattern):
            return NotImplemented
        return self is other or (
            (self.shape, self.block_shape, self.groups) == (other.shape, other.block_shape, other.groups)
            and np.array_equal(self.row_offsets, other.row_offsets)
            and np.array_equal(self.column_indices, other.column_indices))

    def __hash__(self) -> int:
        return hash((self.shape, self.block_shape, self.groups, self.n_blocks, self.column_indices[:64].tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        return BlockPattern, (self.shape, self.block_shape, self.row_offsets, self.column_indices, self.groups)

    def __sizeof__(self) -> int:
        arrays = (self._row_offsets, self._column_indices, *(self._index or ()))
        return object.__sizeof__(self) + sum(int(array.nbytes) for array in arrays)

    def __dask_tokenize__(self) -> str:
        facts = self.shape, self.block_shape, self.groups
        return token_of("BlockPattern", facts, self._row_offsets, self._column_indices)

    def __repr__(self) -> str:
        groups = f", groups={self.groups}" if self.groups > 1 else ""
        return (f"BlockPattern(shape={self.shape}, block_shape={self.block_shape}, n_blocks={self.n_blocks}, "
                f"density={self.density:.4g}{groups})")


def places_of(pattern: BlockPattern) -> Array:
    """Return the number of each stored block among all, row by row."""
    places: Array = pattern.row_indices.astype(np.int64) * pattern.block_columns + pattern.column_indices
    return places


def pattern_at(like: BlockPattern, places: Array) -> BlockPattern:
    """Return the pattern of the same matrix whose blocks have these numbers."""
    rows, columns = np.divmod(places, max(1, like.block_columns))
    return BlockPattern.from_pairs(like.shape, like.block_shape, rows, columns, like.groups)[0]


def room_for(n_blocks: int) -> int:
    """Return how many blocks a program for so many has room for: rounded up, by a sixteenth at most.

    Patterns of about one size share a program then.
    """
    step = max(0, n_blocks.bit_length() - 5)
    return -(-n_blocks >> step) << step


def as_extent(name: str, value: object, low: int, high: int = MAX_EXTENT) -> int:
    """Return a whole number within bounds, or raise."""
    return whole(name, value, low, high)


def as_shape(shape: object, groups: int = 1) -> tuple[int, int]:
    """Return (rows, columns), or raise."""
    if isinstance(shape, np.ndarray) and shape.shape == (2,):
        shape = shape.tolist()
    if not isinstance(shape, (tuple, list)) or len(shape) != 2:
        raise bad_argument("shape", shape, "two numbers, rows and columns")
    rows, columns = (as_extent("shape", extent, 0) for extent in shape)
    if rows * groups > MAX_EXTENT:
        raise bad_argument("shape", f"{groups} groups of {rows} rows", f"at most {MAX_EXTENT} rows in all")
    return rows, columns


def as_block_shape(block_shape: object) -> tuple[int, int]:
    """Return (block rows, block columns) from one number or two, or raise."""
    sides = block_shape
    if isinstance(sides, np.ndarray) and sides.size <= 2:
        sides = sides.tolist()
    sides = sides if isinstance(sides, (tuple, list)) else (sides, sides)
    if len(sides) != 2:
        raise bad_argument("block_shape", block_shape, "one number, or two: rows and columns of a block")
    rows, columns = (as_extent("block_shape", side, 1, MAX_BLOCK_SIDE) for side in sides)
    return rows, columns


def block_count(density: object, blocks: int) -> int:
    """Return how many of `blocks` blocks make up a density, rounded up."""
    share = real("density", density, "a number from 0 to 1", 0, 1)
    # Rounded first, so that 0.07 of 100 is 7 though the product is a little more.
    count = max(math.ceil(round(share * blocks, 6)), int(share > 0 and blocks > 0))
    if count > MAX_EXTENT:
        raise bad_argument("density", f"{share}, which is {count} blocks", f"at most {MAX_EXTENT} blocks")
    return count


def check_offsets(shape: tuple[int, int], block_rows: int) -> None:
    """Raise where the offsets of so many block rows do not fit in memory."""
    # Twice: they are counted, then frozen.
    check_memory("shape", f"{shape} with {block_rows} block rows", 2 * 8 * (block_rows + 1))


def index_array(name: str, values: object, below: int | None = None) -> Array:
    """Return whole numbers as a contiguous array: int64, or int32 once they are known to be less than `below`."""
    array = as_array(name, values, "a one-dimensional array of whole numbers")
    if array.ndim != 1:
        raise bad_argument(name, f"{array.ndim} dimensions", "a one-dimensional array of whole numbers")
    most = MAX_EXTENT + (below is None)  # offsets are one more than there are rows
    if array.size > most:
        raise bad_argument(name, f"{array.size} numbers", f"at most {most}: places of blocks are 32-bit numbers")
    wanted = np.int64 if below is None else np.int32
    if array.size == 0:
        return np.zeros(0, wanted)
    if array.dtype.kind not in "iu":
        raise bad_type(name, array.dtype, "whole numbers, for example int32 or int64")
    high = below if below is not None else 2**63
    if below is not None or array.dtype == np.uint64:
        least, most = int(array.min()), int(array.max())
        if least < 0 or most >= high:
            wrong = least if least < 0 else most
            raise bad_argument(name, wrong, f"numbers from 0 to {high - 1}" if high else "none: there is no block")
    if array.dtype != wanted or not array.flags.c_contiguous:
        check_memory(name, f"{array.size} numbers", 2 * array.size * np.dtype(wanted).itemsize)
    return np.require(array, wanted, ["C", "A"])


def rows_of_offsets(name: str, offsets: Array, rows: int, n_blocks: int) -> Array:
    """Return the row of each block from the offsets of the rows, which are checked, as int32."""
    if offsets.size != rows + 1:
        raise bad_argument(name, f"{offsets.size} offsets", f"one more than there are rows, {rows + 1}")
    counts = np.diff(offsets)
    if offsets[0] != 0 or offsets[-1] != n_blocks or np.any(counts < 0):
        raise bad_argument(name, offsets, f"offsets that do not descend, from 0 to {n_blocks}")
    return np.repeat(np.arange(rows, dtype=np.int32), counts)


def _fault(fault: str, position: int, offsets: Array, columns: Array, block_columns: int) -> Exception:
    name, allowed = _FAULTS[fault]
    allowed = allowed.format(last=block_columns - 1)
    if name == "row_offsets":
        return bad_argument(name, f"{offsets[position]} at position {position}", allowed)
    row = int(np.searchsorted(offsets, position, "right")) - 1
    return bad_argument(name, f"{columns[position]} at position {position}, in block row {row}", allowed)
