"""The reference codec against ml_dtypes, gfloat and the search of every value."""

from fractions import Fraction

import gfloat
import numpy as np
import pytest
from format_oracle import NARROW, USERS, boundaries, formats, payload_free, round_magnitude, value
from gfloat.formats import format_info_bfloat16, format_info_binary16, format_info_ocp_e4m3, format_info_ocp_e5m2
from gfloat.types import Domain
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.formats import BF16, E4M3, E5M2, F143, F152, FP16
from poplibs_py.formats.reference import decode, default_overflow, encode

ROUNDINGS = ("nearest-even", "toward-zero", "stochastic")
GFLOAT_MODES = {
    "nearest-even": gfloat.RoundMode.TiesToEven,
    "toward-zero": gfloat.RoundMode.TowardZero,
    "stochastic": gfloat.RoundMode.StochasticFast,
}


def gfloat_of(fmt):
    """The same format as gfloat describes it."""
    known = {FP16: format_info_binary16, BF16: format_info_bfloat16,
             E4M3: format_info_ocp_e4m3, E5M2: format_info_ocp_e5m2}
    if fmt in known:
        return known[fmt]
    high_nans = {"ieee": (1 << fmt.mantissa_bits) - 1, "nan_only": 1, "negative_zero": 0}[fmt.specials]
    return gfloat.FormatInfo(
        fmt.name, fmt.bits, fmt.precision, bias=fmt.bias, is_signed=True,
        domain=Domain.Extended if fmt.has_infinity else Domain.Finite, has_nz=fmt.specials != "negative_zero",
        num_high_nans=high_nans, has_subnormals=True, is_twos_complement=False,
    )  # fmt: skip


def all_codes(fmt):
    return np.arange(1 << fmt.bits).astype(fmt.code_dtype)


@pytest.mark.parametrize("fmt", NARROW, ids=str)
def test_decode_equals_ml_dtypes_for_every_code(fmt):
    codes = all_codes(fmt)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        want = codes.view(fmt.dtype).astype(np.float64)
    got = decode(codes, fmt)
    np.testing.assert_array_equal(got, want)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))


@pytest.mark.parametrize("fmt", [f for f in (*NARROW, *USERS) if f.subnormals and f.bits <= 10], ids=str)
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


@pytest.mark.parametrize("fmt", NARROW, ids=str)
def test_nearest_even_equals_ml_dtypes_at_every_boundary(fmt):
    x = boundaries(fmt, limit=1 << 15)
    with np.errstate(over="ignore", invalid="ignore"):
        want = x.astype(fmt.dtype).view(fmt.code_dtype)
    np.testing.assert_array_equal(payload_free(encode(x, fmt), fmt), payload_free(want, fmt))


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("fmt", [f for f in (*NARROW, *USERS) if f.subnormals], ids=str)
def test_rounding_equals_gfloat(fmt, rounding):
    rng = np.random.default_rng(7)
    x = rng.permutation(boundaries(fmt, limit=256))[:600].astype(np.float64)
    x = x[np.isfinite(x)]
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
    overflow = data.draw(st.sampled_from(["saturate", "nan"] + ["inf"] * fmt.has_infinity))
    code = round_magnitude(abs(Fraction(x)), fmt, rounding, word, bits)
    if code > fmt.max_code:
        infinity = ((1 << fmt.exponent_bits) - 1) << fmt.mantissa_bits
        code = {"saturate": fmt.max_code, "nan": fmt.nan_code, "inf": infinity}[overflow]
    sign = np.signbit(x) and not (fmt.specials == "negative_zero" and code == 0)
    words = np.array(word, np.uint32)
    got = encode(np.array(x), fmt, rounding=rounding, overflow=overflow, words=words, random_bits=bits)
    assert int(got) == code | int(sign) << (fmt.bits - 1)


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
    assert default_overflow(FP16, "toward-zero") == "saturate"
