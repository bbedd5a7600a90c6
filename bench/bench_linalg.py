"""Batches of factorisations and triangular systems: this library, NumPy, SciPy and torch, in FP32.

``python bench/bench_classes.py cholesky triangular lu qr`` prints ratios.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import scipy.linalg

from poplibs_py import poplin, testing

SHAPES = [(4096, 8), (2048, 16), (1024, 32), (256, 64), (1, 512)]
OPS = ("cholesky", "triangular_solve", "lu", "qr")
Calls = dict[str, Callable[[], object]]


def operands(op: str, batch: int, n: int) -> tuple[Any, ...]:
    """Well-conditioned matrices, and right-hand sides for a solve."""
    rng = np.random.default_rng(1)
    general, b = rng.standard_normal((2, batch, n, n)).astype(np.float32)
    definite = general @ general.swapaxes(1, 2) / np.float32(n) + np.eye(n, dtype=np.float32)
    return {"cholesky": (definite,), "triangular_solve": (np.tril(definite), b)}.get(op, (general,))


def peers(op: str, given: tuple[Any, ...]) -> Calls:
    """The same by the libraries that are installed."""
    a = given[0]
    found: Calls = {
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


def rows() -> Iterator[tuple[str, str, Callable[[], Calls]]]:
    """Classes, rows, and what makes a row's calls."""
    for op, (batch, n) in product(OPS, SHAPES):
        yield f"{op.replace('_', ' ')} of {n}", f"{batch} of {n} x {n}", partial(row, op, batch, n)


def row(op: str, batch: int, n: int) -> Calls:
    """Ours and others', without SciPy's older functions, which take one matrix."""
    given = operands(op, batch, n)
    testing.check(op, *(x[:20] for x in given))
    found: Calls = {"ours": partial(getattr(poplin, op), *given)}
    for library, call in peers(op, given).items():
        with suppress(ValueError):
            call()
            found[library] = call
    return found
