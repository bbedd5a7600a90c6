"""LU and QR: factorisations with several results."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...checks import one_of
from ...config import settings
from ...formats import FP32
from ...ops import Operand, Request, op, wide_format
from ...ops.parts import Part, Results, results
from ...target import TargetLike
from .lower import lower
from .params import FactorLayout, FactorParams, laid, matrices


class LUFactors(NamedTuple):
    """What `lu` returns: ``a[perm] = l @ u``."""

    perm: Any
    l: Any  # noqa: E741
    u: Any


class QRFactors(NamedTuple):
    """What `qr` returns: ``a = q @ r``."""

    q: Any
    r: Any


@op("poplin::experimental::LUFactorization", bound="poplin.factor.bound", draws="testing.factor_calls", written=None,
    lacks="that pivots")
def lu(a: Any, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Factor matrices with partial pivoting: ``a[perm] = l @ u`` (``poplin::experimental::LUFactorization``).

    Parameters
    ----------
    a : array_like [..., m, n]
        float32, float16 or bfloat16, of any strides; lists become float32.
    out : tuple of three arrays, optional
        Where `perm`, `l` and `u` go; they may overlap `a`.
    out_dtype : dtype, Format or str, optional
        float32, float16 or bfloat16: that of `l` and `u`; by default float32 whatever `a` is, as PopLibs has it.
    target : Target or str, optional
        The machine; by default this CPU. A modelled one is refused: PopLibs' vertices do not pivot, and their cycles
        are not known.

    Returns
    -------
    perm : numpy.ndarray of int32 [..., m]
        The rows of `a` in the order in which ``l @ u`` has them; those without a pivot follow in their order.
    l : numpy.ndarray [..., m, k]
        k = min(m, n); zero above a diagonal of ones, at most 1 in magnitude below it.
    u : numpy.ndarray [..., k, n]
        Zero below the diagonal.

    Notes
    -----
    A singular matrix has factors too, and a zero on the diagonal of `u`; a NaN or an infinity leaves the rows of `u`
    before its own as they are. All is FP32, the results are rounded once.
    With u = 2^-24 the factors are those of a matrix that differs from ``a[perm]`` by at most ``gamma(k + 2) |l|
    |u|``: Higham, "Accuracy and Stability of Numerical Algorithms", theorem 9.3. Among candidates of the same
    magnitude any may be the pivot. Matrices up to 64 x 64 have the same bits at every instruction-set level and for any
    number of threads; larger ones are factored by LAPACK.

    Examples
    --------
    >>> perm, l, u = poplin.lu([[1.0, 2.0], [4.0, 4.0]])
    >>> perm, l[1, 0], u[1, 1]
    (array([1, 0], dtype=int32), np.float32(0.25), np.float32(1.0))
    """
    x = matrices("a", a)
    m, n = x.shape[-2:]
    k, front, fmt = min(m, n), x.shape[:-2], wide_format("out_dtype", out_dtype, FP32)
    parts = Part((*front, m), np.dtype(np.int32)), Part((*front, m, k), fmt), Part((*front, k, n), fmt)
    made = results(out, parts, LUFactors)
    x, lies = laid(x, 0)
    operands = lies, *(FactorLayout(*layout, operand=number) for layout, number in (
        ((fmt, m, k), 2), ((fmt, k, n), 3), ((FP32, 1, m), 1)))
    return _request(FactorParams("lu", front, m, n, operands), x, made)


@op("poplin::experimental::QRFactorization", bound="poplin.factor.bound", draws="testing.factor_calls", written=None,
    lacks="whose cycles are known")
def qr(a: Any, *, mode: str = "reduced", out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Factor matrices into orthogonal and triangular ones: ``a = q @ r`` (``poplin::experimental::QRFactorization``).

    Parameters
    ----------
    a : array_like [..., m, n]
        float32, float16 or bfloat16, of any strides; lists become float32.
    mode : {"reduced", "complete"}, optional
        Whether `q` has k = min(m, n) columns, or m, as PopLibs' has.
    out : tuple of two arrays, optional
        Where `q` and `r` go; they may overlap `a`.
    out_dtype : dtype, Format or str, optional
        float32, float16 or bfloat16; by default float32 whatever `a` is.
    target : Target or str, optional
        The machine; by default this CPU. A modelled one is refused: the cycles of PopLibs' vertices are not known.

    Returns
    -------
    q : numpy.ndarray [..., m, k] or [..., m, m]
        Its columns are orthonormal.
    r : numpy.ndarray [..., k, n] or [..., m, n]
        Zero below the diagonal.

    Notes
    -----
    By Householder's reflections, as in LAPACK: the diagonal of `r` may be negative. All is FP32, the results are
    rounded once. `q` is within ``sqrt(n) gamma(c m n)`` of a matrix with orthonormal columns, and each column of ``q
    @ r`` within ``gamma(c m n)`` times its length of that of `a`, c a small constant: Higham, "Accuracy and Stability
    of Numerical Algorithms", theorem 19.4. Many small matrices are factored side by side, with the same bits at every
    instruction-set level and for any number of threads; large ones by LAPACK.

    Examples
    --------
    >>> q, r = poplin.qr([[3.0, 1.0], [4.0, 2.0]])
    >>> r[0, 0], r.shape
    (np.float32(-5.0), (2, 2))
    """
    x = matrices("a", a)
    one_of("mode", mode, ("reduced", "complete"))
    m, n = x.shape[-2:]
    front, fmt = x.shape[:-2], wide_format("out_dtype", out_dtype, FP32)
    width = m if mode == "complete" else min(m, n)
    made = results(out, (Part((*front, m, width), fmt), Part((*front, width, n), fmt)), QRFactors)
    x, lies = laid(x, 0)
    operands = lies, FactorLayout(fmt, m, width, operand=1), FactorLayout(fmt, width, n, operand=2)
    return _request(FactorParams("qr", front, m, n, operands, width), x, made)


def _request(params: FactorParams, x: Operand, made: Results) -> Request:
    factoring = lower(params, settings.num_threads)
    return Request.to(made, factoring.run, (x,), lambda: (str(params), factoring.kernel, factoring))
