"""Patterns of a user's own, from files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import PoplibsError, bad_argument
from ...popsparse import BlockPattern, BlockSparseMatrix

__all__ = ["PatternFile"]


@dataclass(frozen=True, eq=False)
class PatternFile:
    """Where the stored elements of a matrix in a file are.

    Attributes
    ----------
    name : str
        The file's name.
    matrix : scipy.sparse.csr_array
        The matrix; its stored elements are the pattern.
    """

    name: str
    matrix: Any

    @classmethod
    def read(cls, path: str | Path) -> PatternFile:
        """Read a ``.smtx`` or ``.mtx`` file, or a ``.npz`` that SciPy or this library wrote.

        Raises
        ------
        InvalidArgumentError
            If there is no such file, it is of another kind, it is damaged, or it holds no non-zero.
        """
        try:
            matrix = BlockSparseMatrix.load(path).to_scipy("csr")
        except OSError as error:
            raise bad_argument("matrix", str(path), f"a file that can be read ({error.strerror or error})") from error
        except PoplibsError as error:
            raise bad_argument("matrix", f"{path} ({error})", "a .smtx, .mtx or .npz file that is whole") from error
        if not matrix.nnz:
            raise bad_argument("matrix", str(path), "a matrix with at least one stored element")
        return cls(Path(path).name, matrix)

    def pattern(self, side: int) -> BlockPattern:
        """Return the pattern of the square blocks that hold any stored element."""
        return BlockSparseMatrix.from_scipy(self.matrix, side).pattern
