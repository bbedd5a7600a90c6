"""Recurrent layers, plain and prepared, beside torch's, and in FP32 onnxruntime's: forward, and with all gradients.

``python bench/bench_classes.py recurrent GRU`` prints ratios.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
from onnx_node import onnxruntime_node

from poplibs_py import popnn, testing

STEPS = 100
SHAPES = [(256, 1), (256, 32), (1024, 1), (1024, 32)]
CELLS = {"lstm": 4, "gru": 3}
DTYPES = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16}
Calls = dict[str, Callable[[], object]]


def state_of(cell: str, size: int, dtype: str) -> dict[str, Any]:
    """Weights under torch's names."""
    rng, rows = np.random.default_rng(1), CELLS[cell] * size
    shapes = {"weight_ih_l0": (rows, size), "weight_hh_l0": (rows, size), "bias_ih_l0": (rows,), "bias_hh_l0": (rows,)}
    return {name: (rng.standard_normal(shape) * size**-0.5).astype(DTYPES[dtype]) for name, shape in shapes.items()}


def ours(cell: str, size: int, batch: int, dtype: str, gradients: bool, steps: int = STEPS,
         prepared: bool = False) -> Callable[[], Any]:
    """A call of this library, perhaps with weights that are packed once."""
    layers = popnn.from_torch(state_of(cell, size, dtype), cell)
    if prepared:
        layers = popnn.prepare_layers(layers, cell, x_dtype=dtype, out_dtype=dtype)
    x = np.random.default_rng(2).standard_normal((steps, batch, size)).astype(DTYPES[dtype])
    face = getattr(popnn, cell)
    if not gradients:
        return lambda: face(x, layers, out_dtype=dtype)

    def call() -> Any:
        made = face(x, layers, out_dtype=dtype, inference_only=False)
        return popnn.layers_bwd(x, made.tape)

    return call


def torchs(cell: str, size: int, batch: int, dtype: str, gradients: bool, steps: int = STEPS) -> Callable[[], Any]:
    """The same of torch."""
    import torch

    kind = getattr(torch, dtype)
    layer = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[cell](size, size)
    layer.load_state_dict({k: torch.from_numpy(v.astype(np.float32)) for k, v in state_of(cell, size, dtype).items()})
    layer = layer.to(kind)
    numbers = np.random.default_rng(2).standard_normal((steps, batch, size)).astype(np.float32)
    x = torch.from_numpy(numbers).to(kind).requires_grad_(gradients)

    def call() -> Any:
        if not gradients:
            with torch.no_grad():
                return layer(x)
        layer.zero_grad()
        layer(x)[0].backward(x.detach())
        return x.grad

    return call


def onnxruntimes(cell: str, size: int, batch: int, steps: int = STEPS) -> Callable[[], Any]:
    """The forward pass of onnxruntime, which packs weights once."""
    held = state_of(cell, size, "float32")
    weights = {"W": held["weight_ih_l0"], "R": held["weight_hh_l0"],
               "B": np.concatenate([held["bias_ih_l0"], held["bias_hh_l0"]])}
    how = {"hidden_size": size} | ({"linear_before_reset": 1} if cell == "gru" else {})
    x = np.random.default_rng(2).standard_normal((steps, batch, size)).astype(np.float32)
    return onnxruntime_node(cell.upper(), [x], {name: w[None] for name, w in weights.items()}, **how)


def rows() -> Iterator[tuple[str, str, Callable[[], Calls]]]:
    """Classes, rows, and what makes a row's calls; sequences of 20 steps where products are large."""
    for cell, (size, batch), dtype, gradients in product(CELLS, SHAPES, DTYPES, (False, True)):
        of = "recurrent gradients" if gradients else "recurrent, batch 32"
        if batch == 1 and not gradients:
            of = "recurrent, batch 1, FP32" if dtype == "float32" else f"{cell.upper()}, batch 1, BF16"
        given = cell, size, batch, dtype, gradients, STEPS if size * batch < 10000 else STEPS // 5
        yield of, f"{cell} {size} x {batch} {dtype}{', gradients' * gradients}", partial(row, *given)


def row(cell: str, size: int, batch: int, dtype: str, gradients: bool, steps: int) -> Calls:
    """Ours, prepared too where weights can be, and others'."""
    checked(cell, dtype)
    given = cell, size, batch, dtype, gradients, steps
    calls = {"ours": ours(*given), "torch": torchs(*given)}
    if not gradients:
        calls["ours, prepared"] = ours(*given, prepared=True)
        if dtype == "float32" and importlib.util.find_spec("onnxruntime"):
            calls["onnxruntime"] = onnxruntimes(cell, size, batch, steps)
    return calls


@cache
def checked(cell: str, dtype: str) -> None:
    """Check a short sequence before it is timed."""
    [(layer,)] = popnn.from_torch(state_of(cell, 64, dtype), cell)
    x = np.random.default_rng(2).standard_normal((3, 2, 64)).astype(DTYPES[dtype])
    how = {"cell_order": layer.cell_order, "out_dtype": dtype} | ({"reset_after": True} if cell == "gru" else {})
    testing.check(f"popnn.{cell}_fwd", x, *layer[:3], **how)
    testing.check(f"popnn.{cell}_bwd", x, x, *layer[:3], **how)

