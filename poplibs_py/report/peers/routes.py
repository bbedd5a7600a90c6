"""Every way to get ``W @ X`` from the peers, behind one face."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ...checks import check_shape, instance
from ...errors import bad_argument, bad_type
from ...formats import Array, Format, format_of
from .mkl import load_mkl
from .versions import installed


@dataclass(frozen=True)
class Route:
    """One way for one peer to compute what it has already been given the operands of, in its own form.

    Attributes
    ----------
    library : str
        ``"numpy"``, ``"scipy"``, ``"mkl"``, ``"torch"``, ``"onnxruntime"`` or ``"openvino"``.
    method : str
        ``"dense"``, ``"csr_sparse"`` or ``"bsr_sparse"``, as the PopSparse benchmark spells them; of a convolution the
        order of axes.
    format : str
        Name of the format of the operands that it is given.
    run : callable
        Computes the product and returns it as that library's own array.
    """

    library: str
    method: str
    format: str
    run: Callable[[], Any]

    def result(self) -> tuple[Array, Format]:
        """Compute the product; return it in a float32 NumPy array, with the format that its library rounded it to."""
        got = self.run()
        if isinstance(got, np.ndarray):
            return got, format_of(got)
        return got.float().numpy(), format_of(str(got.dtype).removeprefix("torch."))


def dense_routes(w: Array, x: Array) -> list[Route]:
    """Ways to multiply two dense row-major matrices of one format.

    NumPy takes float32 alone: its float16 product is a scalar loop, a hundred times slower than converting first.
    torch takes float32, float16 and bfloat16; MKL those that its version has.

    Parameters
    ----------
    w, x : array, [M, K] and [K, N]
        C-contiguous, one dtype.
    """
    for operand, what in ((w, "w"), (x, "x")):
        instance(what, operand, np.ndarray, "a matrix")
        check_shape(what, operand, operand.ndim == 2, "a matrix")
    if (x.dtype, x.shape[0]) != (w.dtype, w.shape[1]):
        raise bad_argument("x", x, f"{w.shape[1]} rows of {w.dtype}, to be multiplied by w")
    name = format_of(w, "w").name
    routes = []
    if name == "float32":
        out = np.empty((w.shape[0], x.shape[1]), np.float32)
        routes.append(Route("numpy", "dense", name, partial(np.matmul, w, x, out=out)))
    mkl = load_mkl()
    if mkl is not None and name in mkl.formats:
        mkl_out = np.empty((w.shape[0], x.shape[1]), np.float32)
        routes.append(Route("mkl", "dense", name, partial(mkl.gemm, w, x, mkl_out)))
    if "torch" in installed() and name in ("float32", "float16", "bfloat16"):
        routes.append(_torch_dense(name, w, x))
    return routes


def sparse_routes(matrix: Any, x: Array) -> list[Route]:
    """Ways to multiply a sparse matrix by a dense one; all of them are float32, for no peer takes less.

    Parameters
    ----------
    matrix : scipy.sparse.bsr_array or csr_array, [M, K]
        float32. A BSR matrix is tried as BSR (square blocks) and as CSR; a CSR one as CSR.
    x : array, [K, N]
        C-contiguous float32.
    """
    if getattr(matrix, "format", None) not in ("bsr", "csr"):
        raise bad_type("matrix", matrix, "a bsr_array or csr_array of SciPy")
    instance("x", x, np.ndarray, "a matrix")
    if x.dtype != np.float32 or x.shape != (matrix.shape[1], *x.shape[1:2]):
        raise bad_argument("x", x, f"{matrix.shape[1]} rows of float32, to be multiplied by matrix")
    csr = matrix.tocsr() if matrix.format == "bsr" else matrix
    forms = [("csr_sparse", csr)]
    if matrix.format == "bsr" and matrix.blocksize[0] == matrix.blocksize[1] > 1:
        forms.append(("bsr_sparse", matrix))
    mkl, routes = load_mkl(), []
    for method, form in forms:
        routes.append(Route("scipy", method, "float32", partial(operator.matmul, form, x)))
        if mkl is not None:
            handle = mkl.sparse(form, columns=x.shape[1])
            out = np.empty((form.shape[0], x.shape[1]), np.float32)
            routes.append(Route("mkl", method, "float32", partial(handle.product, x, out)))
        if "torch" in installed():
            routes.append(_torch_sparse(method, form, x))
    return routes


def _torch_dense(name: str, w: Array, x: Array) -> Route:
    import torch

    dtype = getattr(torch, name)
    tw, tx = to_torch(w, dtype), to_torch(x, dtype)
    out = torch.empty((w.shape[0], x.shape[1]), dtype=dtype)
    return Route("torch", "dense", name, partial(torch.mm, tw, tx, out=out))


def to_torch(array: Array, dtype: Any) -> Any:
    import torch

    if array.dtype.itemsize == 2:
        return torch.from_numpy(array.view(np.int16)).view(dtype)
    return torch.from_numpy(array)


def _torch_sparse(method: str, form: Any, x: Array) -> Route:
    import torch

    rows, columns = torch.from_numpy(form.indptr.astype(np.int64)), torch.from_numpy(form.indices.astype(np.int64))
    values, tx = torch.from_numpy(form.data), torch.from_numpy(x)
    build = torch.sparse_csr_tensor if method == "csr_sparse" else torch.sparse_bsr_tensor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls its compressed layouts beta
        matrix = build(rows, columns, values, size=form.shape)
    return Route("torch", method, "float32", partial(operator.matmul, matrix, tx))
