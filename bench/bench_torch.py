"""`BlockSparseLinear` beside `torch.nn.Linear`, forward and backward, and what an op costs beyond its product.

    python bench/bench_torch.py                     the tables of docs/how_to/torch.md
    pytest bench/bench_torch.py --benchmark-enable

Both layers are of m outputs and m inputs, with a bias, and take turns in one process. A backward pass is that of the
input, the weight and the bias.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from poplibs_py import testing
from poplibs_py.kernels import available_levels
from poplibs_py.popsparse import static
from poplibs_py.report.peers import limited_threads
from poplibs_py.report.timing import take_turns

torch = pytest.importorskip("torch")

from poplibs_py.torch import BlockSparseLinear, dense_sparse_matmul  # noqa: E402
from poplibs_py.torch._library import array_of  # noqa: E402

SIZE = 1024
TYPES = {"FP32": torch.float32, "BF16": torch.bfloat16}
BATCHES, BLOCKS = (64, 256), (8, 16, 32)
DENSITIES = ("1/2", "1/4", "1/8", "1/16", "1/32")

Call = Callable[[], object]


def layers(kind: str, batch: int, block: int, density: float, size: int = SIZE) -> dict[str, tuple[Any, Any, Any]]:
    """Return both layers, each with an input and a gradient of its result; the sparse one's product was checked."""
    torch.manual_seed(0)
    dtype = TYPES[kind]
    sparse = BlockSparseLinear(size, size, block, density, dtype=dtype)
    x = torch.randn(batch, size).to(dtype)
    w = sparse.weight.to_matrix()
    made = dense_sparse_matmul(x, sparse.weight, transpose=True).detach()
    testing.assert_within_bound(made, testing.bound("static.dense_sparse_matmul", x, w.T))
    grad = torch.randn(batch, size).to(dtype)
    dense = torch.nn.Linear(size, size, dtype=dtype)
    return {"sparse": (sparse, x.clone().requires_grad_(), grad), "dense": (dense, x.clone().requires_grad_(), grad)}


def calls(layer: Any, x: Any, grad: Any) -> dict[str, Call]:
    """Return the forward pass, and that with the backward pass."""
    leaves = [x, *layer.parameters()]

    def forward() -> object:
        with torch.no_grad():
            return layer(x)

    def both() -> object:
        return torch.autograd.grad(layer(x), leaves, grad)

    return {"forward": forward, "both": both}


def measured(kind: str, batch: int, block: int, density: float, seconds: float, size: int) -> dict[str, float]:
    """Return how many times faster the sparse layer is, in each of `calls`."""
    every = [call for given in layers(kind, batch, block, density, size).values() for call in calls(*given).values()]
    for call in every:
        call()
    sparse, with_backward, dense, dense_with_backward = take_turns(
        every, seconds=seconds, least_rounds=5, clock=time.process_time)
    return {"forward": dense.seconds / sparse.seconds, "both": dense_with_backward.seconds / with_backward.seconds}


def print_layers(kinds: list[str], batches: list[int], seconds: float, size: int) -> None:
    """Print how many times faster the sparse layer is: forward, and forward with backward."""
    print("| type, batch, block |", " | ".join(f"density {density}" for density in DENSITIES), "|")
    print("|" + "---|" * (1 + len(DENSITIES)))
    for kind in kinds:
        for batch in batches:
            for block in BLOCKS:
                row = []
                for density in DENSITIES:
                    found = measured(kind, batch, block, float(Fraction(density)), seconds, size)
                    row.append(f"{found['forward']:.1f}, {found['both']:.1f}")
                print(f"| {kind}, {batch}, {block} |", " | ".join(row), "|", flush=True)


def overheads(kind: str) -> dict[str, float]:
    """Return the least microseconds of a tiny product, and of what stands around it."""
    layer = BlockSparseLinear(32, 32, 8, 0.25, bias=False, dtype=TYPES[kind])
    dense = torch.nn.Linear(32, 32, bias=False, dtype=TYPES[kind])
    x = torch.randn(4, 32).to(TYPES[kind])
    array, w = array_of("x", x), layer.weight.to_matrix().T
    op, blocks = torch.ops.poplibs_py.dense_sparse_matmul.default, layer.blocks
    index = layer.row_offsets, layer.column_indices, 32, 32, True

    def without_gradients(call: Call) -> Call:
        def run() -> object:
            with torch.no_grad():
                for _ in range(100):
                    call()
            return None

        return run

    def hundred() -> None:
        for _ in range(100):
            layer(x)

    every: dict[str, Call] = {
        "the product": without_gradients(lambda: static.dense_sparse_matmul(array, w)),
        "the op": without_gradients(lambda: op(x, blocks, *index)),
        "the layer": without_gradients(lambda: layer(x)),
        "the layer, with a gradient to come": hundred,
        "`torch.nn.Linear`": without_gradients(lambda: dense(x)),
    }
    for call in every.values():
        call()
    found = take_turns(list(every.values()), seconds=3, most_rounds=200, clock=time.process_time)
    return {name: 1e4 * timing.least for name, timing in zip(every, found, strict=True)}  # what disturbs only slows


def print_overheads() -> None:
    """Print the microseconds of a call with next to nothing to multiply."""
    found = {kind: overheads(kind) for kind in TYPES}
    print("| us |", " | ".join(TYPES), "|")
    print("|" + "---|" * (1 + len(TYPES)))
    for name in next(iter(found.values())):
        print(f"| {name} |", " | ".join(f"{found[kind][name]:.1f}" for kind in TYPES), "|")


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("pass_", ["forward", "both"])
def bench_sparse_layer(kind, batch, block, density, pass_, measure):
    share = float(Fraction(density))
    call = calls(*layers(kind, batch, block, share)["sparse"])[pass_]
    flops = 2 * share * batch * SIZE**2 * (1 if pass_ == "forward" else 3)
    measure(call, flops=flops, format_name={"FP32": "float32", "BF16": "bfloat16"}[kind], block=block, density=density)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("pass_", ["forward", "both"])
def bench_dense_layer(kind, batch, pass_, measure):
    call = calls(*layers(kind, batch, 32, 0.5)["dense"])[pass_]
    flops = 2 * batch * SIZE**2 * (1 if pass_ == "forward" else 3)
    measure(call, flops=flops, format_name={"FP32": "float32", "BF16": "bfloat16"}[kind], peer="torch")


def main() -> None:
    """Print the tables; see the head of this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.5, help="about how long the calls of a cell take turns")
    parser.add_argument("--size", type=int, default=SIZE, help="outputs and inputs (default: %(default)s)")
    parser.add_argument("--type", default=",".join(TYPES), help="default: %(default)s")
    parser.add_argument("--batch", default=",".join(map(str, BATCHES)), help="default: %(default)s")
    parser.add_argument("--part", choices=("layers", "calls"), action="append", help="one of the tables alone")
    given = parser.parse_args()
    parts = given.part or ("layers", "calls")
    with limited_threads(1):
        print(f"Level {available_levels()[-1]}, one thread, torch {torch.__version__}, NumPy {np.__version__}; "
              f"{given.size} outputs and inputs. Times faster than torch.nn.Linear: forward, with backward.\n")
        if "layers" in parts:
            batches = [int(word) for word in given.batch.split(",")]
            print_layers(given.type.split(","), batches, given.seconds, given.size)
            print()
        if "calls" in parts:
            print_overheads()


if __name__ == "__main__":
    main()
