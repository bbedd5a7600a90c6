"""What a piece of a dense product costs on the host: steps of the kernel, and bytes of scratch."""

from __future__ import annotations

from ...kernels import Kernel, kernels
from ...program import rounded, threads_for
from ...target import Target

_FLOPS_OF_A_THREAD = 1 << 20  # work below which another thread costs more than it brings

_LATENCY = 4.0  # cycles from a multiply-add to the next one that takes its sum
_ISSUE = 2.0  # multiply-adds, and loads, of a cycle
_TILE = 1.5  # cycles of a matrix unit for a tile, per cell of depth, its share of the tile loads with it


def matrix_unit() -> Kernel | None:
    """Return the kernel of a matrix unit that may run here, or None."""
    return next((k for k in kernels("dot") if k.op == "multiply" and k.takes_tiles), None)


def threads_of(flops: int, target: Target) -> int:
    """Return how many of a target's threads so many floating-point operations are worth."""
    return threads_for(flops, _FLOPS_OF_A_THREAD, target.tiles)


def kernel_cycles(kernel: Kernel, m: int, n: int) -> float:
    """Cycles per cell of depth that `kernel` takes for m x n sums.

    Each step loads the vectors of B, broadcasts a number of A per row and issues rows x vectors multiply-adds; a small
    piece cannot hide their latency.
    """
    rows, cols, _ = kernel.block
    if kernel.takes_tiles:
        return (
            _TILE * (rounded(m, kernel.grain[0]) // kernel.grain[0]) * (rounded(n, kernel.grain[1]) // kernel.grain[1]))
    lanes = kernel.grain[1]
    pieces = -(-m // rows)
    height = m / pieces
    cycles = 0.0
    for width, count in ((cols, n // cols), (n % cols, 1)):
        if width and count:
            vectors = -(-width // lanes)
            step = max(height * vectors / _ISSUE, (height + vectors) / _ISSUE, _LATENCY)
            cycles += count * pieces * step
    return cycles
