"""PopLibs' own host storage of sparse matrices: COO, CSR and CSC, each with blocks.

The conventions are PopLibs': the values of one block lie together, row by row; row and column indices are element
positions of a block's top left corner, not block numbers; offsets count elements, not blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..checks import check_shape, one_of
from ..errors import bad_argument, bad_type
from ..formats import Array
from .pattern import BlockPattern, as_block_shape, as_shape, index_array, rows_of_offsets
from .values import numeric_array


@dataclass(frozen=True, eq=False)
class HostMatrix:
    """What PopLibs' three host classes have in common.

    Attributes
    ----------
    nz_values : numpy.ndarray, shape (blocks * block rows * block columns,)
    column_indices, row_indices : numpy.ndarray
        See the class at hand.
    num_rows, num_columns : int
    block_dimensions : (int, int)
        Default (1, 1).
    """

    nz_values: Array
    column_indices: Array
    row_indices: Array
    num_rows: int
    num_columns: int
    block_dimensions: tuple[int, int] = (1, 1)


class COOMatrix(HostMatrix):
    """PopLibs' ``popsparse::COOMatrix``: the element row and column of each block's top left corner."""


class CSRMatrix(HostMatrix):
    """PopLibs' ``popsparse::CSRMatrix``: `row_indices` are offsets, counted in elements, of each block row."""


class CSCMatrix(HostMatrix):
    """PopLibs' ``popsparse::CSCMatrix``: `column_indices` are offsets, counted in elements, of each block column."""


_KINDS: dict[str, type[HostMatrix]] = {"coo": COOMatrix, "csr": CSRMatrix, "csc": CSCMatrix}


def to_host(pattern: BlockPattern, numbers: Array, kind: str) -> HostMatrix:
    """Return blocks in PopLibs' storage: see `BlockSparseMatrix.to_host`."""
    one_of("kind", kind, tuple(_KINDS))
    if pattern.groups != 1:
        raise bad_argument("kind", f"{pattern.groups} groups", "one group: see BlockSparseMatrix.group")
    if pattern.is_ragged:
        raise bad_argument("kind", f"{pattern.block_shape} blocks in shape {pattern.shape}",
                           "blocks that divide the matrix, as PopLibs asks")
    high, wide = pattern.block_shape
    if kind == "csc":
        turned, order = pattern.transposed()
        rows, columns = turned.column_indices * np.int64(high), turned.row_offsets * (high * wide)
        numbers = numbers[order]
    else:
        columns = pattern.column_indices * np.int64(wide)
        rows = pattern.row_indices * np.int64(high) if kind == "coo" else pattern.row_offsets * (high * wide)
    return _KINDS[kind](numbers.reshape(-1), columns, rows, *pattern.shape, pattern.block_shape)


def from_host(storage: object) -> tuple[BlockPattern, Array]:
    """Return the pattern and blocks of PopLibs' storage: see `BlockSparseMatrix.from_host`."""
    if not isinstance(storage, (COOMatrix, CSRMatrix, CSCMatrix)):
        raise bad_type("storage", type(storage).__name__, "a COOMatrix, CSRMatrix or CSCMatrix")
    shape, sides = as_shape((storage.num_rows, storage.num_columns)), as_block_shape(storage.block_dimensions)
    if any(extent % side for extent, side in zip(shape, sides, strict=True)):
        raise bad_argument("block_dimensions", sides, f"numbers that divide the matrix, {shape}")
    values = numeric_array("nz_values", storage.nz_values)
    check_shape("nz_values", values, values.ndim == 1 and not values.size % (sides[0] * sides[1]),
                f"one dimension of blocks of {sides[0] * sides[1]}")
    blocks = values.reshape(-1, *sides)
    along = {"row_indices": (storage.row_indices, shape[0], sides[0]),
             "column_indices": (storage.column_indices, shape[1], sides[1])}
    found = {}
    for name, (given, extent, side) in along.items():
        is_offsets = isinstance(storage, {"row_indices": CSRMatrix, "column_indices": CSCMatrix}[name])
        if is_offsets:
            offsets = _whole(name, index_array(name, given), sides[0] * sides[1])
            found[name] = rows_of_offsets(name, offsets, extent // side, len(blocks))
        else:
            found[name] = _whole(name, index_array(name, given, extent), side)
            if found[name].size != len(blocks):
                raise bad_argument(name, f"{found[name].size} indices", f"one for each block, {len(blocks)}")
    pattern, order = BlockPattern.from_pairs(shape, sides, **found)
    return pattern, blocks if order is None else blocks[order]


def _whole(name: str, positions: Array, unit: int) -> Array:
    wrong = positions % unit != 0
    if wrong.any():
        raise bad_argument(name, int(positions[wrong][0]), f"multiples of {unit}")
    return positions // unit
