"""Orders of rows: this library, NumPy and torch, one long row, rows and columns of 1,000, and the best of rows.

Keys are normal numbers, or integers of 31 bits. ``extra_info`` holds elements per second. Then partitions,
transpositions, padding, one-hot rows and images beside NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from poplibs_py import popops, testing
from poplibs_py.kernels import available_levels

SHAPES: dict[str, tuple[tuple[int, ...], int]] = {
    **{f"{n}": ((n,), -1) for n in (16, 100, 1000, 10**4, 10**5, 10**6, 10**7)},
    "last 1024x1000": ((1024, 1000), -1), "first 1000x1024": ((1000, 1024), 0),
}  # fmt: skip
DTYPES = ("float32", "float16", "int32", "int64")
BEST = {f"{k} of {rows}x{n}": (rows, n, k) for rows, n in ((1024, 1000), (16, 100000)) for k in (1, 5, 10, 100, 1000)}
NAMES = ("sort", "argsort")
KINDS = {"sort": (None,), "argsort": (None, "stable")}
names = pytest.mark.parametrize("name", NAMES)
dtypes = pytest.mark.parametrize("dtype", DTYPES)
shapes = pytest.mark.parametrize("shape", SHAPES)
best = pytest.mark.parametrize("size", BEST)


def operand(dtype: str, shape: tuple[int, ...]) -> Any:
    """Normal numbers, or integers."""
    rng = np.random.default_rng(1)
    if dtype.startswith("int"):
        return rng.integers(-(2**30), 2**30, shape, dtype)
    return rng.standard_normal(shape).astype(dtype)


def timed(benchmark: Any, call: Callable[[], object], x: Any, **facts: Any) -> None:
    """Time a call and store its rate."""
    benchmark(call)
    benchmark.extra_info.update(facts, level=available_levels()[-1], elements=x.size)
    if benchmark.stats is not None:
        benchmark.extra_info["element_rate"] = x.size / benchmark.stats.stats.median


def one_thread() -> Any:
    """Torch, on one thread."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    return torch


@names
@dtypes
@shapes
def bench_poplibs_py(benchmark: Any, name: str, dtype: str, shape: str) -> None:
    """This library; the answer is checked on a part."""
    extents, axis = SHAPES[shape]
    x = operand(dtype, extents)
    testing.check(f"popops.{name}", x[:300], axis)
    face = getattr(popops, name)
    timed(benchmark, lambda: face(x, axis), x, library="poplibs_py")


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in NAMES for kind in KINDS[name]])
@dtypes
@shapes
def bench_numpy(benchmark: Any, name: str, kind: Any, dtype: str, shape: str) -> None:
    """NumPy, stable or not."""
    extents, axis = SHAPES[shape]
    x = operand(dtype, extents)
    timed(benchmark, lambda: getattr(np, name)(x, axis=axis, kind=kind), x, library="numpy")


@names
@dtypes
@shapes
def bench_torch(benchmark: Any, name: str, dtype: str, shape: str) -> None:
    """Torch, which is stable for integers alone."""
    torch, (extents, axis) = one_thread(), SHAPES[shape]
    x = operand(dtype, extents)
    tensor = torch.from_numpy(x)
    timed(benchmark, lambda: getattr(torch, name)(tensor, dim=axis), x, library="torch")


@best
@pytest.mark.parametrize("dtype", DTYPES[:2])
def bench_best_poplibs_py(benchmark: Any, dtype: str, size: str) -> None:
    """The greatest of rows, and where they are."""
    rows, n, k = BEST[size]
    x = operand(dtype, (rows, n))
    testing.check("top_k_with_permutation", x[:2], k)
    timed(benchmark, lambda: popops.top_k_with_permutation(x, k), x, library="poplibs_py")


@best
@pytest.mark.parametrize("dtype", DTYPES[:2])
def bench_best_torch(benchmark: Any, dtype: str, size: str) -> None:
    """Torch's, in no order."""
    torch, (rows, n, k) = one_thread(), BEST[size]
    x = operand(dtype, (rows, n))
    tensor = torch.from_numpy(x)
    timed(benchmark, lambda: torch.topk(tensor, k, sorted=False), x, library="torch")


@best
@pytest.mark.parametrize("dtype", DTYPES[:2])
def bench_best_numpy(benchmark: Any, dtype: str, size: str) -> None:
    """NumPy's, in no order."""
    rows, n, k = BEST[size]
    x = operand(dtype, (rows, n))
    timed(benchmark, lambda: np.argpartition(x, n - k, axis=-1)[:, n - k:], x, library="numpy")


IMAGE = (8, 224, 224, 3)
MEANS = np.float32([100, 110, 120])


def one_hot_by_numpy(x: Any) -> Any:
    """A row of the identity for each index."""
    made = np.zeros((x.size, 64), np.float32)
    made[np.arange(x.size), x] = 1
    return made


MADE: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "partition": (lambda: operand("float32", (10**6,)), lambda x: popops.partition(x, 1000)[1000],
                  lambda x: np.partition(x, 1000)[1000]),
    "transpose": (lambda: operand("float32", (4096, 512)), lambda x: popops.transpose(x), lambda x: x.T.copy()),
    "transpose images": (lambda: operand("float32", (32, 56, 56, 64)), lambda x: popops.transpose(x, (0, 3, 1, 2)),
                         lambda x: x.transpose(0, 3, 1, 2).copy()),
    "pad constant": (lambda: operand("float32", (1000, 1000)), lambda x: popops.pad(x, 3), lambda x: np.pad(x, 3)),
    "pad reflect": (lambda: operand("float32", (1000, 1000)), lambda x: popops.pad(x, 3, "reflect"),
                    lambda x: np.pad(x, 3, "reflect")),
    "pad small": (lambda: operand("float32", (8, 8)), lambda x: popops.pad(x, 1), lambda x: np.pad(x, 1)),
    "one hot": (lambda: np.arange(16384) % 64, lambda x: popops.encode_one_hot(x, 64), one_hot_by_numpy),
    "image": (lambda: np.zeros(IMAGE, np.uint8), lambda x: popops.normalise_image(x, MEANS, MEANS),
              lambda x: np.pad((x.astype(np.float32) - MEANS) * MEANS, [(0, 0)] * 3 + [(0, 1)]).astype(np.float16)),
}  # fmt: skip


@pytest.mark.parametrize("library", ["poplibs_py", "numpy"])
@pytest.mark.parametrize("name", MADE)
def bench_made(benchmark: Any, name: str, library: str) -> None:
    """What is made or rearranged, and the same by NumPy."""
    make, ours, theirs = MADE[name]
    x = make()
    np.testing.assert_array_equal(ours(x), theirs(x))
    timed(benchmark, lambda: (ours if library == "poplibs_py" else theirs)(x), x, library=library)
