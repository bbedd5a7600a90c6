"""Reductions, and running sums: this library, NumPy, numba and torch, in FP32, FP16 and BF16, over all or one axis.

16 Ki elements lie in the second-level cache, 1 Mi in the third, 16 Mi in memory; then rows and columns of 1,024, rows
in the middle, rows of 16, and columns of a matrix beyond the caches. ``python bench/bench_classes.py`` prints ratios.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
from bench_math import FORMATS, to_torch

from poplibs_py import popops, testing
from poplibs_py.formats import FP32, Format

SHAPES: dict[str, tuple[tuple[int, ...], int | None]] = {
    "all 16Ki": ((1 << 14,), None), "all 1Mi": ((1 << 20,), None), "all 16Mi": ((1 << 24,), None),
    "last 1024x1024": ((1024, 1024), 1), "first 1024x1024": ((1024, 1024), 0), "middle 64x256x64": ((64, 256, 64), 1),
    "last 65536x16": ((65536, 16), 1), "first 4096x4096": ((4096, 4096), 0),
}  # fmt: skip
NUMPY = {"sum": np.sum, "mean": np.mean, "max": np.max, "variance": np.var, "argmax": np.argmax, "any": np.any,
         "norm": np.linalg.norm, "cumulative_sum": np.cumsum}
NUMBA = {"sum": "s + x[i]", "max": "max(s, x[i])"}
TORCH: dict[str, Callable[..., Any]] = {
    "sum": lambda torch, x, axis: torch.sum(x, axis), "mean": lambda torch, x, axis: torch.mean(x, axis),
    "max": lambda torch, x, axis: torch.amax(x, axis), "argmax": lambda torch, x, axis: torch.argmax(x, axis),
    "variance": lambda torch, x, axis: torch.var(x, axis, correction=0),
    "logsumexp": lambda torch, x, axis: torch.logsumexp(x, axis),
    "norm": lambda torch, x, axis: torch.linalg.vector_norm(x, dim=axis),
    "max_with_indices": lambda torch, x, axis: torch.max(x, axis),
    "cumulative_sum": lambda torch, x, axis: torch.cumsum(x, axis or 0),
}  # fmt: skip


def operand(fmt: Format, shape: tuple[int, ...]) -> Any:
    """Normal numbers."""
    return popops.cast(np.random.default_rng(1).standard_normal(shape).astype(np.float32), fmt)


def calls(name: str, fmt: Format, shape: str) -> dict[str, Callable[[], Any]]:
    """Ours and the peers'; NumPy's and numba's in FP32, since they have no vectors of other formats."""
    extents, axis = SHAPES[shape]
    x, face = operand(fmt, extents), getattr(popops, name)
    testing.check(name, x[:300], 0)
    found: dict[str, Callable[[], Any]] = {"ours": lambda: face(x, axis)}
    if fmt is FP32 and name in NUMPY:
        found["numpy"] = lambda: NUMPY[name](x, axis=axis)
    if fmt is FP32 and name in NUMBA and axis is None and find_spec("numba"):
        found["numba"] = partial(numba_sum(NUMBA[name]), x)
    if name in TORCH and find_spec("torch"):
        import torch

        tensor, over = to_torch(x), 0 if axis is None and name in ("max", "logsumexp", "max_with_indices") else axis
        found["torch"] = lambda: TORCH[name](torch, tensor, over)
    return found


def numba_sum(step: str) -> Callable[[Any], Any]:
    """A compiled loop that may order its steps as it likes."""
    import numba

    made: dict[str, Any] = {"f": np.float32}
    exec(f"def run(x):\n    s = x[0]*f(0)\n    for i in range(x.size):\n        s = {step}\n    return s", made)
    return numba.njit(made["run"], fastmath=True)


def rows() -> Iterator[tuple[str, str, Callable[[], dict[str, Callable[[], Any]]]]]:
    """Classes, rows, and what makes a row's calls."""
    for name, fmt, shape in product([*TORCH, "any"], FORMATS, SHAPES):
        yield class_of(name, fmt, shape), f"{name} {FORMATS[fmt]}, {shape}", partial(calls, name, fmt, shape)


def class_of(name: str, fmt: Format, shape: str) -> str:
    """The class whose median a row counts in."""
    along = shape.startswith(("first", "middle"))
    if name == "cumulative_sum":
        return "cumulative sum"
    if shape == "last 65536x16":
        return "last axes of 16" if name in ("sum", "mean", "max", "norm", "variance") else "last axes of 16, others"
    if name in ("variance", "logsumexp"):
        return name
    if name in ("argmax", "max_with_indices"):
        by_vectors = fmt is FP32 and not along and (name == "argmax" or shape.startswith("all"))
        return f"argmax, max with indices{', by NumPy' * by_vectors}"
    if name == "mean" and fmt is not FP32:
        return "mean of halves"
    return "sum, max, contiguous FP32" if name in ("sum", "max") and fmt is FP32 and not along else "reductions, others"
