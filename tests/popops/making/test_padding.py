"""Padding: NumPy's results in all modes and with all of its keywords, negative widths, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import popops
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from poplibs_py.formats import BF16, F143, FORMATS
from poplibs_py.popops.making.padding import COMPUTED, KEYWORDS, PERIODS
from poplibs_py.testing import as_format, assert_same_bits
from poplibs_py.testing.encoding_calls import pad_calls, with_ends

RNG = np.random.default_rng(20261122)
CONSTANT = 2.5
X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)


@st.composite
def calls_of_numpys(draw):
    """A call of `pad` whose widths NumPy has, on small whole numbers."""
    (x, widths, mode), keywords = draw(pad_calls())
    widths = widths.values() if isinstance(widths, dict) else widths
    most = [(max(0, before), max(0, after)) if n else (0, 0)
            for n, (before, after) in zip(x.shape, widths, strict=True)]
    x = np.random.default_rng(x.size).integers(0, 2 if x.dtype.kind == "b" else 9, x.shape).astype(x.dtype)
    return x, most, mode, keywords


@given(calls_of_numpys())
def test_pad_is_numpys_with_its_keywords(call):
    x, widths, mode, keywords = call
    wide = x if x.dtype.kind in "biu" or callable(mode) else x.astype(np.float64)
    with np.errstate(all="ignore"):
        due = np.pad(wide, widths, mode, **keywords)
        if mode == "empty":
            due = np.pad(wide, widths)
    got = popops.pad(x, widths, mode, **keywords)
    assert got.dtype == x.dtype
    if x.dtype.kind in "biu":
        np.testing.assert_array_equal(got, due)
    else:
        fmt = next(f for f in FORMATS if f.dtype == x.dtype)
        assert_same_bits(got, due if callable(mode) else as_format(due, fmt))


@pytest.mark.parametrize("mode", [*PERIODS, *COMPUTED, "constant", "edge"])
def test_pad_is_numpys(mode):
    how = {"constant_values": CONSTANT} if mode == "constant" else {}
    for shape, widths in [((1,), 5), ((4,), (9, 3)), ((3, 5), ((1, 2), (9, 0))), ((2, 1, 3), ((0, 1), (4, 4), (2, 0)))]:
        x = RNG.standard_normal(shape).astype(np.float32)
        due = np.pad(x.astype(np.float64), widths, mode, **how).astype(np.float32)
        assert_same_bits(popops.pad(x, widths, mode, **how), due)
        assert_same_bits(popops.pad(np.asfortranarray(x), widths, mode, **how), due)
        whole = RNG.integers(-50, 50, shape)
        np.testing.assert_array_equal(popops.pad(whole, widths, mode), np.pad(whole, widths, mode))


def test_pad_takes_away_before_it_adds():
    x = np.arange(12, dtype=np.int16).reshape(3, 4)
    np.testing.assert_array_equal(popops.pad(x, ((-1, 1), (2, -2)), "reflect", reflect_type="odd"),
                                  np.pad(x[1:, :2], ((0, 1), (2, 0)), "reflect", reflect_type="odd"))
    np.testing.assert_array_equal(popops.pad(x, {-1: (2, -2), 0: -1}, "mean", stat_length=(1, 2)),
                                  np.pad(x[1:2, :2], ((0, 0), (2, 0)), "mean", stat_length=(1, 2)))
    assert popops.pad(x, (-1, -2)).shape == (0, 1)
    assert popops.pad(x, ((0, 0), (0, 1)), constant_values=((0, 0), (7, 9)))[:, 4].tolist() == [9, 9, 9]
    for fmt in (BF16, F143):
        y = as_format([[1, np.nan, -2]], fmt)
        made = popops.pad(y, ((0, 0), (1, 1)), constant_values=0.5)
        assert_same_bits(made, as_format([[0.5, 1, np.nan, -2, 0.5]], fmt))
    assert not popops.pad(x, 2, "empty")[:2].any()
    out = np.empty((5, 6), np.int16)
    assert popops.pad(x, 1, out=out) is out
    held = np.zeros((4, 6), np.int16)
    held[:3, :4] = x
    popops.pad(held[:3, :4], ((1, 0), (1, 1)), "edge", out=held)  # what it overlaps is read first
    np.testing.assert_array_equal(held, np.pad(x, ((1, 0), (1, 1)), "edge"))


@pytest.mark.parametrize("mode", ["constant", "wrap", "mean", with_ends])
def test_a_number_has_no_axis_to_pad(mode):
    assert popops.pad(np.float32(3), 2, mode) == popops.pad(np.array(3.0, np.float32), -1, mode) == 3


@pytest.mark.parametrize("mode", [*PERIODS, *COMPUTED, "constant", "edge", with_ends])
def test_nothing_is_put_around_nothing(mode):
    for shape in ((0,), (3, 0), (0, 2)):
        wide = [(2, 1) if n else (0, 0) for n in shape]
        assert popops.pad(np.zeros(shape, np.float32), wide, mode).shape == np.pad(np.zeros(shape), wide).shape


def test_a_function_pads_as_numpy_calls_it():
    heard = []

    def pad_with(vector, widths, axis, kwargs):
        heard.append((vector.dtype, tuple(widths), axis, kwargs))
        vector[: widths[0]] = kwargs["value"] + axis
        vector[1] = 9  # what was there is the function's too

    for fmt in (BF16, F143):
        x = as_format(X, fmt)
        for value in (10, 20):  # the next call of the kind asks the function again
            made = popops.pad(x, ((2, 0), (2, -1)), pad_with, value=value)
            assert_same_bits(made, np.pad(x[:, :2], ((2, 0), (2, 0)), pad_with, value=value))
            assert heard[-1] == (x.dtype, (2, 0), 1, {"value": value})
        assert_same_bits(x, as_format(X, fmt))
    out = np.zeros((4, 5), np.float32)
    with pytest.raises(KeyError, match="value"):
        popops.pad(X, 1, pad_with, out=out)
    assert not out.any()
    assert popops.pad(X, 1, with_ends, end=1)[:, 0].tolist() == [1] * 4


def test_what_is_not_the_modes_is_refused():
    for mode in ("constant", "empty", "edge", *PERIODS, *COMPUTED):
        for name, value in {"constant_values": 1, "end_values": 1, "stat_length": 1, "reflect_type": "odd"}.items():
            if name != KEYWORDS.get(mode):
                with pytest.raises(InvalidArgumentError, match=f"{name}: got .*; allowed: nothing in mode '{mode}'"):
                    popops.pad(X, 1, mode, **{name: value})
    whole = X.astype(np.int8)
    for call, kind, words in [
        (lambda: popops.pad(X, 1, stat_lenth=3), InvalidTypeError, r"^pad\(\): got unknown keyword 'stat_lenth' \(did"),
        (lambda: popops.pad(X, 1, "mean", stat_length=0), InvalidArgumentError, "stat_length: got 0"),
        (lambda: popops.pad(X, 1, "mean", stat_length=1.5), InvalidTypeError, "stat_length: got 1.5"),
        (lambda: popops.pad(X, 1, "mean", stat_length=(1, 2, 3)), InvalidArgumentError, "stat_length: got "),
        (lambda: popops.pad(X, 1, "linear_ramp", end_values="a"), InvalidTypeError, "end_values: got a"),
        (lambda: popops.pad(whole, 1, "linear_ramp", end_values=128), InvalidArgumentError, "end_values: got 128"),
        (lambda: popops.pad(whole, 1, "linear_ramp", end_values=np.nan), InvalidArgumentError, "end_values: got nan"),
        (lambda: popops.pad(X, 1, "reflect", reflect_type="both"), InvalidArgumentError, "reflect_type: got both"),
        (lambda: popops.pad(X, {2: 1}), InvalidArgumentError, "pad_width: got 2"),
        (lambda: popops.pad(X, {0: 0.5}), InvalidTypeError, "pad_width: got 0.5"),
        (lambda: popops.pad(X, 1, "reflect", reflect_type="odd", target="gc200"), UnsupportedError, "type 'odd'"),
        (lambda: popops.pad(X, 1, with_ends, target="gc200"), UnsupportedError, "a function"),
    ]:
        with pytest.raises(kind, match=words):
            call()
