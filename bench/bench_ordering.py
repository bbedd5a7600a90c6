"""Orders of rows, one long one, rows and columns of 1,000, and the best of rows: beside NumPy, torch and onnxruntime.

Keys are normal numbers, or integers of 31 bits. Then partitions, transpositions, padding, one-hot rows and images
beside NumPy's. ``python bench/bench_classes.py sort top-k`` prints ratios.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
from onnx_node import onnxruntime_node

from poplibs_py import popops, testing

Calls = dict[str, Callable[[], Any]]
SHAPES: dict[str, tuple[tuple[int, ...], int]] = {
    **{f"{n}": ((n,), -1) for n in (16, 100, 1000, 10**4, 10**5, 10**6, 10**7)},
    "last 1024x1000": ((1024, 1000), -1), "first 1000x1024": ((1000, 1024), 0),
}  # fmt: skip
DTYPES = ("float32", "float16", "int32", "int64")
BEST = {f"{k} of {rows}x{n}": (rows, n, k) for rows, n in ((1024, 1000), (16, 100000)) for k in (1, 5, 10, 100, 1000)}


def operand(dtype: str, shape: tuple[int, ...]) -> Any:
    """Normal numbers, or integers."""
    rng = np.random.default_rng(1)
    if dtype.startswith("int"):
        return rng.integers(-(2**30), 2**30, shape, dtype)
    return rng.standard_normal(shape).astype(dtype)


def rows() -> Iterator[tuple[str, str, Callable[[], Calls]]]:
    """Classes, rows, and what makes a row's calls."""
    for name, dtype, shape in product(("sort", "argsort", "stable argsort"), DTYPES, SHAPES):
        (extents, axis) = SHAPES[shape]
        many = "from 10,000 keys" if extents[axis] >= 10**4 else "of fewer than 10,000 keys"
        yield f"{name} {many}", f"{shape} {dtype}", partial(order, name, dtype, shape)
    for size, dtype in product(BEST, DTYPES[:2]):
        yield "top-k", f"{size} {dtype}", partial(best, dtype, size)
    for name in MADE:
        yield "rearranged", name, partial(rearranged, name)


def order(name: str, dtype: str, shape: str) -> Calls:
    """An order of NumPy and torch; ours is stable anyway."""
    (extents, axis), stable, op = SHAPES[shape], name.startswith("stable"), name.removeprefix("stable ")
    x, face, kind = operand(dtype, extents), getattr(popops, op), "stable" if stable else None
    testing.check(f"popops.{op}", x[:300], axis)
    found = {"ours": lambda: face(x, axis), "numpy": lambda: getattr(np, op)(x, axis=axis, kind=kind)}
    if find_spec("torch"):
        import torch

        tensor = torch.from_numpy(x)
        found["torch"] = lambda: getattr(torch, op)(tensor, dim=axis, stable=stable)
    return found


def best(dtype: str, size: str) -> Calls:
    """The greatest of rows, and where they are; NumPy's and torch's in no order."""
    rows, n, k = BEST[size]
    x = operand(dtype, (rows, n))
    testing.check("top_k_with_permutation", x[:2], k)
    found = {"ours": lambda: popops.top_k_with_permutation(x, k),
             "numpy": lambda: np.argpartition(x, n - k, axis=-1)[:, n - k:]}
    if find_spec("torch"):
        import torch

        tensor = torch.from_numpy(x)
        found["torch"] = lambda: torch.topk(tensor, k, sorted=False)
    if dtype == "float32" and find_spec("onnx") and find_spec("onnxruntime"):
        found["onnxruntime"] = onnxruntime_node("TopK", [x], {"k": np.array([k])}, results=2)
    return found


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


def rearranged(name: str) -> Calls:
    """What is made or rearranged, and the same by NumPy."""
    make, ours, theirs = MADE[name]
    x = make()
    np.testing.assert_array_equal(ours(x), theirs(x))
    return {"ours": partial(ours, x), "numpy": partial(theirs, x)}
