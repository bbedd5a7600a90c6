"""CTC losses of random sequences, with their gradients: this library and torch, in FP32.

One process, one thread (``POPLIBS_BENCH_THREADS``), each call made in turn, so that a noisy machine is as noisy for
all: compare medians of a group.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import pytest

from poplibs_py import popnn, testing

SHAPES = [(50, 32, 64, 10), (150, 16, 32, 30), (500, 8, 32, 100), (500, 8, 1024, 100), (1000, 4, 29, 200)]
KINDS = ("loss", "gradient")
kinds = pytest.mark.parametrize("kind", KINDS)
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


def operands(shape: tuple[int, int, int, int]) -> tuple[Any, Any]:
    """Log-probabilities and labels."""
    steps, batch, classes, longest = shape
    rng = np.random.default_rng(1)
    logits = rng.standard_normal((steps, batch, classes)).astype(np.float32)
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return logs, rng.integers(1, classes, (batch, longest))


def ours(kind: str, logs: Any, labels: Any) -> Callable[[], object]:
    """A call of this library."""
    if kind == "loss":
        return lambda: popnn.ctc_loss(logs, labels)
    return lambda: popnn.ctc_loss_and_gradient(logs, labels)


def peer(kind: str, logs: Any, labels: Any) -> Callable[[], object]:
    """The same of torch; its gradient is that of the sum."""
    torch = pytest.importorskip("torch")
    data, rows = torch.from_numpy(logs), torch.from_numpy(labels)
    steps, batch, _ = logs.shape
    ends, counts = torch.full((batch,), steps), torch.full((batch,), labels.shape[1])
    loss = torch.nn.functional.ctc_loss
    if kind == "loss":
        return lambda: loss(data, rows, ends, counts, reduction="none")
    data.requires_grad_()

    def both() -> None:
        data.grad = None
        loss(data, rows, ends, counts, reduction="sum").backward()

    return both


@kinds
@shapes
def bench_ours(kind, shape, benchmark):
    benchmark.group = f"ctc {kind} {shape}"
    given = operands(shape)
    testing.check("ctc_loss_and_gradient", given[0][:60, :1], given[1][:1, :10])
    benchmark(ours(kind, *given))


@kinds
@shapes
def bench_torch(kind, shape, benchmark):
    benchmark.group = f"ctc {kind} {shape}"
    benchmark(peer(kind, *operands(shape)))


def main() -> None:
    """Print milliseconds and ratios, all calls in turn, medians of 15."""
    from poplibs_py.report.peers import limited_threads

    with limited_threads(1):
        for shape in SHAPES:
            for kind in KINDS:
                given = operands(shape)
                times: dict[str, list[float]] = {"ours": [], "torch": []}
                calls = {"ours": ours(kind, *given), "torch": peer(kind, *given)}
                for _ in range(15):
                    for name, call in calls.items():
                        call()  # as warm as its own data make it
                        began = perf_counter()
                        call()
                        times[name].append(perf_counter() - began)
                mine, theirs = (median(times[name]) * 1e3 for name in ("ours", "torch"))
                facts = f"{mine:.3f} ms, torch {theirs:.3f} ms; ratio {theirs / mine:.1f}"
                print(f"ctc {kind} {shape}: {facts}", flush=True)


if __name__ == "__main__":
    main()
