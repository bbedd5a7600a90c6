"""Softmax, norms, their gradients and cross-entropy: this library and torch, one thread (``POPLIBS_BENCH_THREADS``).

Rows of several lengths, whose statistics are along the last axis, and fields [N, C, H, W] in both orders of axes.
Results go into warm memory of one's own, several at once and torch's into new arrays; torch's gradients are
autograd's backward pass alone, which reads the statistics that its forward pass left. Rates count the elements of an
operand. The limit is a copy by NumPy of as many bytes as the function reads and writes at least.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median
from time import process_time
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from poplibs_py import popnn, testing

ROWS = {"64x256": (64, 256), "1024x1024": (1024, 1024), "8192x128": (8192, 128), "64x32768": (64, 32768)}
FIELD = (8, 256, 28, 28)
DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
ROW_OPS = {"softmax": 2, "softmax_grad": 3, "log_softmax": 2, "log_softmax_grad": 3, "layer_norm": 2,
           "layer_norm_grad": 3, "rms_norm": 2, "rms_norm_grad": 3, "cross_entropy": 2}  # fmt: skip
FIELD_OPS = {"batch_norm": 2, "batch_norm_grad": 3, "group_norm": 2, "group_norm_grad": 3}
"""Each op, and how many times the size of an operand it moves."""
Calls = dict[str, Callable[[], object]]


def cases() -> list[tuple[str, str, str]]:
    """Ops, shapes and formats."""
    rows = [(op, shape, dtype) for op in ROW_OPS for shape in ROWS for dtype in DTYPES]
    return rows + [(op, layout, dtype) for op in FIELD_OPS for layout in ("NCHW", "NHWC") for dtype in DTYPES]


def drawn(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """Normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(DTYPES[dtype])


def field(dtype: str, layout: str, seed: int) -> Any:
    """Normal numbers [N, C, H, W], which lie in that order or with the channels last."""
    x = drawn(FIELD, dtype, seed)
    return x if layout == "NCHW" else np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


def like(x: Any) -> Any:
    """An empty array that lies as this one."""
    return np.empty_like(x)


def ours(op: str, shape: str, dtype: str) -> Callable[[], object]:
    """Our call."""
    function = getattr(popnn, op)
    if op in FIELD_OPS:
        x, grad, channels = field(dtype, shape, 1), field(dtype, shape, 2), FIELD[1]
        gamma, beta = drawn((channels,), dtype, 3), drawn((channels,), dtype, 4)
        groups = (32,) if "group" in op else ()
        if op.endswith("_grad"):
            return partial(function, grad, x, *groups, gamma)
        return partial(function, x, *groups, gamma, beta, out=like(x))
    x, grad = drawn(ROWS[shape], dtype, 1), drawn(ROWS[shape], dtype, 2)
    n = ROWS[shape][1]
    gamma, beta = drawn((n,), dtype, 3), drawn((n,), dtype, 4)
    if op == "cross_entropy":
        labels = np.random.default_rng(5).integers(0, n, ROWS[shape][0])
        return partial(function, x, labels)
    if "softmax" in op:
        y = getattr(popnn, op.removesuffix("_grad"))(x)
        return partial(function, *((grad, y) if op.endswith("_grad") else (x,)), out=like(x))
    if op.endswith("_grad"):
        return partial(function, grad, x, gamma)
    return partial(function, x, gamma, *((beta,) if op == "layer_norm" else ()), out=like(x))


def peers(op: str, shape: str, dtype: str) -> Callable[[], object]:
    """Torch's."""
    torch = pytest.importorskip("torch")
    functions, how = torch.nn.functional, getattr(torch, dtype)
    name = op.removesuffix("_grad")

    def tensor(*drawn_as: Any) -> Any:
        return torch.from_numpy(drawn(*drawn_as)).to(how)

    if op in FIELD_OPS:
        x, grad, n = tensor(FIELD, "float32", 1), tensor(FIELD, "float32", 2), FIELD[1]
        if shape == "NHWC":
            x, grad = (one.contiguous(memory_format=torch.channels_last) for one in (x, grad))
    else:
        x, grad, n = tensor(ROWS[shape], "float32", 1), tensor(ROWS[shape], "float32", 2), ROWS[shape][1]
    gamma, beta = tensor((n,), "float32", 3), tensor((n,), "float32", 4)

    def forward(x: Any, gamma: Any, beta: Any) -> Any:
        if name in ("softmax", "log_softmax"):
            return getattr(functions, name)(x, -1)
        if name == "batch_norm":
            return functions.batch_norm(x, None, None, gamma, beta, training=True)
        if name == "group_norm":
            return functions.group_norm(x, 32, gamma, beta)
        if name == "rms_norm":
            return functions.rms_norm(x, (n,), gamma)
        return functions.layer_norm(x, (n,), gamma, beta)

    leaves = [one.clone().requires_grad_() for one in (x, gamma, beta)]
    if op == "cross_entropy":
        labels = torch.from_numpy(np.random.default_rng(5).integers(0, n, len(x)))

        def both() -> Any:
            loss = functions.cross_entropy(leaves[0], labels, reduction="none")
            return torch.autograd.grad(loss, leaves[0], torch.ones_like(loss))

        return both
    if not op.endswith("_grad"):
        return partial(torch.no_grad()(forward), x, gamma, beta)
    y = forward(*leaves)
    used = leaves[:1] if "softmax" in op else leaves[:2] if "rms" in op else leaves
    return partial(torch.autograd.grad, y, used, grad, retain_graph=True)


@pytest.mark.parametrize(("op", "shape", "dtype"), cases())
@pytest.mark.parametrize("library", ["poplibs_py", "torch"])
def bench_popnn(op, shape, dtype, library, measure, benchmark):
    benchmark.group = f"{op} {shape} {dtype}"
    x = drawn((3, 4), dtype, 1)
    if op == "cross_entropy":
        testing.check("popnn.cross_entropy", x, np.int32([0, 1, 2]))
    elif "softmax" in op or "group" not in op:
        testing.check(f"popnn.{op}", *((x, x) if op.endswith("_grad") else (x,)))
    call = (ours if library == "poplibs_py" else peers)(op, shape, dtype)
    measure(call, flops=float(np.prod(ROWS.get(shape, FIELD))), library=library)


def main(wanted: str = "", dtypes: str = "") -> None:
    """Print times of the CPU, ratios to torch and to the limit, all calls in turn, medians of 15."""
    from poplibs_py.report.peers import limited_threads

    with limited_threads(1):
        for op, shape, dtype in cases():
            if (wanted and op != wanted) or (dtypes and dtype not in dtypes):
                continue
            size = int(np.prod(ROWS.get(shape, FIELD))) * np.dtype(DTYPES[dtype]).itemsize
            moved = size * {**ROW_OPS, **FIELD_OPS}[op]
            source, to = np.ones(moved // 2, np.uint8), np.ones(moved // 2, np.uint8)
            calls = (ours(op, shape, dtype), peers(op, shape, dtype), partial(np.copyto, to, source))
            repeats = max(1, min(50, int(4e6 / moved)))
            times: list[list[float]] = [[], [], []]
            for _ in range(15):
                for taken, one in zip(times, calls, strict=True):
                    one()  # as warm as its own data make it
                    began = process_time()
                    for _ in range(repeats):
                        one()
                    taken.append((process_time() - began) / repeats)
            mid = [median(taken) * 1e6 for taken in times]
            print(f"{op} {shape} {dtype}: {mid[0]:.1f} us, torch {mid[1]:.1f} us; ratio {mid[1] / mid[0]:.2f}, "
                  f"of the limit {mid[2] / mid[0]:.2f}", flush=True)


if __name__ == "__main__":
    import sys

    main(*sys.argv[1:])
