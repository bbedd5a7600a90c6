"""Casts between 8-bit integers and formats, against numbers that float64 holds exactly."""

import re
import sys

import numpy as np
import pytest
from format_oracle import USERS, round_magnitudes, value
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from poplibs_py import profile, testing
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.formats import BF16, E4M3, E5M2, F143, F152, FP16, FP32, QuarterArray
from poplibs_py.popops import cast

EIGHT_BITS = (F143, F152, E4M3, E5M2)
INTEGERS = (np.int8, np.uint8)
ROUNDINGS = {None: np.trunc, "toward-zero": np.trunc, "nearest-even": np.rint}
CODES = np.arange(256, dtype=np.uint8)
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def numbers_of(fmt):
    """What each code stands for at scale 0."""
    infinity = ((1 << fmt.exponent_bits) - 1) << fmt.mantissa_bits
    found = []
    for code in range(1 << fmt.bits):
        magnitude = code & ((1 << (fmt.bits - 1)) - 1)
        is_nan = (code == fmt.nan_code) if fmt.specials == "negative_zero" else magnitude > fmt.max_code
        if fmt.specials == "ieee" and magnitude == infinity:
            number = np.inf
        else:
            number = np.nan if is_nan else float(value(magnitude, fmt))
        found.append(number if code == magnitude else -number)
    return np.array(found)


def integers_of(numbers, dtype, rounding):
    """The 8-bit integers that numbers become: NaN zero, infinities and what is too large the nearest limit."""
    limits = np.iinfo(dtype)
    whole = ROUNDINGS[rounding](np.where(np.isnan(numbers), 0, numbers))
    return np.clip(whole, limits.min, limits.max).astype(np.int64)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("fmt", EIGHT_BITS, ids=str)
def test_every_code_at_every_scale_to_integers(fmt, dtype):
    numbers = numbers_of(fmt)
    for scale in fmt.scales:
        for rounding in ROUNDINGS:
            got = cast(QuarterArray(CODES, fmt, scale), dtype, rounding=rounding)
            assert got.dtype == dtype
            np.testing.assert_array_equal(got, integers_of(np.ldexp(numbers, scale), dtype, rounding))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("fmt", EIGHT_BITS, ids=str)
def test_every_integer_to_every_format_at_every_scale(fmt, dtype):
    integers = CODES.view(dtype)
    for scale in fmt.scales if fmt in (F143, F152) else (-32, -9, -8, -1, 0, 1, 7, 31):
        for rounding in ("nearest-even", "toward-zero"):
            codes = round_magnitudes(np.ldexp(np.abs(integers.astype(np.float64)), -scale), fmt, rounding)
            over = codes > fmt.max_code
            has_sign = (integers < 0) & ((codes > 0) | (fmt.specials != "negative_zero"))
            sign = has_sign.astype(np.int64) << fmt.bits - 1
            for overflow in ("saturate", "nan"):
                q = cast(integers, fmt, scale=scale, rounding=rounding, overflow=overflow)
                is_nan = over & (overflow == "nan")
                np.testing.assert_array_equal(np.isnan(q.to_array(np.float64)), is_nan)
                want = np.where(over, fmt.max_code, codes) | sign
                np.testing.assert_array_equal(q.codes[~is_nan], want[~is_nan])


@pytest.mark.parametrize("fmt", [FP32, FP16, BF16, *USERS[:4]], ids=str)
def test_other_formats_hold_integers_as_they_hold_numbers(fmt):
    for dtype in INTEGERS:
        integers = CODES.view(dtype)
        exact = integers.astype(np.float32)
        for got, want in ((cast(integers, fmt), cast(exact, fmt)),
                          (cast(integers, fmt, rounding="stochastic", seed=3), cast(exact, fmt, rounding="stochastic",
                                                                                   seed=3))):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_wide_numbers_are_rounded_once(dtype):
    for x in (np.arange(1 << 16, dtype=np.uint16).view(np.float16),
              np.array([np.nextafter(1, 0), 1, 2.5, 127.5, 255.5, -128.5, -0.0, 1e308, -np.inf, np.nan])):
        with np.errstate(invalid="ignore"):
            numbers = x.astype(np.float64)
        before = x.tobytes()
        for rounding in ROUNDINGS:
            got = cast(x, dtype, rounding=rounding)
            np.testing.assert_array_equal(got, integers_of(numbers, dtype, rounding))
        assert x.tobytes() == before


@given(hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, max_side=6),
                  elements=st.floats(-(2.0**100), 2.0**100, width=32)), st.data())
def test_layouts_scales_of_blocks_and_outputs(x, data):
    dtype = data.draw(st.sampled_from(INTEGERS))
    q = cast(x, F143, scale="auto", block_shape=(1,) + (-1,) * (x.ndim - 1), overflow="saturate")
    with np.errstate(invalid="ignore"):
        want = np.nan_to_num(np.clip(np.trunc(q.to_array()), np.iinfo(dtype).min, np.iinfo(dtype).max)).astype(dtype)
    np.testing.assert_array_equal(cast(q, dtype), want)
    np.testing.assert_array_equal(cast(q.T, dtype), want.T)
    buffer = np.zeros([2 * n + 1 for n in x.shape], dtype)
    out = buffer[tuple(slice(1, 2 * n + 1, 2) for n in x.shape)]
    assert cast(q, dtype, out=out) is out
    np.testing.assert_array_equal(out, want)
    out[...] = 0
    assert not buffer.any(), "nothing is written between the elements"
    testing.check("cast", x, dtype)
    testing.check("cast", q, dtype, rounding="nearest-even")
    testing.check("cast", want, F152, scale="auto")


def test_integers_and_numbers_laid_out_alike_are_told_apart():
    integers, numbers = np.arange(8, dtype=np.int8), np.arange(8, dtype=np.float32)
    for x in (integers, numbers, integers, numbers):
        np.testing.assert_array_equal(cast(x, FP16), numbers.astype(np.float16))
    same = np.arange(8, dtype=np.int8)
    assert cast(same, F143, out=same.view(F143.dtype)).astype(np.float32).tolist() == numbers.tolist()


@pytest.mark.parametrize("name", ["int8", np.int8, np.dtype(np.int8)])
def test_names_of_integers(name):
    assert cast(np.float32([1.9, -1.9]), name).tolist() == [1, -1]


@pytest.mark.parametrize(("call", "message"), [
    (lambda: cast(X, np.int8, scale=1), "scale: got 1; allowed: None"),
    (lambda: cast(X, np.int8, block_shape=(1, 1)), "block_shape: got"),
    (lambda: cast(X, np.int8, rounding="stochastic", seed=1), "rounding: got stochastic"),
    (lambda: cast(X, np.uint8, overflow="nan"), "overflow: got 'nan'"),
    (lambda: cast(X.astype(np.int8), np.uint8), "x: got"),
    (lambda: cast(X.astype(np.int16), np.uint8), "x: got int16"),
    (lambda: cast(X.astype(np.int16), F143), "x: got int16"),
    (lambda: cast(X, np.int16), "dtype: got"),
    (lambda: cast(X, np.int8, out=np.zeros((2, 3), np.uint8)), "out: got an array of uint8"),
    (lambda: cast(X, np.int8, out=np.zeros((3, 2), np.int8)), "out: got shape"),
    (lambda: cast(X, np.uint8, out=QuarterArray.from_array(X)), "out: got"),
])  # fmt: skip
def test_bad_arguments_are_named(call, message):
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match="^" + re.escape(message)):
        call()


@pytest.mark.parametrize("call", [
    lambda x, **k: cast(x, "int8", **k),
    lambda x, **k: cast(x.T, np.uint8, rounding="nearest-even", **k),
    lambda x, **k: cast(x.astype(np.float64), np.int8, **k),
    lambda x, **k: cast(QuarterArray.from_array(x, F143, "auto", (1, -1)), np.int8, **k),
    lambda x, **k: cast(QuarterArray.from_array(x, E5M2, 3), np.int8, **k),
    lambda x, **k: cast(x.astype(np.int8), FP16, **k),
    lambda x, **k: cast(x.astype(np.uint8)[:, ::-1], F143, rounding="stochastic", seed=int(x[0, 0]), **k),
    lambda x, **k: cast(x.astype(np.int8), F152, scale=2, overflow="saturate", **k),
])  # fmt: skip
def test_repeated_casts_are_kept_and_read_their_own_numbers(call):
    call(X)
    kept = cast.kept
    for shift in (1, 40, 100):
        repeated = call(X + shift)
        with profile() as report:  # calls that somebody listens to take the long way
            described = call(X + shift)
        assert [run.op for run in report.runs] == ["popops.cast"]
        assert type(repeated) is type(described)
        codes = [x.codes if isinstance(x, QuarterArray) else x for x in (repeated, described)]
        assert codes[0].shape == codes[1].shape
        assert codes[0].strides == codes[1].strides
        assert codes[0].dtype == codes[1].dtype
        assert codes[0].tobytes() == codes[1].tobytes()
    assert cast.kept == kept


def test_integers_are_written_to_any_array():
    expected = cast(X, "int8")
    room = np.zeros((6, 4), np.int8)
    for out in (room[::3, :3], np.zeros((3, 2), np.int8).T, np.zeros((2, 3), np.int8)[:, ::-1]):
        for _ in range(2):
            out[...] = -1
            assert cast(X, np.int8, out=out) is out
            assert (out == expected).all()
    shared = np.zeros(8, np.float32)
    shared[:] = range(8)
    within = shared.view(np.int8)[3:11]
    wanted = cast(shared.copy(), np.int8)
    assert (cast(shared, np.int8, out=within) == wanted).all()


def test_an_array_that_another_thread_changes_during_a_cast_is_refused():
    from_integers = sys.modules["poplibs_py.popops.elementwise.cast"]._widening
    ran = []
    run = from_integers(lambda *arrays: ran.append(arrays), np.zeros((2, 8), np.float32))
    x, out = np.zeros((2, 8), np.int8), np.zeros((2, 8), np.float16)
    run(x, out)
    assert len(ran) == 1
    for changed in (x.view(np.int64), x.reshape(4, 4), x.T):  # as its dtype, shape or strides may be set
        with pytest.raises(InvalidArgumentError, match=r"^x: got an array that changed during the call"):
            run(changed, out)
    assert len(ran) == 1
