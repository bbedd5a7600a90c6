"""Kernels of one number at every level: the bound, the portable kernel's bits, tails and memory borders."""

import ctypes
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from of_levels import of_levels

from poplibs_py import popops
from poplibs_py.formats import BF16, FP16, FP32
from poplibs_py.formats.reference import encode
from poplibs_py.kernels import kernels
from poplibs_py.popops.elementwise.bound import fp32_ball
from poplibs_py.popops.elementwise.table import ELEMENTWISE

CALL = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64)
GUARD = 0xA5
BY_NAME = {fmt.name: fmt for fmt in (FP32, FP16, BF16)}
KERNELS = [k for k in kernels("elementwise")  # tests/simd has those of no operation
           if k.op in ELEMENTWISE and k.formats in [f"{name}->{name}" for name in BY_NAME]]

each = pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: f"{k.level}-{k.op}-{k.formats}")


def format_of(kernel):
    return BY_NAME[kernel.formats.split("->")[0]]


def run(kernel, x, misaligned=0):
    """The kernel's results, with nothing written around them."""
    buffer = np.full(x.nbytes + 256, GUARD, np.uint8)
    inside = buffer[128 + misaligned:128 + misaligned + x.nbytes]
    given = np.frombuffer(bytes(misaligned) + x.tobytes(), np.uint8)[misaligned:]
    pointers = [(ctypes.c_void_p * 1)(array.ctypes.data) for array in (given, inside)]
    CALL(kernel.address)(*pointers, x.size)
    around = buffer.copy()
    around[128 + misaligned:128 + misaligned + x.nbytes] = GUARD
    assert (around == GUARD).all()
    return np.frombuffer(inside.tobytes(), x.dtype)


def random_floats(count, seed=1):
    """Any bit patterns, and numbers where the functions bend."""
    rng = np.random.default_rng(seed)
    patterns = rng.integers(0, 2**32, count, dtype=np.uint32).view(np.float32)
    special = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2**-149, -(2**-149), 2**-126, FP32.max, -FP32.max])
    return np.concatenate([special, patterns, rng.uniform(-20, 20, count).astype(np.float32),
                           (1 + rng.uniform(-0.01, 0.01, count)).astype(np.float32)])


def numbers_of(codes, fmt):
    """What the codes of a format of NumPy's or ml_dtypes' stand for."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return codes.view(fmt.dtype).astype(np.float64)


@pytest.mark.parametrize("alike", of_levels(KERNELS), ids=lambda alike: f"{alike[0].op}-{alike[0].formats}")
def test_results_are_within_the_bound_of_their_row(alike):
    op, fmt = ELEMENTWISE[alike[0].op], format_of(alike[0])
    codes = random_floats(1 << 18).view(np.uint32) if fmt == FP32 else np.arange(1 << 16).astype(np.uint16)
    with np.errstate(all="ignore"):
        exact = op.reference(numbers_of(codes, fmt))
        ball = fp32_ball(exact, op.ulp)
        ball = ball if fmt == FP32 else ball.rounded(fmt)
    for kernel in alike:
        got = run(kernel, codes)
        numbers = numbers_of(got, fmt)
        wrong = np.flatnonzero(~ball.contains(numbers))
        assert not wrong.size, (kernel.level, [(hex(codes[i]), hex(got[i]), exact[i]) for i in wrong[:5]])
        zero = (exact == 0) & (numbers == 0)
        np.testing.assert_array_equal(np.signbit(numbers[zero]), np.signbit(exact[zero]), kernel.level)


@pytest.mark.parametrize("kernel", [k for k in KERNELS if "float32" not in k.formats],
                         ids=lambda k: f"{k.level}-{k.op}-{k.formats}")
def test_half_types_are_the_fp32_result_rounded_once(kernel):
    fmt = format_of(kernel)
    codes = np.arange(1 << 16).astype(np.uint16)
    wide = next(k for k in KERNELS if (k.op, k.level, k.formats) == (kernel.op, kernel.level, "float32->float32"))
    with np.errstate(all="ignore"):
        numbers = numbers_of(codes, fmt).astype(np.float32)
        want = encode(run(wide, numbers).astype(np.float64), fmt)
    got = run(kernel, codes)
    nan = np.isnan(numbers_of(got, fmt))
    np.testing.assert_array_equal(nan, np.isnan(numbers_of(want, fmt)))
    np.testing.assert_array_equal(got[~nan], want[~nan])


@each
def test_bits_equal_the_portable_kernels(kernel):
    portable = next(k for k in KERNELS if (k.op, k.level, k.formats) == (kernel.op, "portable", kernel.formats))
    fmt = format_of(kernel)
    codes = random_floats(1 << 16, seed=2).view(np.uint32) if fmt == FP32 else np.arange(1 << 16).astype(np.uint16)
    got, want = run(kernel, codes), run(portable, codes)
    nan = np.isnan(numbers_of(want, fmt))
    np.testing.assert_array_equal(np.isnan(numbers_of(got, fmt)), nan)
    np.testing.assert_array_equal(got[~nan], want[~nan])


@each
def test_any_count_and_place_gives_the_same_and_stays_inside_its_memory(kernel):
    fmt = format_of(kernel)
    codes = random_floats(400, seed=3)
    codes = codes.view(np.uint32) if fmt == FP32 else codes.view(np.uint16)[::2].copy()
    whole = run(kernel, codes)
    for count in (*range(70), 127, 255, 256, 257, 400):
        np.testing.assert_array_equal(run(kernel, codes[:count], misaligned=count % 9), whole[:count])


@each
def test_many_codes_give_what_few_do(kernel):
    fmt = format_of(kernel)
    codes = np.arange(1 << 16).astype(np.uint16) if fmt != FP32 else random_floats(1 << 14, seed=5).view(np.uint32)
    few = np.concatenate([run(kernel, part) for part in np.array_split(codes, 64)])
    np.testing.assert_array_equal(run(kernel, codes, misaligned=2), few)
    np.testing.assert_array_equal(run(kernel, codes[:5001]), few[:5001])


@each
def test_a_result_may_lie_where_its_operand_does(kernel):
    fmt = format_of(kernel)
    codes = random_floats(300, seed=4).view(np.uint32 if fmt == FP32 else np.uint16)
    want, held = run(kernel, codes), codes.copy()
    place = (ctypes.c_void_p * 1)(held.ctypes.data)
    CALL(kernel.address)(place, place, held.size)
    np.testing.assert_array_equal(held, want)


@pytest.mark.parametrize("name", ["tanh", "rsqrt"])
def test_threads_that_meet_at_a_table_get_the_same(name):
    x = np.arange(1 << 16).astype(np.uint16).view(BF16.dtype)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: getattr(popops, name)(x).view(np.uint16), range(16)))
    for result in found[1:]:
        np.testing.assert_array_equal(result, found[0])


def test_every_level_has_every_kernel_and_every_row_its_kernels():
    by_level = {}
    for kernel in KERNELS:
        by_level.setdefault(kernel.level, set()).add((kernel.op, kernel.formats))
        assert kernel.consistent
    assert all(rows == by_level["portable"] for rows in by_level.values())
    assert {op for op, _ in by_level["portable"]} <= set(ELEMENTWISE) <= {k.op for k in kernels("elementwise")}
