"""Reductions, and running sums: this library, NumPy, numba and torch, in FP32, FP16 and BF16, over all or one axis.

16 Ki elements lie in the second-level cache, 1 Mi in the third, 16 Mi in memory; then rows and columns of 1,024, rows
in the middle, rows of 16, and columns of a matrix beyond the caches. ``extra_info`` holds elements per second.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from bench_math import to_torch

from poplibs_py import popops, testing
from poplibs_py.formats import BF16, FP16, FP32, Format
from poplibs_py.kernels import available_levels

SHAPES: dict[str, tuple[tuple[int, ...], int | None]] = {
    "all 16Ki": ((1 << 14,), None), "all 1Mi": ((1 << 20,), None), "all 16Mi": ((1 << 24,), None),
    "last 1024x1024": ((1024, 1024), 1), "first 1024x1024": ((1024, 1024), 0), "middle 64x256x64": ((64, 256, 64), 1),
    "last 65536x16": ((65536, 16), 1), "first 4096x4096": ((4096, 4096), 0),
}  # fmt: skip
FORMATS = (FP32, FP16, BF16)
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
names = pytest.mark.parametrize("name", [*TORCH, "any"])
formats = pytest.mark.parametrize("fmt", FORMATS, ids=str)
shapes = pytest.mark.parametrize("shape", SHAPES)


def operand(fmt: Format, shape: tuple[int, ...]) -> Any:
    """Normal numbers."""
    return popops.cast(np.random.default_rng(1).standard_normal(shape).astype(np.float32), fmt)


def timed(benchmark: Any, call: Callable[[], object], x: Any, **facts: Any) -> None:
    """Time a call and store its rate."""
    benchmark(call)
    benchmark.extra_info.update(facts, level=available_levels()[-1], elements=x.size)
    if benchmark.stats is not None:
        benchmark.extra_info["element_rate"] = x.size / benchmark.stats.stats.median


def calls(name: str, fmt: Format, shape: str) -> dict[str, Callable[[], Any]]:
    """Ours and the peers'; NumPy's and numba's in FP32, since they have no vectors of other formats."""
    extents, axis = SHAPES[shape]
    x, face = operand(fmt, extents), getattr(popops, name)
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


@pytest.mark.parametrize("library", ["ours", "numpy", "numba", "torch"])
@names
@formats
@shapes
def bench_reduction(benchmark: Any, library: str, name: str, fmt: Format, shape: str) -> None:
    """One library; our answer is checked on a part."""
    extents, _ = SHAPES[shape]
    call, x = calls(name, fmt, shape).get(library), operand(fmt, extents)
    if call is None:
        pytest.skip(f"{library} has none")
    if library == "ours":
        testing.check(name, x[:300], 0)
    timed(benchmark, call, x, library=library)
