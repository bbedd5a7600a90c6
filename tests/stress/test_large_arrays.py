"""Large arrays: results that pass the caches, several threads, any places and strides; whole numbers are exact."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from poplibs_py import popops
from poplibs_py.config import thread_limit

DTYPES = (np.float32, np.float16, ml_dtypes.bfloat16)
OPS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum}


def lying(rng: np.random.Generator, shape: tuple[int, ...], dtype: type, repeats: bool = True) -> np.ndarray:
    """Small whole numbers that begin anywhere in a cache line, with axes in any order, backwards, apart or repeated."""
    order = rng.permutation(len(shape))
    steps = rng.choice([1, 1, 1, 2], len(shape))
    over = rng.random(len(shape)) < 0.25 if repeats else np.zeros(len(shape), bool)
    held = [1 if over[d] else shape[d] * steps[d] for d in order]
    item = np.dtype(dtype).itemsize
    room = np.zeros(int(np.prod(held)) * item + 128, np.uint8)
    begin = -room.ctypes.data % 64 + item * int(rng.integers(0, 64 // item))
    x = room[begin:begin + int(np.prod(held)) * item].view(dtype).reshape(held).transpose(np.argsort(order))
    x = x[tuple(slice(None, None, 1 if over[d] else steps[d] * rng.choice([1, 1, -1])) for d in range(len(shape)))]
    x[...] = rng.integers(0, 8, x.shape)
    return np.broadcast_to(x, shape) if repeats else x


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(40))
def test_elementwise_results_of_many_megabytes_are_exact(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.choice([1 << 20, 1 << 22, 12 << 20]))
    shape = tuple(int(n) for n in rng.choice([3, 16, 130, 300, 1000, 2048], rng.integers(1, 3)))
    shape = (*shape, max(1, size // int(np.prod(shape))))
    shape = tuple(int(n) for n in rng.permutation(shape))
    name = str(rng.choice(list(OPS)))
    x, y = (lying(rng, shape, DTYPES[rng.integers(3)]) for _ in range(2))
    out = lying(rng, shape, DTYPES[rng.integers(3)], repeats=False)
    due = OPS[name](x.astype(np.float32), y.astype(np.float32))
    with thread_limit(int(rng.integers(1, 5))):
        found = getattr(popops, name)(x, y)
        popops.map(lambda a, b: getattr(popops, name)(a, b), x, y, out=out)
    assert (found.astype(np.float32) == due).all()
    assert (out.astype(np.float32) == due).all()
