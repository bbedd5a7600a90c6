"""Outputs that are resized or turned over between the moment when a call looks at them and the moment when it runs."""

from __future__ import annotations

import gc
import itertools
import sys
from contextlib import contextmanager, suppress
from functools import partial

import numpy as np
import pytest

from poplibs_py import poplin, popops
from poplibs_py.errors import InvalidArgumentError
from poplibs_py.testing import assert_same_bits

ROWS, DEPTH, COLUMNS = 48, 64, 200  # results of more than 32 KiB: Python's lock is given up


class Meddler:
    """Stands for numbers, and does a deed when it is asked for them."""

    def __init__(self, numbers, deed):
        self.numbers, self.deed = numbers, deed

    def __array__(self, dtype=None, copy=None):
        self.deed()
        return self.numbers


class Before:
    """Stands for a function, or an object with functions, of which each is called after a deed."""

    def __init__(self, owner, deed):
        self.owner, self.deed = owner, deed

    def __call__(self, *arguments, **keywords):
        self.deed()
        return self.owner(*arguments, **keywords)

    def __getattr__(self, name):
        return Before(getattr(self.owner, name), self.deed)


class After(Before):
    """The same, with the deed after the call."""

    def __call__(self, *arguments, **keywords):
        result = self.owner(*arguments, **keywords)
        self.deed()
        return result

    def __getattr__(self, name):
        return After(getattr(self.owner, name), self.deed)


def patched(module, name, call, kind=Before):
    """A call during which a deed is done whenever a name of a module is used."""

    def run(out, deed):
        with pytest.MonkeyPatch.context() as patch:
            owner = sys.modules[f"poplibs_py.{module}"]
            patch.setattr(owner, name, kind(getattr(owner, name), deed))
            return call(out=out)

    return run


def biased(call, bias):
    return lambda out, deed: call(out=out, bias=Meddler(bias, deed))


def cases():
    """Name, call with `out` and a deed that it does after `out` was checked, and `out`'s shape and dtype."""
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((ROWS, DEPTH), (DEPTH, COLUMNS)))
    row, c = np.arange(COLUMNS, dtype=np.float32), ((ROWS, COLUMNS), np.float32)
    dense_plan = poplin.plan_matmul(a.shape, b.shape, bias_dtype="float32")
    yield "dense", patched("poplin.matmul.api", "read_call", partial(poplin.matmul, a, b, options={}), After), *c
    yield "dense again", patched("poplin.matmul.api", "_seen", partial(poplin.matmul, a, b), After), *c
    yield "dense compiled", biased(partial(poplin.compile_matmul(dense_plan), a, b), row), *c
    yield "accumulated", patched("poplin.matmul.api", "read_call", partial(accumulate, a, b), After), *c
    at_random = partial(popops.cast, b, "float16", rounding="stochastic", seed=1)
    yield "cast", patched("popops.cast", "execute", at_random), b.shape, np.float16
    yield "cast again", patched("popops.cast", "_MEMO", partial(popops.cast, b, "float16"), After), b.shape, np.float16


def accumulate(a, b, out):
    return poplin.matmul_acc(out, a, b)


CASES = [pytest.param(*case[1:], id=case[0]) for case in cases()]


@pytest.mark.parametrize(("call", "shape", "dtype"), CASES)
def test_an_output_made_smaller_after_it_was_checked_is_refused(call, shape, dtype):
    call(np.zeros(shape, dtype), lambda: None)
    out = np.zeros(shape, dtype)
    with pytest.raises(InvalidArgumentError, match=r"resized|shape"):
        call(out, lambda: out.resize((1,) * out.ndim, refcheck=False))
    assert out.tolist() == np.zeros((1,) * out.ndim).tolist()


@pytest.mark.parametrize(("call", "shape", "dtype"), CASES)
@pytest.mark.filterwarnings("ignore:.*shape.*:DeprecationWarning")
def test_an_output_turned_over_after_it_was_checked_is_written_as_it_was(call, shape, dtype):
    due = call(np.zeros(shape, dtype), lambda: None)
    out = np.zeros(shape, dtype)

    def turn():
        out.shape = shape[::-1]

    try:
        assert call(out, turn) is out
    except InvalidArgumentError:  # looked at anew
        assert not out.any()
    else:
        assert_same_bits(out.reshape(shape), due)


@pytest.mark.parametrize("op", ["matmul", "cast"])
def test_an_output_resized_while_garbage_is_collected_is_refused(op):
    """A collection runs finalizers, which may do anything, wherever something is allocated: within a call too."""
    a, x = np.eye(ROWS, dtype=np.float32), np.ones((ROWS, COLUMNS), np.float32)
    dtype = np.float16 if op == "cast" else np.float32
    call = {"matmul": partial(poplin.matmul, a, x), "cast": partial(popops.cast, x, "float16")}[op]
    call(out=np.zeros(x.shape, dtype))
    refused = 0
    with collecting_always():
        for nth in range(20):
            out = np.zeros(x.shape, dtype)
            with resized_by_collection(nth, out) as resized:
                try:
                    call(out=out)
                except InvalidArgumentError:
                    refused += 1
                    assert resized
                else:
                    assert not resized
    assert refused


@contextmanager
def collecting_always():
    """Collect garbage at almost every allocation; what there is already is left alone, for speed."""
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(1)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


@contextmanager
def resized_by_collection(nth, out):
    """Within the block the collection of this number makes an array small; if NumPy lets it, the list is not empty."""
    count, resized = itertools.count(), []

    def meddle(phase, info):
        if phase == "start" and next(count) == nth:
            with suppress(ValueError):  # it is held
                out.resize((1, 1), refcheck=False)
                resized.append(nth)

    gc.callbacks.append(meddle)
    try:
        yield resized
    finally:
        gc.callbacks.remove(meddle)
