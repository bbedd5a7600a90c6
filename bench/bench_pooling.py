"""Pooling and its gradients: this library, torch and onnxruntime, one thread, results into warm memory.

Windows of 3 x 3 by 2 and 2 x 2, and of the whole field, of 8 x 256 x 28 x 28 in both orders of axes. Torch's gradients
of maxima are by places, which its forward pass left, as ours `by places` are. ``python bench/bench_classes.py pool
field`` prints ratios.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from least_times import traffic
from onnx_node import onnxruntime_node

from poplibs_py import popnn, testing

SHAPE = (8, 256, 28, 28)
DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
WINDOWS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "max 3x3 by 2": ("max", 3, {"stride": 2, "padding": 1}), "max 2x2": ("max", 2, {}),
    "average 3x3 by 2": ("avg", 3, {"stride": 2, "padding": 1}), "average, whole": ("avg", None, {}),
}  # fmt: skip
Calls = dict[str, Callable[[], object]]


def field(dtype: str, layout: str) -> Any:
    """Normal numbers."""
    x = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32).astype(DTYPES[dtype])
    return x if layout == "NCHW" else np.ascontiguousarray(np.moveaxis(x, 1, -1))


def ours(window: str, dtype: str, layout: str) -> Calls:
    """Our calls: the pooling and its gradients."""
    op, kernel, how = WINDOWS[window]
    x = field(dtype, layout)
    how = {**how, "layout": layout}
    y, dx = popnn.pool(x, kernel, op, **how), np.empty_like(x)
    grad, out = np.ones_like(y), np.empty_like(y)
    calls: Calls = {"forward": partial(popnn.pool, x, kernel, op, **how, out=out)}
    if op == "max":
        places = popnn.max_pool_with_indices(x, kernel, **how).indices
        calls["by places"] = partial(popnn.pool_indices_gradient, grad, places, x.shape, kernel, **how, out=dx)
        how = {**how, "x": x, "pooled_x": y}
    calls["backward"] = partial(popnn.pool_input_gradient, grad, x.shape, kernel, op, **how, out=dx)
    return calls


def peers(window: str, dtype: str, layout: str) -> Calls:
    """Torch's."""
    torch = pytest.importorskip("torch")
    op, kernel, how = WINDOWS[window]
    x = torch.from_numpy(field("float32", "NCHW")).to(getattr(torch, dtype))
    x = x.contiguous(memory_format=torch.channels_last) if layout == "NHWC" else x
    functions = torch.nn.functional

    def forward(x: Any) -> Any:
        if kernel is None:
            return functions.adaptive_avg_pool2d(x, 1)
        if op == "max":
            return functions.max_pool2d(x, kernel, **how)
        return functions.avg_pool2d(x, kernel, count_include_pad=False, **how)

    leaf = x.clone().requires_grad_()
    y = forward(leaf)
    grad = torch.ones_like(y)

    def untracked() -> Any:
        with torch.no_grad():
            return forward(x)

    def backward() -> Any:
        return torch.autograd.grad(y, leaf, grad, retain_graph=True)

    return {"forward": untracked, "backward": backward, "by places": backward}


def rows() -> Iterator[tuple[str, str, Callable[[], Calls]]]:
    """Classes, rows, and what makes a row's calls."""
    for window, dtype, layout in product(WINDOWS, DTYPES, ("NCHW", "NHWC")):
        whole = WINDOWS[window][1] is None
        for part in ("forward", "backward", *["by places"] * (WINDOWS[window][0] == "max")):
            short, way = "FP32" if dtype == "float32" else "half", "forward" if part == "forward" else "backward"
            of = "pool FP32" if dtype == "float32" else f"pool half {layout} {way}"
            if whole:
                of = f"mean of the whole field {short} {part}"
            yield of, f"{window} {layout} {dtype} {part}", partial(row, window, dtype, layout, part)


def row(window: str, dtype: str, layout: str, part: str) -> Calls:
    """One part of ours, whose forward one is checked, and of others'."""
    op, kernel, how = WINDOWS[window]
    testing.check("popnn.pool", field(dtype, "NCHW")[:1, :3], kernel, op, **how)
    x = field(dtype, layout)
    few = popnn.pool(x, kernel, op, **how, layout=layout)
    more = {"backward": x.nbytes + few.nbytes, "by places": 8 * few.size} if op == "max" else {}  # maxima; their places
    limit = traffic(x.nbytes + few.nbytes + more.get(part, 0))
    found = {"ours": ours(window, dtype, layout)[part], "limit, a copy": limit,
             "torch": peers(window, dtype, layout)[part]}
    if part == "forward" and dtype == "float32" and layout == "NCHW":
        kind = {"max": "MaxPool", "avg": "AveragePool"}[op] if kernel else "GlobalAveragePool"
        facts = {"kernel_shape": [kernel] * 2, "strides": [how.get("stride", kernel)] * 2,
                 "pads": [how.get("padding", 0)] * 4}
        found["onnxruntime"] = onnxruntime_node(kind, [field(dtype, layout)], **(facts if kernel else {}))
    return found

