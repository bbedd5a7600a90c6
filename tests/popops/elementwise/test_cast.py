"""The public cast: every pair of formats, strides, scales, stochastic rounding, threads, bad input."""

import itertools
import re
import threading

import ml_dtypes
import numpy as np
import pytest
from format_oracle import MORE, NARROW, USERS, boundaries, formats, payload_free
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import binomtest

import poplibs_py
from poplibs_py import popops
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from poplibs_py.formats import BF16, E4M3, E5M2, F143, F152, FORMATS, FP16, FP32, QuarterArray
from poplibs_py.formats.presets import BINARY8P3, E2M1, E2M3, E3M2, E8M0, PRESETS
from poplibs_py.formats.reference import decode, default_overflow, encode
from poplibs_py.kernels import select
from poplibs_py.popops import cast
from poplibs_py.popops.strided.lower import ROUNDINGS, THREAD_ELEMENTS, StridedOperand, StridedParams, lower

FALSE_ALARM = 1e-9
"""The chance that a right generator fails one statistical check. Seeds are fixed: no run differs from another."""

PAIRED = (*FORMATS, *MORE[:4], E2M1, E8M0, BINARY8P3)
DETERMINED = sorted(ROUNDINGS.keys() - {"stochastic"})

RNG = np.random.default_rng(20240131)


def array_of(fmt, codes):
    return codes.view(fmt.dtype) if fmt.dtype else QuarterArray(codes, fmt)


def codes_of(result, fmt):
    return result.codes if isinstance(result, QuarterArray) else result.view(fmt.code_dtype)


def numbers(x):
    with np.errstate(invalid="ignore"):
        return x.to_array(np.float64) if isinstance(x, QuarterArray) else x.astype(np.float64)


def check(got, x, target, scale=0, **options):
    """The result has the reference's codes, or FP32's numbers."""
    if target == FP32:
        with np.errstate(over="ignore", invalid="ignore"):
            np.testing.assert_array_equal(got, numbers(x).astype(np.float32))
    else:
        known = slice(None) if target.has_nan else ~np.isnan(numbers(x))  # NaN's sign is no promise, and shows there
        want = encode(numbers(x), target, scale=scale, **options)[known]
        np.testing.assert_array_equal(payload_free(codes_of(got, target)[known], target), payload_free(want, target))


@pytest.mark.parametrize(("source", "target"), list(itertools.product(PAIRED, repeat=2)), ids=str)
def test_every_pair_of_formats(source, target):
    if source == FP32:
        x = np.concatenate([boundaries(target if target != FP32 else FP16, 1024), RNG.standard_normal(999, np.float32)])
    else:
        codes = np.arange(1 << source.bits).astype(source.code_dtype)
        x = array_of(source, codes)
    for rounding in DETERMINED:
        check(cast(x, target, rounding=rounding), x, target, rounding=rounding)


@pytest.mark.parametrize("target", [*FORMATS, *MORE], ids=str)
@pytest.mark.parametrize("rounding", DETERMINED)
def test_float64_is_rounded_once(target, rounding):
    x = boundaries(target if target != FP32 else BF16, 1024)
    with np.errstate(invalid="ignore"):
        x = x.astype(np.float64)
    x = np.concatenate([x * (1 + n) for n in (0, 2.0**-50, -(2.0**-50), 2.0**-26)])
    x = x[np.isfinite(x)]
    got = cast(x, target, rounding=rounding)
    if target != FP32 or rounding != "nearest-even":
        np.testing.assert_array_equal(codes_of(got, target), encode(x, target, rounding=rounding))
    else:
        check(got, x, target)


@pytest.mark.parametrize("fmt", [F143, F152, E4M3, E5M2], ids=str)
def test_every_product_of_fp8_pairs(fmt):
    """A product of two FP8 numbers is an FP32 number, so that casting it back is the correctly rounded product."""
    codes = np.arange(256, dtype=np.uint8).view(fmt.dtype)
    wide = cast(codes, FP32)
    with np.errstate(over="ignore", invalid="ignore"):
        products = np.multiply.outer(wide, wide)
        np.testing.assert_array_equal(products, np.multiply.outer(wide.astype(np.float64), wide))
        want = np.multiply.outer(codes, codes)
    got = cast(products, fmt)
    np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))
    number = ~np.isnan(got.astype(np.float32))
    np.testing.assert_array_equal(got.view(np.uint8)[number], want.view(np.uint8)[number])


@pytest.mark.parametrize("fmt", PRESETS, ids=str)
def test_more_presets_take_and_make_arrays_of_ml_dtypes(fmt):
    codes = np.arange(1 << fmt.bits).astype(fmt.code_dtype)
    x = array_of(fmt, codes)
    wide = cast(x, FP32)
    np.testing.assert_array_equal(wide, decode(codes, fmt).astype(np.float32))
    back = cast(wide, fmt)
    assert back.dtype == (fmt.dtype or fmt.code_dtype)
    np.testing.assert_array_equal(payload_free(codes_of(back, fmt), fmt), payload_free(codes, fmt))
    if fmt.dtype is not None:
        out = np.empty(codes.size, fmt.dtype)
        assert cast(wide, fmt.dtype, out=out) is out
        np.testing.assert_array_equal(codes_of(out, fmt), codes_of(back, fmt))
    half = cast(np.arange(1 << 16, dtype=np.uint16).view(np.float16), fmt, rounding="up")
    with np.errstate(invalid="ignore"):
        numbers = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)
    np.testing.assert_array_equal(codes_of(half, fmt), encode(numbers, fmt, rounding="up"))


def test_microscaling_blocks_share_an_exponent():
    """The format and the block of OCP MX; the exponent is the least with which nothing overflows."""
    x = RNG.standard_normal((4, 64)).astype(np.float32)
    for fmt in (E2M1, E2M3, E3M2, E4M3):
        q = cast(x, fmt, scale="auto", block_shape=(1, 32))
        assert q.scale.shape == (4, 2)
        assert (np.abs(x.reshape(4, 2, 32)).max(-1) <= fmt.max * 2.0**q.scale).all()
        np.testing.assert_array_equal(q.codes, encode(x, fmt, scale=q.element_scales()))
        exponents = cast(2.0 ** q.scale.astype(np.float32), E8M0)
        np.testing.assert_array_equal(exponents.view(np.uint8), q.scale + 127)


@st.composite
def strided(draw, dtype, elements):
    """An array whose axes are permuted, stepped over, reversed or broadcast."""
    base = draw(hnp.arrays(dtype, hnp.array_shapes(max_dims=4, min_side=1, max_side=7), elements=elements))
    x = base.transpose(draw(st.permutations(range(base.ndim))))
    steps = [draw(st.sampled_from([1, 1, 2, -1, -2])) for _ in range(x.ndim)]
    x = x[tuple(slice(None, None, s) for s in steps)]
    if draw(st.booleans()):
        x = np.broadcast_to(x, (draw(st.integers(1, 3)), *x.shape))
    return x


@given(strided(np.float32, st.floats(width=32)), st.data())
def test_strides_change_nothing(x, data):
    fmt = data.draw(st.sampled_from((*NARROW, *MORE)))
    rounding = data.draw(st.sampled_from(sorted(ROUNDINGS)))
    seed = data.draw(st.integers(0, 2**64 - 1)) if rounding == "stochastic" else None
    want = codes_of(cast(x.copy(order="C"), fmt, rounding=rounding, seed=seed), fmt)
    np.testing.assert_array_equal(codes_of(cast(x, fmt, rounding=rounding, seed=seed), fmt), want)
    if fmt.dtype is None:
        return
    buffer = np.zeros([2 * n + 1 for n in x.shape], fmt.dtype)
    out = buffer[tuple(slice(1, 2 * n + 1, 2) for n in x.shape)]
    assert cast(x, fmt, rounding=rounding, seed=seed, out=out) is out
    np.testing.assert_array_equal(out.view(fmt.code_dtype), want)
    out.view(fmt.code_dtype)[...] = 0
    assert not buffer.view(fmt.code_dtype).any(), "nothing is written between the elements"


@pytest.mark.parametrize("shape", [(3, 5000), (5000, 3), (7, 1025), (2, 3, 1500)])
def test_rows_longer_and_shorter_than_a_chunk(shape):
    x = RNG.standard_normal((*shape[:-1], 2 * shape[-1])).astype(np.float32)[..., ::2]
    for fmt in (FP16, F143):
        check(cast(x, fmt), x, fmt)
        check(cast(cast(x, fmt).T, BF16), cast(x, fmt).T, BF16)


@given(st.data())
def test_scales_by_tensor_row_and_block(data):
    fmt = data.draw(st.sampled_from((F143, F152, E4M3, USERS[0], USERS[6])))
    shapes = hnp.array_shapes(min_dims=1, max_dims=3, max_side=9)
    x = data.draw(hnp.arrays(np.float32, shapes, elements=st.floats(width=32)))
    blocks = data.draw(st.none() | st.tuples(*[st.integers(1, 9) | st.just(-1) for _ in x.shape]))
    scales = st.integers(fmt.scales[0], fmt.scales[-1])
    shape = () if blocks is None else tuple(1 if b == -1 else -(-n // b) for n, b in zip(x.shape, blocks, strict=True))
    scale = data.draw(hnp.arrays(np.int8, shape, elements=scales))
    overflow = data.draw(st.sampled_from(["saturate", "nan"]))
    q = cast(x, fmt, scale=scale, block_shape=blocks, overflow=overflow)
    np.testing.assert_array_equal(q.codes, encode(x, fmt, scale=q.element_scales(), overflow=overflow))
    np.testing.assert_array_equal(q.scale, scale)
    np.testing.assert_array_equal(cast(q, FP32), q.to_array())
    np.testing.assert_array_equal(cast(q.T, FP32), q.to_array().T)
    again = QuarterArray(np.zeros_like(q.codes), fmt, scale, blocks)
    assert cast(x, fmt, overflow=overflow, out=again) is again
    np.testing.assert_array_equal(again.codes, q.codes)


@given(hnp.arrays(np.float32, (5, 8), elements=st.floats(width=32)), st.sampled_from([F143, F152, E4M3, USERS[1]]))
def test_the_automatic_scale_is_from_arrays(x, fmt):
    for blocks in (None, (1, -1), (2, 3)):
        want = QuarterArray.from_array(x, fmt, "auto", blocks)
        got = cast(x, fmt, scale="auto", block_shape=blocks)
        np.testing.assert_array_equal(got.codes, want.codes)
        np.testing.assert_array_equal(got.scale, want.scale)


def test_casting_codes_again_is_a_rounding_of_their_values():
    q = QuarterArray(np.arange(256, dtype=np.uint8), F143, -7)
    got = cast(q, F152, scale=-9)
    np.testing.assert_array_equal(got.codes, encode(q.to_array(np.float64), F152, scale=-9))
    assert cast(q, F143).dtype == F143.dtype


@given(formats, st.data())
def test_user_formats(fmt, data):
    x = data.draw(hnp.arrays(np.float32, st.integers(0, 300), elements=st.floats(width=32) | st.sampled_from(
        boundaries(fmt, 64).tolist())))
    q = cast(x, fmt)
    assert (q.format, q.scale) == (fmt, 0)
    np.testing.assert_array_equal(q.codes, encode(x, fmt))
    np.testing.assert_array_equal(cast(q, FP32), decode(q.codes, fmt).astype(np.float32))


def test_a_cast_there_and_back_and_there_again_is_the_first_cast():
    for fmt in NARROW:
        codes = np.arange(1 << fmt.bits).astype(fmt.code_dtype).view(fmt.dtype)
        once = cast(cast(codes, FP32), fmt)
        twice = cast(cast(once, FP32), fmt)
        np.testing.assert_array_equal(once.view(fmt.code_dtype), twice.view(fmt.code_dtype))
        steps = np.sort(cast(codes, FP32))
        rounded = cast(cast(steps[~np.isnan(steps)], E5M2, overflow="saturate"), FP32)
        assert (np.diff(rounded[np.isfinite(rounded)]) >= 0).all(), "rounding keeps the order"


def test_stochastic_rounding_has_the_right_frequency():
    n = 1 << 18
    for fmt in (FP16, BF16, F143, E5M2):
        for x, chance in ((1 + fmt.unit_roundoff * 0.6, 0.3), (-(1 + fmt.unit_roundoff / 2), 0.25),
                          (fmt.smallest_subnormal * 2.75, 0.75), (fmt.smallest_subnormal / 64, 1 / 64)):
            exact = np.float32(x)
            low = cast(exact.reshape(1), fmt, rounding="toward-zero").view(fmt.code_dtype)[0]
            value = abs(float(exact))
            chance = (value - abs(float(decode(low, fmt)))) / float(
                abs(decode(low + 1, fmt)) - abs(decode(low, fmt)))
            got = cast(np.full(n, exact), fmt, rounding="stochastic", seed=5).view(fmt.code_dtype)
            ups = int((got != low).sum())
            assert set(np.unique(got).tolist()) == {int(low), int(low) + 1}
            assert binomtest(ups, n, chance).pvalue > FALSE_ALARM, (fmt, x, ups / n, chance)


def test_stochastic_rounding_has_the_right_mean():
    """The mean error of n roundings of steps of at most u stays within Hoeffding's bound at the false-alarm rate."""
    n = 1 << 20
    x = RNG.uniform(1, 2, n).astype(np.float32)
    for fmt, bits in itertools.product((FP16, BF16, F143), (3, 8, 31)):
        got = cast(cast(x, fmt, rounding="stochastic", seed=9, random_bits=bits), FP32).astype(np.float64)
        step = 2 * fmt.unit_roundoff
        allowed = step * (np.sqrt(np.log(2 / FALSE_ALARM) / (2 * n)) + 2.0 ** -(24 - fmt.mantissa_bits))
        assert abs((got - x).mean()) < allowed, (fmt, bits)


def test_random_words_belong_to_the_place_and_the_seed():
    x = RNG.standard_normal(100_000).astype(np.float32)
    whole = cast(x, F143, rounding="stochastic", seed=3)
    assert (whole.view(np.uint8) != cast(x, F143, rounding="stochastic", seed=4).view(np.uint8)).mean() > 0.1
    np.testing.assert_array_equal(whole[:777].view(np.uint8),
                                  cast(x[:777], F143, rounding="stochastic", seed=3).view(np.uint8))
    transposed = cast(x.reshape(100, -1).T.copy().T, F143, rounding="stochastic", seed=3)
    np.testing.assert_array_equal(transposed.ravel().view(np.uint8), whole.view(np.uint8))


@pytest.mark.parametrize("rounding", ["nearest-even", "stochastic"])
def test_threads_change_nothing(rounding):
    """The same executable over one to five threads."""
    count = 5 * THREAD_ELEMENTS + 321
    x = RNG.standard_normal(count).astype(np.float32)
    results = []
    for threads in (1, 2, 5):
        out = np.empty(count, np.float16)
        operands = (StridedOperand(FP32, x.strides),), (StridedOperand(FP16, out.strides),)
        executable = lower(StridedParams(None, x.shape, *operands, rounding, "inf"), threads).executable
        assert executable.threads == threads
        executable(x, out, *[np.array([1], np.uint64)] * (rounding == "stochastic"))
        results.append(out.view(np.uint16))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    if rounding == "nearest-even":
        check(results[0].view(np.float16), x, FP16)


def test_concurrent_callers_get_the_bits_of_one():
    x = RNG.standard_normal(2 * THREAD_ELEMENTS).astype(np.float32)
    want = cast(x, F152, rounding="stochastic", seed=1).view(np.uint8)
    right = []

    def work():
        casts = (cast(x, F152, rounding="stochastic", seed=1) for _ in range(5))
        right.extend(np.array_equal(c.view(np.uint8), want) for c in casts)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(right) == 20
    assert all(right)


def test_out_may_be_the_input_or_overlap_it():
    halves = RNG.standard_normal(3000).astype(np.float16)
    want = halves.astype(np.float32).astype(ml_dtypes.bfloat16)
    buffer = halves.copy()
    cast(buffer, BF16, out=buffer.view(BF16.dtype))
    np.testing.assert_array_equal(buffer.view(np.uint16), want.view(np.uint16))
    bytes_ = np.zeros(4 * 3000 + 2, np.uint8)
    source, target = bytes_[:4 * 3000].view(np.float32), bytes_[2:2 + 2 * 3000].view(np.float16)
    source[...] = halves
    cast(source, FP16, out=target)
    np.testing.assert_array_equal(target, halves)


def test_shapes_without_elements_and_without_axes():
    assert cast(np.zeros((3, 0), np.float32), FP16).shape == (3, 0)
    assert cast(np.zeros((3, 0), np.float32), F143, scale="auto", block_shape=(1, -1)).shape == (3, 0)
    assert cast(1.5, FP16).shape == ()
    assert cast(np.float32(1.5), F143, scale=1).to_array() == 1.5
    assert cast([1.0, 2.0], "half").tolist() == [1.0, 2.0]


def test_misaligned_input():
    raw = np.frombuffer(b"x" + RNG.standard_normal(999).astype(np.float32).tobytes(), np.uint8)
    x = raw[1:].view(np.float32)
    assert not x.flags.aligned
    check(cast(x, FP16), x.copy(), FP16)


def test_defaults_are_ieees():
    x = np.float32([1e9, -1e9, 60000])
    assert cast(x, FP16).tolist() == [np.inf, -np.inf, 60000]
    assert cast(x, FP16, rounding="toward-zero").tolist() == [65504, -65504, 60000]
    assert np.isnan(cast(x, E4M3).astype(np.float32)).all()
    assert default_overflow(E4M3, "nearest-even") == "nan"


def test_names():
    assert poplibs_py.cast is popops.cast is cast
    assert select("strided", "walk", "any").kernel.level == "portable"


X = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: cast(X, "float64"), "dtype: got float64"),
    (lambda: cast(X.astype(int), FP16), "x: got int64"),
    (lambda: cast(X.astype(">f4"), FP16), "x: got >f4"),
    (lambda: cast(X.astype(complex), FP16), "x: got complex128"),
    (lambda: cast("text", FP16), "x: got"),
    (lambda: cast([[1.0], [1.0, 2.0]], FP16), "x: got"),
    (lambda: cast(X, FP16, rounding="away"), "rounding: got away; allowed: 'nearest-even', 'toward-zero', 'stoch"),
    (lambda: cast(X, E2M1, overflow="nan"), "overflow: got 'nan'; allowed: 'saturate'; e2m1 has no infinity and no"),
    (lambda: cast(X, FP16, overflow="directed"), "overflow: got directed; allowed: 'saturate', 'nan' or 'inf'"),
    (lambda: cast(X, FP16, overflow="wrap"), "overflow: got wrap; allowed: 'saturate', 'nan' or 'inf'"),
    (lambda: cast(X, F143, overflow="inf"), "overflow: got 'inf'; allowed: 'saturate', 'nan'; f143 has no infinity"),
    (lambda: cast(X, FP16, rounding="stochastic"), "seed: got None"),
    (lambda: cast(X, FP16, seed=1), "seed: got 1; allowed: None with rounding='nearest-even'"),
    (lambda: cast(X, np.uint8, seed=1), "seed: got 1; allowed: None: uint8"),
    (lambda: cast(X, "e5m3"), "dtype: got e5m3; allowed: a poplibs_py.formats.Format or, by name or dtype, one of "
     "float32, float16, bfloat16, f143, f152, e4m3, e5m2, int8, uint8 or of poplibs_py.formats.presets"),
    (lambda: cast(X, FP16, rounding="stochastic", seed=-1), "seed: got -1"),
    (lambda: cast(X, FP16, rounding="stochastic", seed=2**64), "seed: got"),
    (lambda: cast(X, FP16, rounding="stochastic", seed=True), "seed: got True"),
    (lambda: cast(X, FP16, rounding="stochastic", seed=1, random_bits=0), "random_bits: got 0"),
    (lambda: cast(X, FP16, rounding="stochastic", seed=1, random_bits=32), "random_bits: got 32"),
    (lambda: cast(X.astype(float), FP16, rounding="stochastic", seed=1), "rounding: got stochastic"),
    (lambda: cast(X, F143, scale=140), "scale: got 140"),
    (lambda: cast(X, F143, scale="max"), "scale: got max"),
    (lambda: cast(X, F143, scale=0.5), "scale: got 0.5"),
    (lambda: cast(X, F143, scale=[1, 2]), "scale: got"),
    (lambda: cast(X, FP32, scale=1), "scale: got 1; allowed: None"),
    (lambda: cast(X, F143, scale=1, block_shape=(1,)), "block_shape: got (1,)"),
    (lambda: cast(X, F143, block_shape=(1, 1)), "block_shape: got (1, 1)"),
    (lambda: cast(X, FP16, out=np.empty(6, np.float16)), "out: got shape (6,)"),
    (lambda: cast(X, FP16, out=X), "out: got an array of float32; allowed: one of float16"),
    (lambda: cast(X, FP16, out=[1]), "out: got"),
    (lambda: cast(X, FP16, out=np.broadcast_to(np.float16(1), (2, 3))), "out: got a read-only array"),
    (lambda: cast(X, F143, scale=1, out=np.empty((2, 3), F143.dtype)), "out: got"),
    (lambda: cast(X, F143, out=QuarterArray.from_array(X, F152)), "out: got an array of f152"),
    (lambda: cast(X, F143, scale=1, out=QuarterArray.from_array(X)), "scale: got 1"),
    (lambda: cast(X, F143, out=QuarterArray.from_array(X[0])), "out: got shape (3,)"),
    (lambda: cast(X, USERS[0], out=np.empty((2, 3), np.uint8)), "out: got"),
])  # fmt: skip
def test_bad_arguments_are_named(call, message):
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match="^" + re.escape(message)):
        call()


@pytest.mark.parametrize("call", [
    lambda: cast(np.ones(4, np.float16), F143, scale=32, target="gc200"),
    lambda: cast(QuarterArray.from_array(np.ones(4), F143, -33), "float16", target="gc200"),
])
def test_a_modelled_machine_takes_scales_of_six_bits(call):
    with pytest.raises(UnsupportedError, match=r"at scale -?3[23]: its own are -32 to 31"):
        call()
    assert cast(np.ones(4, np.float16), F143, scale=-3, target="gc200").to_array().tolist() == [1] * 4
