"""Files: ``.npz``, our own and SciPy's, and the DLMC's ``.smtx`` (pattern only); see `matrix_market` for ``.mtx``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..checks import flag
from ..errors import InvalidArgumentError, InvalidTypeError, bad_argument, bad_type, described
from ..files import ArrayFile, replacing
from ..formats import Array
from ..ops import Seed
from ..target.host_memory import check_memory
from .convert import blocks_of_dense
from .elements import blocks_of_elements
from .matrix_market import read_mtx
from .pattern import BlockPattern, as_block_shape, as_shape, index_array, rows_of_offsets
from .values import as_format, random_values

STORED = ("shape", "block_shape", "groups", "row_offsets", "column_indices", "codes", "format", "scale",
          "is_transposed")
"""What a matrix's own ``.npz`` holds."""

SUFFIXES = (".npz", ".smtx", ".mtx")
VERSION = 1
_LONGEST_INTEGER = 19


def write_npz(path: Path, parts: dict[str, Any]) -> None:
    """Write named arrays, numbers and strings."""
    with replacing(path) as file:
        np.savez(file, version=VERSION, **parts)


def read_npz(path: Path, names: tuple[str, ...]) -> dict[str, Array]:
    """Read the arrays of these names, or all that SciPy wrote, without running anything that the file holds."""
    with path.open("rb") as raw:
        try:
            file = ArrayFile(raw, compressed=True)
            check_memory("path", str(path), 2 * file.nbytes)  # what was read, and what is made of it
            if is_scipys(file):
                return dict(file)
            version = file["version"]
            if version.shape or version.dtype.kind not in "iu" or version != VERSION:
                raise bad_argument("path", f"{path} of version {described(version[()])}", f"version {VERSION}")
            return {name: file[name] for name in names}
        except InvalidArgumentError:
            raise
        except Exception as error:  # a damaged archive fails in as many ways as it has bytes
            allowed = "a file that BlockSparseMatrix.save or scipy.sparse.save_npz wrote"
            raise bad_argument("path", f"{path} ({error})", allowed) from None


def from_npz(file: Path, parts: Mapping[str, Array], rebuild: Callable[..., Any]) -> Any:
    """Return what `rebuild` makes of a pattern, values, their format, scale and whether they are transposed."""
    try:
        pattern = BlockPattern(parts["shape"], parts["block_shape"], parts["row_offsets"], parts["column_indices"],
                               parts["groups"][()])
        format = as_format(str(parts["format"]))
        codes = parts["codes"]
        if codes.dtype != format.code_dtype:
            raise bad_type("codes", f"dtype {codes.dtype}", f"{format.code_dtype} for format {format.name}")
        is_transposed = flag("is_transposed", parts["is_transposed"][()])
        assert format.dtype is not None
        values = np.require(codes, None, ["C", "A"]).view(format.dtype)
        return rebuild(pattern, values, format, parts["scale"], is_transposed)
    except (InvalidArgumentError, InvalidTypeError, ValueError) as error:
        raise bad_argument("path", f"{file} ({error})", "a file that BlockSparseMatrix.save wrote") from None


def is_scipys(parts: Mapping[str, Array]) -> bool:
    """Whether these are the arrays of a file that ``scipy.sparse.save_npz`` wrote."""
    return "data" in parts


def blocks_in(file: Path, block_shape: object, seed: Seed) -> tuple[BlockPattern, Array]:
    """Return the pattern and the values of a ``.smtx``, drawn with a seed, or a ``.mtx``, in blocks of 1 by default."""
    sides = as_block_shape(1 if block_shape is None else block_shape)
    if file.suffix.lower() == ".smtx":
        shape, rows, columns = read_smtx(file)
        values = random_values(rows.size, rows.size / max(1, shape[0]), seed)
        return blocks_of_elements(shape, sides, rows, columns, values)
    found = read_mtx(file, sides[0])
    return blocks_of_dense(found, sides, None, None) if isinstance(found, np.ndarray) else (
        blocks_of_elements(found[0], sides, *found[1:]))


def read_smtx(path: Path) -> tuple[tuple[int, int], Array, Array]:
    """Return the shape, rows and columns of the elements of a DLMC pattern.

    Line 1 holds rows, columns and non-zeros, line 2 the row offsets, line 3 the column indices (arXiv 2006.10901).
    """
    lines = path.read_bytes().rstrip().split(b"\n")
    if len(lines) > 3:
        raise bad_argument("path", f"{path} of {len(lines)} lines", "a .smtx file of three lines")
    sizes, offsets, columns = (_integers(path, lines, number) for number in (1, 2, 3))
    if sizes.size != 3:
        raise bad_argument("path", f"{path}, line 1: {sizes.size} numbers", "three: rows, columns and non-zeros")
    n_rows, n_columns, count = sizes.tolist()
    if columns.size != count:
        allowed = f"{count}, as its first line says"
        raise bad_argument("path", f"{path}, line 3: {columns.size} column indices", allowed)
    line = 1
    try:
        shape = as_shape((n_rows, n_columns))
        line = 2
        row_indices = rows_of_offsets("row_offsets", offsets, n_rows, count)
        line = 3
        column_indices = index_array("column_indices", columns, n_columns)
        _check_once(row_indices, column_indices)
        return shape, row_indices, column_indices
    except (InvalidArgumentError, InvalidTypeError) as error:
        raise bad_argument("path", f"{path}, line {line} ({error})", "a .smtx file that fits together") from None


def _check_once(rows: Array, columns: Array) -> None:
    """Raise if a row, of which each has its elements side by side, has a column twice."""
    order = np.lexsort((columns, rows))
    twice = np.flatnonzero((np.diff(rows[order]) == 0) & (np.diff(columns[order]) == 0))
    if twice.size:
        row, column = rows[order[twice[0]]], columns[order[twice[0]]]
        raise bad_argument("column_indices", f"column {column} twice in row {row}", "each column once in a row")


def _integers(path: Path, lines: list[bytes], number: int) -> Array:
    """Return the whole numbers of a line, counted from one; one that is not there is empty."""
    line = lines[number - 1] if number <= len(lines) else b""
    words = line.replace(b",", b" ").split()
    try:
        if b"_" in line:  # which Python's numbers may have
            raise ValueError
        return np.array(words, np.int64)
    except (ValueError, OverflowError):
        wrong = next((word for word in words if not word.isdigit() or len(word) >= _LONGEST_INTEGER), b"")
        shown = repr(wrong[:_LONGEST_INTEGER].decode(errors="replace"))
        raise bad_argument("path", f"{path}, line {number}: {shown}", "whole numbers of 64 bits") from None


def write_smtx(path: Path, matrix: Any) -> None:
    """Write where the elements of a SciPy CSR array are as a DLMC file."""
    matrix.sort_indices()
    sizes = (*matrix.shape, matrix.nnz)
    offsets, columns = (" ".join(map(str, indices.tolist())) for indices in (matrix.indptr, matrix.indices))
    with replacing(path) as file:
        file.write(f"{', '.join(map(str, sizes))}\n{offsets}\n{columns}\n".encode())
