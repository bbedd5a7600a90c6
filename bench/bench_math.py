"""The elementary functions beside NumPy's, torch's and onnxruntime's, on FP32 numbers in the first-level cache.

``python bench/bench_math.py`` prints a table as Markdown: nanoseconds an element of every library, the call itself
taken off (the time of a call on no element), our cycles for 16 elements, and our speed over that of the fastest peer
whose results are within 1 ulp. Cycles are counted in multiply-adds: the unit does one of 512 bits in each. `bound` is
how many of them, or of divisions in their place, the best known body has. The libraries and a probe of the unit take
turns, on one thread, and all write to arrays that are there.

Our results are checked against float64 before the timing, and peers are judged by the same arguments.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from bench_sparse import print_table
from scipy import special

from poplibs_py.kernels import Kernel, kernels
from poplibs_py.kernels.peak import peak_probes
from poplibs_py.report.peers import limited_threads, routes
from poplibs_py.report.timing import take_turns
from poplibs_py.testing import ulp_error

Array = np.ndarray[Any, Any]
Bind = Callable[[Array, Array], Callable[[], object]]  # makes the call on two arrays, its arguments ready

COUNT = 4096
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


def onnxruntime_call(op: str, xs: list[Array], y: Array, **attributes: Any) -> Callable[[], object]:
    """A session of one operation, which takes arrays and writes to another."""
    import onnx
    import onnxruntime

    make, kinds = onnx.helper, [onnx.helper.np_dtype_to_tensor_dtype(x.dtype) for x in (*xs, y)]
    *given, result = [make.make_tensor_value_info(f"t{i}", kind, ["n"]) for i, kind in enumerate(kinds)]
    node = make.make_node(op, [one.name for one in given], [result.name], **attributes)
    model = make.make_model(make.make_graph([node], "function", given, [result]),
                            opset_imports=[make.make_opsetid("", 20)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for one, x in zip((*given, result), (*xs, y), strict=True):
        bind = binding.bind_output if one is result else binding.bind_input
        bind(one.name, "cpu", 0, x.dtype, x.shape, x.ctypes.data)
    return partial(session.run_with_iobinding, binding)


def peers(name: str) -> dict[str, Bind]:
    """What NumPy, torch and onnxruntime have under a name."""
    found: dict[str, Bind] = {}
    if (of_numpy := getattr(np, name, None)) is not None:
        found["numpy"] = lambda x, y: partial(of_numpy, x, out=y)
    if name in ONNX and find_spec("onnx") and find_spec("onnxruntime"):
        op, attributes = ONNX[name]
        found["onnxruntime"] = lambda x, y: onnxruntime_call(op, [x], y, **attributes)
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


@pytest.mark.parametrize("kernel", best_kernels().values(), ids=lambda kernel: kernel.op)
def bench_function(kernel: Kernel, benchmark: Any) -> None:
    """One function on numbers in cache."""
    x = arguments(kernel.op, COUNT)
    y = np.empty_like(x)
    assert worst(kernel.op, ours(kernel)) <= 1
    benchmark.extra_info.update(level=kernel.level, elements=COUNT)
    benchmark(ours(kernel)(x, y))


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
