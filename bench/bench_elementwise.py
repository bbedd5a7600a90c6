"""Elementwise operations: this library, NumPy, torch, onnxruntime and numba, every function in FP32, FP16 and BF16.

16 Ki elements lie in the second-level cache, 1 Mi in the third, 16 Mi in memory. ``python bench/bench_classes.py
elementwise`` prints ratios; ``bench_calls.py`` has what a call costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
from bench_map import numba_loop
from bench_math import FORMATS, FUNCTIONS, SIZES, to_torch
from onnx_node import onnxruntime_node

from poplibs_py import popops, testing
from poplibs_py.formats import BF16, FP32, Format
from poplibs_py.popops.elementwise.table import ELEMENTWISE

SIMPLE = ("relu", "abs", "neg", "square", "sqrt", "add", "sub", "mul", "div", "maximum", "clamp", "gt", "select")
NUMPY: dict[str, str] = {
    "abs": "abs", "neg": "negative", "square": "square", "sqrt": "sqrt", "inv": "reciprocal", "cbrt": "cbrt",
    "exp2": "exp2", "expm1": "expm1", "log2": "log2", "log1p": "log1p", "cos": "cos", "tan": "tan", "asin": "arcsin",
    "ceil": "ceil", "floor": "floor", "nearbyint": "rint",
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
    **{name: name for name in ("abs", "neg", "square", "sqrt", "exp2", "expm1", "log2", "log1p", "cos", "tan", "asin",
                               "ceil", "floor", "trunc", "add", "sub", "mul", "div", "floor_divide", "remainder", "pow",
                               "atan2", "maximum", "minimum", "fmax", "fmin", "eq", "gt", "lt", "bitwise_not",
                               "bitwise_and", "bitwise_or", "bitwise_xor", "logical_not", "logical_and", "logical_or",
                               "clamp")},
    "inv": "reciprocal", "rem": "fmod", "nearbyint": "round", "neq": "ne", "gteq": "ge", "lteq": "le",
}  # fmt: skip
ONNX = {"relu": "Relu", "abs": "Abs", "neg": "Neg", "sqrt": "Sqrt", "add": "Add", "sub": "Sub", "mul": "Mul",
        "div": "Div", "maximum": "Max"}  # fmt: skip
NUMBA = {"relu": "max(a[i], f(0))", "abs": "abs(a[i])", "neg": "-a[i]", "square": "a[i]*a[i]", "sqrt": "m.sqrt(a[i])",
         "add": "a[i] + b[i]", "sub": "a[i] - b[i]", "mul": "a[i]*b[i]", "div": "a[i]/b[i]", "gt": "a[i] > b[i]",
         "clamp": "min(max(a[i], b[i]), c[i])", "select": "a[i] if c[i] else b[i]"}  # fmt: skip
Call = Callable[[], object]


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
             "select": lambda: torch.where(xs[2], xs[0], xs[1], out=y)}
    if name in TORCH:
        return partial(getattr(torch, TORCH[name]), *xs, out=y)
    return calls.get(name)


def onnxruntime_call(name: str, given: tuple[Any, ...], out: Any) -> Call | None:
    """A session of onnxruntime, in FP32."""
    if name not in ONNX or given[0].dtype != np.float32 or not (find_spec("onnx") and find_spec("onnxruntime")):
        return None
    return onnxruntime_node(ONNX[name], given, out=out)


def numba_call(name: str, given: tuple[Any, ...], out: Any) -> Call | None:
    """A loop of numba, in FP32."""
    if name not in NUMBA or given[0].dtype != np.float32 or not find_spec("numba"):
        return None
    return partial(numba_loop(NUMBA[name], len(given)), *given, out)


LIBRARIES = {"numpy": numpy_call, "torch": torch_call, "onnxruntime": onnxruntime_call, "numba": numba_call}


def rows() -> Iterator[tuple[str, str, Callable[[], dict[str, Call]]]]:
    """Classes, rows, and what makes a row's calls; integers and truth values have no format and come once."""
    for name, fmt, count in product(ELEMENTWISE, FORMATS, SIZES):
        if name not in FUNCTIONS and ("f" in ELEMENTWISE[name].kinds or fmt is FP32):
            of = f"elementwise {FORMATS[fmt]}{'' if name in SIMPLE else ', others'}"
            if name == "pow" and fmt is not FP32:
                of = "tanh, pow BF16" if fmt is BF16 else "functions FP16"
            yield of, f"{name} {FORMATS[fmt]}, {SIZES[count]}", partial(row, name, fmt, count)
    for name in SIMPLE:
        yield "elementwise FP32, of a copy's bandwidth", f"{name} FP32, 16 Mi", partial(beside_copy, name)


def row(name: str, fmt: Format, count: int) -> dict[str, Call]:
    """Ours and the peers' calls; ml_dtypes' BF16 is left out, which has no vectors."""
    given = operands(name, fmt, count)
    out = result(name, given)
    testing.check(name, *(x[:4096] for x in given), out=out[:4096])
    found = {library: made(name, given, out) for library, made in LIBRARIES.items()
             if fmt is not BF16 or library != "numpy"}
    ours = partial(getattr(popops, name), *given, out=out)
    return {"ours": ours} | {library: call for library, call in found.items() if call is not None}


def beside_copy(name: str) -> dict[str, Call]:
    """An operation of 16 Mi FP32 numbers and NumPy's copy that moves as many bytes."""
    ours = row(name, FP32, 1 << 24)["ours"]
    given = operands(name, FP32, 1 << 24)
    moved = sum(x.nbytes for x in given) + result(name, given).nbytes
    source = np.ones(moved // 8, np.float32)
    return {"ours": ours, "copy": partial(np.copyto, np.empty_like(source), source)}
