"""SciPy's sparse matrices in and out, and those of torch and PyData's sparse in."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..checks import one_of
from ..errors import InvalidArgumentError, InvalidTypeError, bad_argument, bad_type
from ..formats import Array
from ..formats.arrays import as_array
from ..formats.format import preset_of
from ..target.host_memory import check_memory
from .elements import blocks_of_elements, elements_of_blocks
from .pattern import BlockPattern, as_block_shape, as_shape, index_array, rows_of_offsets

KINDS = ("bsr", "csr", "csc", "coo")

_ALLOWED = ("a sparse matrix or array in BSR, CSR, CSC or COO, SciPy's, torch's or PyData's; "
            "BlockSparseMatrix.from_dense takes dense ones")


def from_scipy(matrix: Any, block_shape: object = None) -> tuple[BlockPattern, Array]:
    """Return the pattern and blocks of a SciPy matrix, or another's: see `BlockSparseMatrix.from_scipy`."""
    matrix = _of_others(matrix)
    kind = getattr(matrix, "format", None)
    if not isinstance(kind, str) or kind not in KINDS or not hasattr(matrix, "data"):
        raise bad_type("matrix", kind if isinstance(kind, str) else type(matrix).__name__, _ALLOWED)
    if len(matrix.shape) != 2:
        raise bad_argument("matrix", f"{len(matrix.shape)} dimensions", "2")
    values = as_array("matrix", matrix.data, "a matrix of float32 or float64")
    if values.dtype not in (np.float32, np.float64):
        raise bad_type("matrix", f"dtype {values.dtype}", "float32 or float64: SciPy has no narrower ones")
    shape = as_shape(matrix.shape)
    sides = as_block_shape(values.shape[1:] if kind == "bsr" else 1)
    wanted = sides if block_shape is None else as_block_shape(block_shape)
    extents = tuple(-(-extent // side) for extent, side in zip(shape, sides, strict=True))
    rows, columns = _positions(matrix, kind, extents, len(values))
    blocks = values[: rows.size].reshape(-1, *sides)
    if wanted == sides and not _any_twice(rows, columns):
        pattern, order = BlockPattern.from_pairs(shape, sides, rows, columns)
        return pattern, blocks if order is None else blocks[order]
    inner_rows, inner_columns = np.indices(sides).reshape(2, 1, -1)
    rows = rows[:, None] * np.int64(sides[0]) + inner_rows
    columns = columns[:, None] * np.int64(sides[1]) + inner_columns
    return blocks_of_elements(shape, wanted, rows.ravel(), columns.ravel(), blocks.ravel())


def _of_others(matrix: Any) -> Any:
    """Return torch's and PyData's sparse matrices as SciPy's with the same arrays; anything else as it is."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(matrix, torch.Tensor):
        return _of_torch(matrix)
    if type(matrix).__module__.partition(".")[0] != "sparse":
        return matrix
    if hasattr(matrix, "tocoo"):  # PyData's compressed one
        matrix = matrix.tocoo()
    if not (hasattr(matrix, "coords") and hasattr(matrix, "fill_value")) or len(matrix.shape) != 2:
        raise bad_type("matrix", f"{type(matrix).__name__} of {len(matrix.shape)} dimensions", _ALLOWED)
    if matrix.fill_value != 0:
        raise bad_argument("matrix", f"fill value {matrix.fill_value}", "0 where nothing is stored")
    row, col = matrix.coords
    return SimpleNamespace(format="coo", data=_wide(matrix.data), row=row, col=col, shape=matrix.shape)


def _of_torch(tensor: Any) -> Any:
    if tensor.requires_grad:
        raise bad_type("matrix", "a tensor that requires a gradient", f"{_ALLOWED}: see its detach()")
    kind = str(tensor.layout).removeprefix("torch.sparse_").removeprefix("torch.")
    if kind not in KINDS or tensor.dense_dim():
        dense = " with dense dimensions" if kind in KINDS else ""
        raise bad_type("matrix", f"a tensor of layout {tensor.layout}{dense}", _ALLOWED)
    if kind == "coo":
        tensor = tensor.coalesce()
    values = _wide(as_array("matrix", tensor.values(), _ALLOWED))
    common = {"format": kind, "data": values, "shape": tuple(tensor.shape)}
    if kind == "coo":
        row, col = tensor.indices().numpy() if tensor.ndim == 2 else (None, None)
        return SimpleNamespace(row=row, col=col, **common)
    names = ("ccol_indices", "row_indices") if kind == "csc" else ("crow_indices", "col_indices")
    indptr, indices = (getattr(tensor, name)().numpy() for name in names)
    return SimpleNamespace(indptr=indptr, indices=indices, **common)


def _wide(values: Array) -> Array:
    """Values that SciPy's matrices cannot hold, or that need no more, as float32 or float64."""
    if values.dtype.kind in "iub":
        return values.astype(np.float64)
    return values.astype(np.float32) if preset_of(values.dtype) is not None else values


def from_npz(path: Path, parts: Mapping[str, Array], block_shape: object) -> tuple[BlockPattern, Array]:
    """Return the pattern and blocks of the arrays that ``scipy.sparse.save_npz`` wrote to a file."""
    if block_shape is not None:
        as_block_shape(block_shape)  # which is no fault of the file
    try:
        kind = bytes(parts["format"][()]).decode("ascii")
        if kind not in KINDS:
            raise bad_argument("format", kind, ", ".join(KINDS))
        data = parts["data"]
        if data.ndim != (3 if kind == "bsr" else 1):
            raise bad_argument("data", f"{data.ndim} dimensions", "3 in BSR, 1 in other formats")
        numbers = data.astype(np.float64) if data.dtype.kind in "iub" else data
        names = ("row", "col") if kind == "coo" else ("indptr", "indices")
        indices = {name: index_array(name, parts[name]) for name in names}
        stored = SimpleNamespace(format=kind, data=numbers, shape=tuple(parts["shape"].tolist()), **indices)
        return from_scipy(stored, block_shape)
    except (InvalidArgumentError, InvalidTypeError, KeyError, TypeError, ValueError) as error:
        raise bad_argument("path", f"{path} ({error})", "a file that scipy.sparse.save_npz wrote") from None


def _positions(matrix: Any, kind: str, extents: tuple[int, ...], n_values: int) -> tuple[Array, Array]:
    if kind == "coo":
        rows, columns = matrix.row, matrix.col
        if not len(rows) == len(columns) == n_values:
            raise bad_argument("matrix", f"{len(rows)} row and {len(columns)} column indices", f"{n_values} of each")
        return index_array("row_indices", rows, extents[0]), index_array("column_indices", columns, extents[1])
    major, minor = extents[::-1] if kind == "csc" else extents
    offsets = index_array("indptr", matrix.indptr)
    # SciPy lets its arrays be longer than the last offset.
    stored = int(offsets[-1]) if offsets.size else 0
    if stored > min(n_values, len(matrix.indices)):
        raise bad_argument("indptr", f"a last offset of {stored}", f"at most the number of values, {n_values}")
    rows = rows_of_offsets("indptr", offsets, major, stored)
    columns = index_array("indices", matrix.indices[:stored], minor)
    return (columns, rows) if kind == "csc" else (rows, columns)


def _any_twice(rows: Array, columns: Array) -> bool:
    keys = rows.astype(np.int64) << 32 | columns
    if np.all(keys[1:] > keys[:-1]):
        return False
    keys.sort()
    return bool(np.any(keys[1:] == keys[:-1]))


def to_scipy(pattern: BlockPattern, numbers: Array, kind: str) -> Any:
    """Return a SciPy array of `kind` with every stored element: see `BlockSparseMatrix.to_scipy`."""
    from scipy import sparse

    one_of("kind", kind, KINDS)
    if pattern.groups != 1:
        raise bad_argument("kind", f"{pattern.groups} groups", "one group: see BlockSparseMatrix.group")
    if kind == "bsr":
        if pattern.is_ragged:
            raise bad_argument("kind", f"'bsr' with blocks of {pattern.block_shape} in shape {pattern.shape}",
                               "'csr', 'csc' or 'coo' where blocks reach over the edge")
        parts = (numbers, pattern.column_indices.copy(), pattern.row_offsets.copy())
        return sparse.bsr_array(parts, shape=pattern.shape, blocksize=pattern.block_shape)
    lines = {"csr": pattern.shape[0], "csc": pattern.shape[1]}.get(kind, 0)
    check_memory("kind", f"{kind!r} of {lines} offsets", 24 * lines)
    rows, columns, values = elements_of_blocks(pattern, numbers)
    elements: Any = sparse.coo_array((values, (rows, columns)), shape=pattern.shape)
    return elements.asformat(kind)
