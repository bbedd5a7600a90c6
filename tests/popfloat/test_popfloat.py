"""Quantised arrays, and PopFloat's words for formats and roundings."""

from functools import partial

import numpy as np
import pytest
from format_oracle import MORE, NARROW, USERS
from hypothesis import given

from poplibs_py import cast, popfloat, testing
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.formats import BF16, E5M2, F143, FP16, FP32, QuarterArray
from poplibs_py.formats.reference import decode, encode
from poplibs_py.popfloat import FormatConfig, RoundConfig, cast_gfloat_to_native, cast_native_to_gfloat, quantise
from poplibs_py.testing.calls import calls

RNG = np.random.default_rng(4)
X = np.concatenate([RNG.standard_normal(500) * 3, [0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30]]).astype(np.float32)
MODES = {"RN": "nearest-even", "RA": "nearest-away", "RZ": "toward-zero", "RU": "up", "RD": "down", "SR": "stochastic"}


def bits(array):
    return array.view(np.dtype(f"u{array.itemsize}"))


def test_no_machine_quantises(refused_or_here):
    refused_or_here(partial(quantise, X, "e2m1"), "whose cycles are known")


@pytest.mark.parametrize("rounding", sorted(MODES.values()))
@pytest.mark.parametrize("fmt", [*NARROW, *MORE], ids=str)
def test_quantised_numbers_are_those_of_a_cast_there_and_back(fmt, rounding):
    seed = {"seed": 5, "random_bits": 7} if rounding == "stochastic" else {}
    for own in (FP32, FP16, BF16):
        x = cast(X, own)
        got = quantise(x, fmt, rounding=rounding, **seed)
        want = np.asarray(cast(cast(x, fmt, rounding=rounding, **seed), own))
        assert got.dtype == own.dtype
        if not fmt.has_nan:
            special = ~np.isfinite(x)
            want[special] = x[special]
        np.testing.assert_array_equal(bits(got), bits(want))
        if own == FP32 and rounding != "stochastic" and fmt.has_nan:
            np.testing.assert_array_equal(got, decode(encode(x, fmt, rounding=rounding), fmt))


@given(calls("quantise"))
def test_every_call_is_within_its_bound(call):
    testing.check("quantise", *call[0], **call[1])


def test_a_wrong_result_is_found():
    x = np.float32([1.0, 3.0])
    with pytest.raises(AssertionError, match="outside their bounds"):
        testing.assert_within_bound(quantise(x, "e2m1") * np.float32(2), testing.bound("quantise", x, "e2m1"))


def test_strides_and_out_change_nothing():
    x = RNG.standard_normal((6, 10)).astype(np.float32)
    want = quantise(x, "e3m2")
    np.testing.assert_array_equal(quantise(x.T, "e3m2"), want.T)
    out = np.zeros((12, 20), np.float32)[::2, ::2]
    assert quantise(x, "e3m2", out=out) is out
    np.testing.assert_array_equal(out, want)
    same, stored = x.copy(), x.astype(np.float16)
    assert quantise(same, "e3m2", out=same) is same
    np.testing.assert_array_equal(same, want)
    again = stored.copy()
    quantise(again[:-1], "e3m2", out=again[1:])
    np.testing.assert_array_equal(again[1:], quantise(stored[:-1], "e3m2"))
    special = np.float32([np.nan, np.inf, 2.6])
    np.testing.assert_array_equal(quantise(special, "e2m1", out=special), np.float32([np.nan, np.inf, 3]))
    assert quantise(np.zeros((0, 3), np.float32), "e2m1").shape == (0, 3)
    assert quantise([0.3, 2.6], "e2m1").tolist() == [0.5, 3.0]


def test_a_seed_is_a_seed():
    x = np.full(10_000, 1 + 2**-5, np.float32)  # a quarter of F143's step above one
    first, second, other = (quantise(x, F143, rounding="stochastic", seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()
    assert set(first.tolist()) == {1.0, 1.125}
    assert abs(float((first > 1).mean()) - 0.25) < 0.03  # seven standard deviations


@pytest.mark.parametrize("mode", MODES)
def test_popfloats_options_are_a_format_and_a_rounding(mode):
    config, how = FormatConfig(3, 4, 8, enable_infs_and_nans=False), RoundConfig(mode, 12)
    seed = {"seed": 3} if mode == "SR" else {}
    got = cast_native_to_gfloat(X, config, how, **seed)
    want = quantise(X, config.format, rounding=MODES[mode], random_bits=12, **seed)
    np.testing.assert_array_equal(got, want)
    packed = cast_native_to_gfloat(X, config, how, packed=True, **seed)
    assert isinstance(packed, QuarterArray)
    finite = np.isfinite(X)
    np.testing.assert_array_equal(cast_gfloat_to_native(packed)[finite], got[finite])


def test_popfloats_overflow():
    x = np.float32([1e9, -1e9, np.inf, 2])
    with_nan, without = FormatConfig(2, 5, 15), FormatConfig(2, 5, 15, enable_infs_and_nans=False)
    np.testing.assert_array_equal(cast_native_to_gfloat(x, with_nan), np.float32([np.nan, np.nan, np.inf, 2]))
    clipped = cast_native_to_gfloat(x, with_nan, RoundConfig(enable_nanoo_mode=False))
    np.testing.assert_array_equal(clipped, np.float32([57344, -57344, np.inf, 2]))
    np.testing.assert_array_equal(cast_native_to_gfloat(x, without), np.float32([114688, -114688, np.inf, 2]))


def test_popfloats_formats():
    assert FormatConfig().format is FP16
    assert FormatConfig(2, 5, 15).format is E5M2
    assert FormatConfig(7, 8, 127).format is BF16
    flushing = FormatConfig(3, 4, 7, enable_denorms=False).format
    assert (flushing.smallest_subnormal, flushing.specials) == (2.0**-6, "ieee")


@pytest.mark.parametrize(("call", "message"), [
    (lambda: quantise(X.astype(float), "e2m1"), "x: got float64; allowed: an array of float32, float16 or bfloat16"),
    (lambda: quantise(np.ones(3, np.int64), "e2m1"), "x: got int64"),
    (lambda: quantise(QuarterArray.from_array([1.0]), "e2m1"), "x: got"),
    (lambda: quantise(X, "float32"), "dtype: got float32"),
    (lambda: quantise(X, "float64"), "dtype: got float64"),
    (lambda: quantise(X, "e2m1", overflow="inf"), "overflow: got 'inf'"),
    (lambda: quantise(X, "e2m1", rounding="RN"), "rounding: got RN"),
    (lambda: quantise(X, "e2m1", rounding="stochastic"), "seed: got None"),
    (lambda: quantise(X, "e2m1", out=np.zeros(X.size, np.float16)), "out: got an array of float16"),
    (lambda: quantise(X, USERS[0], out=np.zeros(3, np.float32)), r"out: got shape (3,)"),
    (lambda: FormatConfig(16), "num_mantissa_bits: got 16"),
    (lambda: FormatConfig(3, 0), "num_exponent_bits: got 0"),
    (lambda: FormatConfig(3, 4, 7, enable_denorms="no"), "enable_denorms: got no"),
    (lambda: RoundConfig("SX"), "round_mode: got SX"),
    (lambda: RoundConfig(num_sr_bits=32), "num_sr_bits: got 32"),
    (lambda: cast_native_to_gfloat(X, "e2m1"), "format_config: got"),
    (lambda: cast_native_to_gfloat(X, FormatConfig(), "RN"), "round_config: got"),
    (lambda: cast_native_to_gfloat(X, FormatConfig(), seed=1), "seed: got 1"),
])  # fmt: skip
def test_bad_arguments_are_named(call, message):
    with pytest.raises((InvalidArgumentError, InvalidTypeError)) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_what_the_module_lists_is_there():
    assert all(callable(getattr(popfloat, name)) for name in popfloat.__all__)
