"""Kernels of two and three operands at every level: NumPy's numbers, tails and memory borders."""

import ctypes
import re
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from poplibs_py.kernels import Kernel, kernels

Array = np.ndarray[Any, Any]
CALL = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64)
GUARD = 64
SPECIAL = [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, -3, 0.5, 1e-45, -1e-45, 3e38, -3e38, 7.25, 1e-38]
DTYPES = {"float32": np.dtype(np.float32), "float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


def signed_zeros(extreme: Callable[..., Array], of_both: Callable[..., Array]) -> Callable[..., Array]:
    """NumPy's function, and IEEE 754-2019's choice between zeros of two signs, which NumPy leaves open."""
    def function(a: Array, b: Array) -> Array:
        zero = np.where(of_both(np.signbit(a), np.signbit(b)), -0.0, 0.0)
        return np.where((a == 0) & (b == 0), zero, extreme(a, b))

    return function


def both(first: Callable[..., Array], then: Callable[..., Array]) -> Callable[..., Array]:
    """Two operations, each rounded to FP32."""
    return lambda a, b, c: then(first(a, b).astype(np.float32).astype(np.float64), c)


STEPS = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
REFERENCES: dict[str, Callable[..., Array]] = {
    **{f"{first}_then_{then}": both(STEPS[first], STEPS[then]) for first in STEPS for then in STEPS},
    **{f"{first}_then_from": both(STEPS[first], lambda x, c: c - x) for first in STEPS},
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "rem": np.fmod,
    "remainder": np.remainder, "floor_divide": np.floor_divide,
    "maximum": signed_zeros(np.maximum, np.logical_and), "minimum": signed_zeros(np.minimum, np.logical_or),
    "fmax": signed_zeros(np.fmax, np.logical_and), "fmin": signed_zeros(np.fmin, np.logical_or),
    "eq": np.equal, "neq": np.not_equal, "gt": np.greater, "gteq": np.greater_equal, "lt": np.less,
    "lteq": np.less_equal,
    "clamp": lambda x, low, high: (lambda y: np.where(y > high, high, y))(np.where(x < low, low, x)),
}  # fmt: skip
"""What kernels compute, in float64, where all of them are exact or rounded so that FP32 gets the same."""

KERNELS = [k for k in kernels("elementwise") if k.op in REFERENCES and "float" in k.formats]
each = pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: f"{k.level}-{k.name}")


def run(kernel: Kernel, operands: Sequence[Array], dtype: Any) -> Array:
    """The kernel's results, with nothing written behind them."""
    count = operands[0].size
    out = np.full((count + GUARD) * np.dtype(dtype).itemsize, 0xA5, np.uint8)
    CALL(kernel.address)((ctypes.c_void_p * len(operands))(*[x.ctypes.data for x in operands]),
                         (ctypes.c_void_p * 1)(out.ctypes.data), count)
    assert (out[count * np.dtype(dtype).itemsize:] == 0xA5).all()
    return out.view(dtype)[:count].copy()


def operands_of(kernel: Kernel, count: int = 20_000) -> list[Array]:
    """Any bit patterns, usual numbers, and special ones against each other."""
    rng, reads = np.random.default_rng(5), kernel.formats.partition("->")[0].split(",")
    special = np.meshgrid(*[np.float32(SPECIAL)] * len(reads))
    made = []
    for i, name in enumerate(reads):
        dtype = DTYPES[name]
        codes = rng.integers(0, 2**32, count, dtype=np.uint32)
        patterns = codes.astype(f"u{dtype.itemsize}").view(dtype)
        with np.errstate(all="ignore"):
            usual = (rng.standard_normal(count) * (100 if i == 0 else 3)).astype(dtype)
            made.append(np.concatenate([special[i].ravel().astype(dtype), patterns, usual]))
    return made


def same(got: Array, want: Array) -> Array:
    """Where they are the same bits, or NaN both."""
    words = f"u{got.dtype.itemsize}"
    if got.dtype == bool:
        return np.asarray(got == want)
    return np.asarray((got.view(words) == want.view(words)) | (np.isnan(got) & np.isnan(want)))


@each
def test_numbers_are_those_of_numpy_rounded_once(kernel: Kernel) -> None:
    operands = operands_of(kernel)
    with np.errstate(all="ignore"):
        exact = REFERENCES[kernel.op](*(x.astype(np.float64) for x in operands))
        want = exact if exact.dtype == bool else exact.astype(np.float32).astype(operands[0].dtype)
    got = run(kernel, operands, want.dtype)
    wrong = np.flatnonzero(~same(got, want))
    assert not wrong.size, [(*(x[i] for x in operands), got[i], want[i]) for i in wrong[:5]]


@each
def test_any_count_and_place_gives_the_same_and_stays_inside_its_memory(kernel: Kernel) -> None:
    operands = operands_of(kernel, 400)
    dtype = bool if kernel.formats.endswith("bool") else operands[0].dtype
    whole = run(kernel, operands, dtype)
    for count in (*range(1, 70), 127, 255, 256, 257, 400):
        first = count % 9
        got = run(kernel, [x[first:first + count].copy() for x in operands], dtype)
        assert same(got, whole[first:first + count]).all()


@each
def test_a_result_may_lie_where_an_operand_does(kernel: Kernel) -> None:
    if kernel.formats.endswith("bool"):
        return
    for which in range(kernel.formats.partition("->")[0].count(",") + 1):
        operands = operands_of(kernel, 300)
        want = run(kernel, operands, operands[0].dtype)
        places = (ctypes.c_void_p * len(operands))(*[x.ctypes.data for x in operands])
        CALL(kernel.address)(places, (ctypes.c_void_p * 1)(places[which]), operands[0].size)
        assert same(operands[which], want).all()


@pytest.mark.parametrize("kernel", [k for k in kernels("elementwise") if k.op == "select"],
                         ids=lambda k: f"{k.level}-{k.name}")
def test_select_copies_words(kernel: Kernel) -> None:
    rng, size = np.random.default_rng(6), int(kernel.name.removeprefix("select_")) // 8
    for count in (*range(1, 70), 1000):
        a, b = rng.integers(0, 2**63, (2, count)).astype(f"u{size}")
        where = rng.integers(0, 3, count).astype(np.uint8)
        np.testing.assert_array_equal(run(kernel, [a, b, where], a.dtype), np.where(where, a, b))


FLOATS = [k for k in kernels("elementwise") if re.fullmatch(r"(float32|b?float16)(,\1)+->\w+", k.formats)]
PORTABLE = {k.name: k for k in FLOATS if k.level == "portable"}


@pytest.mark.parametrize("kernel", [k for k in FLOATS if k.level != "portable"], ids=lambda k: f"{k.level}-{k.name}")
def test_bits_equal_the_portable_kernels(kernel: Kernel) -> None:
    """Those of functions and gradients too, whose numbers are their operations' to check."""
    operands = operands_of(kernel, 3000)
    dtype = bool if kernel.formats.endswith("bool") else operands[0].dtype
    got, want = (run(k, operands, dtype) for k in (kernel, PORTABLE[kernel.name]))
    assert same(got, want).all()


@pytest.mark.parametrize("kernel", [k for k in FLOATS if (k.op, k.formats[:8]) == ("pow", "bfloat16")],
                         ids=lambda k: k.level)
def test_bf16_powers_are_those_of_fp32_rounded(kernel: Kernel) -> None:
    """They take a shorter way where that is sure to round alike: all exponents of each 509th base."""
    wide = next(k for k in FLOATS if (k.op, k.level, k.formats[:7]) == ("pow", kernel.level, "float32"))
    y = np.arange(1 << 16).astype(np.uint16).view(ml_dtypes.bfloat16)
    for code in range(3, 1 << 16, 509):
        x = np.full_like(y, np.uint16(code).view(ml_dtypes.bfloat16))
        with np.errstate(all="ignore"):
            want = run(wide, [x.astype(np.float32), y.astype(np.float32)], np.float32).astype(ml_dtypes.bfloat16)
        assert same(run(kernel, [x, y], y.dtype), want).all(), x[0]
