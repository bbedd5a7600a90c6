"""Patterns of a user's own, from files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import bad_argument
from ...popsparse import BlockSparseMatrix

__all__ = ["PatternFile"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class PatternFile:
    """Where the non-zero elements of a matrix in a file are.

    Attributes
    ----------
    name : str
        The file's name.
    shape : (int, int)
        Rows and columns.
    rows, columns : array of int
        Row and column of each stored element.
    """

    name: str
    shape: tuple[int, int]
    rows: Array
    columns: Array

    @classmethod
    def read(cls, path: str | Path) -> PatternFile:
        """Read a ``.smtx``, ``.mtx`` or ``.npz`` file.

        Raises
        ------
        InvalidArgumentError
            If there is no such file, it is of another kind, it is damaged, or it holds no non-zero.
        """
        try:
            matrix = BlockSparseMatrix.load(path, 1)  # type: ignore[attr-defined]
        except OSError as error:
            raise bad_argument("matrix", str(path), f"a file that can be read ({error.strerror or error})") from error
        if not matrix.n_blocks:
            raise bad_argument("matrix", str(path), "a matrix with at least one non-zero")
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.row_offsets))
        return cls(Path(path).name, matrix.shape, rows, matrix.column_indices.astype(np.int64))

    def blocks(self, side: int) -> tuple[Array, Array]:
        """Return the rows and columns of the square blocks that hold any element, in row order."""
        across = -(-self.shape[1] // side)
        return np.divmod(np.unique(self.rows // side * across + self.columns // side), across)
