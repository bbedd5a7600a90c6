"""Batches of factorisations and triangular systems: this library, NumPy, SciPy and torch, in FP32.

One process, one thread (``POPLIBS_BENCH_THREADS``), each call made in turn, so that a noisy machine is as noisy for
all: compare medians of a group. Flops are the customary ones: Cholesky n^3 / 3, LU 2 n^3 / 3, QR with Q 8 n^3 / 3, a
solve with n right-hand sides n^3.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import pytest
import scipy.linalg

from poplibs_py import poplin, testing

SHAPES = [(4096, 8), (2048, 16), (1024, 32), (256, 64), (1, 512)]
FLOPS = {"cholesky": 1 / 3, "triangular_solve": 1.0, "lu": 2 / 3, "qr": 8 / 3}
ops = pytest.mark.parametrize("op", FLOPS)
shapes = pytest.mark.parametrize(("batch", "n"), SHAPES)


def operands(op: str, batch: int, n: int) -> tuple[Any, ...]:
    """Well-conditioned matrices, and right-hand sides for a solve."""
    rng = np.random.default_rng(1)
    general, b = rng.standard_normal((2, batch, n, n)).astype(np.float32)
    definite = general @ general.swapaxes(1, 2) / np.float32(n) + np.eye(n, dtype=np.float32)
    return {"cholesky": (definite,), "triangular_solve": (np.tril(definite), b)}.get(op, (general,))


def peers(op: str, given: tuple[Any, ...]) -> dict[str, Callable[[], object]]:
    """The same by the libraries that are installed."""
    a = given[0]
    found: dict[str, Callable[[], object]] = {
        "cholesky": {"numpy": lambda: np.linalg.cholesky(a), "scipy": lambda: scipy.linalg.cholesky(a, lower=True)},
        "triangular_solve": {"numpy": lambda: np.linalg.solve(*given),
                             "scipy": lambda: scipy.linalg.solve_triangular(*given, lower=True)},
        "lu": {"scipy": lambda: scipy.linalg.lu(a)},
        "qr": {"numpy": lambda: np.linalg.qr(a), "scipy": lambda: scipy.linalg.qr(a, mode="economic")},
    }[op]
    try:
        import torch
    except ImportError:
        return found
    tensors = [torch.from_numpy(x) for x in given]
    return found | {"torch": {
        "cholesky": lambda: torch.linalg.cholesky(tensors[0]),
        "triangular_solve": lambda: torch.linalg.solve_triangular(*tensors, upper=False),
        "lu": lambda: torch.linalg.lu_factor(tensors[0]),
        "qr": lambda: torch.linalg.qr(tensors[0]),
    }[op]}


@ops
@shapes
def bench_ours(op, batch, n, measure, benchmark):
    benchmark.group = f"{op} {batch} x {n}"
    given = operands(op, batch, n)
    testing.check(op, *(x[:20] for x in given))
    face = getattr(poplin, op)
    measure(lambda: face(*given), flops=FLOPS[op] * batch * n**3, library="poplibs_py")


@ops
@shapes
@pytest.mark.parametrize("library", ["numpy", "scipy", "torch"])
def bench_peer(op, batch, n, library, measure, benchmark):
    benchmark.group = f"{op} {batch} x {n}"
    call = peers(op, operands(op, batch, n)).get(library)
    if call is None:
        pytest.skip(f"{library} has none, or is not installed")
    try:
        call()
    except ValueError as error:  # SciPy's older functions take one matrix
        pytest.skip(str(error))
    measure(call, flops=FLOPS[op] * batch * n**3, library=library)


def main() -> None:
    """Print rates and the ratio to the best peer, all calls in turn, medians of 15."""
    from poplibs_py.report.peers import limited_threads

    with limited_threads(1):
        for op, flops in FLOPS.items():
            for batch, n in SHAPES:
                given = operands(op, batch, n)
                face = getattr(poplin, op)
                calls = {"ours": lambda face=face, given=given: face(*given)} | peers(op, given)
                times: dict[str, list[float]] = {name: [] for name in calls}
                for _ in range(15):
                    for name, call in calls.items():
                        call()  # as warm as its own data make it
                        began = perf_counter()
                        call()
                        times[name].append(perf_counter() - began)
                mid = {name: median(taken) for name, taken in times.items()}
                rates = ", ".join(f"{name} {flops * batch * n**3 / taken / 1e9:.2f}" for name, taken in mid.items())
                best = min(taken for name, taken in mid.items() if name != "ours")
                print(f"{op} {batch} x {n}: GFLOP/s {rates}; ratio {best / mid['ours']:.1f}", flush=True)


if __name__ == "__main__":
    main()
