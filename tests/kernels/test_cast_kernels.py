"""Every cast kernel of every level: all codes, every rounding boundary, all modes, tails and memory borders."""

import ctypes
import itertools
from fractions import Fraction

import numpy as np
import pytest
from format_oracle import MORE, NARROW, boundaries, formats, payload_free, value
from hypothesis import given
from hypothesis import strategies as st
from of_levels import of_levels

from poplibs_py.formats import BF16, FORMATS, FP32
from poplibs_py.formats.presets import E8M0
from poplibs_py.formats.reference import allowed_overflows, decode, encode
from poplibs_py.kernels import kernels
from poplibs_py.kernels.records import format_facts, numbers_of

BY_NAME = {fmt.name: fmt for fmt in FORMATS}
GUARD = 0xA5
OVERFLOWS, ROUNDINGS = numbers_of("overflow"), numbers_of("rounding")
FACTS = len(format_facts(FP32))


class Cast(ctypes.Structure):
    """`pop_cast` of kernels/cast/cast.h."""

    _fields_ = (("source", ctypes.c_int32 * FACTS), ("target", ctypes.c_int32 * FACTS), ("rounding", ctypes.c_int32),
                ("overflow", ctypes.c_int32), ("random_bits", ctypes.c_int32))


DECODE = ctypes.CFUNCTYPE(None, ctypes.POINTER(Cast), ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
ENCODE = ctypes.CFUNCTYPE(None, ctypes.POINTER(Cast), ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)


def described(op):
    return pytest.mark.parametrize("kernel", [k for k in kernels("cast") if k.op == op],
                                   ids=lambda k: f"{k.level}-{k.formats}")


def guarded(array, misaligned=0):
    """A copy with guard bytes on both sides, and the whole buffer."""
    buffer = np.full(array.nbytes + 256, GUARD, np.uint8)
    inside = buffer[128 + misaligned:128 + misaligned + array.nbytes]
    inside[:] = array.view(np.uint8)
    return inside, buffer


def guards_hold(inside, buffer):
    used = inside.ctypes.data - buffer.ctypes.data
    return (buffer[:used] == GUARD).all() and (buffer[used + inside.nbytes:] == GUARD).all()


def run_decode(kernel, source, codes, scale=0, target=FP32, rounding="nearest-even", overflow="inf", misaligned=0):
    cast = Cast(format_facts(source, scale), format_facts(target), ROUNDINGS[rounding], OVERFLOWS[overflow], 31)
    given, _ = guarded(codes, misaligned)
    out, buffer = guarded(np.zeros(codes.size, np.float32), misaligned)
    DECODE(kernel.address)(cast, given.ctypes.data, out.ctypes.data, codes.size)
    assert guards_hold(out, buffer)
    return np.frombuffer(out.tobytes(), np.float32)


def run_encode(kernel, target, x, scale=0, rounding="nearest-even", overflow="nan", words=None, bits=31, misaligned=0):
    cast = Cast(format_facts(FP32), format_facts(target, scale), ROUNDINGS[rounding], OVERFLOWS[overflow], bits)
    given, _ = guarded(x, misaligned)
    out, buffer = guarded(np.zeros(x.size, target.code_dtype), misaligned)
    words = np.zeros(x.size, np.uint32) if words is None else words
    ENCODE(kernel.address)(cast, given.ctypes.data, out.ctypes.data, x.size, words.ctypes.data)
    assert guards_hold(out, buffer)
    return np.frombuffer(out.tobytes(), target.code_dtype)


def formats_of(name):
    return (BY_NAME[name],) if name in BY_NAME else (*MORE, *NARROW)


def same_floats(got, want):
    """Equal numbers with equal signs, and NaN where NaN is wanted."""
    np.testing.assert_array_equal(got, want)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))


@described("decode")
def test_decode_of_every_code_at_every_scale_edge(kernel):
    name = kernel.formats.split("->")[0]
    for fmt in () if name == "float64" else formats_of(name):
        codes = np.arange(1 << fmt.bits).astype(fmt.code_dtype)
        for scale in sorted({0, fmt.scales[0], fmt.scales[-1]}):
            same_floats(run_decode(kernel, fmt, codes, scale), decode(codes, fmt, scale).astype(np.float32))


@pytest.mark.parametrize("alike", of_levels(k for k in kernels("cast") if k.op == "encode"),
                         ids=lambda alike: alike[0].formats)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_encode_at_every_boundary_and_of_random_bits(alike, rounding):
    name = alike[0].formats.split("->")[1]
    rng = np.random.default_rng(3)
    for fmt in formats_of(name):
        x = boundaries(fmt, limit=1 << 15 if name != "any" else 512)
        x = np.concatenate([x, rng.integers(0, 2**32, 1 << 14, dtype=np.uint32).view(np.float32)])
        words = rng.integers(0, 2**32, x.size, dtype=np.uint32)
        for overflow in allowed_overflows(fmt, rounding):
            for scale, bits in ((0, 31), (fmt.scales[0], 1), (fmt.scales[-1], 9)):
                options = {"rounding": rounding, "overflow": overflow, "scale": scale, "words": words}
                want = encode(x, fmt, random_bits=bits, **options)
                for kernel in alike:
                    got = run_encode(kernel, fmt, x, bits=bits, **options)
                    differ = np.flatnonzero(got != want)
                    assert not differ.size, [(kernel.level, fmt, rounding, overflow, scale, float(x[i]).hex(),
                                              hex(got[i]), hex(want[i])) for i in differ[:3]]


@described("decode")
def test_decode_of_any_count_stays_inside_its_memory(kernel):
    name = kernel.formats.split("->")[0]
    rng = np.random.default_rng(5)
    for count in (*range(70), 127, 255, 256, 257, 320, 383, 1000):
        if name == "float64":
            codes = rng.standard_normal(count)
            want = codes.astype(np.float32)
            got = run_decode(kernel, FP32, codes, misaligned=count % 9)
        else:
            fmt = formats_of(name)[count % len(formats_of(name))]
            codes = rng.integers(0, 1 << fmt.bits, count).astype(fmt.code_dtype)
            want = decode(codes, fmt).astype(np.float32)
            got = run_decode(kernel, fmt, codes, misaligned=count % 9)
        same_floats(got, want)


@described("encode")
def test_encode_of_any_count_stays_inside_its_memory(kernel):
    name = kernel.formats.split("->")[1]
    rng = np.random.default_rng(6)
    for count in (*range(70), 127, 255, 256, 257, 1000):
        fmt = formats_of(name)[count % len(formats_of(name))]
        x = rng.standard_normal(count).astype(np.float32)
        got = run_encode(kernel, fmt, x, overflow=fmt.overflow, misaligned=count % 9)
        np.testing.assert_array_equal(got, encode(x, fmt, overflow=fmt.overflow))


@pytest.mark.parametrize("kernel", [k for k in kernels("cast") if "float64" in k.formats], ids=lambda k: k.level)
def test_float64_rounds_to_fp32_as_asked_and_to_odd_for_the_rest(kernel):
    rng = np.random.default_rng(8)
    numbers = np.concatenate([rng.integers(0, 2**32, 20000, dtype=np.uint32).view(np.float32), boundaries(BF16, 4096)])
    with np.errstate(invalid="ignore"):
        x = numbers.astype(np.float64)
    nudges = [0, 2.0**-25, 2.0**-24, 2.0**-24 + 2.0**-52, 2.0**-50, -(2.0**-25), -(2.0**-50)]
    x = np.concatenate([*[x * (1 + n) for n in nudges], [1e300, -1e300, 2.0**128, 2.0**128 - 2.0**103, 1e-300, -0.0]])
    finite = np.isfinite(x)
    with np.errstate(over="ignore", invalid="ignore"):
        nearest = x.astype(np.float32)
        same_floats(run_decode(kernel, FP32, x), nearest)
        down = np.where(np.abs(nearest.astype(np.float64)) > np.abs(x), np.nextafter(nearest, np.float32(0)), nearest)
        same_floats(run_decode(kernel, FP32, x, rounding="toward-zero", overflow="saturate"), down)
        over = finite & np.isinf(nearest)
        for overflow, result in (("saturate", np.copysign(np.float32(FP32.max), nearest)), ("nan", np.float32(np.nan))):
            same_floats(run_decode(kernel, FP32, x, overflow=overflow), np.where(over, result, nearest))
        odd = np.where(finite & (down != x), (down.view(np.uint32) | 1).view(np.float32), nearest)
        same_floats(run_decode(kernel, FP32, x, target=BF16), odd)
        for rounding in ("up", "down", "nearest-away"):
            for overflow in ("inf", "nan", "saturate", *["directed"] * (rounding != "nearest-away")):
                want = encode(x, FP32, rounding=rounding, overflow=overflow).view(np.float32)
                same_floats(run_decode(kernel, FP32, x, rounding=rounding, overflow=overflow), want)


@described("encode")
@given(st.data())
def test_a_drawn_format_is_the_references(kernel, data):
    if not kernel.formats.endswith("any"):
        return
    fmt, rounding = data.draw(formats), data.draw(st.sampled_from(sorted(ROUNDINGS)))
    overflow = data.draw(st.sampled_from(allowed_overflows(fmt, rounding)))
    scale = data.draw(st.sampled_from(fmt.scales))
    bits = data.draw(st.integers(0, 2**32 - 1))
    x = np.concatenate([boundaries(fmt, 64), np.uint32([bits]).view(np.float32)])
    words = np.random.default_rng(bits).integers(0, 2**32, x.size, dtype=np.uint32)
    options = {"scale": scale, "rounding": rounding, "overflow": overflow, "words": words}
    np.testing.assert_array_equal(run_encode(kernel, fmt, x, **options), encode(x, fmt, **options))
    decoder = next(k for k in kernels("cast") if (k.level, k.formats) == (kernel.level, "any->float32"))
    codes = np.arange(min(1 << fmt.bits, 1 << 10)).astype(fmt.code_dtype)
    same_floats(run_decode(decoder, fmt, codes, scale), decode(codes, fmt, scale).astype(np.float32))


@described("encode")
def test_all_patterns_of_r_bits_give_the_exact_expectation(kernel):
    """Over all 2^r words the share that rounds up is the discarded fraction, to the nearest 2^-r: no statistics."""
    for fmt in formats_of(kernel.formats.split("->")[1]):
        low = max(1, fmt.max_code // 2)
        for code in sorted({0, 1, low, fmt.max_code - 1} & set(range(fmt.max_code))):
            here, there = value(code, fmt), value(code + 1, fmt)
            if here == there:
                continue
            for bits in (1, 3, 6):
                for eighth in range(17):
                    fraction = Fraction(eighth, 16)
                    exact = here + fraction * (there - here)
                    x = np.float32(float(exact))
                    if Fraction(float(x)) != exact or eighth == 16:
                        continue
                    words = np.arange(1 << bits, dtype=np.uint32) << np.uint32(32 - bits)
                    same = np.full(words.size, x)
                    codes = run_encode(kernel, fmt, same, rounding="stochastic", words=words, bits=bits)
                    ups = int((codes != code).sum())
                    want = (2 * fraction * 2**bits + 1) // 2
                    assert ups == want, (fmt, code, fraction, bits)


@pytest.mark.parametrize("kernel", [k for k in kernels("cast") if k.op in ("decode", "encode")],
                         ids=lambda k: f"{k.level}-{k.formats}")
def test_bits_equal_the_portable_kernels(kernel):
    """NaN payloads too, which the reference does not describe for short formats of FP32's exponent."""
    portable = next(k for k in kernels("cast") if k.level == "portable" and k.formats == kernel.formats)
    rng = np.random.default_rng(11)
    if kernel.op == "encode":
        x = rng.integers(0, 2**32, 1 << 16, dtype=np.uint32).view(np.float32)
        for fmt in formats_of(kernel.formats.split("->")[1]):
            for overflow in allowed_overflows(fmt, "nearest-even"):
                got, want = (run_encode(k, fmt, x, overflow=overflow) for k in (kernel, portable))
                np.testing.assert_array_equal(got, want)
                with np.errstate(over="ignore", invalid="ignore"):
                    numpys = payload_free(x.astype(fmt.dtype).view(fmt.code_dtype), fmt) if fmt.dtype else None
                if overflow == fmt.overflow and numpys is not None and fmt != E8M0:
                    np.testing.assert_array_equal(payload_free(got, fmt), numpys)
    elif "64" not in kernel.formats:
        for fmt in formats_of(kernel.formats.split("->")[0]):
            codes = np.arange(1 << fmt.bits).astype(fmt.code_dtype)
            got, want = (run_decode(k, fmt, codes) for k in (kernel, portable))
            np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))
    else:
        x = rng.integers(0, 2**64, 1 << 16, dtype=np.uint64).view(np.float64)
        got, want = (run_decode(k, FP32, x) for k in (kernel, portable))
        np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))


def test_every_level_has_every_kernel():
    by_level = {}
    for kernel in kernels("cast"):
        by_level.setdefault(kernel.level, set()).add((kernel.op, kernel.formats))
        assert kernel.consistent
    assert all(rows == by_level["portable"] for rows in by_level.values())


@described("spread")
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_values_of_rows_fill_them(kernel, size):
    """Rows of every length up to three vectors, the first one begun or not; nothing behind them is written."""
    spread = ctypes.CFUNCTYPE(None, *[ctypes.c_int64, ctypes.c_void_p] + [ctypes.c_int64] * 4)(kernel.address)
    for row, rows, begun in itertools.product(range(1, 200 // size), (1, 3), (False, True)):
        rest = 1 if begun else row
        n = rest + (rows - 1) * row
        values = np.arange(1, rows + 1, dtype=f"u{size}")
        lanes = np.full(n + 64, GUARD, f"u{size}")
        lanes[n - rows:n] = values
        spread(size, lanes.ctypes.data, rows, row, rest, n)
        assert (lanes[:n] == np.repeat(values, [rest] + [row] * (rows - 1))).all(), (row, rows, rest)
        assert (lanes[n:] == GUARD).all()
