"""Cholesky factors and triangular systems: `cholesky`, `triangular_solve`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...checks import check_shape, flag
from ...config import settings
from ...formats import Format
from ...ops import RESULT, Operand, Placed, Receiver, Request, op, place_of, receive, result_format, wide_format
from ...planner import Memory
from ...program import temporary
from ...target import TargetLike
from .lower import checked, lower
from .modelled import lacks, modelled_request
from .params import FactorLayout, FactorParams, laid, matrices
from .plan import block_options


@op("poplin::cholesky", bound="poplin.factor.bound", draws="testing.factor_calls", reference="poplin.factor.reference")
def cholesky(a: Any, *, lower: bool = True, out: Any = None, out_dtype: object = None, block_size: int | None = None,
             available_memory_proportion: float | None = None, strict_memory: bool = False,
             target: TargetLike = None, options: Mapping[str, Any] | None = None) -> Any:
    """Factor symmetric positive definite matrices: ``a = l @ l.T``, or ``a = u.T @ u`` (``poplin::cholesky``).

    Parameters
    ----------
    a : array_like [..., n, n]
        float32, float16 or bfloat16, of any strides; lists become float32. Only the triangle that `lower` names is
        read: the other may hold anything.
    lower : bool, optional
        True (default) for the lower factor of the lower triangle, False for the upper one of the upper triangle.
    out : array [..., n, n], optional
        Where the factors go; it may be `a`, or overlap it. It does not change where the call is refused.
    out_dtype : dtype, Format or str, optional
        float32, float16 or bfloat16: the result's; by default that of `a`.
    block_size : int, optional
        Order of the blocks that a modelled machine's vertices take: 8 by default. Nothing changes with it here.
    available_memory_proportion : float, optional
        Share of a modelled machine's tile memory that temporaries of the products may take, by default PopLibs' 0.6.
    strict_memory : bool, optional
        Raise `MemoryLimitError` where a product keeps to no limit; otherwise a `MemoryLimitWarning` says so.
    target : Target or str, optional
        The machine; by default this CPU. A modelled one factors float32 to float32 and float16 to float16.
    options : mapping, optional
        PopLibs' ``blockSize`` and ``availableMemoryProportion``, and others of `matmul`, for a modelled machine. This
        CPU only checks them.

    Returns
    -------
    numpy.ndarray [..., n, n]
        Zero outside the triangle.

    Raises
    ------
    InvalidArgumentError
        If a matrix is not positive definite, or not finite: the message says which of the batch. Nothing has been
        written then.
    InvalidTypeError, UnsupportedError
        If an argument is of another kind, or the machine has no vertex for the call.

    Notes
    -----
    All is FP32, and the result is rounded once. With n the order and u = 2^-24 the computed factor is the exact one of
    a matrix whose elements differ from those of `a` by at most ``g / (1 - g) sqrt(a[i, i] a[j, j])``, g = gamma(n + 3):
    Higham, "Accuracy and Stability of Numerical Algorithms", theorem 10.5, with a rounding more for the reciprocals of
    the diagonal. Many small matrices are factored side by side, with the same bits at every instruction-set level and
    for any number of threads; large ones by LAPACK. PopLibs returns NaN where a matrix is not positive definite. On a
    modelled machine the factor is that of PopLibs' blocks and of planned products: see "What a modelled run computes".

    Examples
    --------
    >>> poplin.cholesky([[4.0, 2.0], [2.0, 10.0]])
    array([[2., 0.],
           [1., 3.]], dtype=float32)
    """
    x, lower = matrices("a", a, square=True), flag("lower", lower)
    receiver = result(out, out_dtype, x.format, x.shape)
    chosen = block_options("cholesky", options, block_size, Memory(available_memory_proportion, strict_memory))
    placed = place_of(cholesky, target, lambda machine: lacks(receiver.format, x) or machine)
    x, lies = laid(x, 0)
    n = x.shape[-1]
    params = FactorParams("cholesky", x.shape[:-2], n, n, (lies, written(receiver, 1)), upper=not lower)
    if placed.plan is not None:
        return modelled_request(params, "a", (x,), receiver, placed.plan, *chosen)
    return request(params, "a", (x,), receiver, placed)


@op("poplin::triangularSolve", bound="poplin.factor.bound", draws="testing.factor_calls",
    reference="poplin.factor.reference")
def triangular_solve(a: Any, b: Any, *, left_side: bool = True, lower: bool = True, unit_diagonal: bool = False,
                     transpose: bool = False, out: Any = None, out_dtype: object = None, block_size: int | None = None,
                     available_memory_proportion: float | None = None, strict_memory: bool = False,
                     target: TargetLike = None, options: Mapping[str, Any] | None = None) -> Any:
    """Solve triangular systems: ``a @ x = b``, or ``x @ a = b`` (``poplin::triangularSolve``).

    Parameters
    ----------
    a : array_like [..., n, n]
        float32, float16 or bfloat16, of any strides; lists become float32. Only the triangle that `lower` names is
        read: the other, and the diagonal where it is `unit_diagonal`, may hold anything.
    b : array_like [..., n, k] or [..., k, n]
        Right-hand sides, of the same batch.
    left_side : bool, optional
        True (default) for ``a @ x = b`` with b [..., n, k], False for ``x @ a = b`` with b [..., k, n].
    lower : bool, optional
        Which triangle of `a` is meant.
    unit_diagonal : bool, optional
        Whether its diagonal counts as ones.
    transpose : bool, optional
        Solve with the transpose of the triangle in the place of `a`.
    out : array of the shape of `b`, optional
        Where the result goes; it may be `b`, or overlap any operand. It does not change where the call is refused.
    out_dtype : dtype, Format or str, optional
        float32, float16 or bfloat16; by default float32 where an operand is or where FP16 meets BF16, else the format
        of 16 bits that is there.
    block_size : int, optional
        Order of the blocks that a modelled machine's vertices take: 64 by default. Nothing changes with it here.
    available_memory_proportion : float, optional
        Share of a modelled machine's tile memory that temporaries of the products may take, by default PopLibs' 0.6.
    strict_memory : bool, optional
        Raise `MemoryLimitError` where a product keeps to no limit; otherwise a `MemoryLimitWarning` says so.
    target : Target or str, optional
        The machine; by default this CPU. A modelled one takes operands and a result of one format, float32 or float16.
    options : mapping, optional
        PopLibs' ``blockSize`` and ``availableMemoryProportion``, and others of `matmul`, for a modelled machine. This
        CPU only checks them.

    Returns
    -------
    numpy.ndarray
        x, of the shape of `b`.

    Raises
    ------
    InvalidArgumentError
        If there is a zero on a diagonal that counts, and a right-hand side to solve for: the message says in which
        matrix of the batch. Nothing has been written then.
    InvalidTypeError, UnsupportedError
        If an argument is of another kind, or the machine has no vertex for the call.

    Notes
    -----
    All is FP32, by substitution, and the result is rounded once. Each computed column solves a system whose triangle
    differs from that of `a` by at most ``gamma(n + 2) |a|``, element by element: Higham, "Accuracy and Stability of
    Numerical Algorithms", theorem 8.5. Systems up to order 256 with more than 8 right-hand sides each, and many small
    systems, have the same bits at every instruction-set level and for any number of threads; others are solved by BLAS.
    On a modelled machine the solution is that of PopLibs' blocks and of planned products: see "What a modelled run
    computes".

    Examples
    --------
    >>> poplin.triangular_solve([[2.0, 0.0], [1.0, 4.0]], [[2.0], [9.0]])
    array([[1.],
           [2.]], dtype=float32)
    """
    x, y = matrices("a", a, square=True), matrices("b", b)
    left_side, lower, unit_diagonal, transpose = (
        flag(name, value) for name, value in (("left_side", left_side), ("lower", lower),
                                              ("unit_diagonal", unit_diagonal), ("transpose", transpose)))
    n, shape = x.shape[-1], y.shape
    allowed = f"[..., {n}, k]" if left_side else f"[..., k, {n}]"
    check_shape("b", shape, shape[:-2] == x.shape[:-2] and shape[-2 if left_side else -1] == n,
                f"{allowed} with the batch of a, {x.shape[:-2]}")
    receiver = result(out, out_dtype, result_format(x, y), shape)
    chosen = block_options("solve", options, block_size, Memory(available_memory_proportion, strict_memory))
    placed = place_of(triangular_solve, target, lambda machine: lacks(receiver.format, x, y) or machine)
    # x a = b is a' x' = b'
    swapped = not left_side
    first, a_lies = laid(x, 0, transpose != swapped)
    second, b_lies = laid(y, 1, swapped)
    operands = a_lies, b_lies, written(receiver, 2, swapped)
    upper = lower == (transpose != swapped)
    sides = shape[-1 if left_side else -2]
    params = FactorParams("solve", shape[:-2], n, sides, operands, upper=upper, unit=unit_diagonal)
    if placed.plan is not None:
        return modelled_request(params, "a", (first, second), receiver, placed.plan, *chosen)
    return request(params, "a", (first, second), receiver, placed)


def result(out: Any, out_dtype: object, default: Format, shape: tuple[int, ...]) -> Receiver:
    """Return what receives the result: for an `out` a copy, which becomes `out` when all matrices are done."""
    receiver = receive("out", out, shape, out_dtype, default, contiguous=True)
    wide_format("out_dtype" if out is None else "out", receiver.format)
    if out is None or receiver.view is not None:
        return receiver
    return replace(receiver, array=temporary(shape, receiver.array.dtype), view=receiver.array)


def written(receiver: Receiver, operand: int, transposed: bool = False) -> FactorLayout:
    """Return how the matrices of a result lie."""
    rows, columns = receiver.array.shape[-2:]
    return FactorLayout(receiver.format, rows, columns, transposed, operand)


def request(params: FactorParams, name: str, operands: tuple[Operand, ...], receiver: Receiver,
            placed: Placed[Any]) -> Request:
    """Describe a call that may find a matrix of the operand of this name that it refuses."""
    made = lower(params, settings.num_threads)
    return Request(checked(made, name), (*operands, RESULT), receiver, lambda: (str(params), made.kernel, made),
                   placed=placed)
