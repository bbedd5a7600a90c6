"""Softmax, norms, their gradients and cross-entropy: this library and others, one thread.

Rows of several lengths, whose statistics are along the last axis, and fields [N, C, H, W] in both orders of axes.
Results go into warm memory of one's own, several at once and torch's into new arrays; torch's gradients are
autograd's backward pass alone, which reads the statistics that its forward pass left. ``python bench/bench_classes.py
softmax norm cross`` prints ratios.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from least_times import traffic
from onnx_node import onnxruntime_node

from poplibs_py import popnn, testing

ROWS = {"64x256": (64, 256), "1024x1024": (1024, 1024), "8192x128": (8192, 128), "64x32768": (64, 32768)}
FIELD = (8, 256, 28, 28)
MAPS = (4, 21, 128, 128)  # of classes, as of a segmentation
DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
ROW_OPS = ("softmax", "softmax_grad", "log_softmax", "log_softmax_grad", "layer_norm", "layer_norm_grad", "rms_norm",
           "rms_norm_grad", "cross_entropy")  # fmt: skip
FIELD_OPS = ("batch_norm", "batch_norm_training", "batch_norm_grad", "group_norm", "group_norm_grad")
TRAINING = ("batch_norm_training",)
MIXED = ("layer_norm_mixed", "layer_norm_grad_mixed")
WEIGHED_IN_FP32 = TRAINING + MIXED  # whose gammas and betas are FP32, as torch takes them beside halves
Calls = dict[str, Callable[[], object]]


def cases() -> list[tuple[str, str, str]]:
    """Ops, shapes and formats."""
    rows = [(op, shape, dtype) for op in ROW_OPS for shape in ROWS for dtype in DTYPES]
    rows += [(op, shape, dtype) for op in MIXED for shape in ROWS for dtype in ("float16", "bfloat16")]
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
    function = getattr(popnn, op.removesuffix("_mixed"))
    if op in FIELD_OPS:
        x, grad, channels = field(dtype, shape, 1), field(dtype, shape, 2), FIELD[1]
        gamma, beta = (drawn((channels,), "float32" if op in WEIGHED_IN_FP32 else dtype, seed) for seed in (3, 4))
        if op in TRAINING:
            mean, variance = np.zeros(channels, np.float32), np.ones(channels, np.float32)
            return partial(function, x, gamma, beta, running_mean=mean, running_variance=variance, out=like(x))
        groups = (32,) if "group" in op else ()
        if op.endswith("_grad"):
            return partial(function, grad, x, *groups, gamma)
        return partial(function, x, *groups, gamma, beta, out=like(x))
    x, grad = drawn(ROWS[shape], dtype, 1), drawn(ROWS[shape], dtype, 2)
    n = ROWS[shape][1]
    gamma, beta = (drawn((n,), "float32" if op in WEIGHED_IN_FP32 else dtype, seed) for seed in (3, 4))
    if op == "cross_entropy":
        labels = np.random.default_rng(5).integers(0, n, ROWS[shape][0])
        return partial(function, x, labels)
    if "softmax" in op:
        y = getattr(popnn, op.removesuffix("_grad"))(x)
        return partial(function, *((grad, y) if op.endswith("_grad") else (x,)), out=like(x))
    if op == "layer_norm_grad_mixed":
        return partial(function, grad, x, gamma, out=tuple(map(like, (x, gamma, beta))))
    if op.endswith("_grad"):
        return partial(function, grad, x, gamma)
    return partial(function, x, gamma, *((beta,) if "layer" in op else ()), out=like(x))


def rows() -> Iterator[tuple[str, str, Callable[[], Calls]]]:
    """Classes, rows, and what makes a row's calls."""
    for op, shape, dtype in cases():
        name = op.replace("_", " ").replace("grad", "gradient").replace(" training", ", training")
        name = name.replace(" mixed", ", FP32 gamma")
        of = f"{name} {'FP32' if dtype == 'float32' else 'half'}" if "softmax" in op else name
        yield of, f"{shape} {dtype}", partial(row, op, shape, dtype)
    for op in ("softmax", "log_softmax", "cross_entropy"):
        for dtype in DTYPES:
            yield "softmax and cross entropy of maps", f"{op} {dtype}", partial(row_of_maps, op, dtype)


def row(op: str, shape: str, dtype: str) -> Calls:
    """Ours, which is checked, and others'."""
    x = drawn((3, 4), dtype, 1)
    if op == "cross_entropy":
        testing.check("popnn.cross_entropy", x, np.int32([0, 1, 2]))
    elif "softmax" in op or "group" not in op:
        testing.check(f"popnn.{op.removesuffix('_mixed')}", *((x, x) if "_grad" in op else (x,)))
    extents = FIELD if op in FIELD_OPS else ROWS[shape]
    limit = traffic((3 if "_grad" in op else 2) * math.prod(extents) * np.dtype(DTYPES[dtype]).itemsize)
    return {"ours": ours(op, shape, dtype), "limit, a copy": limit, **peers(op, shape, dtype)}


def row_of_maps(op: str, dtype: str) -> Calls:
    """The same along the classes of maps, which are the axis before the last two."""
    torch = pytest.importorskip("torch")
    x, labels = drawn(MAPS, dtype, 1), np.random.default_rng(5).integers(0, MAPS[1], (MAPS[0], *MAPS[2:]))
    more = (labels[:1, :4],) if op == "cross_entropy" else ()
    testing.check(f"popnn.{op}", x[:1, :, :4], *more, axis=1)
    of_torch = torch.from_numpy(drawn(MAPS, "float32", 1)).to(getattr(torch, dtype))
    limit = traffic(2 * x.nbytes)
    if op != "cross_entropy":
        return {"ours": partial(getattr(popnn, op), x, 1, out=like(x)), "limit, a copy": limit,
                "torch": partial(getattr(torch, op), of_torch, 1)}
    leaf, classes = of_torch.requires_grad_(), torch.from_numpy(labels)

    def both() -> Any:
        loss = torch.nn.functional.cross_entropy(leaf, classes, reduction="none")
        return torch.autograd.grad(loss, leaf, torch.ones_like(loss))

    return {"ours": partial(popnn.cross_entropy, x, labels, axis=1), "limit, a copy": limit, "torch": both}


def peers(op: str, shape: str, dtype: str) -> Calls:
    """Torch's and others' that are faster somewhere."""
    found = {"torch": torchs(op, shape, dtype)}
    if op in ("softmax", "log_softmax") and dtype == "float32" and importlib.util.find_spec("onnxruntime"):
        x = drawn(ROWS[shape], dtype, 1)
        found["onnxruntime"] = onnxruntime_node({"softmax": "Softmax", "log_softmax": "LogSoftmax"}[op], [x], axis=-1)
    if op in ("softmax", "cross_entropy") and importlib.util.find_spec("jax"):
        found["jax"] = jaxes(op, shape, dtype)
    if op == "layer_norm":
        import torch

        compiled = torch.compile(found["torch"].func, dynamic=False)
        found["torch.compile"] = partial(compiled, *found["torch"].args)
    return found


def jaxes(op: str, shape: str, dtype: str) -> Callable[[], object]:
    """Jax's."""
    import jax

    x = jax.numpy.asarray(drawn(ROWS[shape], dtype, 1))
    if op == "softmax":
        made = jax.jit(partial(jax.nn.softmax, axis=-1))
        return lambda: made(x).block_until_ready()
    labels = jax.numpy.asarray(np.random.default_rng(5).integers(0, x.shape[1], len(x)))

    def loss(x: Any, labels: Any) -> Any:
        each = -jax.numpy.take_along_axis(jax.nn.log_softmax(x, -1), labels[:, None], 1)[:, 0]
        return each.sum(), each

    both = jax.jit(jax.grad(loss, has_aux=True))
    return lambda: jax.block_until_ready(both(x, labels))


def torchs(op: str, shape: str, dtype: str) -> Any:
    """Torch's."""
    torch = pytest.importorskip("torch")
    functions, how = torch.nn.functional, getattr(torch, dtype)
    name = op.removesuffix("_mixed").removesuffix("_grad")

    def tensor(*drawn_as: Any) -> Any:
        return torch.from_numpy(drawn(*drawn_as)).to(how)

    if op in FIELD_OPS:
        x, grad, n = tensor(FIELD, "float32", 1), tensor(FIELD, "float32", 2), FIELD[1]
        if shape == "NHWC":
            x, grad = (one.contiguous(memory_format=torch.channels_last) for one in (x, grad))
    else:
        x, grad, n = tensor(ROWS[shape], "float32", 1), tensor(ROWS[shape], "float32", 2), ROWS[shape][1]
    gamma, beta = tensor((n,), "float32", 3), tensor((n,), "float32", 4)
    running = None, None
    if op in WEIGHED_IN_FP32:
        gamma, beta = gamma.float(), beta.float()
    if op in TRAINING:
        running = torch.zeros(n), torch.ones(n)

    def forward(x: Any, gamma: Any, beta: Any) -> Any:
        if name in ("softmax", "log_softmax"):
            return getattr(functions, name)(x, -1)
        if name.startswith("batch_norm"):
            return functions.batch_norm(x, *running, gamma, beta, training=True)
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
    if op == "softmax":
        return partial(torch.softmax, x, -1, out=torch.empty_like(x))
    if "_grad" not in op:
        return partial(torch.no_grad()(forward), x, gamma, beta)
    y = forward(*leaves)
    used = leaves[:1] if "softmax" in op else leaves[:2] if "rms" in op else leaves
    return partial(torch.autograd.grad, y, used, grad, retain_graph=True)

