"""The greatest error of every function of `simd/math.h`: ``python tests/simd/worst_errors.py [--step N]``.

With ``--step 1``, the default, over all 2^32 arguments in FP32; prints the table of docs/reference/math.md. The
reference is libm in float64, itself compared with long double on every 4096th argument. It needs a C compiler.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shlex
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np

from poplibs_py.kernels import Kernel, kernels

THREADS = 2
FUNCTION = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64)
FUNCTIONS = {"exp", "exp2", "expm1", "log", "log2", "log1p", "tanh", "erf", "sigmoid", "silu", "gelu_tanh", "gelu_erf",
             "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "cbrt"}
PAIRS = {"pow", "atan2"}


class Worst(ctypes.Structure):
    """`worst` of worst_errors.c."""

    _fields_ = (("error", ctypes.c_double), ("doubt", ctypes.c_double), ("at", ctypes.c_uint32),
                ("wrong_at", ctypes.c_uint32), ("wrong", ctypes.c_int64))


@dataclass(frozen=True)
class Found:
    """Greatest error in ulp and where; how far the reference may be trusted; how many results are wrong in kind."""

    error: float
    at: float
    doubt: float
    wrong: int
    wrong_at: float


def compiled(folder: Path) -> ctypes.CDLL:
    """Compile the harness into `folder`."""
    library = folder / "worst_errors.so"
    compiler = shlex.split(os.environ.get("CC", "cc"))
    source = Path(__file__).with_suffix(".c")
    subprocess.run([*compiler, "-O2", "-shared", "-fPIC", "-ffp-contract=off", str(source), "-o", str(library), "-lm"],
                   check=True)
    return ctypes.CDLL(str(library))


def functions() -> list[Kernel]:
    """Return the kernels of the elementary functions, in FP32."""
    return [kernel for kernel in kernels("elementwise")
            if kernel.formats == "float32->float32" and kernel.op in FUNCTIONS]


def pairs() -> list[Kernel]:
    """Return the kernels of the elementary functions of two arguments, in FP32."""
    return [kernel for kernel in kernels("elementwise")
            if kernel.formats == "float32,float32->float32" and kernel.op in PAIRS]


def pair_worst(library: ctypes.CDLL, kernel: Kernel, x: np.ndarray, y: np.ndarray) -> tuple[Found, np.ndarray]:
    """Measure a kernel of two arguments on pairs; return what was found, pairs by their places, and the results."""
    x, y = (np.ascontiguousarray(side, np.float32) for side in np.broadcast_arrays(x, y))
    z, result = np.empty_like(x), Worst()
    places = [ctypes.c_void_p(array.ctypes.data) for array in (x, y, z)]
    assert not library.find_worst_pair(kernel.op.encode(), ctypes.c_void_p(kernel.address), *places,
                                       ctypes.c_int64(x.size), ctypes.byref(result)), f"no reference of {kernel.op}"
    return Found(result.error, result.at, result.doubt, result.wrong, result.wrong_at), z


def highest() -> dict[str, Kernel]:
    """Return each function's kernel of the highest level."""
    return {kernel.op: kernel for kernel in functions()}


def apply(kernel: Kernel, x: np.ndarray, y: np.ndarray) -> None:
    """Run a kernel on the numbers of `x`."""
    given, wanted = ((ctypes.c_void_p * 1)(array.ctypes.data) for array in (x, y))
    FUNCTION(kernel.address)(given, wanted, x.size)


def worst(library: ctypes.CDLL, kernel: Kernel, step: int, offset: int = 0) -> Found:
    """Measure a kernel on the codes offset, offset + step, ..., in shares, on two threads."""
    total = -(-(2**32 - offset) // step)
    shares = [(start, min(total, start + (1 << 24)) - start) for start in range(0, total, 1 << 24)]

    def share(part: tuple[int, int]) -> Worst:
        result = Worst()
        first = ctypes.c_uint32(offset + part[0] * step)
        assert not library.find_worst(kernel.op.encode(), ctypes.c_void_p(kernel.address), first, ctypes.c_uint32(step),
                                      ctypes.c_int64(part[1]), ctypes.byref(result)), f"no reference of {kernel.op}"
        return result

    with ThreadPoolExecutor(THREADS) as pool:
        parts = list(pool.map(share, shares))
    top = max(parts, key=lambda part: part.error)
    wrong = max(parts, key=lambda part: part.wrong)
    doubt, count = max(part.doubt for part in parts), sum(part.wrong for part in parts)
    return Found(top.error, _number(top.at), doubt, count, _number(wrong.wrong_at))


def _number(code: int) -> float:
    return float(np.uint32(code).view(np.float32))


def narrow_worst(library: ctypes.CDLL, kernel: Kernel, dtype: type) -> float:
    """The greatest error where argument and result are of a 16-bit type, over all its numbers, in its own ulp.

    The exact value is the float64 one of `reference`.
    """
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float32)
    y = np.empty_like(x)
    apply(kernel, x, y)
    want = np.empty(x.size)
    library.reference_of(kernel.op.encode(), x.ctypes.data_as(ctypes.c_void_p), want.ctypes.data_as(ctypes.c_void_p),
                         ctypes.c_int64(x.size))
    facts = ml_dtypes.finfo(dtype)
    with np.errstate(all="ignore"):
        got = y.astype(dtype).astype(np.float64)
        limit = float(facts.max)
        usual = np.isfinite(want) & (np.abs(want) <= limit)
        exponent = np.frexp(np.where(usual, want, 1.0))[1] - 1
        ulps = np.ldexp(1.0, np.maximum(exponent, int(facts.minexp)) - int(facts.nmant))
        return float(np.max(np.where(usual, np.abs(np.where(np.isfinite(got), got, limit) - want), 0) / ulps))


def main() -> None:
    """Measure all and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step", type=int, default=1, help="take every so many-th argument (default: all)")
    parser.add_argument("functions", nargs="*", help="which (default: all)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(Path(folder))
        print("| function | FP32 | at | FP16 | BF16 |\n|---|---|---|---|---|")
        for op, kernel in highest().items():
            if chosen.functions and op not in chosen.functions:
                continue
            found = worst(library, kernel, chosen.step)
            halves = [narrow_worst(library, kernel, dtype) for dtype in (np.float16, ml_dtypes.bfloat16)]
            note = f" **{found.wrong} wrong in kind, as at {found.wrong_at!r}**" if found.wrong else ""
            errors = " | ".join(f"{error:.4f}" for error in halves)
            print(f"| {op} | {found.error:.4f} | {found.at:.9g} | {errors} |{note}", flush=True)


if __name__ == "__main__":
    main()
