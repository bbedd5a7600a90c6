"""Expressions in one pass beside numba, numexpr and torch, on FP32 numbers and one thread.

``python bench/bench_map.py`` prints billions of elements a second of each, by the process's own time, and our speed
over the fastest peer's.
Arrays of 16 Ki lie in the second-level cache, of 1 Mi in the third, of 16 Mi in memory; ``new`` has no ``out``, and
every library makes an array for its result. Libraries take turns; their results are compared before they are timed.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any

import numpy as np
import pytest
from bench_sparse import print_table

from poplibs_py import popops
from poplibs_py.popops.expr import _1, _2, _3, _4
from poplibs_py.report.peers import limited_threads
from poplibs_py.report.timing import take_turns

Array = np.ndarray[Any, Any]
PEERS = ("numba", "numexpr", "torch", "torch.compile")
SIZES = (1 << 14, 1 << 20, 1 << 24)


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


def measure(name: str, count: int, new: bool, seconds: float) -> list[str]:
    """One row of the table."""
    calls = checked_calls(name, count, new)
    timings = take_turns(list(calls.values()), seconds=seconds, clock=process_time)
    rates = {library: count / timing.seconds / 1e9 for library, timing in zip(calls, timings, strict=True)}
    best = max((rate for library, rate in rates.items() if library != "ours"), default=math.nan)
    cells = [f"{rates[library]:.2f}" if library in rates else "" for library in ("ours", *PEERS)]
    return [name, f"{count:,}{' new' if new else ''}", *cells, f"{rates['ours'] / best:.2f} x"]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("count", SIZES)
def bench_map(name: str, count: int, benchmark: Any) -> None:
    """An expression of float32 arrays."""
    xs = operands(CASES[name], count)
    out = np.empty_like(xs[0])
    benchmark.extra_info.update(elements=count, bytes=(len(xs) + 1) * 4 * count)
    benchmark(popops.map, CASES[name].expression, *xs, out=out)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each row (default: 1)")
    parser.add_argument("names", nargs="*", help="which expressions (default: all)")
    chosen = parser.parse_args()
    with limited_threads(1):
        rows = [measure(name, count, new, chosen.seconds)
                for name in CASES if not chosen.names or name in chosen.names
                for count, new in (*((count, False) for count in SIZES), (SIZES[-1], True))]
    print_table(("expression", "elements", "ours, G/s", *PEERS, "over the best"), rows)


if __name__ == "__main__":
    main()
