"""Files: our own ``.npz`` and the DLMC's ``.smtx`` (pattern only); see `matrix_market` for ``.mtx``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidArgumentError, bad_argument, bad_type
from .pattern import as_shape, index_array, rows_of_offsets

__all__ = ["as_path", "read_npz", "read_smtx", "write_npz", "write_smtx"]

Array = np.ndarray[Any, Any]

SUFFIXES = (".npz", ".smtx", ".mtx")
VERSION = 1


def as_path(path: object) -> Path:
    """Return the path of a file of a kind that is known, or raise."""
    if not isinstance(path, (str, os.PathLike)):
        raise bad_type("path", type(path).__name__, "a path")
    found = Path(path)
    if found.suffix not in SUFFIXES:
        raise bad_argument("path", str(path), f"a name that ends in {', '.join(SUFFIXES)}")
    return found


def write_npz(path: Path, parts: dict[str, Any]) -> None:
    """Write named arrays, numbers and strings; a file that exists is replaced only once all is written."""
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as file:
            np.savez(file, version=VERSION, **parts)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def read_npz(path: Path, names: tuple[str, ...]) -> dict[str, Array]:
    """Read the arrays of these names, without running anything that the file holds."""
    with path.open("rb") as raw:
        try:
            with np.load(raw, allow_pickle=False) as file:
                if int(file["version"]) != VERSION:
                    raise bad_argument("path", f"{path} of version {int(file['version'])}", f"version {VERSION}")
                return {name: file[name] for name in names}
        except InvalidArgumentError:
            raise
        except Exception as error:  # a damaged archive fails in as many ways as it has bytes
            raise bad_argument("path", f"{path} ({error})", "a file that BlockSparseMatrix.save wrote") from None


def read_smtx(path: Path) -> tuple[tuple[int, int], Array, Array]:
    """Return the shape, rows and columns of the elements of a DLMC pattern.

    Line 1 holds rows, columns and non-zeros, line 2 the row offsets, line 3 the column indices (arXiv 2006.10901).
    """
    lines = path.read_bytes().split(b"\n")
    try:
        numbers = [np.array(line.replace(b",", b" ").split(), dtype=np.int64) for line in lines[:3]]
        rows, columns, count = (int(number) for number in numbers[0])
    except (ValueError, OverflowError) as error:
        raise bad_argument("path", f"{path} ({error})", "a .smtx file: sizes, row offsets and column indices") from None
    if len(numbers) < 3 or any(line.strip() for line in lines[3:]):
        raise bad_argument("path", f"{path} with {len(lines)} lines", "a .smtx file of three lines")
    shape = as_shape((rows, columns))
    if numbers[2].size != count:
        raise bad_argument("path", f"{path} with {numbers[2].size} column indices", f"{count}, as its first line says")
    row_indices = rows_of_offsets("row_offsets", numbers[1], rows, count)
    return shape, row_indices, index_array("column_indices", numbers[2], columns)


def write_smtx(path: Path, matrix: Any) -> None:
    """Write where the elements of a SciPy CSR array are as a DLMC file."""
    matrix.sort_indices()
    sizes = (*matrix.shape, matrix.nnz)
    offsets, columns = (" ".join(map(str, indices.tolist())) for indices in (matrix.indptr, matrix.indices))
    path.write_text(f"{', '.join(map(str, sizes))}\n{offsets}\n{columns}\n")
