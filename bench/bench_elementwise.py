"""Elementwise operations: this library, NumPy, torch, onnxruntime and numba, every function in FP32, FP16 and BF16.

256 elements show the call, 16 Ki lie in the second-level cache, 1 Mi in the third, 16 Mi in memory. ``extra_info``
holds elements and bytes per second, nanoseconds an element, and for large arrays the share of what a copy of the same
bytes reaches.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from bench_map import numba_loop
from bench_math import onnxruntime_call as session_call
from bench_math import to_torch

from poplibs_py import popops, testing
from poplibs_py.formats import BF16, FP16, FP32, Format
from poplibs_py.kernels import available_levels
from poplibs_py.popops._elementwise import ELEMENTWISE

SIZES = [256, 1 << 14, 1 << 20, 1 << 24]
FORMATS = (FP32, FP16, BF16)
NUMPY: dict[str, str] = {
    "abs": "abs", "neg": "negative", "square": "square", "sqrt": "sqrt", "inv": "reciprocal", "cbrt": "cbrt",
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log1p": "log1p", "sin": "sin",
    "cos": "cos", "tan": "tan", "asin": "arcsin", "tanh": "tanh", "ceil": "ceil", "floor": "floor", "nearbyint": "rint",
    "trunc": "trunc", "is_finite": "isfinite", "is_inf": "isinf", "is_nan": "isnan", "bitwise_not": "invert",
    "logical_not": "logical_not", "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "rem": "fmod",
    "floor_divide": "floor_divide", "remainder": "remainder", "pow": "power", "atan2": "arctan2", "maximum": "maximum",
    "minimum": "minimum", "fmax": "fmax", "fmin": "fmin", "eq": "equal", "neq": "not_equal", "gt": "greater",
    "gteq": "greater_equal", "lt": "less", "lteq": "less_equal", "logical_and": "logical_and",
    "logical_or": "logical_or", "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or",
    "bitwise_xor": "bitwise_xor", "shift_left": "left_shift",
    "shift_right": "right_shift", "clamp": "clip",
}  # fmt: skip
TORCH: dict[str, str] = {
    **{name: name for name in ("abs", "neg", "square", "sqrt", "rsqrt", "exp", "exp2", "expm1", "log", "log2", "log1p",
                               "sin", "cos", "tan", "asin", "tanh", "erf", "sigmoid", "ceil", "floor", "trunc", "add",
                               "sub", "mul", "div", "floor_divide", "remainder", "pow", "atan2", "maximum", "minimum",
                               "fmax", "fmin", "eq", "gt", "lt", "bitwise_not", "bitwise_and", "bitwise_or",
                               "bitwise_xor", "logical_not", "logical_and", "logical_or", "clamp")},
    "inv": "reciprocal", "rem": "fmod", "nearbyint": "round", "neq": "ne", "gteq": "ge", "lteq": "le",
}  # fmt: skip
ONNX = {"relu": "Relu", "abs": "Abs", "neg": "Neg", "sqrt": "Sqrt", "add": "Add", "sub": "Sub", "mul": "Mul",
        "div": "Div", "maximum": "Max"}  # fmt: skip
NUMBA = {"relu": "max(a[i], f(0))", "abs": "abs(a[i])", "neg": "-a[i]", "square": "a[i]*a[i]", "sqrt": "m.sqrt(a[i])",
         "add": "a[i] + b[i]", "sub": "a[i] - b[i]", "mul": "a[i]*b[i]", "div": "a[i]/b[i]", "gt": "a[i] > b[i]",
         "clamp": "min(max(a[i], b[i]), c[i])", "select": "a[i] if c[i] else b[i]"}  # fmt: skip
Call = Callable[[], object]
names = pytest.mark.parametrize("name", ELEMENTWISE)
formats = pytest.mark.parametrize("fmt", FORMATS, ids=str)
sizes = pytest.mark.parametrize("count", SIZES)


def operands(name: str, fmt: Format, count: int) -> tuple[Any, ...]:
    """Numbers for which every function is busy; int32 ones or truth values where the operation takes no others."""
    row = ELEMENTWISE[name]
    made = []
    for seed, operand in enumerate(row.operands):
        x: Any = np.random.default_rng(seed).uniform(0.1, 4, count).astype(np.float32)
        if operand in row.conditions or row.kinds == "b":
            made.append(x > 2)
        elif "f" not in row.kinds:
            made.append((x * 7).astype(np.int32))
        else:
            made.append(popops.cast(x / 4 if name == "asin" else x, fmt))
    return tuple(made)


def result(name: str, given: tuple[Any, ...]) -> Any:
    """What the results are written to."""
    return np.empty(given[0].shape, bool if ELEMENTWISE[name].tells else given[0].dtype)


def skip_repeats(name: str, fmt: Format) -> None:
    """Integers and truth values have no format: they are timed once."""
    if "f" not in ELEMENTWISE[name].kinds and fmt is not FP32:
        pytest.skip("no numbers of a format")


@cache
def copy_rate(nbytes: int) -> float:
    """Bytes per second, read and written, of a copy of so many."""
    source, target = (np.ones(nbytes // 4, np.float32) for _ in range(2))
    times = []
    for _ in range(9):
        began = perf_counter()
        np.copyto(target, source)
        times.append(perf_counter() - began)
    return 2 * nbytes / float(np.median(times))


def timed(benchmark: Any, call: Callable[[], object], given: tuple[Any, ...], nbytes: int, **facts: Any) -> None:
    """Time a call and store its rates."""
    benchmark(call)
    count = given[0].size
    benchmark.extra_info.update(facts, level=available_levels()[-1], elements=count)
    if benchmark.stats is not None:
        seconds = benchmark.stats.stats.median
        benchmark.extra_info.update(element_rate=count / seconds, ns_per_element=1e9 * seconds / count,
                                    byte_rate=nbytes / seconds)
        if nbytes >= 2 << 20:
            benchmark.extra_info.update(of_copy=nbytes / seconds / copy_rate(nbytes // 2))


def numpy_call(name: str, given: tuple[Any, ...], out: Any) -> Call | None:
    """NumPy's function, whose BF16 is ml_dtypes'."""
    return partial(getattr(np, NUMPY[name]), *given, out=out) if name in NUMPY else None


def torch_call(name: str, given: tuple[Any, ...], out: Any) -> Call | None:
    """Torch's function."""
    if not find_spec("torch"):
        return None
    import torch

    xs, y = [to_torch(x) for x in given], to_torch(out)
    calls = {"relu": lambda: torch.clamp_min(xs[0], 0, out=y),
             "gelu_erf": lambda: torch.ops.aten.gelu.out(xs[0], out=y),
             "select": lambda: torch.where(xs[2], xs[0], xs[1], out=y)}
    if name in TORCH:
        return partial(getattr(torch, TORCH[name]), *xs, out=y)
    return calls.get(name)


def onnxruntime_call(name: str, given: tuple[Any, ...], out: Any) -> Call | None:
    """A session of onnxruntime, in FP32."""
    if name not in ONNX or given[0].dtype != np.float32 or not (find_spec("onnx") and find_spec("onnxruntime")):
        return None
    return session_call(ONNX[name], list(given), out)


def numba_call(name: str, given: tuple[Any, ...], out: Any) -> Call | None:
    """A loop of numba, in FP32."""
    if name not in NUMBA or given[0].dtype != np.float32 or not find_spec("numba"):
        return None
    return partial(numba_loop(NUMBA[name], len(given)), *given, out)


LIBRARIES = {"numpy": numpy_call, "torch": torch_call, "onnxruntime": onnxruntime_call, "numba": numba_call}


@names
@formats
@sizes
def bench_ours(name, fmt, count, benchmark):
    skip_repeats(name, fmt)
    benchmark.group = f"{name} {fmt} {count}"
    given, function = operands(name, fmt, count), getattr(popops, name)
    out = result(name, given)
    testing.check(name, *(x[:4096] for x in given), out=out[:4096])
    nbytes = sum(x.nbytes for x in given) + out.nbytes
    timed(benchmark, lambda: function(*given, out=out), given, nbytes, library="poplibs_py")


@pytest.mark.parametrize("library", LIBRARIES)
@names
@formats
@sizes
def bench_peer(library, name, fmt, count, benchmark):
    skip_repeats(name, fmt)
    benchmark.group = f"{name} {fmt} {count}"
    given = operands(name, fmt, count)
    out = result(name, given)
    call = LIBRARIES[library](name, given, out)
    if call is None:
        pytest.skip(f"{library} has none")
    timed(benchmark, call, given, sum(x.nbytes for x in (*given, out)), library=library)


@names
def bench_call_overhead(name, benchmark):
    """A repeated call for 256 elements with a new result, beside `numpy.add` on as many."""
    benchmark.group = "call 256"
    given, function = operands(name, FP32, 256), getattr(popops, name)
    timed(benchmark, lambda: function(*given), given, 0, library="poplibs_py")


def bench_call_overhead_numpy(benchmark):
    benchmark.group = "call 256"
    x, y = operands("add", FP32, 256)
    timed(benchmark, lambda: np.add(x, y), (x, y), 0, library="numpy")
