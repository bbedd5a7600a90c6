"""Intel MKL through its shared library: dense products in four formats, sparse ones in CSR and BSR.

The library is found where ``pip install mkl`` puts it (beside the interpreter) or where the system's loader looks.
Arrays are handed over by address; the wrappers check shapes, formats and layout, because MKL does not.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import UnsupportedError, bad_argument
from ...formats import format_of

_ROW_MAJOR = 101
_NO_TRANSPOSE = 111
_SPARSE_NO_TRANSPOSE, _SPARSE_TRANSPOSE = 10, 11
_GENERAL = 20
_SEQUENTIAL, _GNU_THREADS = 1, 3
_EXPECTED_CALLS = 1000
_GEMMS = {"float32": "cblas_sgemm", "bfloat16": "cblas_gemm_bf16bf16f32", "float16": "cblas_gemm_f16f16f32",
          "e4m3": "cblas_gemm_e4m3e4m3f32", "e5m2": "cblas_gemm_e5m2e5m2f32"}


class _Description(ctypes.Structure):
    """MKL's ``struct matrix_descr``: a general matrix."""

    _fields_ = (("type", ctypes.c_int), ("mode", ctypes.c_int), ("diag", ctypes.c_int))


class Mkl:
    """MKL's functions, with arrays in and out.

    Attributes
    ----------
    formats : tuple of str
        Formats that `gemm` takes in this version of MKL.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self.formats = tuple(name for name, symbol in _GEMMS.items() if hasattr(library, symbol))

    def set_threads(self, count: int) -> None:
        """Use at most `count` threads from now on."""
        self._library.MKL_Set_Num_Threads(ctypes.c_int(count))

    def threads(self) -> int:
        """Return the most threads that a call may take."""
        return int(self._library.MKL_Get_Max_Threads())

    def gemm(self, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any],
             out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """Return ``a @ b`` in float32, both operands row-major and in one of `formats`.

        Parameters
        ----------
        a, b : array, [M, K] and [K, N]
            C-contiguous, of one dtype.
        out : array, [M, N], optional
            C-contiguous float32.
        """
        name = format_of(a, "a").name
        if name not in self.formats or b.dtype != a.dtype:
            raise bad_argument("a", a.dtype, f"one dtype for a and b, out of {', '.join(self.formats)}")
        _check_contiguous(a=a, b=b)
        if a.shape[1] != b.shape[0]:
            raise bad_argument("b", b.shape, f"{a.shape[1]} rows")
        m, k, n = a.shape[0], a.shape[1], b.shape[1]
        out = _output(out, m, n)
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        getattr(self._library, _GEMMS[name])(_ROW_MAJOR, _NO_TRANSPOSE, _NO_TRANSPOSE, m, n, k, one, _address(a),
                                             max(1, k), _address(b), max(1, n), zero, _address(out), max(1, n))
        return out

    def sparse(self, matrix: Any, *, columns: int) -> MklSparse:
        """Hand a SciPy CSR or BSR matrix (float32, square blocks) to MKL's inspector.

        Parameters
        ----------
        matrix : scipy.sparse.csr_array or bsr_array
            The left operand; its arrays are kept alive and read by MKL.
        columns : int
            Columns of the dense operand that the inspector should prepare for.
        """
        return MklSparse(self._library, matrix, columns)


class MklSparse:
    """A sparse matrix that MKL has analysed; ``product(x)`` multiplies it by a dense one."""

    def __init__(self, library: ctypes.CDLL, matrix: Any, columns: int) -> None:
        if matrix.format not in ("csr", "bsr") or matrix.dtype != np.float32:
            raise bad_argument("matrix", f"{matrix.format} {matrix.dtype}", "float32 CSR or BSR")
        self.shape: tuple[int, int] = matrix.shape
        self._library, self._handle = library, ctypes.c_void_p()
        self._values = np.ascontiguousarray(matrix.data)
        self._starts = np.ascontiguousarray(matrix.indptr, np.int32)
        self._columns = np.ascontiguousarray(matrix.indices, np.int32)
        starts = self._starts.ctypes.data
        arrays = [ctypes.c_void_p(p) for p in (starts, starts + 4, self._columns.ctypes.data, self._values.ctypes.data)]
        if matrix.format == "bsr":
            rows, side = matrix.blocksize
            if rows != side:
                raise bad_argument("matrix", matrix.blocksize, "square blocks")
            self._check(library.mkl_sparse_s_create_bsr(
                ctypes.byref(self._handle), 0, _ROW_MAJOR, self.shape[0] // side, self.shape[1] // side, side, *arrays))
        else:
            self._check(library.mkl_sparse_s_create_csr(ctypes.byref(self._handle), 0, *self.shape, *arrays))
        self._general = _Description(_GENERAL, 0, 0)
        self._check(library.mkl_sparse_set_mm_hint(
            self._handle, _SPARSE_NO_TRANSPOSE, self._general, _ROW_MAJOR, columns, _EXPECTED_CALLS),
            allow_unsupported=True)
        self._check(library.mkl_sparse_optimize(self._handle), allow_unsupported=True)

    def product(self, x: np.ndarray[Any, Any], out: np.ndarray[Any, Any] | None = None, *,
                transposed: bool = False) -> np.ndarray[Any, Any]:
        """Return ``matrix @ x``, or ``matrix.T @ x``, in float32.

        Parameters
        ----------
        x : array, [K, N]
            C-contiguous float32.
        out : array, [M, N], optional
            C-contiguous float32.
        transposed : bool, optional
            Use the transpose of the matrix.
        """
        rows, depth = self.shape[::-1] if transposed else self.shape
        _check_contiguous(x=x)
        if x.dtype != np.float32 or x.shape[0] != depth:
            raise bad_argument("x", f"{x.dtype} {x.shape}", f"float32 with {depth} rows")
        n = x.shape[1]
        out = _output(out, rows, n)
        operation = _SPARSE_TRANSPOSE if transposed else _SPARSE_NO_TRANSPOSE
        self._check(self._library.mkl_sparse_s_mm(
            operation, ctypes.c_float(1), self._handle, self._general, _ROW_MAJOR,
            _address(x), n, max(1, n), ctypes.c_float(0), _address(out), max(1, n)))
        return out

    def _check(self, status: int, *, allow_unsupported: bool = False) -> None:
        not_supported = 6
        if status and not (allow_unsupported and status == not_supported):
            raise UnsupportedError(f"MKL's sparse routine returned status {status}")

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._library.mkl_sparse_destroy(self._handle)


@cache
def load_mkl() -> Mkl | None:
    """Return MKL where its shared library can be loaded, else None."""
    folders = [Path(sys.prefix) / "lib", Path(sys.base_prefix) / "lib"]
    found = [str(path) for folder in folders for path in sorted(folder.glob("libmkl_rt.so*"))]
    for name in [*found, ctypes.util.find_library("mkl_rt")]:
        if not name:
            continue
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        if library.MKL_Set_Threading_Layer(_GNU_THREADS) == -1:
            library.MKL_Set_Threading_Layer(_SEQUENTIAL)
        return Mkl(library)
    return None


def _address(array: np.ndarray[Any, Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _check_contiguous(**arrays: np.ndarray[Any, Any]) -> None:
    for name, array in arrays.items():
        if array.ndim != 2 or not array.flags.c_contiguous:
            raise bad_argument(name, f"shape {array.shape}, strides {array.strides}", "a C-contiguous matrix")


def _output(out: np.ndarray[Any, Any] | None, rows: int, columns: int) -> np.ndarray[Any, Any]:
    if out is None:
        return np.empty((rows, columns), np.float32)
    if out.shape != (rows, columns) or out.dtype != np.float32 or not out.flags.c_contiguous:
        raise bad_argument("out", f"{out.dtype} {out.shape}", f"C-contiguous float32 ({rows}, {columns})")
    return out
