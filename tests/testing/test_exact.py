"""The exact oracle against ml_dtypes and gfloat, every code."""

from fractions import Fraction

import gfloat
import numpy as np
import pytest
from gfloat import formats as theirs
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.errors import InvalidTypeError
from poplibs_py.formats import BF16, E4M3, E5M2, F143, F152, FP16, FP32
from poplibs_py.formats.presets import PRESETS
from poplibs_py.formats.reference import decode, encode
from poplibs_py.testing import codes_of, decode_exact, exact_values, round_exact, strategies, values_of

SMALL = [F143, F152, E4M3, E5M2]
GFLOAT = {
    FP16: theirs.format_info_binary16,
    BF16: theirs.format_info_bfloat16,
    E4M3: theirs.format_info_ocp_e4m3,
    E5M2: theirs.format_info_ocp_e5m2,
}


def every_code(fmt):
    return np.arange(1 << fmt.bits).astype(fmt.code_dtype)


@pytest.mark.parametrize("fmt", [*SMALL, FP16, BF16], ids=str)
def test_every_code_is_ml_dtypes_value(fmt):
    with np.errstate(invalid="ignore"):
        values = every_code(fmt).view(fmt.dtype).astype(np.float64)
    ours = values_of(every_code(fmt), fmt)
    assert np.array_equal(ours, values, equal_nan=True)
    assert np.array_equal(np.signbit(ours[ours == 0]), np.signbit(values[values == 0]))


@pytest.mark.parametrize("fmt", GFLOAT, ids=str)
def test_every_code_is_gfloats_value(fmt):
    every = values_of(every_code(fmt), fmt)
    for code in range(0, 1 << fmt.bits, 1 if fmt.bits == 8 else 17):
        value = gfloat.decode_float(GFLOAT[fmt], code).fval
        ours = float(decode_exact(code, fmt))
        assert ours == value or (np.isnan(ours) and np.isnan(value))
        assert every[code] == value or (np.isnan(every[code]) and np.isnan(value))


@pytest.mark.parametrize("fmt", [*SMALL, FP16, BF16], ids=str)
def test_every_number_rounds_to_its_own_code(fmt):
    for code in range(1 << fmt.bits):
        value = decode_exact(code, fmt)
        if isinstance(value, Fraction) and not (value == 0 and code):
            assert round_exact(value, fmt) == code
        elif isinstance(value, float):
            again = decode_exact(round_exact(value, fmt), fmt)
            assert again == value or (value != value and again != again)


@pytest.mark.parametrize("fmt", [FP16, BF16, *SMALL], ids=str)
@given(data=st.data())
def test_rounding_agrees_with_ml_dtypes(fmt, data):
    single = np.array(data.draw(strategies.codes(FP32, finite=True)), np.uint32).view(np.float32)
    near = data.draw(strategies.codes(fmt, finite=True))
    close = float(decode_exact(near, fmt)) * data.draw(st.floats(0.75, 1.5))
    with np.errstate(over="ignore", invalid="ignore"):
        value = np.float32(data.draw(st.sampled_from([float(single), close])))
        due = value.astype(fmt.dtype)
    ours = every_code(fmt)[round_exact(float(value), fmt)].view(fmt.dtype)
    assert ours == due or (np.isnan(float(ours)) and np.isnan(float(due)))


@given(data=st.data())
def test_a_rounded_number_has_no_nearer_one_in_any_custom_format(data):
    fmt = data.draw(strategies.custom_formats(at_most_bits=10))
    value = data.draw(st.fractions(-Fraction(fmt.max) * fmt.signed, Fraction(fmt.max)).filter(lambda v: v or fmt.zero))
    numbers = [v for c in range(1 << fmt.bits) if isinstance(v := decode_exact(c, fmt), Fraction)]
    found = decode_exact(round_exact(value, fmt), fmt)
    assert abs(found - value) == min(abs(v - value) for v in numbers)
    nearer = decode_exact(round_exact(value, fmt, "nearest-away"), fmt)
    assert abs(nearer - value) == abs(found - value)
    assert abs(nearer) >= abs(found)
    up, down = (decode_exact(round_exact(value, fmt, rounding), fmt) for rounding in ("up", "down"))
    assert up == min((v for v in numbers if v >= value), default=max(numbers))
    assert down == max((v for v in numbers if v <= value), default=min(numbers))
    assert decode_exact(round_exact(value, fmt, "toward-zero"), fmt) == (down if value > 0 else up)


@pytest.mark.parametrize("fmt", [FP16, F143, E4M3], ids=str)
def test_overflow_is_what_was_asked_for(fmt):
    past = Fraction(fmt.max) * 4
    assert round_exact(past, fmt, overflow="saturate") == fmt.max_code
    assert round_exact(past, fmt, overflow="nan") == fmt.nan_code
    assert round_exact(past, fmt, "toward-zero") == fmt.max_code
    assert decode_exact(round_exact(float("inf"), fmt), fmt) != Fraction(fmt.max)


@pytest.mark.parametrize("fmt", PRESETS, ids=str)
def test_rounding_is_the_reference_codecs(fmt):
    codes = np.arange(1 << fmt.bits)
    values = decode(codes, fmt)
    assert all(decode_exact(int(c), fmt) == v or v != v for c, v in zip(codes, values, strict=True))
    numbers = np.sort(values[np.isfinite(values)])
    others = [0.3, -0.3, 4 * fmt.max, -4 * fmt.max, np.inf, -np.inf]
    x = np.concatenate([numbers, (numbers[1:] + numbers[:-1]) / 2, others])
    x = x[x != 0] if not fmt.zero else np.where(x == 0, 0.0, x)  # fractions have one zero
    for rounding in ("nearest-even", "nearest-away", "toward-zero", "up", "down"):
        ours = [round_exact(v if np.isinf(v) else Fraction(v), fmt, rounding) for v in x.tolist()]
        assert ours == encode(x, fmt, rounding=rounding).tolist()


@pytest.mark.parametrize("fmt", PRESETS, ids=str)
def test_a_float_of_minus_zero_keeps_its_sign_where_the_format_has_one(fmt):
    assert round_exact(-0.0, fmt) == encode(np.array([-0.0]), fmt)[0]


@given(st.data())
def test_exact_values_hold_the_array(data):
    fmt = data.draw(strategies.formats())
    array = data.draw(strategies.arrays((3, 2), fmt))
    for exact, value in zip(exact_values(array).ravel(), values_of(array).ravel(), strict=True):
        assert exact == value or (np.isnan(exact) and np.isnan(value))
    assert np.array_equal(codes_of(array, fmt).view(fmt.dtype).view(fmt.code_dtype), array.view(fmt.code_dtype))


def test_a_format_may_be_a_name_or_a_dtype():
    assert round_exact(1.5, "float16") == round_exact(1.5, np.float16) == round_exact(1.5, FP16) == 0x3e00
    assert decode_exact(0x3e00, "half") == Fraction(3, 2)
    with pytest.raises(InvalidTypeError, match=r"^dtype: got fp7; allowed: a poplibs_py.formats.Format or"):
        round_exact(1.5, "fp7")
