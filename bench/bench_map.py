"""Expressions in one pass beside numba, numexpr and torch, on FP32 numbers and one thread.

Arrays of 16 Ki lie in the second-level cache, of 1 Mi in the third, of 16 Mi in memory; new results have no ``out``,
and every library makes an array for them. Results are compared before they are timed. ``python bench/bench_classes.py
maps`` prints ratios.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from bench_math import SIZES

from poplibs_py import popops
from poplibs_py.popops.expr import _1, _2, _3, _4

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """An expression, the same for numexpr, and for one element in Python, with `f` for float32 and `m` for math."""

    expression: Any
    text: str
    element: str
    arrays: int = 2


CASES = {
    "a*b + c*d": Case(_1 * _2 + _3 * _4, "a*b + c*d", "a[i]*b[i] + c[i]*d[i]", 4),
    "a*2 + b": Case(_1 * 2 + _2, "a*2 + b", "a[i]*f(2) + b[i]"),
    "((a/2 + 1)*a - 3)*a + b": Case(((_1 * 0.5 + 1) * _1 - 3) * _1 + _2, "((a*0.5 + 1)*a - 3)*a + b",
                                    "((a[i]*f(0.5) + f(1))*a[i] - f(3))*a[i] + b[i]"),
    "where(a > b, a, b*2)": Case(popops.select(_1, _2 * 2, _1 > _2), "where(a > b, a, b*2)",
                                 "a[i] if a[i] > b[i] else b[i]*f(2)"),
    "a*exp(-a*a) + b": Case(_1 * popops.exp(-(_1 * _1)) + _2, "a*exp(-(a*a)) + b", "a[i]*m.exp(-(a[i]*a[i])) + b[i]"),
    "tanh(a)*b + a": Case(popops.tanh(_1) * _2 + _1, "tanh(a)*b + a", "m.tanh(a[i])*b[i] + a[i]"),
}


def operands(case: Case, count: int) -> list[Array]:
    """Normal numbers."""
    rng = np.random.default_rng(3)
    return [rng.standard_normal(count).astype(np.float32) for _ in range(case.arrays)]


def numba_loop(element: str, arrays: int) -> Callable[..., None]:
    """A compiled loop over arrays and what it writes to."""
    import numba

    made: dict[str, Any] = {"m": math, "f": np.float32}
    head = f"def run({', '.join('abcd'[:arrays])}, out):\n    for i in range(out.size):\n"
    exec(f"{head}        out[i] = {element}", made)
    return numba.njit(made["run"])


def peers(case: Case, xs: list[Array], out: Array | None) -> dict[str, Callable[[], Any]]:
    """The same expression in the libraries that are installed."""
    names, found = "abcd"[: case.arrays], {}
    try:
        import numexpr

        numexpr.set_num_threads(1)
        given = dict(zip(names, xs, strict=True))
        found["numexpr"] = partial(numexpr.evaluate, case.text, given, out=out, casting="same_kind")
    except ImportError:
        pass
    try:
        run = numba_loop(case.element, case.arrays)

        def compiled() -> Array:
            to = np.empty_like(xs[0]) if out is None else out
            run(*xs, to)
            return to

        found["numba"] = compiled
    except ImportError:
        pass
    try:
        import torch

        a, b, *more = map(torch.from_numpy, xs)
        to = None if out is None else torch.from_numpy(out)
        if case.text == "a*b + c*d":
            found["torch"] = lambda: torch.addcmul(a * b, more[0], more[1], out=to)
        elif case.text == "a*2 + b":
            found["torch"] = lambda: torch.add(b, a, alpha=2, out=to)
        function = eval(f"lambda {', '.join(names)}: {case.text}",
                        {"exp": torch.exp, "tanh": torch.tanh, "where": torch.where})
        fused = torch.compile(function if to is None else lambda *given: to.copy_(function(*given)), dynamic=False)
        tensors = [a, b, *more]
        fused(*tensors)  # needs a C++ compiler
        found["torch.compile"] = lambda: fused(*tensors)
    except (ImportError, RuntimeError):
        pass
    return found


def checked_calls(name: str, count: int, new: bool) -> dict[str, Callable[[], Any]]:
    """Our call and the peers', whose results are ours."""
    case = CASES[name]
    xs = operands(case, count)
    out = None if new else np.empty_like(xs[0])
    calls = {"ours": partial(popops.map, case.expression, *xs, **({} if new else {"out": out})), **peers(case, xs, out)}
    due = np.array(calls["ours"]())
    for library, call in calls.items():
        np.testing.assert_allclose(np.asarray(call()), due, rtol=1e-4, atol=1e-5, err_msg=library)
    return calls


def rows() -> Iterator[tuple[str, str, Callable[[], dict[str, Callable[[], Any]]]]]:
    """Classes, rows, and what makes a row's calls."""
    for name, count, new in [*((name, count, False) for name in CASES for count in SIZES),
                             *((name, 1 << 24, True) for name in CASES)]:
        plain = count == 1 << 14 and "exp" not in name and "tanh" not in name
        of = "arithmetic in the second-level cache" if plain else "a function, or larger"
        yield (f"maps, {'a new result of 64 MiB' if new else of}", f"{name}, {SIZES[count]}",
               partial(checked_calls, name, count, new))
