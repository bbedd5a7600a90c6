"""Hypothesis strategies for whole calls of `poplin`'s factorisations: matrices that have factors, of any layout."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..formats import Format
from ..ops import WIDE
from .data import as_format
from .strategies import Call, arrays, extents, layouts, options, relaid, sampled

_DTYPES = [f.name for f in WIDE]
_FRONTS: list[tuple[int, ...]] = [(), (1,), (3,), (16,), (17,), (2, 3), (0,), (40,)]
_order = extents("factor", least=0, most=24)


@st.composite
def _given(draw: st.DrawFn) -> tuple[tuple[int, ...], Format, np.random.Generator]:
    return (draw(sampled(*_FRONTS)), draw(sampled(*WIDE)),
            np.random.default_rng(draw(st.integers(0, 2**32 - 1))))


@st.composite
def cholesky_calls(draw: st.DrawFn) -> Call:
    """Calls of `cholesky`: products of triangles, perhaps badly scaled, junk in the other triangle."""
    front, fmt, rng = draw(_given())
    n, lower = draw(_order), draw(st.booleans())
    half = np.tril(rng.standard_normal((*front, n, n)), -1) / max(1, n) ** 0.5
    half += np.eye(n) * (draw(sampled(1.0, 0.3)) + rng.random((*front, n, 1)))
    half *= 2.0 ** rng.integers(-3, 4, (*front, n, 1))
    a = as_format(half @ half.swapaxes(-1, -2), fmt)
    unread = np.tri(n, dtype=bool).T if lower else np.tri(n, dtype=bool)
    a = np.where(unread & ~np.eye(n, dtype=bool), np.array(draw(sampled(0.0, np.nan, 3.0)), fmt.dtype), a)
    return (relaid(a, draw(layouts())),), {"lower": lower} | draw(options({"out_dtype": _DTYPES}))


@st.composite
def triangular_solve_calls(draw: st.DrawFn) -> Call:
    """Calls of `triangular_solve`: right-hand sides of any finite bit patterns, junk in what is not read."""
    front, fmt, rng = draw(_given())
    n, k = draw(_order), draw(extents("factor", least=0, most=40))
    how = {name: draw(st.booleans()) for name in ("left_side", "lower", "unit_diagonal", "transpose")}
    t = rng.standard_normal((*front, n, n)) / max(1, n) ** 0.5
    diagonal = 2.0 ** rng.integers(-3, 4, (*front, 1, n)) * rng.choice([-1, 1], (*front, 1, n))
    t = as_format(np.where(np.eye(n, dtype=bool), diagonal, t), fmt)
    unread = np.tri(n, k=-1, dtype=bool).T if how["lower"] else np.tri(n, k=-1, dtype=bool)
    unread = unread | np.eye(n, dtype=bool) if how["unit_diagonal"] else unread
    t = np.where(unread, np.array(draw(sampled(0.0, np.nan)), fmt.dtype), t)
    shape = (*front, n, k) if how["left_side"] else (*front, k, n)
    b = draw(arrays(shape, draw(sampled(*WIDE)), finite=True, moderate=draw(st.booleans())))
    return (relaid(t, draw(layouts())), relaid(b, draw(layouts()))), how | draw(options({"out_dtype": _DTYPES}))


@st.composite
def _rectangles(draw: st.DrawFn) -> Any:
    front, fmt, rng = draw(_given())
    a = rng.standard_normal((*front, draw(_order), draw(_order)))
    if draw(st.booleans()):  # integers, with pivots alike and matrices that are singular
        a = np.rint(a)
    return relaid(as_format(a, fmt), draw(layouts()))


@st.composite
def lu_calls(draw: st.DrawFn) -> Call:
    """Calls of `lu`."""
    return (draw(_rectangles()),), draw(options({"out_dtype": _DTYPES}))


@st.composite
def qr_calls(draw: st.DrawFn) -> Call:
    """Calls of `qr`."""
    return (draw(_rectangles()),), draw(options({"out_dtype": _DTYPES, "mode": ["complete"]}))


@st.composite
def cholesky_grad_calls(draw: st.DrawFn) -> Call:
    """Calls of `cholesky_grad`."""
    (a,), keywords = draw(cholesky_calls())
    lower, fmt = keywords["lower"], draw(sampled(*WIDE))
    n, half = a.shape[-1], draw(st.integers(0, 2**16))
    rng = np.random.default_rng(half)
    factor = np.tril(rng.standard_normal(a.shape), -1) / max(1, n) ** 0.5
    factor += np.eye(n) * (0.5 + rng.random((*a.shape[:-1], 1)))
    factor = as_format(factor if lower else factor.swapaxes(-1, -2), fmt)
    grad = draw(arrays(a.shape, draw(sampled(*WIDE)), moderate=True))
    return (relaid(grad, draw(layouts())), relaid(factor, draw(layouts()))), keywords


@st.composite
def triangular_solve_grad_calls(draw: st.DrawFn) -> Call:
    """Calls of `triangular_solve_grad`."""
    (a, b), keywords = draw(triangular_solve_calls())
    grad, x = (draw(arrays(b.shape, draw(sampled(*WIDE)), moderate=True)) for _ in range(2))
    return (relaid(grad, draw(layouts())), a, relaid(x, draw(layouts()))), keywords


@st.composite
def lu_grad_calls(draw: st.DrawFn) -> Call:
    """Calls of `lu_grad`."""
    m, n, (front, fmt, rng) = draw(_order), draw(_order), draw(_given())
    k = min(m, n)
    lower = np.tril(rng.uniform(-1, 1, (*front, m, k)), -1) / max(1, k) ** 0.5 + np.eye(m, k)
    upper = _upper(rng, (*front, k, n))
    perm = rng.permuted(np.broadcast_to(np.arange(m, dtype=np.int32), (*front, m)), axis=-1)
    grads = [draw(arrays(x.shape, draw(sampled(*WIDE)), moderate=True)) for x in (lower, upper)]
    factors = [relaid(as_format(x, fmt), draw(layouts())) for x in (lower, upper)]
    return (*(relaid(grad, draw(layouts())) for grad in grads), perm, *factors), draw(options({"out_dtype": _DTYPES}))


@st.composite
def qr_grad_calls(draw: st.DrawFn) -> Call:
    """Calls of `qr_grad`."""
    m, n, (front, fmt, rng) = draw(_order), draw(_order), draw(_given())
    k = min(m, n)
    orthogonal = np.linalg.qr(rng.standard_normal((*front, m, k)))[0]
    upper = _upper(rng, (*front, k, n))
    grads = [draw(arrays(x.shape, draw(sampled(*WIDE)), moderate=True)) for x in (orthogonal, upper)]
    factors = [relaid(as_format(x, fmt), draw(layouts())) for x in (orthogonal, upper)]
    return (*(relaid(grad, draw(layouts())) for grad in grads), *factors), draw(options({"out_dtype": _DTYPES}))


def _upper(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Upper factors that are far from singular."""
    k, n = shape[-2:]
    diagonal = np.eye(k, n) * (0.5 + rng.random((*shape[:-1], 1)))
    return np.triu(rng.standard_normal(shape), 1) / max(1, k) ** 0.5 + diagonal
