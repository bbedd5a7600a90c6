"""Axes in another order: NumPy's copies, every size of element, edges of tiles, levels, out, bad input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from poplibs_py import popops
from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from poplibs_py.kernels import Selection, kernels
from poplibs_py.memo import forget
from poplibs_py.popops.making import rearrange
from poplibs_py.testing import as_format

LEVELS = sorted({k.level for k in kernels("rearrange")})
RNG = np.random.default_rng(20261122)


def numbers(shape, dtype):
    return RNG.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8).view(dtype)[..., 0]


def same(got, due):
    assert got.flags.c_contiguous
    assert got.tobytes() == np.ascontiguousarray(due).tobytes()


@pytest.fixture(params=LEVELS)
def level(request, monkeypatch):
    """A level whose kernels transpose."""
    monkeypatch.setattr(rearrange, "select", lambda family, op, formats: Selection(
        next(k for k in kernels(family) if (k.level, k.op) == (request.param, op)), ()))
    forget()
    yield request.param
    forget()


@pytest.mark.parametrize("dtype", ["u1", "u2", "f2", "i4", "f4", "i8"])
@pytest.mark.usefixtures("level")
def test_matrices_of_every_size_are_transposed(dtype):
    for shape in ((1, 1), (7, 16), (16, 16), (17, 33), (64, 65), (520, 70), (3, 1030)):
        x = numbers(shape, dtype)
        same(popops.transpose(x), x.T)


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "i8"])
@pytest.mark.usefixtures("level")
def test_runs_that_stay_side_by_side_are_elements(dtype):
    for run in (1, 2, 3, 4, 5, 8, 12, 16, 31, 64, 128, 129):
        for shape, axes in (((19, 35, run), (1, 0, 2)), ((3, 9, 2, 18, run), (3, 2, 0, 1, 4)),
                            ((5, 17, run, 2), (1, 0, 2, 3))):
            x = numbers(shape, dtype)
            same(popops.transpose(x, axes), x.transpose(axes))
            same(popops.transpose(x[:, ::2], axes), x[:, ::2].transpose(axes))


def test_axes_may_have_any_order():
    x = numbers((3, 20, 1, 18, 5), "f4")
    for axes in itertools.permutations(range(5)):
        same(popops.transpose(x, axes), x.transpose(axes))
    for y in (x[:, ::2], x[..., ::-1], np.asfortranarray(x), np.broadcast_to(x[:1], x.shape), x[:, :0]):
        same(popops.transpose(y, (3, -1, 0, 2, 1)), y.transpose(3, 4, 0, 2, 1))
    same(popops.transpose(np.float32(3)), np.float32(3))


def test_threads_and_out_change_nothing():
    x = numbers((700, 900), "f2")
    for threads in (1, 3):
        with thread_limit(threads):
            same(popops.transpose(x), x.T)
    out = np.zeros((900, 1400), np.float16)[:, ::2]
    assert popops.transpose(x, out=out) is out
    assert out.tobytes() == x.T.tobytes()
    square = numbers((33, 33), "i4")
    due = square.T.copy()
    popops.transpose(square, out=square)  # read before it is written
    same(square, due)


def test_bad_input_is_refused_by_name():
    x = numbers((2, 3), "f4")
    for call, kind, words in [
        (lambda: popops.transpose(x, (0,)), InvalidArgumentError, "axes"),
        (lambda: popops.transpose(x, (0, 0)), InvalidArgumentError, "axes: got"),
        (lambda: popops.transpose(x, (0, 2)), InvalidArgumentError, "axes: got 2"),
        (lambda: popops.transpose(x, 1), InvalidTypeError, "axes"),
        (lambda: popops.transpose(x.astype(float)), InvalidTypeError, "x: got dtype float64"),
        (lambda: popops.transpose(x, out=np.empty((2, 3), np.float32)), InvalidArgumentError, "out: got shape"),
        (lambda: popops.transpose(as_format(x, "bfloat16"), target="gc200"), UnsupportedError, "popops.transpose"),
    ]:
        with pytest.raises(kind, match=words):
            call()
