"""Reductions, and running sums: this library, NumPy and torch, in FP32, FP16 and BF16, over all or one axis.

16 Ki elements lie in the second-level cache, 1 Mi in the third, 16 Mi in memory; then rows and columns of 1,024, rows
in the middle, rows of 16, and columns of a matrix beyond the caches. ``extra_info`` holds elements per second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

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
         "cumulative_sum": np.cumsum}
TORCH: dict[str, Callable[..., Any]] = {
    "sum": lambda torch, x, axis: torch.sum(x, axis), "mean": lambda torch, x, axis: torch.mean(x, axis),
    "max": lambda torch, x, axis: torch.amax(x, axis), "argmax": lambda torch, x, axis: torch.argmax(x, axis),
    "variance": lambda torch, x, axis: torch.var(x, axis, correction=0),
    "logsumexp": lambda torch, x, axis: torch.logsumexp(x, axis),
    "norm": lambda torch, x, axis: torch.linalg.vector_norm(x, dim=axis),
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


@names
@formats
@shapes
def bench_poplibs_py(benchmark: Any, name: str, fmt: Format, shape: str) -> None:
    """This library; the answer is checked on a part."""
    extents, axis = SHAPES[shape]
    x = operand(fmt, extents)
    testing.check(name, x[:300], 0)
    face = getattr(popops, name)
    timed(benchmark, lambda: face(x, axis), x, library="poplibs_py")


@pytest.mark.parametrize("name", NUMPY)
@shapes
def bench_numpy(benchmark: Any, name: str, shape: str) -> None:
    """NumPy in FP32: its other formats have no vectors."""
    extents, axis = SHAPES[shape]
    x = operand(FP32, extents)
    timed(benchmark, lambda: NUMPY[name](x, axis=axis), x, library="numpy")


@pytest.mark.parametrize("name", TORCH)
@formats
@shapes
def bench_torch(benchmark: Any, name: str, fmt: Format, shape: str) -> None:
    """Torch, on one thread."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    extents, axis = SHAPES[shape]
    over = 0 if axis is None and name in ("max", "logsumexp") else axis
    x = torch.from_numpy(operand(FP32, extents)).to(getattr(torch, fmt.name))
    timed(benchmark, lambda: TORCH[name](torch, x, over), operand(fmt, extents), library="torch")
