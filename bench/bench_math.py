"""The elementary functions beside NumPy's, torch's and onnxruntime's, on FP32 numbers in the first-level cache.

``python bench/bench_math.py`` prints a table as Markdown: nanoseconds an element of every library, the call itself
taken off (the time of a call on no element), our cycles for 16 elements, and our speed over that of the fastest peer
whose results are within 1 ulp. Cycles are counted in multiply-adds: the unit does one of 512 bits in each. `bound` is
how many of them, or of divisions in their place, the best known body has. The libraries and a probe of the unit take
turns, on one thread, and all write to arrays that are there.

Our results are checked against float64 before the timing, and peers are judged by the same arguments. ``python
bench/bench_classes.py functions gelu tanh`` prints ratios for longer arrays and other formats.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
from bench_sparse import print_table
from onnx_node import onnxruntime_node
from scipy import special

from poplibs_py import popops, testing
from poplibs_py.formats import BF16, FP16, FP32, Format
from poplibs_py.kernels import Kernel, kernels
from poplibs_py.kernels.peak import peak_probes
from poplibs_py.report.peers import limited_threads, routes
from poplibs_py.report.timing import take_turns
from poplibs_py.testing import ulp_error

Array = np.ndarray[Any, Any]
Calls = dict[str, Callable[[], object]]
Bind = Callable[[Array, Array], Callable[[], object]]  # makes the call on two arrays, its arguments ready

COUNT = 4096
SIZES = {1 << 14: "16 Ki", 1 << 20: "1 Mi", 1 << 24: "16 Mi"}
FORMATS = {FP32: "FP32", FP16: "FP16", BF16: "BF16"}
FUNCTIONS = ("exp", "log", "sin", "tanh", "erf", "rsqrt", "sigmoid", "silu", "gelu_erf", "gelu_tanh")
PEERS = ("numpy", "torch", "onnxruntime")
FUNCTION = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64)
BOUNDS = {"exp": 11, "log": 13, "sin": 15, "sigmoid": 15, "erf": 16, "silu": 16, "tanh": 17, "gelu_tanh": 20,
          "gelu_erf": 24, "sqrt": 8, "rsqrt": 7}  # fmt: skip


ONNX: dict[str, tuple[str, dict[str, str]]] = {
    **{name: (name.capitalize(), {}) for name in ("exp", "log", "tanh", "sqrt", "sin", "cos", "tan", "sinh", "cosh",
                                                  "asin", "acos", "atan", "erf", "sigmoid", "reciprocal")},
    "gelu_erf": ("Gelu", {}), "gelu_tanh": ("Gelu", {"approximate": "tanh"}),
}  # fmt: skip


def _logistic(x: Array) -> Array:
    return special.expit(x)


REFERENCES: dict[str, Callable[[Array], Array]] = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log2", "log1p", "tanh", "sqrt", "sin",
                                            "cos", "tan", "sinh", "cosh", "cbrt", "reciprocal")},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asin", "acos", "atan")},
    "erf": special.erf,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": _logistic,
    "silu": lambda x: x * _logistic(x),
    "gelu_tanh": lambda x: x * _logistic(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)),
    "gelu_erf": lambda x: x * special.ndtr(x),
}


def to_torch(x: Array) -> Any:
    """The same memory as a tensor."""
    import torch

    return routes.to_torch(x, getattr(torch, x.dtype.name))


def best_kernels() -> dict[str, Kernel]:
    """Return each function's kernel of the highest level that may be used."""
    return {kernel.op: kernel for kernel in kernels("elementwise")
            if kernel.formats == "float32->float32" and kernel.op in REFERENCES}


def ours(kernel: Kernel) -> Bind:
    """A kernel's calls."""
    pointer = ctypes.c_void_p * 1
    return lambda x, y: partial(FUNCTION(kernel.address), pointer(x.ctypes.data), pointer(y.ctypes.data), x.size)


def peers(name: str) -> dict[str, Bind]:
    """What NumPy, torch and onnxruntime have under a name."""
    found: dict[str, Bind] = {}
    if (of_numpy := getattr(np, name, None)) is not None:
        found["numpy"] = lambda x, y: partial(of_numpy, x, out=y)
    if name in ONNX and find_spec("onnx") and find_spec("onnxruntime"):
        op, attributes = ONNX[name]
        found["onnxruntime"] = lambda x, y: onnxruntime_node(op, [x], out=y, **attributes)
    if find_spec("torch"):
        import torch

        aten = torch.ops.aten
        of_torch = {"silu": aten.silu.out, "gelu_erf": aten.gelu.out,
                    "gelu_tanh": partial(aten.gelu.out, approximate="tanh")}.get(name, getattr(torch, name, None))
        if of_torch is not None:
            found["torch"] = lambda x, y: partial(of_torch, to_torch(x), out=to_torch(y))
    return found


def arguments(name: str, count: int) -> Array:
    """Numbers where the function is busy."""
    low = 0.01 if name in ("log", "log2", "sqrt", "rsqrt", "reciprocal") else -0.9 if name == "log1p" else -8
    low, high = (-1, 1) if name in ("asin", "acos") else (low, 8)
    return np.random.default_rng(1).uniform(low, high, count).astype(np.float32)


def worst(name: str, bind: Bind) -> float:
    """The greatest error in ulp of a call on busy numbers and on small ones."""
    x = arguments(name, 1 << 18)
    x = np.concatenate([x, x * np.float32(2.0**-20)])
    y = np.empty_like(x)
    result = bind(x, y)()
    got = y if result is None else np.asarray(result)
    return float(np.max(ulp_error(got, REFERENCES[name](x.astype(np.float64)))))


def bound_calls(bind: Bind, x: Array, y: Array) -> list[Callable[[], object]]:
    """The call on all elements and on none."""
    return [bind(x, y), bind(x[:0], y[:0])]


def measure(name: str, kernel: Kernel, seconds: float) -> list[Any]:
    """One row of the table."""
    x = arguments(name, COUNT)
    y = np.empty_like(x)
    calls = {"ours": ours(kernel), **peers(name)}
    errors = {library: worst(name, bind) for library, bind in calls.items()}
    if errors["ours"] > 1:
        raise SystemExit(f"{name} is off by {errors['ours']} ulp")
    probe = peak_probes()["float32"]
    timings = take_turns([probe, *(one for bind in calls.values() for one in bound_calls(bind, x, y))], seconds=seconds)
    cycle = timings[0].seconds * 32 / probe()
    times = {library: timings[1 + 2 * i].seconds - timings[2 + 2 * i].seconds for i, library in enumerate(calls)}
    fair = [times[library] for library in calls if library != "ours" and errors[library] <= 1]
    cells = [f"{times[k] / COUNT * 1e9:.3f} ({errors[k]:.2g})" if k in times else "" for k in PEERS]
    cycles = times["ours"] / COUNT * 16 / cycle
    bound = BOUNDS.get(name)
    return [name, f"{times['ours'] / COUNT * 1e9:.3f} ({errors['ours']:.2g})", *cells, f"{cycles:.1f}", bound or "",
            f"{bound / cycles:.2f}" if bound else "", f"{min(fair) / times['ours']:.1f} x" if fair else ""]  # fmt: skip


def rows() -> Iterator[tuple[str, str, Callable[[], Calls]]]:
    """Classes, rows, and what makes a row's calls."""
    classes = {"tanh": "tanh", "sin": "sin", "log": "log, rsqrt", "rsqrt": "log, rsqrt", "erf": "erf"}
    for name, fmt, count in product(FUNCTIONS, FORMATS, SIZES):
        gate = name in FUNCTIONS[-4:]
        of = f"{'sigmoid, silu, gelu' if gate else classes.get(name, 'functions')} FP32"
        if fmt is BF16:
            busy = name in ("exp", "log", "sigmoid", "gelu_erf", "gelu_tanh")
            of = "exp, log, sigmoid, gelu BF16" if busy else "tanh, pow BF16" if name == "tanh" else "functions BF16"
        yield (of if fmt is not FP16 else "functions FP16", f"{name} {FORMATS[fmt]}, {SIZES[count]}",
               partial(row, name, fmt, count, fair=not gate))


def row(name: str, fmt: Format, count: int, fair: bool) -> Calls:
    """Ours and others'; in FP32 those alone that are within 1 ulp if `fair`."""
    x: Any = popops.cast(arguments(name, count), fmt)
    testing.check(name, x[:4096])
    y = np.empty_like(x)
    found = {library: bind(x, y) for library, bind in peers(name).items()
             if (fmt is not BF16 or library == "torch") and (fmt is FP32 or library != "onnxruntime")
             and not (fair and fmt is FP32 and not keeps_an_ulp(name, library))}  # fmt: skip
    return {"ours": partial(getattr(popops, name), x, out=y)} | found


@cache
def keeps_an_ulp(name: str, library: str) -> bool:
    """Whether a peer's FP32 function is within 1 ulp where it is busy."""
    return worst(name, peers(name)[library]) <= 1


def share_of_bound(name: str, seconds: float) -> float:
    """Our speed in the first-level cache over that of the best known body."""
    return float(measure(name, best_kernels()[name], seconds)[-2])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each function (default: 1)")
    parser.add_argument("functions", nargs="*", help="which (default: all)")
    chosen = parser.parse_args()
    with limited_threads(1), np.errstate(all="ignore"):
        rows = [measure(name, kernel, chosen.seconds) for name, kernel in best_kernels().items()
                if not chosen.functions or name in chosen.functions]
        heads = ("function", "ours, ns (ulp)", *PEERS, "cycles / 16", "bound", "of bound", "over the best")
        print_table(heads, rows)


if __name__ == "__main__":
    main()
