"""Kernels of integers and truth values at every level: NumPy's results, and what is defined where NumPy has none."""

import ctypes
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from poplibs_py.kernels import Kernel, kernels

Array = np.ndarray[Any, Any]
CALL = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64)
TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")


def bits_of(x: Array) -> int:
    return 8 * x.dtype.itemsize


def unsigned(x: Array) -> Array:
    return x.view(f"u{x.dtype.itemsize}")


def truncated(a: Array, b: Array) -> Array:
    """Quotients toward zero, of Python's integers; 0 where the divisor is."""
    whole = [0 if y == 0 else (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1)
             for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    return wrapped(whole, a.dtype)


def wrapped(numbers: list[int], dtype: Any) -> Array:
    mask = (1 << 8 * dtype.itemsize) - 1
    return np.array([n & mask for n in numbers], f"u{dtype.itemsize}").view(dtype)


def each_pair(function: Callable[[int, int], int]) -> Callable[[Array, Array], Array]:
    return lambda a, b: wrapped([function(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)], a.dtype)


def shifted(a: Array, b: Array, right: bool, sign: bool = False) -> Array:
    """Counts are unsigned: what a shift of too many leaves is zero, or the sign."""
    x, bits = a if sign else unsigned(a), bits_of(a)
    counts = [min(n, bits) for n in unsigned(b).tolist()]
    return wrapped([n >> c if right else n << c for n, c in zip(x.tolist(), counts, strict=True)], a.dtype)


def power(a: int, b: int) -> int:
    return 0 if b < 0 else pow(a, b, 1 << 64)


UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative, "square": np.square, "cube": lambda a: a * a * a, "bitwise_not": np.invert, "abs": np.abs,
    "signum": np.sign, "logical_not": np.logical_not,
    "popcount": lambda a: np.bitwise_count(unsigned(a)).astype(a.dtype),
    "count_leading_zeros": lambda a: np.array([bits_of(a) - n.bit_length() for n in unsigned(a).tolist()], a.dtype),
    "sqrt": lambda a: np.array([math.isqrt(max(n, 0)) for n in a.tolist()], a.dtype),
}  # fmt: skip
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "bitwise_xnor": lambda a, b: ~(a ^ b),
    "shift_left": lambda a, b: shifted(a, b, False), "shift_right": lambda a, b: shifted(a, b, True),
    "shift_right_sign_extend": lambda a, b: shifted(a, b, True, True), "div": truncated,
    "rem": each_pair(lambda a, b: 0 if b == 0 else abs(a) % abs(b) * (-1 if a < 0 else 1)),
    "floor_divide": np.floor_divide, "remainder": np.remainder, "pow": each_pair(power), "maximum": np.maximum,
    "minimum": np.minimum, "eq": np.equal, "neq": np.not_equal, "gt": np.greater, "gteq": np.greater_equal,
    "lt": np.less, "lteq": np.less_equal, "logical_and": np.logical_and, "logical_or": np.logical_or,
}  # fmt: skip


KERNELS = [(k, t) for k in kernels("elementwise") for t in TYPES
           if k.op in {*UNARY, *BINARY, "clamp"} and t in re.split("->|,", k.formats)[0].split("|")]
each = pytest.mark.parametrize(("kernel", "name"), KERNELS, ids=[f"{k.level}-{k.op}-{t}" for k, t in KERNELS])


def drawn(name: str, count: int, seed: int) -> Array:
    """Any patterns, small numbers, and the ends of the range against each other."""
    rng, dtype = np.random.default_rng(seed), np.dtype(name)
    if name == "bool":
        return rng.integers(0, 3, count).astype(np.uint8).view(bool)
    info = np.iinfo(dtype)
    codes = rng.integers(0, 2**64, count, dtype=np.uint64).astype(f"u{dtype.itemsize}").view(dtype)
    near = rng.integers(max(info.min, -9), 70, count).astype(dtype)
    ends = np.array([info.min, info.max, 0, 1, info.min + 1, info.max - 1], dtype)
    ends = np.concatenate([ends, np.array([-1 if info.min else 2], dtype)])
    return np.concatenate([np.meshgrid(ends, ends)[seed % 2].ravel(), codes, near])


def run(kernel: Kernel, operands: list[Array], dtype: Any) -> Array:
    count = operands[0].size
    out = np.full((count + 64) * np.dtype(dtype).itemsize, 0xA5, np.uint8)
    CALL(kernel.address)((ctypes.c_void_p * len(operands))(*[x.ctypes.data for x in operands]),
                         (ctypes.c_void_p * 1)(out.ctypes.data), count)
    assert (out[count * np.dtype(dtype).itemsize:] == 0xA5).all()
    return out.view(dtype)[:count].copy()


def wanted(kernel: Kernel, operands: list[Array]) -> Array:
    with np.errstate(all="ignore"):
        if kernel.op == "clamp":
            x, low, high = operands
            raised = np.where(x < low, low, x)
            return np.where(raised > high, high, raised)
        table: Any = UNARY if len(operands) == 1 else BINARY
        return np.asarray(table[kernel.op](*operands))


@each
def test_results_are_those_of_numpy_and_of_whole_numbers(kernel: Kernel, name: str) -> None:
    count = kernel.formats.partition("->")[0].count(",") + 1
    operands = [drawn(name, 500, seed) for seed in range(count)]
    want = wanted(kernel, operands)
    np.testing.assert_array_equal(run(kernel, operands, want.dtype), want)


@each
def test_any_count_and_a_result_in_an_operands_place(kernel: Kernel, name: str) -> None:
    count = kernel.formats.partition("->")[0].count(",") + 1
    operands = [drawn(name, 200, seed) for seed in range(count)]
    want = wanted(kernel, operands)
    for n in (1, 2, 7, 8, 15, 31, 33, 63, 65, 129):
        np.testing.assert_array_equal(run(kernel, [x[3:3 + n].copy() for x in operands], want.dtype), want[3:3 + n])
    if want.dtype.itemsize == operands[0].dtype.itemsize:
        for which in range(count):
            held = [x.copy() for x in operands]
            places = (ctypes.c_void_p * count)(*[x.ctypes.data for x in held])
            CALL(kernel.address)(places, (ctypes.c_void_p * 1)(places[which]), want.size)
            np.testing.assert_array_equal(held[which].view(want.dtype), want)
