"""Gradients of factors and of solutions of triangular systems: products and solves in FP32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ... import popops
from ...checks import check_shape, flag
from ...config import settings
from ...errors import bad_argument
from ...formats import Array, format_of
from ...ops import Operand, Receiver, Request, op, result_format, whole_operand, wide_format
from ...ops.parts import Part, Results, alone, results
from ...planner.explain import Composition
from ...popops.sequence import SequenceBuilder
from ...target import TargetLike
from ..product.api import matmul
from .api import result
from .lower import Factoring, refusal_of
from .lower import lower as lowered
from .params import FactorLayout, FactorParams, matrices

__all__ = ["SolveGradients", "cholesky_grad", "lu_grad", "qr_grad", "triangular_solve_grad"]


class SolveGradients(NamedTuple):
    """What `triangular_solve_grad` returns."""

    a_grad: Any
    b_grad: Any


@op(bound="poplin.factor.bound_gradients", draws="testing.factor_calls", lacks="of gradients")
def cholesky_grad(grad: Any, factor: Any, *, lower: bool = True, out: Any = None, out_dtype: object = None,
                  target: TargetLike = None) -> Any:
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
    >>> poplin.cholesky_grad([[1.0]], poplin.cholesky([[4.0]]))
    array([[0.25]], dtype=float32)
    """
    g, l, lower = matrices("grad", grad, square=True), matrices("factor", factor, square=True), flag("lower", lower)  # noqa: E741
    check_shape("factor", l, g.shape == l.shape, f"that of grad, {g.shape}")
    receiver = result(out, out_dtype, result_format(g, l), g.shape)

    steps = _Steps((g, l), receiver)
    grads, factors, made = steps.operands
    if not lower:
        grads, factors = _transposed(grads), _transposed(factors)
    t = steps.triangle(factors)
    half = steps.product(_transposed(t), steps.triangle(grads))
    steps.write(half, lambda p, share, kept: popops.select(p * share, 0.0, kept), half,
                1 - np.eye(half.shape[-1], dtype=np.float32) / 2, _triangle(half))
    s = steps.solve("factor", t, steps.solve("factor", t, half, transpose=True), left_side=False)
    steps.write(made, lambda a, b: (a + b) / 2, s, _transposed(s))
    return steps.request("cholesky_grad")


@op(bound="poplin.factor.bound_gradients", draws="testing.factor_calls", written=None)
def triangular_solve_grad(grad: Any, a: Any, x: Any, *, left_side: bool = True, lower: bool = True,
                          unit_diagonal: bool = False, transpose: bool = False, out: Any = None,
                          out_dtype: object = None, target: TargetLike = None) -> Any:
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
    >>> a_grad, b_grad = poplin.triangular_solve_grad([[1.0]], [[2.0]], [[3.0]])
    >>> float(a_grad[0, 0]), float(b_grad[0, 0])
    (-1.5, 0.5)
    """
    g, t, y = matrices("grad", grad), matrices("a", a, square=True), matrices("x", x)
    left_side, lower, unit_diagonal, transpose = (
        flag(name, value) for name, value in (("left_side", left_side), ("lower", lower),
                                              ("unit_diagonal", unit_diagonal), ("transpose", transpose)))
    check_shape("x", y, y.shape == g.shape, f"that of grad, {g.shape}")
    check_shape("a", t, t.shape[:-2] == g.shape[:-2] and t.shape[-1] == g.shape[-2 if left_side else -1],
                f"square matrices that fit grad, {g.shape}")
    fmt = wide_format("out_dtype", out_dtype, result_format(g, t, y))
    made = results(out, (Part(t.shape, fmt), Part(g.shape, fmt)), SolveGradients)

    steps = _Steps((g, t, y), made)
    grads, triangles, solutions, a_grad, b_grad = steps.operands
    found = steps.solve("a", triangles, grads, left_side=left_side, lower=lower, unit_diagonal=unit_diagonal,
                        transpose=not transpose)
    pair = found, _transposed(steps.single(solutions))
    product = steps.product(*(pair if left_side else pair[::-1]))
    steps.write(a_grad, lambda p, kept: popops.select(-p, 0.0, kept), _transposed(product) if transpose else product,
                _triangle(a_grad, lower, int(unit_diagonal)))
    steps.write(b_grad, lambda x: x, found)
    return steps.request("triangular_solve_grad")


@op(bound="poplin.factor.bound_gradients", draws="testing.factor_calls", lacks="of gradients")
def lu_grad(l_grad: Any, u_grad: Any, perm: Any, l: Any, u: Any, *, out: Any = None,  # noqa: E741
            out_dtype: object = None, target: TargetLike = None) -> Any:
    """Return the gradient with respect to what `lu` factored, where small changes leave the pivots as they are.

    Parameters
    ----------
    l_grad : array_like [..., m, k]
        The gradient with respect to `l`; only what is below its diagonal is read. k = min(m, n).
    u_grad : array_like [..., k, n]
        The gradient with respect to `u`; only its triangle is read.
    perm : array_like of int [..., m]
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
    >>> poplin.lu_grad([[0.0]], [[3.0]], *poplin.lu([[2.0]]))
    array([[3.]], dtype=float32)
    """
    gl, gu, low, up = (matrices(name, x) for name, x in (("l_grad", l_grad), ("u_grad", u_grad), ("l", l), ("u", u)))
    _same_shape("l", low, "l_grad", gl)
    _same_shape("u", up, "u_grad", gu)
    (m, k), n = low.shape[-2:], up.shape[-1]
    check_shape("u", up, up.shape[:-1] == (*low.shape[:-2], k) and k == min(m, n),
                f"the one that lu returns beside l, {low.shape}")
    order = whole_operand("perm", perm)
    check_shape("perm", order, order.shape == low.shape[:-1], f"that of a column of l, {low.shape[:-1]}")
    receiver = result(out, out_dtype, result_format(gl, gu, low, up), (*low.shape[:-1], n))

    steps = _Steps((gl, gu, order, low, up), receiver)
    l_grads, u_grads, rows, lowers, uppers, made = steps.operands
    sources = steps.sources(rows)
    below, right = steps.triangle(l_grads, diagonal=0.0), steps.triangle(u_grads, lower=False)
    t, v = steps.triangle(lowers[..., :k, :], diagonal=1.0), steps.triangle(uppers[..., :k], lower=False)
    of_l = steps.product(_transposed(t), below[..., :k, :])
    of_u = steps.product(right[..., :k], _transposed(v))
    if n > k:
        steps.subtract(of_l, steps.product(right[..., k:], _transposed(steps.single(uppers[..., k:]))))
    if m > k:
        steps.subtract(of_u, steps.product(_transposed(steps.single(lowers[..., k:, :])), below[..., k:, :]))
    steps.write(below[..., :k, :], lambda a, b, kept: popops.select(a, b, kept), of_l, of_u, _triangle(of_l, True, 1))
    high = steps.solve("u", v, below, left_side=False, lower=False, transpose=True)
    steps.write(right[..., :k], lambda x: x, high[..., :k, :])
    wide = steps.solve("l", t, right, unit_diagonal=True, transpose=True)
    if m > k:
        steps.write(high[..., :k, :], lambda x: x, wide)
        wide = high
    steps.take_rows(made, wide, sources)
    return steps.request("lu_grad", perm=2)


@op(bound="poplin.factor.bound_gradients", draws="testing.factor_calls", lacks="of gradients")
def qr_grad(q_grad: Any, r_grad: Any, q: Any, r: Any, *, out: Any = None, out_dtype: object = None,
            target: TargetLike = None) -> Any:
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
    >>> poplin.qr_grad([[0.0], [0.0]], [[1.0]], *poplin.qr([[3.0], [4.0]]))
    array([[-0.6],
           [-0.8]], dtype=float32)
    """
    gq, gr, t, v = (matrices(name, x) for name, x in (("q_grad", q_grad), ("r_grad", r_grad), ("q", q), ("r", r)))
    _same_shape("q", t, "q_grad", gq)
    _same_shape("r", v, "r_grad", gr)
    (m, k), n = t.shape[-2:], v.shape[-1]
    check_shape("r", v, v.shape[:-1] == (*t.shape[:-2], k) and k == min(m, n),
                f"the one that qr returns beside q, {t.shape}, in its reduced form")
    receiver = result(out, out_dtype, result_format(gq, gr, t, v), (*t.shape[:-1], n))

    steps = _Steps((gq, gr, t, v), receiver)
    q_grads, r_grads, orthogonal, triangles, made = steps.operands
    x, b = steps.single(orthogonal), steps.room(orthogonal.shape)
    lead, right = steps.triangle(triangles[..., :k], lower=False), steps.triangle(r_grads, lower=False)
    steps.write(b, lambda a: a, q_grads)
    if n > k:
        beside = _transposed(right[..., k:])
        steps.add(b, steps.product(x, steps.product(steps.single(triangles[..., k:]), beside)))
        steps.write(made[..., k:], lambda a: a, steps.product(x, right[..., k:]))
    middle = steps.product(lead, _transposed(right[..., :k]))
    steps.subtract(middle, steps.product(_transposed(b), x))
    mirrored = steps.room(middle.shape)
    steps.write(mirrored, lambda a, b, kept: popops.select(a, b, kept), middle, _transposed(middle), _triangle(middle))
    steps.add(b, steps.product(x, mirrored))
    steps.write(made[..., :k], lambda a: a, steps.solve("r", lead, b, left_side=False, lower=False, transpose=True))
    return steps.request("qr_grad")


class _Steps(SequenceBuilder):
    """The steps of a gradient, each rounded to FP32, on operands in C order and what receives the result or several."""

    def __init__(self, operands: tuple[Operand, ...], to: Receiver | Results) -> None:
        self._given, self._made = tuple(x.in_c_order() for x in operands), alone(to)
        arrays = (np.empty(x.shape, x.array.dtype) if x.gathered else x.array for x in self._given)
        super().__init__(*arrays, *self._made.arrays)
        self._solves: list[tuple[str, Factoring]] = []

    def write(self, result: Array, step: Callable[..., Any], *arrays: Array) -> None:
        """Write what a step makes of arrays to another."""
        self.call(popops.map, step, *arrays, out=result)

    def add(self, x: Array, y: Array) -> None:
        """Add to an array."""
        self.write(x, lambda a, b: a + b, x, y)

    def subtract(self, x: Array, y: Array) -> None:
        """Subtract from an array."""
        self.write(x, lambda a, b: a - b, x, y)

    def single(self, x: Array) -> Array:
        """Return numbers in FP32, in C order."""
        if x.dtype == np.float32 and x.flags.c_contiguous:
            return x
        made = self.room(x.shape)
        self.write(made, lambda a: a, x)
        return made

    def triangle(self, x: Array, lower: bool = True, diagonal: float | None = None) -> Array:
        """Return triangles in FP32, zero elsewhere, with this diagonal in the place of their own."""
        made, (rows, columns) = self.room(x.shape), x.shape[-2:]
        rest = np.eye(rows, columns, dtype=np.float32) * np.float32(diagonal or 0.0)
        self.write(made, lambda a, b, kept: popops.select(a, b, kept), x, rest,
                   _triangle(x, lower, int(diagonal is not None)))
        return made

    def product(self, x: Array, y: Array) -> Array:
        """Return ``x @ y``."""
        made: Array = self.call(matmul, x, y)
        return made

    def solve(self, name: str, t: Array, b: Array, *, left_side: bool = True, lower: bool = True,
              unit_diagonal: bool = False, transpose: bool = False) -> Array:
        """Return solutions of triangular systems; singular ones are refused by this name."""
        made = self.room(b.shape)
        swapped, front = not left_side, b.shape[:-2]
        n, k = b.shape[-2:] if left_side else b.shape[:-3:-1]
        like = [FactorLayout(format_of(x.dtype), x.shape[-2], x.shape[-1], change, i)
                for i, (x, change) in enumerate(((t, transpose != swapped), (b, swapped), (made, swapped)))]
        upper = lower == (transpose != swapped)
        params = FactorParams("solve", front, n, k, tuple(like), upper=upper, unit=unit_diagonal)
        factoring = lowered(params, settings.num_threads)
        if b.size:
            status = self.room((params.batch,), np.uint8)
            self.run(factoring.run, t, b, made, status)
            self.end_where(status)
        self._solves.append((name, factoring))
        return made

    def sources(self, perm: Array) -> Array:
        """Return, for each place that permutations put rows of a batch in, which of the batch's rows comes there."""
        numbers = np.arange(perm.size, dtype=np.int32).reshape(perm.shape)
        if not perm.size:
            return numbers
        keys, sources = self.call(popops.sort_key_value, perm, numbers)
        self.end_where(self.call(popops.neq, keys, np.arange(perm.shape[-1]).astype(perm.dtype)))
        return np.asarray(sources)

    def take_rows(self, result: Array, x: Array, sources: Array) -> None:
        """Write a batch's rows from where they come."""
        if result.size:
            table, indices = x.reshape(-1, x.shape[-1]), sources.reshape(-1, 1)
            rows = self.call(popops.multi_slice, table, indices, index_policy="poplibs")
            self.write(result, lambda a: a, rows.reshape(x.shape))

    def request(self, name: str, perm: int | None = None) -> Request:
        """Return the request of the call, one of whose operands may be a permutation."""
        what, solves = f"{name} {list(self.operands[0].shape)}", self._solves
        kernels = ", ".join(dict.fromkeys(factoring.kernel for _, factoring in solves))

        def refusal(failed: Array, *arrays: Array) -> Exception:
            if perm is not None and (np.sort(arrays[perm], -1) != np.arange(arrays[perm].shape[-1])).any():
                return bad_argument("perm", "rows that repeat or are not there",
                                    "a permutation of the rows of each matrix")
            word, solving = next(solve for solve in solves if not solve[1].params.unit)
            return refusal_of(solving.params, word, failed)

        return Request.to(self._made, self.made(refusal), self._given, Composition(what, kernels).told)


def _same_shape(name: str, x: Operand, other: str, grad: Operand) -> None:
    check_shape(name, x, x.shape == grad.shape, f"that of {other}, {grad.shape}")


def _transposed(x: Array) -> Array:
    return x.swapaxes(-1, -2)


def _triangle(x: Array, lower: bool = True, beside: int = 0) -> Array:
    """Return which elements of a matrix are in its triangle, or so many places away from the diagonal in it."""
    rows, columns = x.shape[-2:]
    return np.tri(rows, columns, -beside, dtype=bool) if lower else ~np.tri(rows, columns, beside - 1, dtype=bool)
