"""Attention beside torch's and zentorch's, and of blocks beside the best dense one.

``python bench/bench_classes.py attention`` prints ratios.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache, partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from least_times import products, traffic

from poplibs_py import popnn, testing
from poplibs_py.popsparse import random_pattern

SHAPES = [(8, 512, 64), (8, 1024, 64), (8, 2048, 64), (8, 4096, 64), (4, 1024, 128), (4, 4096, 128)]
DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
KINDS = ("dense", "causal", "one query", "gradient")
BLOCKS, DENSITIES = (8, 2048, 64), ("1/2", "1/4", "1/8")
Calls = dict[str, Callable[[], object]]


def operands(kind: str, shape: tuple[int, int, int], dtype: str) -> list[Any]:
    """Queries, keys, values and what comes back: normal numbers."""
    heads, tokens, width = shape
    rng, queries = np.random.default_rng(1), 1 if kind == "one query" else tokens
    sides = (queries, tokens, tokens, queries)
    return [rng.standard_normal((heads, n, width)).astype(np.float32).astype(DTYPES[dtype]) for n in sides]


def ours(kind: str, shape: tuple[int, int, int], dtype: str, pattern: Any = None) -> Callable[[], object]:
    """Our call."""
    q, k, v, grad = operands(kind, shape, dtype)
    if kind != "gradient":
        how = {"causal": kind == "causal", "pattern": pattern, "out": np.empty_like(q)}
        return partial(popnn.scaled_dot_product_attention, q, k, v, **how)

    def both() -> object:
        y, lse = popnn.scaled_dot_product_attention(q, k, v, pattern=pattern, return_lse=True)
        return popnn.scaled_dot_product_attention_grad(grad, q, k, v, y, lse, pattern=pattern)

    return both


def peers(kind: str, shape: tuple[int, int, int], dtype: str) -> Calls:
    """Torch's, in one call and as two products and a softmax, and zentorch's."""
    torch = pytest.importorskip("torch")
    q, k, v, grad = (torch.from_numpy(x.astype(np.float32))[None].to(getattr(torch, dtype))
                     for x in operands(kind, shape, dtype))
    sdpa = partial(torch.nn.functional.scaled_dot_product_attention, is_causal=kind == "causal")
    if kind == "gradient":
        leaves = [x.requires_grad_() for x in (q, k, v)]
        return {"torch": lambda: torch.autograd.grad(sdpa(*leaves), leaves, grad)}
    found: Calls = {"torch": torch.no_grad()(partial(sdpa, q, k, v))}
    if kind == "dense":
        found["torch, its steps"] = torch.no_grad()(lambda: (q @ k.mT * shape[2] ** -0.5).softmax(-1) @ v)
    if importlib.util.find_spec("zentorch"):
        import zentorch

        assert zentorch
        found["zentorch"] = partial(torch.ops.zentorch.zentorch_sdpa, q, k, v, 0.0, kind == "causal")
    return found


def rows() -> Iterator[tuple[str, str, Callable[[], Calls]]]:
    """Classes, rows, and what makes a row's calls."""
    for dtype in DTYPES:
        short = {"float32": "FP32", "float16": "FP16", "bfloat16": "BF16"}[dtype]
        for kind in KINDS:
            for shape in SHAPES:
                if kind != "gradient" or shape[1] < 4096:
                    yield f"attention {short}, {kind}", str(shape), partial(row, kind, shape, dtype)
        for kind, density in ((kind, density) for kind in ("dense", "gradient") for density in DENSITIES):
            if dtype != "float16":
                yield (f"attention of blocks, density {density}", f"{short}{', gradient' * (kind == 'gradient')}",
                       partial(blocks, kind, dtype, density))


def row(kind: str, shape: tuple[int, int, int], dtype: str) -> Calls:
    """Ours and others'."""
    checked(kind, dtype)
    found = {"ours": ours(kind, shape, dtype), **peers(kind, shape, dtype)}
    if kind == "one query":
        return found | {"limit, a copy": traffic(sum(x.nbytes for x in operands(kind, shape, dtype)))}
    heads, tokens, width = shape
    each = {"dense": 2.0, "causal": 1.0, "gradient": 7.0}[kind]
    return found | {"limit, products": products(each * 2 * heads * tokens * tokens * width, dtype)}


@cache
def checked(kind: str, dtype: str, **how: Any) -> None:
    """Check a small call before it is timed."""
    *small, grad = operands(kind, (2, 64, 32), dtype)
    testing.check("popnn.scaled_dot_product_attention", *small, causal=kind == "causal", **how)
    if kind == "gradient":
        y, lse = popnn.scaled_dot_product_attention(*small, return_lse=True, **how)
        testing.check("popnn.scaled_dot_product_attention_grad", grad, *small, y, lse, **how)


def blocks(kind: str, dtype: str, density: str) -> Calls:
    """Of blocks of 32 x 32, and dense ones."""
    pattern = random_pattern(BLOCKS[1], BLOCKS[1], 32, float(Fraction(density)))
    checked(kind, dtype, pattern=random_pattern(64, 64, 32, 0.5))
    dense = {"dense, ours": ours(kind, BLOCKS, dtype), **peers(kind, BLOCKS, dtype)}
    return {"ours": ours(kind, BLOCKS, dtype, pattern), **dense}

