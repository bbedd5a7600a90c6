"""Counts: histograms with levels of each call, how often whole numbers are there, weights, bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest

from poplibs_py import popops, testing
from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.formats import BF16, FP16, FP32
from poplibs_py.kernels import select
from poplibs_py.memo import forget
from poplibs_py.popops.counts import lower
from poplibs_py.testing import as_format

RNG = np.random.default_rng(20261122)


def numbers(shape, fmt=FP32, seed=0):
    return as_format(np.random.default_rng(seed).standard_normal(shape), fmt)


def test_histograms_count_everything():
    for n in (0, 1, 15, 16, 17, 3000, 200_000):
        for count in (1, 2, 7, 16, 255, 256, 1000):
            x = numbers((n,), FP16, n)
            x[n // 2:n // 2 + 1], x[n // 3:n // 3 + 1] = math.nan, math.inf
            levels = np.sort(numbers((count,), FP32, count))
            got = testing.check("histogram", x, levels)
            assert got.sum() == n
            twice = popops.histogram(x[::-1], levels, update=True, out=got.copy())
            np.testing.assert_array_equal(twice, 2 * got)
    for threads in (1, 3):
        with thread_limit(threads):
            np.testing.assert_array_equal(popops.histogram(x, levels), got)
    with pytest.raises(InvalidArgumentError, match=r"^levels: got"):
        popops.histogram(x, [2.0, 1.0])
    with pytest.raises(InvalidArgumentError, match=r"^update: got"):
        popops.histogram(x, [2.0], update=True)


def test_levels_are_those_of_each_call():
    x, levels = numbers((9, 5)), np.float32([0, 1, 2])
    for _ in range(2):
        popops.histogram(x, levels)
    levels[:] = -1, 0, 1
    np.testing.assert_array_equal(popops.histogram(x, levels), popops.histogram(x, levels.tolist()))
    np.testing.assert_array_equal(popops.histogram(x, levels[::2]), popops.histogram(x, [-1.0, 1.0]))
    held = np.full(4, 7, np.uint32)
    for wrong in ((1, 0, 2), (0, 1, np.nan), (np.nan, 0, 1)):
        popops.histogram(x, np.float32([0, 1, 2]), out=held.copy())
        levels[:] = wrong
        with pytest.raises(InvalidArgumentError, match=r"^levels: got .*; allowed: ascending numbers"):
            popops.histogram(x, levels, out=held)
        assert (held == 7).all()


@pytest.mark.parametrize("levels", [
    np.linspace(-1, 1, 255), np.linspace(0, 1e-40, 9), [-3e38, 0, 3e38], [-math.inf, 0, 1], [0, 1, math.inf], [0.5] * 3,
    [-0.0], [0.0, 1.0], [*np.linspace(0, 1, 63), 1e6], np.linspace(0, 1, 2047), np.linspace(0, 1, 5000),
    np.float32(1) + np.arange(9) * np.finfo(np.float32).eps], ids=str)
def test_levels_lie_as_they_like(levels):
    levels = np.float32(levels)
    ends = np.float32([0.0, -0.0, math.nan, math.inf, -math.inf, 3e38, -3e38, 1e-45])
    x = np.concatenate([numbers((20_000,)), levels, np.nextafter(levels, np.float32(-math.inf)), ends])
    for magnitudes in (False, True):
        for n in (9, len(x)):
            testing.check("histogram", x[-n:], levels, absolute_of_input=magnitudes)


def test_whole_numbers_are_counted():
    for bins in (1, 300, 4096, 4097, 70_000):
        x = RNG.integers(0, bins, 5000)
        for n in (0, 1, 5, 5000):
            due = np.bincount(x[:n], minlength=bins + 3)
            np.testing.assert_array_equal(popops.bincount(x[:n], minlength=bins + 3), due)
        np.testing.assert_array_equal(popops.bincount(x[::-3]), np.bincount(x[::-3]))
    for kind in "bBhHiIqQ":
        small = (x & 127).astype(kind)
        for read in (small, small[::2]):
            np.testing.assert_array_equal(popops.bincount(read), np.bincount(read.astype(np.int64)))


def test_weights_are_added():
    x = RNG.integers(0, 300, 5000)
    whole = RNG.integers(-2**40, 2**40, 5000)
    numbered = [numbers((5000,), fmt) for fmt in (FP32, FP16, BF16)]
    for weights in (*numbered, whole, whole.astype(np.uint64), whole.astype("h")):
        due = np.bincount(x, weights.astype(np.float64)).astype(np.float32)
        np.testing.assert_array_equal(popops.bincount(x, weights), due)
        np.testing.assert_array_equal(popops.bincount(x[::-1].astype(np.uint16), weights[::-1]),
                                      np.bincount(x[::-1], weights[::-1].astype(np.float64)).astype(np.float32))
    many, weights = RNG.integers(0, 1000, 300_000), numbers((300_000,))
    due = popops.bincount(many), popops.bincount(many, weights)
    for threads in (1, 3):
        with thread_limit(threads):
            np.testing.assert_array_equal(popops.bincount(many), due[0])
            np.testing.assert_array_equal(popops.bincount(many, weights), due[1])


def test_nothing_is_counted_as_nothing():
    for least in (0, 3):
        for x, weights in (([], None), ((), []), (np.zeros(0, np.uint8), np.zeros(0, np.float16))):
            counts = popops.bincount(x, weights, minlength=least)
            due = np.zeros(least, np.int64 if weights is None else np.float32)
            np.testing.assert_array_equal(counts, due, strict=True)


def test_what_cannot_be_counted():
    for wrong, message in (([-1, 2], "x: got numbers from -1"), (np.float32([1]), "x: got dtype float32"),
                           (np.array([1, 2**64 - 1], "Q"), "x: got numbers from 1 to 18446744073709551615"),
                           (np.array([2**28]), "x: got numbers from"), (np.array([1], ">i4"), "x: got dtype >i4")):
        with pytest.raises((InvalidArgumentError, InvalidTypeError), match="^" + message):
            popops.bincount(wrong)
    with pytest.raises(InvalidArgumentError, match=r"^weights: got shape"):
        popops.bincount([1, 2], [1.0])
    for weights in (np.ones(2), np.ones(2, bool), np.ones(2, np.complex64)):
        with pytest.raises(InvalidTypeError, match=r"^weights: got dtype"):
            popops.bincount([1, 2], weights)


def test_counts_of_other_data_are_the_same_program(monkeypatch):
    made = []
    monkeypatch.setattr(lower, "select", lambda *what: made.append(what) or select(*what))
    forget()
    weights = np.ones(5000, np.int8)
    for most in range(513, 1024, 37):
        x = np.arange(5000) % most
        for counts, due in ((popops.bincount(x), np.bincount(x)),
                            (popops.bincount(x, weights), np.bincount(x, weights)),
                            (popops.bincount(x & 511, minlength=most), np.bincount(x & 511, minlength=most))):
            np.testing.assert_array_equal(counts, due)
    assert [op for _, op, _ in made if op in ("bincount", "weighted")] == ["bincount", "weighted"]
