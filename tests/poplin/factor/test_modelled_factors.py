"""Factors and solutions of a modelled machine: its contract step by step, its cycles, what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from poplibs_py import poplin, profile, testing
from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidArgumentError, InvalidOptionError, MemoryLimitWarning, UnsupportedError
from poplibs_py.poplin.factor.plan import padded_order
from poplibs_py.poplin.product.modelled import interpret_modelled
from poplibs_py.testing import assert_same_bits

DTYPES = ["float32", "float16"]


def definite(batch, n, dtype="float32", seed=1):
    half = np.random.default_rng(seed).standard_normal((batch, n, n))
    return (half @ half.swapaxes(1, 2) / n + np.eye(n)).astype(dtype)


def triangles(batch, n, dtype, lower=True):
    factors = definite(batch, n, "float64", 3)
    made = np.linalg.cholesky(factors)
    return (made if lower else made.swapaxes(1, 2)).astype(dtype)


def planned_product(a, b):
    plan = poplin.plan_matmul(a.shape, b.shape, dtype=a.dtype, target="gc200")
    return interpret_modelled(plan, a, b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_factors_are_those_of_blocks_and_planned_products(dtype):
    """Vertices' blocks are what the small matrices' kernels give here, products what the interpreter gives."""
    a, n = definite(2, 19, dtype), 19
    work = a.copy()
    for first in range(0, n, 8):
        own, rest = slice(first, first + 8), slice(first + 8, None)
        block = poplin.cholesky(work[:, own, own])
        work[:, own, own] = block
        if first + 8 < n:
            ones = np.broadcast_to(np.eye(8, dtype=dtype), block.shape)
            inverse = poplin.triangular_solve(block, ones)
            panel = planned_product(work[:, rest, own], inverse.swapaxes(1, 2))
            work[:, rest, own] = panel
            work[:, rest, rest] -= planned_product(panel, panel.swapaxes(1, 2))
    due = np.tril(work)
    for _ in range(2):
        assert_same_bits(poplin.cholesky(a, target="gc200"), due)
    upper = poplin.cholesky(np.where(np.tri(n, k=-1, dtype=bool), np.nan, a).astype(dtype), lower=False, target="gc200")
    assert_same_bits(np.ascontiguousarray(upper.swapaxes(1, 2)), due)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lower", [True, False])
def test_solutions_are_those_of_halves_and_planned_products(dtype, lower):
    t, b = triangles(2, 8, dtype, lower), definite(2, 8, dtype)[..., :3].copy()
    own = np.diagonal(t, axis1=1, axis2=2)[..., None]
    scaled, x = t / own, b / own
    first, last = (slice(None, 4), slice(4, None)) if lower else (slice(4, None), slice(None, 4))
    for rows in (first, last):
        if rows == last:
            x[:, last] -= planned_product(scaled[:, last, first], x[:, first])
        x[:, rows] = poplin.triangular_solve(scaled[:, rows, rows], x[:, rows], lower=lower, unit_diagonal=True)
    junk = np.where(np.tri(8, k=-1, dtype=bool).T if lower else np.tri(8, k=-1, dtype=bool), np.nan, t).astype(dtype)
    how = {"lower": lower, "target": "gc200", "options": {"blockSize": 4}}
    assert_same_bits(poplin.triangular_solve(junk, b, **how), x)
    how |= {"lower": not lower, "left_side": False}
    across = poplin.triangular_solve(junk.swapaxes(1, 2), b.swapaxes(1, 2), **how)
    assert_same_bits(np.ascontiguousarray(across.swapaxes(1, 2)), x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 8, 21, 40])
def test_all_kinds_are_within_their_bounds(dtype, n):
    a, b = definite(2, n, dtype), definite(2, n, dtype, 5)[..., :5]
    for low in (True, False):
        testing.check("cholesky", a, lower=low, target="gc200", options={"blockSize": 8 if low else 6})
        t = triangles(2, n, dtype, low)
        for block in (7, 64):
            how = {"lower": low, "target": "gc200", "options": {"blockSize": block}}
            testing.check("triangular_solve", t, b, transpose=True, unit_diagonal=block == 7, **how)
            testing.check("triangular_solve", t, b.swapaxes(1, 2), left_side=False, **how)
    for shape in ((0, n, n), (2, 0, 0)):
        assert poplin.cholesky(np.zeros(shape, dtype), target="gc200").shape == shape
    with profile(target="gc200") as report:
        assert poplin.triangular_solve(t, np.zeros((2, n, 0), dtype)).shape == (2, n, 0)
    assert report.runs[0].plan.cycles == 0
    assert "not known" in str(report.runs[0].plan)


def test_threads_change_no_bit():
    a = definite(3, 70)
    with thread_limit(1):
        due = poplin.cholesky(a, target="gc200"), poplin.triangular_solve(a, a, target="gc200")
    with thread_limit(2):
        got = poplin.cholesky(a, target="gc200"), poplin.triangular_solve(a, a, target="gc200")
    assert_same_bits(got[0], due[0])
    assert_same_bits(got[1], due[1])


def test_cycles_are_those_of_vertices_and_plans():
    with profile(target="gc200") as report:
        poplin.cholesky(definite(2, 20))
        poplin.triangular_solve(triangles(1, 100, "float32"), definite(1, 100))
    factored, solved = (run.plan for run in report.runs)

    def products(*shapes):
        return sum(poplin.plan_matmul((g, m, k), (g, k, n), target="gc200").cycles for g, m, k, n in shapes)

    blocks = [6 * (d**3 + 102 * d**2 + 101 * d + 102) for d in (8, 8, 4)]
    assert factored.phases["factor blocks"] == sum(blocks)
    assert factored.phases["invert blocks"] == 2 * 6 * (1.5 * 64 + 180 * 8 - 126)
    assert factored.phases["panel products"] == products((2, 12, 8, 8), (2, 4, 8, 8))
    assert factored.phases["products of what is left"] == products((2, 12, 8, 12), (2, 4, 8, 4))
    assert solved.phases["substitute"] == 2 * 6 * (1.5 * 64**2 + 180 * 64 - 126)
    assert solved.phases["products"] == products((1, 64, 64, 100))
    for run, plan in zip(report.runs, (factored, solved), strict=True):
        assert run.lacking == ""
        assert plan.cycles == sum(plan.phases.values())
        assert plan.exchanged_bytes == run.exchanged_bytes > 0
        words = str(plan)
        assert all(word in words for word in ("not known", "blocks", "products", f"{plan.cycles:,}"))
    assert "factor blocks" in report.summary(details=True)
    assert [padded_order(n, 8) for n in (3, 8, 9, 33)] == [3, 8, 16, 64]


def test_what_no_vertex_does_runs_here_and_says_so(tmp_path):
    a = definite(2, 12)
    with profile(target="gc200") as report:
        poplin.cholesky(testing.as_format(a.astype(np.float64), "bfloat16"))
        poplin.cholesky(a, out_dtype="float16")
        poplin.triangular_solve(a, a.astype(np.float16))
        poplin.lu(a)
        poplin.qr(a)
    assert all(run.lacking for run in report.runs)
    report.save(tmp_path / "r.html")
    with pytest.raises(UnsupportedError, match=r"^target: .* poplin\.cholesky of float32 to float16$"):
        poplin.cholesky(a, out_dtype="float16", target="gc200")


def test_what_cannot_be_factored_or_planned_is_refused_by_name():
    a, out = definite(3, 20), np.full((3, 20, 20), 7, np.float32)
    bad = a.copy()
    bad[1, 17, 17] = -5
    with pytest.raises(InvalidArgumentError, match=r"^a: got matrix \[1\] of the batch, which is not"):
        poplin.cholesky(bad, out=out, target="gc200")
    t = triangles(3, 20, "float32")
    t[2, 9, 9] = 0
    with pytest.raises(InvalidArgumentError, match=r"^a: got matrix \[2\] of the batch, which is singular"):
        poplin.triangular_solve(t, a, out=out, target="gc200")
    assert (out == 7).all()
    for target in (None, "gc200"):
        with pytest.raises(InvalidArgumentError, match=r"^blockSize: got 0; "):
            poplin.cholesky(a, options={"blockSize": 0}, target=target)
        with pytest.raises(InvalidOptionError, match="blocksize"):
            poplin.cholesky(a, options={"blocksize": 8}, target=target)
        assert poplin.cholesky(a, options={"blockSize": 4}, target=target).shape == a.shape
    for _ in range(2):
        with pytest.warns(MemoryLimitWarning, match=r"^poplin\.cholesky: available_memory_proportion"):
            poplin.cholesky(a, options={"availableMemoryProportion": 1e-6}, target="gc200")


def test_options_of_blocks_and_products_are_told_together() -> None:
    allowed = r"^options: got unknown key 'blocksize' \(did you mean 'blockSize'\?\); .*'blockSize', .*'partialsType'"
    with pytest.raises(InvalidOptionError, match=allowed):
        poplin.cholesky(np.eye(4, dtype=np.float32), options={"blocksize": 16})


def test_gradients_are_this_cpu_s_within_a_profile_of_a_machine_too():
    """What they are made of has vertices there, and other numbers."""
    rng = np.random.default_rng(5)
    grad, a, x = (rng.standard_normal((33, 33)).astype(np.float32) for _ in range(3))
    a = np.tril(a) + 8 * np.eye(33, dtype=np.float32)
    due = poplin.triangular_solve_grad(grad, a, x)
    with profile(target="gc200"):
        found = poplin.triangular_solve_grad(grad, a, x)
    assert all(one.tobytes() == other.tobytes() for one, other in zip(found, due, strict=True))
