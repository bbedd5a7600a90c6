"""Operands and results whose rows lie far apart, as those of a mapped file do: between them no memory is taken."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from poplibs_py import poplin, popnn, popops


def far_apart(x: np.ndarray) -> np.ndarray:
    """The same numbers, their rows 6 GiB apart and backwards: pages between them take no memory."""
    step = 6 << 30
    try:
        room = mmap.mmap(-1, step * len(x), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)  # MAP_NORESERVE
    except OSError:
        pytest.skip("no mapping of so many addresses here")
    far = np.ndarray(x.shape, x.dtype, room, step * (len(x) - 1), (-step, *x.strides[1:]))
    far[...] = x
    return far


def test_rows_of_arrays_lie_as_far_apart_as_any_memory():
    """Ops that are made of others describe these of arrays that stand for the operands."""
    x = np.random.default_rng(0).integers(-4, 5, (7, 6, 6)).astype(np.float32)
    far, w = far_apart(x), np.ones((4, 6, 6), np.float32) / 8
    for call in (popops.max_with_indices, lambda x: popops.histogram(x, np.float32([-2, 0, 3])),
                 lambda x: popops.pad(x, ((1, 1), (0, 2), (0, 0))), lambda x: popnn.lstm_fwd(x, w, w),
                 lambda x: popnn.gru_fwd(x, w[:3], w[:3]), lambda x: poplin.norm_statistics(x, 1e-5),
                 lambda x: poplin.convolution(x, np.ones((6, 6, 1), np.float32), residual=x)):
        due, found = call(x), call(far)
        for part, other in zip(*((made if isinstance(made, tuple) else (made,)) for made in (found, due)), strict=True):
            np.testing.assert_array_equal(part, other)
    far = far_apart(np.zeros_like(x))
    poplin.convolution(x, np.ones((6, 6, 1), np.float32), residual=x, out=far)
    np.testing.assert_array_equal(far, poplin.convolution(x, np.ones((6, 6, 1), np.float32), residual=x))
