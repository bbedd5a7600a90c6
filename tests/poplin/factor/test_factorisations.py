"""Factorisations: against SciPy, exact data, refusals that name the matrix, both ways of doing them, every layout."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.linalg
from hypothesis import example, given
from hypothesis import strategies as st

from poplibs_py import poplin, profile, testing
from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from poplibs_py.formats import FP32, format_of
from poplibs_py.kernels.registry import Selection, kernels
from poplibs_py.poplin.factor import lower, model, reference
from poplibs_py.poplin.factor.model import LANES
from poplibs_py.poplin.factor.params import FactorLayout, FactorParams
from poplibs_py.testing import assert_same_bits, random_operand
from poplibs_py.testing.strategies import LAYOUTS, relaid

KINDS = [*((n, batch) for n in (1, 2, 3, 4, 5, 8, 15, 16, 17) for batch in (1, LANES - 1, 2 * LANES + 5)),
         (33, 1), (33, LANES), (64, LANES + 1), (100, 2)]  # fmt: skip


def definite(batch, n, seed=1):
    half = np.random.default_rng(seed).standard_normal((batch, n, n))
    return (half @ half.swapaxes(1, 2) / n + np.eye(n)).astype(np.float32)


def whole_triangle(batch, n, seed=1):
    """A lower triangle of small whole numbers, powers of two on its diagonal: each step of a solve is exact."""
    rng = np.random.default_rng(seed)
    return np.tril(rng.integers(-1, 2, (batch, n, n)), -1) + np.eye(n, dtype=int) * rng.choice([1, 2], (batch, 1, n))


@pytest.mark.parametrize(("n", "batch"), KINDS)
def test_orders_and_batches_of_every_kind(n, batch):
    a, b = definite(batch, n), random_operand((batch, n, 3), "float32", 2)
    for low in (True, False):
        testing.check("cholesky", a, lower=low)
        testing.check("triangular_solve", a, b, lower=low, transpose=True)
        testing.check("triangular_solve", a, b.swapaxes(1, 2), lower=low, left_side=False)
    general = random_operand((batch, n, n), "float32", 3)
    testing.check("lu", general)
    testing.check("qr", general)


@pytest.mark.parametrize("n", [1, 3, 8, 20])
def test_whole_numbers_have_exact_factors_and_solutions(n):
    t = whole_triangle(40, n).astype(np.float32)
    assert_same_bits(poplin.cholesky(t @ t.swapaxes(1, 2)), t)
    x = np.random.default_rng(2).integers(-3, 4, (40, n, 5)).astype(np.float32)
    assert_same_bits(poplin.triangular_solve(t, t @ x), x)
    assert_same_bits(poplin.triangular_solve(t, x.swapaxes(1, 2) @ t, left_side=False), x.swapaxes(1, 2).copy())


@example((17, 6), 20, 3)
@example((6, 17), 20, 3)
@given(st.tuples(st.integers(1, 24), st.integers(1, 24)), st.sampled_from([1, LANES, 20]), st.integers(0, 2**32 - 1))
def test_lu_and_qr_are_those_of_scipy(shape, batch, seed):
    a = np.random.default_rng(seed).standard_normal((batch, *shape)).astype(np.float32)
    perm, low, up = poplin.lu(a)
    q, r = poplin.qr(a)
    balls = testing.bound("lu", a), testing.bound("qr", a)
    for i, matrix in enumerate(a.astype(np.float64)):
        if np.isfinite(balls[0][0].radius[i]).all():  # no two candidates are as good a pivot
            p, of_l, of_u = scipy.linalg.lu(matrix, p_indices=True)
            order = np.argsort(p)[:min(shape)]  # rows without a pivot are in another order there
            np.testing.assert_array_equal(perm[i][:min(shape)], order)
            testing.assert_within_bound(of_u, balls[0][2][i])
            testing.assert_within_bound(of_l[:min(shape)], balls[0][1][i][:min(shape)])
        of_q, of_r = scipy.linalg.qr(matrix, mode="economic")
        testing.assert_within_bound(of_q, balls[1][0][i])
        testing.assert_within_bound(of_r, balls[1][1][i])
    assert (np.abs(low) <= 1).all()
    assert q.shape[-1] == r.shape[-2] == min(shape)
    assert up.shape == (batch, min(shape), shape[1])


@pytest.mark.parametrize("batch", [2, 40])
def test_a_singular_matrix_has_factors_and_a_zero_in_u(batch):
    a = np.tile(np.float32([[1, 2, 3], [2, 4, 6], [1, 0, 1]]), (batch, 1, 1))
    perm, low, up = poplin.lu(a)
    assert_same_bits(low @ up, np.take_along_axis(a, perm[..., None].astype(np.int64), 1))
    assert (np.diagonal(up, axis1=1, axis2=2)[:, -1] == 0).all()
    assert not poplin.lu(np.zeros((batch, 3, 3), np.float32)).u.any()


@pytest.mark.parametrize("n", [2, 8, 9, 16, 20, 33])
def test_rows_of_u_hold_what_they_do_whatever_the_later_rows_of_a_hold(n):
    a = np.tile(np.eye(n, dtype=np.float32) * 2, (40, 1, 1))
    a[:, :-1, -1], a[:, 0, -1] = 1, -0.0
    for last in (np.inf, np.nan, 1.0):
        a[:, -1, -1] = last
        assert_same_bits(poplin.lu(a).u, a)


@pytest.mark.parametrize(("front", "place", "said"), [
    ((), (), "a matrix"), ((7,), (4,), r"matrix \[4\] of the batch"),
    ((3, 20), (2, 11), r"matrix \[2, 11\] of the batch"),
])  # fmt: skip
def test_what_cannot_be_factored_is_named_and_nothing_is_written(front, place, said):
    a = np.tile(definite(1, 6)[0], (*front, 1, 1))
    b, out = np.ones((*front, 6, 2), np.float32), np.full((*front, 6, 6), 7, np.float32)
    for wrong in (-1.0, 0.0, np.nan, np.inf):
        bad = a.copy()
        bad[(*place, 5, 5)] = wrong
        for _ in range(3):
            with pytest.raises(InvalidArgumentError, match=f"^a: got {said}, which is not positive definite"):
                poplin.cholesky(bad, out=out)
        assert (out == 7).all()
    bad, x = a.copy(), np.full(b.shape, 7, np.float32)
    bad[(*place, 3, 3)] = -0.0
    for _ in range(3):
        with pytest.raises(InvalidArgumentError, match=f"^a: got {said}, which is singular"):
            poplin.triangular_solve(bad, b, out=x)
    assert (x == 7).all()
    poplin.triangular_solve(bad, b, unit_diagonal=True, out=x)
    assert (x != 7).any()


@pytest.mark.parametrize("n", [8, 100])
def test_a_large_matrix_that_cannot_be_factored_is_named(n):
    a = definite(2, n)
    a[1, n - 1, n - 1] = -5
    with pytest.raises(InvalidArgumentError, match=r"^a: got matrix \[1\] of the batch"):
        poplin.cholesky(a)


@pytest.mark.parametrize("layout", LAYOUTS[:-1])
@pytest.mark.parametrize("fmt", ["float32", "float16", "bfloat16"])
def test_layouts_formats_and_outs_give_the_same_bits(layout, fmt):
    a = testing.as_format(definite(20, 7).astype(np.float64), format_of(fmt))
    b = random_operand((20, 7, 5), fmt, 4)
    laid, right = relaid(a, layout), relaid(b, layout)
    for op, operands, moved in (("cholesky", (a,), (laid,)), ("triangular_solve", (a, b), (laid, right))):
        face = getattr(poplin, op)
        due = face(*operands)
        assert due.dtype == a.dtype
        out = relaid(np.zeros_like(due), layout if layout != "read_only" else "plain")
        for _ in range(2):
            assert_same_bits(face(*moved), due)
            assert face(*moved, out=out) is out
            assert_same_bits(np.ascontiguousarray(out), due)
    for op in ("lu", "qr"):
        for got, due in zip(getattr(poplin, op)(laid), getattr(poplin, op)(a), strict=True):
            np.testing.assert_array_equal(got, due)


def test_a_result_may_take_an_operand_s_place():
    a, b = definite(20, 6), random_operand((20, 6, 6), "float32", 1)
    for _ in range(2):
        own = a.copy()
        poplin.cholesky(own, out=own)
        assert_same_bits(own, poplin.cholesky(a))
        own = a.copy()
        poplin.triangular_solve(own, b, out=own)
        assert_same_bits(own, poplin.triangular_solve(a, b))
        perm, low, up = (np.zeros_like(x) for x in poplin.lu(a))
        assert poplin.lu(a, out=(perm, low, up)).l is low
        for got, due in zip((perm, low, up), poplin.lu(a), strict=True):
            np.testing.assert_array_equal(got, due)


@pytest.mark.parametrize(("n", "wide"), [(13, 6), (5, 18), (8, 8), (21, 71)])
def test_every_level_and_number_of_threads_gives_the_same_bits(n, wide):
    batch = 70
    rng = np.random.default_rng(5)
    a, b = definite(batch, n), rng.standard_normal((batch, n, wide)).astype(np.float32)
    general = rng.standard_normal((batch, n, wide)).astype(np.float32)
    cases = {"cholesky": (a,), "solve": (a, b), "lu": (general,), "small_lu": (general,), "qr": (general,)}
    for kernel in kernels("factor"):
        due = run_kernel(kernels_of(kernel.op.removeprefix("small_"))[-1], cases[kernel.op], 1)
        for threads in (1, 3):
            assert run_kernel(kernel, cases[kernel.op], threads) == due, (kernel.label, threads)


@example(17, 33, 3, "float16", False, True, True, 0, 1)
@example(64, 64, 4, "float32", True, True, False, 3, 2)
@given(st.integers(1, 40), st.integers(1, 70), st.integers(2, 5), st.sampled_from(["float32", "float16", "bfloat16"]),
       st.booleans(), st.booleans(), st.booleans(), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_right_hand_sides_have_the_same_bits_together_as_alone(n, wide, batch, fmt, low, left, mirrored, hard, seed):
    """Systems are solved side by side where right-hand sides are few, one after another where these fill vectors."""
    rng = np.random.default_rng(seed)
    t = rng.standard_normal((batch, n, n)) / n + 2 * np.eye(n)
    if fmt == "float32":
        for k in range(hard):  # diagonals without a normal reciprocal
            t[rng.integers(batch), (row := rng.integers(n)), row] *= (2.0**-127, 2.0**126)[k % 2]
    a = testing.as_format(t, format_of(fmt))
    b = testing.as_format(rng.standard_normal((batch, n, wide)), format_of(fmt))
    if not left:
        b = b.swapaxes(1, 2)
    if mirrored:
        a, b = (np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) for x in (a, b))
    for unit in (False, True):
        call = partial(poplin.triangular_solve, a, lower=low, left_side=left, unit_diagonal=unit)
        whole = call(b)
        for k in {0, wide // 2, wide - 1}:
            alone = call(b[..., k:k + 1] if left else b[:, k:k + 1, :])
            assert_same_bits(np.ascontiguousarray(whole[..., k] if left else whole[:, k]), alone.reshape(batch, n))


def kernels_of(op):
    return [kernel for kernel in kernels("factor") if kernel.op == op]


def run_kernel(kernel, arrays, threads):
    """The bytes that one kernel gives for a batch."""
    first = arrays[0]
    front, (m, n) = first.shape[:-2], first.shape[-2:]
    reads = [FactorLayout(FP32, *x.shape[-2:], operand=i) for i, x in enumerate(arrays)]
    at, k = len(arrays), min(m, n)
    writes = {
        "cholesky": [FactorLayout(FP32, n, n, operand=at)],
        "solve": [FactorLayout(FP32, *arrays[-1].shape[-2:], operand=at)],
        "lu": [FactorLayout(FP32, m, k, operand=at), FactorLayout(FP32, k, n, operand=at + 1),
               FactorLayout(FP32, 1, m, operand=at + 2)],
        "qr": [FactorLayout(FP32, m, k, operand=at), FactorLayout(FP32, k, n, operand=at + 1)],
    }[op := kernel.op.removeprefix("small_")]
    columns = arrays[-1].shape[-1]
    params = FactorParams(op, front, m, columns, (*reads, *writes), width=k if kernel.op == "qr" else 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "select", lambda *_, **__: Selection(kernel, ()))
        made = lower.on_kernels(params, threads)
    made_there = [np.zeros((len(first), x.rows, x.columns), np.float32) for x in writes]
    status = [np.zeros(len(first), np.uint8)] if kernel.op in lower.REFUSALS else []
    made.run(*arrays, *made_there, *status)
    assert not any(x.any() for x in status)
    return [x.tobytes() for x in made_there]


def test_two_threads_share_a_batch():
    a = definite(2000, 24)
    with thread_limit(1):
        due = poplin.cholesky(a)
    with thread_limit(2), profile() as report:
        assert_same_bits(poplin.cholesky(a), due)
    assert report.runs[0].plan.threads == 2


def test_threads_share_few_systems_too():
    a, b = whole_triangle(3, 128).astype(np.float32), random_operand((3, 128, 64), "float32", 1)
    with thread_limit(1):
        due = poplin.triangular_solve(a, b)
    with thread_limit(2), profile() as report:
        assert_same_bits(poplin.triangular_solve(a, b), due)
    assert report.runs[0].plan.threads == 2


@pytest.mark.parametrize(("batch", "n", "wide"), [(1, 256, 300), (2, 96, 260), (1, 200, 130)])
@pytest.mark.parametrize("fmt", ["float32", "float16"])
def test_threads_share_the_right_hand_sides_of_one_system(batch, n, wide, fmt):
    a = testing.as_format(whole_triangle(batch, n), format_of(fmt))
    b = testing.as_format(random_operand((batch, n, wide), "float32", 1), format_of(fmt))
    for left in (True, False):
        call = partial(poplin.triangular_solve, a, b if left else b.swapaxes(1, 2), left_side=left)
        with thread_limit(1):
            due = call()
        with thread_limit(5), profile() as report:
            assert_same_bits(call(), due)
        assert report.runs[0].plan.threads > batch
        a[0, 3, 3] = 0
        with thread_limit(5), pytest.raises(InvalidArgumentError, match="singular"):
            call()
        a[0, 3, 3] = 1


def test_what_does_not_fit_is_refused_by_name():
    square, flat = np.ones((4, 4), np.float32), np.ones((3, 4), np.float32)
    for call, said in [
        (lambda: poplin.cholesky(flat), "a"), (lambda: poplin.cholesky(np.ones(3, np.float32)), "a"),
        (lambda: poplin.triangular_solve(square, flat), "b"),
        (lambda: poplin.triangular_solve(square, square[None]), "b"),
        (lambda: poplin.qr(square, mode="full"), "mode"), (lambda: poplin.lu(square, out=(square,)), "out"),
        (lambda: poplin.cholesky(square, out_dtype="f143"), "out_dtype"),
        (lambda: poplin.triangular_solve_grad(square, square, flat), "x"),
        (lambda: poplin.lu_grad(square, square, [0, 1, 1, 2], square, square), "perm"),
        (lambda: poplin.lu_grad(square, square, [0, 1], square, square), "perm"),
        (lambda: poplin.lu_grad(square, square, range(4), square, 0 * square), "u"),
        (lambda: poplin.qr_grad(square, flat, square, flat), "r"),
        (lambda: poplin.qr_grad(square, square, square, 0 * square), "r"),
        (lambda: poplin.norm_whiten(flat, flat[0], flat[0][:2]), "inv_std_dev"),
    ]:  # fmt: skip
        with pytest.raises(InvalidArgumentError, match=f"^{said}: got .*; allowed: "):
            call()
    with pytest.raises(InvalidTypeError, match=r'^a: got dtype float64; allowed: .*astype\("float32"\)'):
        poplin.cholesky(square.astype(np.float64))
    with pytest.raises(InvalidTypeError, match=r"^a: got dtype float8"):
        poplin.lu(random_operand((4, 4), "f143", 1))


def test_modelled_machines_do_no_others_and_say_so():
    a = definite(2, 4)
    calls = {"lu": (a,), "qr": (a,), "cholesky_grad": (a, a), "linspace": (0, 1, 3)}
    for name, operands in calls.items():
        with pytest.raises(UnsupportedError, match=f"^target: .* has no vertex for poplin.{name} "):
            getattr(poplin, name)(*operands, target="gc200")
        with profile(target="gc200") as report:
            getattr(poplin, name)(*operands)
        assert f"no vertex for poplin.{name}" in report.runs[0].lacking


STEP = 1e-150
"""Of a complex step: the imaginary part is the derivative times it, and no difference is taken."""


def triangle_of(a):
    """The lower factor of complex symmetric matrices by elimination, without a conjugate: analytic."""
    work, n = a.astype(complex), a.shape[-1]
    for j in range(n):
        work[:, j:, j] /= np.sqrt(work[:, j, j, None])
        work[:, j + 1:, j + 1:] -= work[:, j + 1:, j, None] * work[:, None, j + 1:, j]
    return np.tril(work)


def eliminated(a, perm):
    """The factors of complex matrices in an order of rows."""
    work = np.take_along_axis(a, perm[..., None].astype(np.int64), 1).astype(complex)
    k = min(a.shape[1:])
    for j in range(k):
        work[:, j + 1:, j] /= work[:, j, j, None]
        work[:, j + 1:, j + 1:] -= work[:, j + 1:, j, None] * work[:, j, None, j + 1:]
    return np.tril(work[:, :, :k], -1) + np.eye(a.shape[1], k), np.triu(work[:, :k])


def orthogonalised(a, signs):
    """Q and R of complex matrices, with these signs on the diagonal of R: by the triangle of the leading columns."""
    k = min(a.shape[1:])
    lead = a[..., :k]
    upper = triangle_of(lead.swapaxes(1, 2) @ lead).swapaxes(1, 2) * signs[..., None]
    q = lead @ np.linalg.inv(upper)
    return q, np.concatenate([upper, q.swapaxes(1, 2) @ a[..., k:]], -1)


def agrees(ball, due, along):
    got = (ball.centre * along).sum((1, 2))
    assert (np.abs(got - due) <= (ball.radius * np.abs(along)).sum((1, 2))).all()


@pytest.mark.parametrize("low", [True, False])
def test_gradients_are_those_of_a_complex_step(low):
    """In float64, along drawn directions."""
    rng = np.random.default_rng(7)
    a = definite(3, 5).astype(np.float64)
    grad, along = rng.standard_normal(a.shape), rng.standard_normal(a.shape)
    along += along.swapaxes(1, 2)
    moved = triangle_of(a + 1j * STEP * along)
    due = (grad * (moved if low else moved.swapaxes(1, 2)).imag).sum((1, 2)) / STEP
    ball = testing.bound("cholesky_grad", grad, reference.cholesky(a, lower=low), lower=low, out_dtype="float32")
    agrees(ball, due, along)


@pytest.mark.parametrize("op", ["lu_grad", "qr_grad"])
@pytest.mark.parametrize("shape", [(5, 5), (7, 4), (4, 7), (1, 3), (3, 1)])
def test_gradients_of_pairs_are_those_of_a_complex_step(op, shape):
    rng = np.random.default_rng(shape)
    a = rng.standard_normal((3, *shape)) / 4 + 2 * np.eye(*shape)
    along = rng.standard_normal(a.shape)
    *order, first, second, _ = (reference.lu if op == "lu_grad" else reference.qr)(a)
    if order:
        moved = eliminated(a + 1j * STEP * along, order[0])
    else:
        moved = orthogonalised(a + 1j * STEP * along, np.sign(np.diagonal(second, axis1=1, axis2=2)))
    grads = np.tril(rng.standard_normal(first.shape), -1) if order else rng.standard_normal(first.shape)
    grads = grads, np.triu(rng.standard_normal(second.shape))
    due = sum((g * x.imag).sum((1, 2)) for g, x in zip(grads, moved, strict=True)) / STEP
    agrees(testing.bound(op, *grads, *order, first, second, out_dtype="float32"), due, along)
