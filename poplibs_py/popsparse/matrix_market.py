"""MatrixMarket files of real numbers, read without trust: SciPy's reader ends the interpreter on some damaged ones.

The format is that of Boisvert, Pozo and Remington, "The Matrix Market exchange formats" (NISTIR 5935, 1996).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import bad_argument
from ..files import replacing
from ..formats import Array
from ._text import read_numbers
from .pattern import as_shape, check_offsets

Elements = tuple[tuple[int, int], Array, Array, Array]

_SYMMETRIES = {"general": 0, "symmetric": 1, "skew-symmetric": -1}
_SHOWN = 40
_LINE = re.compile(rb"[^\r\n]*")
_COLUMNS = {"real": 3, "integer": 3, "pattern": 2}


def read_mtx(path: Path, side: int = 1) -> Array | Elements:
    """Return what a file holds.

    Parameters
    ----------
    path : Path
    side : int, optional
        Rows of the blocks that the elements are for: a file that claims more of them than fit in memory is refused.

    Returns
    -------
    numpy.ndarray or (shape, rows, columns, values)
        A dense matrix of float64, or the elements of a sparse one: rows and columns from 0, values of float64. The
        other half of a symmetric matrix is filled in; the elements of a pattern are ones.

    Raises
    ------
    InvalidArgumentError
        If the file is not as the format says: elements above the diagonal of a symmetric matrix, or on that of a
        skew-symmetric one, are refused too.
    """
    try:
        body = path.read_bytes()
        banner, at = _line(body, 0)
        kind, field, symmetry = _banner(banner)
        words: list[bytes] = []
        while at < len(body) and not words:
            line, at = _line(body, at)
            words = [] if line.lstrip().startswith(b"%") else line.split()
        if any(b"_" in word for word in words):  # which Python's numbers may have
            raise ValueError(f"sizes of {b' '.join(words)[:_SHOWN].decode(errors='replace')!r}")
        sizes = [int(word) for word in words]
        if kind == "array":
            return _dense(sizes, field, symmetry, body, at)
        return _sparse(sizes, field, symmetry, body, at, side)
    except (ValueError, OverflowError) as error:
        raise bad_argument("path", f"{path} ({error})", "a MatrixMarket file of real numbers") from None


def _line(body: bytes, at: int) -> tuple[bytes, int]:
    """Return a line, and where the next begins."""
    found = _LINE.match(body, at)
    assert found is not None
    return found.group(), found.end() + 1


def _banner(line: bytes) -> tuple[str, str, int]:
    words = line.decode("ascii").lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise ValueError("no MatrixMarket banner")
    kind, field, symmetry = words[2:]
    if kind not in ("coordinate", "array") or field not in _COLUMNS or symmetry not in _SYMMETRIES:
        raise ValueError(f"a matrix that is {kind}, {field} and {symmetry}")
    if kind == "array" and field == "pattern":
        raise ValueError("a pattern without coordinates")
    return kind, field, _SYMMETRIES[symmetry]


def _numbers(body: bytes, at: int, wanted: int, what: str, field: str) -> Array:
    most = (len(body) - at + 1) // 2
    if wanted > most:  # before anything of the size that the file claims is made
        raise ValueError(f"at most {most} numbers for {what}")
    numbers = np.empty(wanted)
    found = read_numbers(body, at, numbers)
    if found != wanted:
        raise ValueError(f"{found} numbers for {what}")
    if field == "integer" and not (np.isfinite(numbers) & (numbers == np.floor(numbers))).all():
        raise ValueError("an element that is no whole number, in a field of integers")
    return numbers


def _dense(sizes: list[int], field: str, symmetry: int, body: bytes, at: int) -> Array:
    rows, columns = _checked(sizes, 2, symmetry)
    stored = rows * columns if not symmetry else rows * (rows + symmetry) // 2
    numbers = _numbers(body, at, stored, f"{stored} elements", field)
    full = np.ones((columns, rows), bool)  # the file goes column by column
    if symmetry:
        full = np.triu(full, 1 if symmetry < 0 else 0)
    dense = np.zeros((columns, rows))
    dense[full] = numbers
    if symmetry:
        dense += symmetry * np.triu(dense, 1).T
    return np.ascontiguousarray(dense.T)


def _sparse(sizes: list[int], field: str, symmetry: int, body: bytes, at: int, side: int) -> Elements:
    rows, columns, count = _checked(sizes, 3, symmetry)
    n_columns = _COLUMNS[field]
    check_offsets((rows, columns), -(-rows // side))
    if count < 0:
        raise ValueError(f"{count} elements")
    numbers = _numbers(body, at, count * n_columns, f"{count} elements", field).reshape(count, n_columns)
    row, column = _places(numbers[:, 0], rows), _places(numbers[:, 1], columns)
    if row is None or column is None:
        raise ValueError(f"an element outside of {rows} rows and {columns} columns")
    value = np.ascontiguousarray(numbers[:, 2]) if n_columns == 3 else np.ones(count)
    if symmetry:
        if (row < column + (symmetry < 0)).any():
            raise ValueError(f"an element {'on or ' * (symmetry < 0)}above the diagonal, which symmetry leaves out")
        other = row != column
        row, column = np.concatenate([row, column[other]]), np.concatenate([column, row[other]])
        value = np.concatenate([value, symmetry * value[other]])
    return (rows, columns), row, column, value


def _places(numbers: Array, extent: int) -> Array | None:
    """Return numbers from 1 to an extent as indices from 0, or None if there are others."""
    with np.errstate(invalid="ignore"):
        whole = numbers.astype(np.int64)
    if whole.size and (whole.min() < 1 or whole.max() > extent or (whole != numbers).any()):
        return None
    return (whole - 1).astype(np.int32)


def _checked(sizes: list[int], wanted: int, symmetry: int) -> list[int]:
    if len(sizes) != wanted:
        raise ValueError(f"{len(sizes)} sizes where there are {wanted}")
    as_shape(sizes[:2])
    if symmetry and sizes[0] != sizes[1]:
        raise ValueError(f"a symmetric matrix of {sizes[0]} rows and {sizes[1]} columns")
    return sizes


def write_mtx(path: Path, matrix: Any) -> None:
    """Write the elements of a SciPy COO array; FP32 values are read back bit for bit."""
    lines = ["%%MatrixMarket matrix coordinate real general", f"{matrix.shape[0]} {matrix.shape[1]} {matrix.nnz}"]
    elements = zip(matrix.row.tolist(), matrix.col.tolist(), matrix.data.tolist(), strict=True)
    lines += [f"{row + 1} {column + 1} {value:.9g}" for row, column, value in elements]
    with replacing(path) as file:
        file.write(("\n".join(lines) + "\n").encode())
