"""Gradients of factors and of solutions of triangular systems: products and solves in FP32."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...config import settings
from ...errors import bad_argument, flag
from ...formats import FP32, Array
from ...ops import RESULT, Operand, Request, argument, modelled_target, op, result_format
from ...ops.parts import Part, results
from ...planner.explain import Composition
from ...target import Target
from .api import result
from .lower import Factoring, checked
from .lower import lower as lowered
from .params import FactorParams, Lies, asked_dtype, matrices

__all__ = ["SolveGradients", "cholesky_grad", "lu_grad", "qr_grad", "triangular_solve_grad"]

_BOUND = "poplin.factor.bound_gradients:"


class SolveGradients(NamedTuple):
    """What `triangular_solve_grad` returns."""

    a_grad: Any
    b_grad: Any


@op("poplin.cholesky_grad", bound=_BOUND + "cholesky_grad_bound", draws="testing.factor_calls:cholesky_grad_calls")
def cholesky_grad(grad: Any, factor: Any, *, lower: bool = True, out: Any = None, out_dtype: object = None,
                  target: Target | str | None = None) -> Any:
    """Return the gradient with respect to what `cholesky` factored.

    Parameters
    ----------
    grad : array_like [..., n, n]
        The gradient with respect to the factors; only their triangle is read.
    factor : array_like [..., n, n]
        What `cholesky` returned; only its triangle is read.
    lower : bool, optional
        As `cholesky` was given it.
    out, out_dtype, target
        As for `cholesky`; by default the result has the format that two such operands give.

    Returns
    -------
    numpy.ndarray [..., n, n]
        Symmetric: the gradient where changes of the matrix are symmetric.

    Raises
    ------
    InvalidArgumentError
        If there is a zero on the diagonal of a factor, or an argument is of the wrong value.

    Notes
    -----
    With L the lower factor and G its gradient, ``S = L'^-1 P L^-1``, P the lower triangle of ``L' G`` with half of its
    diagonal, and the result is ``(S + S') / 2`` (Murray, "Differentiation of the Cholesky decomposition", 2016).
    Products and substitutions are FP32, the result is rounded once. PopLibs has no gradient.

    Examples
    --------
    >>> from poplibs_py import poplin
    >>> poplin.cholesky_grad([[1.0]], poplin.cholesky([[4.0]]))
    array([[0.25]], dtype=float32)
    """
    g, l, lower = matrices("grad", grad, square=True), matrices("factor", factor, square=True), flag("lower", lower)  # noqa: E741
    if g.shape != l.shape:
        raise bad_argument("factor", f"shape {l.shape}", f"that of grad, {g.shape}")
    assert g.format is not None
    assert l.format is not None
    receiver = result(out, out_dtype, result_format(g.format, l.format), g.shape, (g, l))
    _, lacking = modelled_target(target, "poplin.cholesky_grad", lambda _: "of gradients")

    def run(grads: Array, factors: Array, made: Array) -> None:
        low, t = (_single(x if lower else x.swapaxes(-1, -2)) for x in (grads, factors))
        t = np.tril(t)
        half = np.tril(t.swapaxes(-1, -2) @ np.tril(low))
        half *= 1 - np.eye(t.shape[-1], dtype=np.float32) / 2
        s = _solve("factor", t, _solve("factor", t, half, transpose=True), left_side=False)
        with np.errstate(over="ignore"):
            made[...] = (s + s.swapaxes(-1, -2)) / 2

    return _request("cholesky_grad", run, (g, l), receiver, lacking)


@op("poplin.triangular_solve_grad", bound=_BOUND + "triangular_solve_grad_bound",
    draws="testing.factor_calls:triangular_solve_grad_calls", written=None)
def triangular_solve_grad(grad: Any, a: Any, x: Any, *, left_side: bool = True, lower: bool = True,
                          unit_diagonal: bool = False, transpose: bool = False, out: Any = None,
                          out_dtype: object = None, target: Target | str | None = None) -> Any:
    """Return the gradients with respect to both operands of `triangular_solve`.

    Parameters
    ----------
    grad : array_like
        The gradient with respect to the solutions, of their shape.
    a : array_like [..., n, n]
        The triangles, as `triangular_solve` was given them.
    x : array_like
        What it returned.
    left_side, lower, unit_diagonal, transpose : bool, optional
        As it was given them.
    out : tuple of two arrays, optional
        Where the gradients go; they may overlap the operands.
    out_dtype : dtype, Format or str, optional
        float32, float16 or bfloat16; by default what the operands' formats give.
    target : Target or str, optional
        The machine; by default this CPU. A modelled one is refused.

    Returns
    -------
    a_grad : numpy.ndarray [..., n, n]
        Zero outside the triangle, and on the diagonal where that counts as ones.
    b_grad : numpy.ndarray
        Of the shape of `grad`.

    Raises
    ------
    InvalidArgumentError
        If there is a zero on a diagonal that counts, or an argument is of the wrong value.

    Notes
    -----
    For ``t @ x = b`` these are ``-b_grad @ x.T`` and ``b_grad = t^-T grad``, products and substitution in FP32, rounded
    once. PopLibs has no gradient.

    Examples
    --------
    >>> from poplibs_py import poplin
    >>> a_grad, b_grad = poplin.triangular_solve_grad([[1.0]], [[2.0]], [[3.0]])
    >>> float(a_grad[0, 0]), float(b_grad[0, 0])
    (-1.5, 0.5)
    """
    g, t, y = matrices("grad", grad), matrices("a", a, square=True), matrices("x", x)
    left_side, lower, unit_diagonal, transpose = (
        flag(name, value) for name, value in (("left_side", left_side), ("lower", lower),
                                              ("unit_diagonal", unit_diagonal), ("transpose", transpose)))
    if y.shape != g.shape:
        raise bad_argument("x", f"shape {y.shape}", f"that of grad, {g.shape}")
    if t.shape[:-2] != g.shape[:-2] or t.shape[-1] != g.shape[-2 if left_side else -1]:
        raise bad_argument("a", f"shape {t.shape}", f"square matrices that fit grad, {g.shape}")
    formats = [operand.format for operand in (g, t, y) if operand.format is not None]
    fmt = asked_dtype(out_dtype, result_format(*formats))
    made = results(out, (Part(t.shape, fmt), Part(g.shape, fmt)), SolveGradients)
    _, lacking = modelled_target(target, "poplin.triangular_solve_grad", lambda _: "of gradients")

    def run(grads: Array, triangles: Array, solutions: Array, buffer: Array) -> None:
        tri, sol = _single(triangles), _single(solutions)
        b_grad = _solve("a", tri, _single(grads), left_side=left_side, lower=lower, unit_diagonal=unit_diagonal,
                        transpose=not transpose)
        pair = (b_grad, sol.swapaxes(-1, -2)) if left_side else (sol.swapaxes(-1, -2), b_grad)
        with np.errstate(over="ignore", invalid="ignore"):
            a_grad = -(pair[0] @ pair[1])
            a_grad = a_grad.swapaxes(-1, -2) if transpose else a_grad
            views = made.views(buffer)
            views[0][...] = (np.tril if lower else np.triu)(a_grad, (-1 if lower else 1) * unit_diagonal)
            views[1][...] = b_grad

    request = _request("triangular_solve_grad", run, (g, t, y), made.receiver, lacking)
    request.wrap = made.wrap
    return request


@op("poplin.lu_grad", bound=_BOUND + "lu_grad_bound", draws="testing.factor_calls:lu_grad_calls")
def lu_grad(l_grad: Any, u_grad: Any, perm: Any, l: Any, u: Any, *, out: Any = None,  # noqa: E741
            out_dtype: object = None, target: Target | str | None = None) -> Any:
    """Return the gradient with respect to what `lu` factored, where small changes leave the pivots as they are.

    Parameters
    ----------
    l_grad : array_like [..., m, k]
        The gradient with respect to `l`; only what is below its diagonal is read. k = min(m, n).
    u_grad : array_like [..., k, n]
        The gradient with respect to `u`; only its triangle is read.
    perm : array_like of int32 or int64 [..., m]
        As `lu` returned it.
    l, u : array_like
        What `lu` returned, of the shapes of their gradients.
    out, out_dtype, target
        As for `cholesky`; by default the result has the format that such operands give.

    Returns
    -------
    numpy.ndarray [..., m, n]

    Raises
    ------
    InvalidArgumentError
        If there is a zero on the diagonal of `u`, `perm` is no permutation, or an argument is of the wrong value.

    Notes
    -----
    With L1 and U1 the leading squares, L2 the rows and U2 the columns after them, and a prime for gradients: what is
    below the diagonal of ``L1^T L1' - U2' U2^T``, and the rest of ``U1' U1^T - L2^T L2'``, make M, and the gradient of
    the permuted matrix is ``L1^-T M U1^-T`` beside ``L2' U1^-T`` below or ``L1^-T U2'`` at the right. Products and
    substitutions are FP32, the result is rounded once. PopLibs has no gradient.

    Examples
    --------
    >>> from poplibs_py import poplin
    >>> poplin.lu_grad([[0.0]], [[3.0]], *poplin.lu([[2.0]]))
    array([[3.]], dtype=float32)
    """
    gl, gu, low, up = (matrices(name, x) for name, x in (("l_grad", l_grad), ("u_grad", u_grad), ("l", l), ("u", u)))
    _same_shape("l", low, "l_grad", gl)
    _same_shape("u", up, "u_grad", gu)
    (m, k), n = low.shape[-2:], up.shape[-1]
    if up.shape[:-1] != (*low.shape[:-2], k) or k != min(m, n):
        raise bad_argument("u", f"shape {up.shape}", f"the one that lu returns beside l, {low.shape}")
    order = argument("perm", perm, "whole numbers")
    got, allowed = f"{order.array.dtype}, shape {order.shape}", f"whole numbers, shape {low.shape[:-1]}"
    if order.array.dtype.kind not in "iu" or order.shape != low.shape[:-1]:
        raise bad_argument("perm", got, allowed)
    formats = [x.format for x in (gl, gu, low, up) if x.format is not None]
    receiver = result(out, out_dtype, result_format(*formats), (*low.shape[:-1], n), (gl, gu, low, up))
    _, lacking = modelled_target(target, "poplin.lu_grad", lambda _: "of gradients")

    def run(l_grads: Array, u_grads: Array, rows: Array, lowers: Array, uppers: Array, made: Array) -> None:
        if not np.array_equal(np.sort(rows, -1), np.broadcast_to(np.arange(m), rows.shape)):
            raise bad_argument("perm", "rows that repeat or are not there", "a permutation of the rows of each matrix")
        t, v = np.tril(_single(lowers), -1), np.triu(_single(uppers))
        t[..., range(k), range(k)] = 1
        below, right = np.tril(_single(l_grads), -1), np.triu(_single(u_grads))
        with np.errstate(over="ignore", invalid="ignore"):
            first, last = slice(None, k), slice(k, None)
            of_l = _transposed(t[..., first, :]) @ below[..., first, :] - right[..., last] @ _transposed(v[..., last])
            of_u = right[..., first] @ _transposed(v[..., first]) - _transposed(t[..., last, :]) @ below[..., last, :]
            middle = np.tril(of_l, -1) + np.triu(of_u)
            high = np.concatenate([middle, below[..., k:, :]], -2)
            high = _solve("u", v[..., :k], high, left_side=False, lower=False, transpose=True)
            wide = np.concatenate([high[..., :k, :], right[..., k:]], -1)
            wide = _solve("l", t[..., :k, :], wide, unit_diagonal=True, transpose=True)
            whole = np.concatenate([wide, high[..., k:, :]], -2) if m > k else wide
            back = np.argsort(rows, -1)[..., None]
            made[...] = np.take_along_axis(whole, back, -2)

    return _request("lu_grad", run, (gl, gu, order, low, up), receiver, lacking)


@op("poplin.qr_grad", bound=_BOUND + "qr_grad_bound", draws="testing.factor_calls:qr_grad_calls")
def qr_grad(q_grad: Any, r_grad: Any, q: Any, r: Any, *, out: Any = None, out_dtype: object = None,
            target: Target | str | None = None) -> Any:
    """Return the gradient with respect to what `qr` factored, in its reduced form.

    Parameters
    ----------
    q_grad, q : array_like [..., m, k]
        The gradient with respect to `q`, and what `qr` returned. k = min(m, n).
    r_grad, r : array_like [..., k, n]
        The gradient with respect to `r`, and what `qr` returned; only triangles are read.
    out, out_dtype, target
        As for `cholesky`; by default the result has the format that such operands give.

    Returns
    -------
    numpy.ndarray [..., m, n]

    Raises
    ------
    InvalidArgumentError
        If there is a zero on the diagonal of `r`, or an argument is of the wrong value, such as the `q` of a complete
        form, which has no gradient: columns without one of the matrix may turn freely.

    Notes
    -----
    With R1 the leading square, R2 the columns after it and a prime for gradients: ``B = Q' + Q R2 R2'^T``, M the lower
    triangle of ``R1 R1'^T - B^T Q`` and its mirror image, and the gradient is ``(B + Q M) R1^-T`` beside ``Q R2'``
    (Walter and Lehmann, "Algorithmic differentiation of linear algebra functions", 2010). Products and substitutions
    are FP32, the result is rounded once. PopLibs has no gradient.

    Examples
    --------
    >>> from poplibs_py import poplin
    >>> poplin.qr_grad([[0.0], [0.0]], [[1.0]], *poplin.qr([[3.0], [4.0]]))
    array([[-0.6],
           [-0.8]], dtype=float32)
    """
    gq, gr, t, v = (matrices(name, x) for name, x in (("q_grad", q_grad), ("r_grad", r_grad), ("q", q), ("r", r)))
    _same_shape("q", t, "q_grad", gq)
    _same_shape("r", v, "r_grad", gr)
    (m, k), n = t.shape[-2:], v.shape[-1]
    if v.shape[:-1] != (*t.shape[:-2], k) or k != min(m, n):
        raise bad_argument("r", f"shape {v.shape}", f"the one that qr returns beside q, {t.shape}, in its reduced form")
    formats = [x.format for x in (gq, gr, t, v) if x.format is not None]
    receiver = result(out, out_dtype, result_format(*formats), (*t.shape[:-1], n), (gq, gr, t, v))
    _, lacking = modelled_target(target, "poplin.qr_grad", lambda _: "of gradients")

    def run(q_grads: Array, r_grads: Array, orthogonal: Array, triangles: Array, made: Array) -> None:
        x, b = _single(orthogonal), _single(q_grads)
        upper, right = np.triu(_single(triangles)), np.triu(_single(r_grads))
        with np.errstate(over="ignore", invalid="ignore"):
            if n > k:
                b = b + x @ (upper[..., k:] @ _transposed(right[..., k:]))
            middle = np.tril(upper[..., :k] @ _transposed(right[..., :k]) - _transposed(b) @ x)
            middle += _transposed(np.tril(middle, -1))
            made[..., :k] = _solve("r", upper[..., :k], b + x @ middle, left_side=False, lower=False, transpose=True)
            made[..., k:] = x @ right[..., k:]

    return _request("qr_grad", run, (gq, gr, t, v), receiver, lacking)


def _request(name: str, run: Any, operands: tuple[Operand, ...], receiver: Any, lacking: str) -> Request:
    def told() -> tuple[str, str, Composition]:
        shape = operands[0].shape
        kernels = f"NumPy, {_solving(shape, True, True, False, False).kernel}"
        return Composition(f"{name} {list(shape)}", kernels).told()

    return Request(run, (*operands, RESULT), receiver, told, lacking=lacking, steady=True)


def _same_shape(name: str, x: Operand, other: str, grad: Operand) -> None:
    if x.shape != grad.shape:
        raise bad_argument(name, f"shape {x.shape}", f"that of {other}, {grad.shape}")


def _transposed(x: Array) -> Array:
    return x.swapaxes(-1, -2)


def _single(x: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.ascontiguousarray(x, np.float32)


def _solve(name: str, t: Array, b: Array, *, left_side: bool = True, lower: bool = True, unit_diagonal: bool = False,
           transpose: bool = False) -> Array:
    """Solve triangular systems of FP32 arrays; singular ones are refused by this name."""
    made = np.empty(b.shape, np.float32)
    if b.size:
        solving = _solving(b.shape, left_side, lower, unit_diagonal, transpose)
        checked(solving, name)(np.ascontiguousarray(t), np.ascontiguousarray(b), made)
    return made


def _solving(shape: tuple[int, ...], left_side: bool, lower: bool, unit_diagonal: bool, transpose: bool) -> Factoring:
    """Return what solves systems of FP32 operands in C order, with right-hand sides of a shape."""
    swapped = not left_side
    n, k = shape[-2:] if left_side else shape[:-3:-1]
    lies = Lies(FP32, shape[-2], shape[-1], swapped, 1)
    operands = Lies(FP32, n, n, transpose != swapped, 0), lies, replace(lies, operand=2)
    upper = lower == (transpose != swapped)
    params = FactorParams("solve", shape[:-2], n, k, operands, upper=upper, unit=unit_diagonal)
    return lowered(params, settings.num_threads)
