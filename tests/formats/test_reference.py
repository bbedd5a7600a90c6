"""The reference codec against ml_dtypes, gfloat and the search of every value."""

from fractions import Fraction
from typing import get_args

import gfloat
import numpy as np
import pytest
from format_oracle import MORE, NARROW, boundaries, formats, payload_free, round_magnitude, value
from gfloat.formats import (
    format_info_bfloat16,
    format_info_binary16,
    format_info_ocp_e2m1,
    format_info_ocp_e2m3,
    format_info_ocp_e3m2,
    format_info_ocp_e4m3,
    format_info_ocp_e5m2,
    format_info_ocp_e8m0,
    format_info_p3109,
)
from gfloat.types import Domain
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.formats import BF16, E4M3, E5M2, F143, F152, FP16
from poplibs_py.formats.presets import E2M1, E2M3, E3M2, E8M0, PRESETS
from poplibs_py.formats.reference import Rounding, allowed_overflows, decode, default_overflow, encode

ROUNDINGS = get_args(Rounding)
GFLOAT_MODES = {
    "nearest-even": gfloat.RoundMode.TiesToEven,
    "toward-zero": gfloat.RoundMode.TowardZero,
    "stochastic": gfloat.RoundMode.StochasticFast,
    "up": gfloat.RoundMode.TowardPositive,
    "down": gfloat.RoundMode.TowardNegative,
    "nearest-away": gfloat.RoundMode.TiesToAway,
}
OURS_ALONE = [f for f in MORE if not (f.signed or f == E8M0)]
"""Formats whose roundings gfloat has otherwise: it takes no negative number to an unsigned format."""


def gfloat_of(fmt):
    """The same format as gfloat describes it."""
    known = {FP16: format_info_binary16, BF16: format_info_bfloat16,
             E4M3: format_info_ocp_e4m3, E5M2: format_info_ocp_e5m2}
    if fmt in known:
        return known[fmt]
    if fmt.name.startswith("binary8p"):
        return format_info_p3109(8, fmt.precision)
    theirs = {E2M1: format_info_ocp_e2m1, E2M3: format_info_ocp_e2m3, E3M2: format_info_ocp_e3m2,
              E8M0: format_info_ocp_e8m0}
    if fmt in theirs:
        return theirs[fmt]
    high_nans = {"ieee": (1 << fmt.mantissa_bits) - 1, "nan_only": 1, "p3109": not fmt.signed}.get(fmt.specials, 0)
    return gfloat.FormatInfo(
        fmt.name, fmt.bits, fmt.precision, bias=fmt.bias, is_signed=fmt.signed,
        domain=Domain.Extended if fmt.has_infinity else Domain.Finite, has_nz=fmt.has_minus_zero,
        num_high_nans=high_nans, has_subnormals=fmt.zero, is_twos_complement=False,
    )  # fmt: skip


def all_codes(fmt):
    return np.arange(1 << fmt.bits).astype(fmt.code_dtype)


THEIRS = [*NARROW, *(f for f in PRESETS if f.dtype is not None)]
"""What ml_dtypes has."""


@pytest.mark.parametrize("fmt", THEIRS, ids=str)
def test_decode_equals_ml_dtypes_for_every_code(fmt):
    codes = all_codes(fmt)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        want = codes.view(fmt.dtype).astype(np.float64)
    got = decode(codes, fmt)
    np.testing.assert_array_equal(got, want)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))


@pytest.mark.parametrize("fmt", [f for f in (*NARROW, *MORE) if f.subnormals and f.bits <= 10 and f.signed | f.zero
                                 | (f == E8M0)], ids=str)
def test_decode_equals_gfloat_for_every_code(fmt):
    info = gfloat_of(fmt)
    want = [gfloat.decode_float(info, int(c)).fval for c in all_codes(fmt)]
    np.testing.assert_array_equal(decode(all_codes(fmt), fmt), want)


@given(formats, st.data())
def test_decode_is_the_definition(fmt, data):
    codes = data.draw(st.lists(st.integers(0, fmt.max_code), max_size=20))
    scale = data.draw(st.integers(-32, 31))
    want = [float(value(c, fmt) * Fraction(2) ** scale) for c in codes]
    np.testing.assert_array_equal(decode(np.array(codes, fmt.code_dtype), fmt, scale), want)


@pytest.mark.parametrize("fmt", THEIRS, ids=str)
def test_nearest_even_equals_ml_dtypes_at_every_boundary(fmt):
    with np.errstate(over="ignore", invalid="ignore"):
        halves = [np.arange(1 << 16, dtype=np.uint16).view(each.dtype).astype(np.float32) for each in (FP16, BF16)]
        x = np.concatenate([boundaries(fmt, limit=1 << 15), *halves])
        want = x.astype(fmt.dtype).view(fmt.code_dtype)
    if fmt != E8M0:
        np.testing.assert_array_equal(payload_free(encode(x, fmt), fmt), payload_free(want, fmt))
        return
    # ml_dtypes takes E8M0's ties away from zero, and misrounds what FP32 has subnormal. IEEE's ties go to even codes.
    normal = (x >= 2.0**-126) | ~(x > 0)
    away = encode(x, fmt, rounding="nearest-away")
    np.testing.assert_array_equal(away[normal], want[normal])
    tie = (x.view(np.uint32) & 0x7FFFFF == 0x400000) & normal
    even = encode(x, fmt)
    np.testing.assert_array_equal(even[normal & ~tie], away[normal & ~tie])
    assert not (even[tie & (x < fmt.max) & (x > 0)] % 2).any()


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("fmt", [f for f in (*NARROW, *MORE) if f.subnormals and f not in OURS_ALONE], ids=str)
def test_rounding_equals_gfloat(fmt, rounding):
    rng = np.random.default_rng(7)
    x = rng.permutation(boundaries(fmt, limit=256))[:600].astype(np.float64)
    x = x[np.isfinite(x)]
    if fmt == E8M0:  # gfloat rounds zero, and what is smaller than the smallest number, to numbers that it has not
        x = x[x >= fmt.smallest_normal]
    if not fmt.has_nan:
        x = x[np.abs(x) <= fmt.max]
    words = rng.integers(0, 2**32, x.size, dtype=np.uint32)
    want = [
        gfloat.round_float(gfloat_of(fmt), v, GFLOAT_MODES[rounding], srbits=int(w) >> 25, srnumbits=7)
        for v, w in zip(x.tolist(), words, strict=True)
    ]
    got = decode(encode(x, fmt, rounding=rounding, words=words, random_bits=7), fmt)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@given(fmt=formats.filter(lambda f: f.bits <= 12), data=st.data())
def test_rounding_equals_the_search_of_every_value(fmt, rounding, data):
    x = data.draw(st.one_of(st.floats(allow_nan=False, allow_infinity=False),
                            st.sampled_from(boundaries(fmt, 64).tolist()).filter(np.isfinite)))
    word, bits = data.draw(st.integers(0, 2**32 - 1)), data.draw(st.integers(1, 31))
    overflow = data.draw(st.sampled_from(allowed_overflows(fmt, rounding)))
    negative = bool(np.signbit(x))
    code = round_magnitude(abs(Fraction(x)), fmt, rounding, word, bits, negative)
    if code > fmt.max_code:
        outward = rounding == ("down" if negative else "up")
        word_for = (fmt.overflow if outward else "saturate") if overflow == "directed" else overflow
        code = {"saturate": fmt.max_code, "nan": fmt.nan_code, "inf": fmt.max_code + 1}[word_for]
    if (x < 0 and not fmt.signed) or (x == 0 and not fmt.zero):
        code = fmt.nan_code if fmt.has_nan else 0
    sign = negative and fmt.signed and not (fmt.specials in ("negative_zero", "p3109") and code == 0)
    words = np.array(word, np.uint32)
    got = encode(np.array(x), fmt, rounding=rounding, overflow=overflow, words=words, random_bits=bits)
    assert int(got) == code | int(sign) << (fmt.exponent_bits + fmt.mantissa_bits)


@pytest.mark.parametrize(("x", "scale", "fmt", "overflow", "code"), [
    (0.75, 0, F143, "nan", 0x3C), (0.75, -2, F143, "nan", 0x4C), (0.75, 1, F143, "nan", 0x34),
    (0.25, 0, F152, "nan", 0x38), (250.0, 0, F143, "saturate", 0x7F), (250.0, 0, F143, "nan", 0x80),
    (70000.0, 0, F152, "saturate", 0x7F), (70000.0, 0, F152, "nan", 0x80), (np.inf, 0, F152, "saturate", 0x80),
    (-1e-9, 0, F143, "nan", 0x00), (464.0, 0, E4M3, "nan", 0x7E), (465.0, 0, E4M3, "nan", 0x7F),
])  # fmt: skip
def test_codes_that_poplibs_documents(x, scale, fmt, overflow, code):
    assert int(encode(np.array(x), fmt, scale=scale, overflow=overflow)) == code


def test_default_overflow():
    assert [default_overflow(f, "nearest-even") for f in (FP16, E5M2, F143, E4M3)] == ["inf", "inf", "nan", "nan"]
    assert default_overflow(FP16, "toward-zero") == default_overflow(E2M1, "nearest-even") == "saturate"
    assert {default_overflow(f, rounding) for f in (FP16, E4M3) for rounding in ("up", "down")} == {"directed"}
    assert encode(np.float64([1e9, -1e9]), FP16, rounding="up").tolist() == [0x7C00, 0xFBFF]
    assert encode(np.float64([1e9, -1e9]), FP16, rounding="down").tolist() == [0x7BFF, 0xFC00]
    assert encode(np.float64([1e9, -1e9]), E4M3, rounding="up").tolist() == [0x7F, 0xFE]
