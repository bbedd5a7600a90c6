"""CTC losses of random sequences, with their gradients: this library and torch, in FP32; and this library's decoders.

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
BEAMS = (0, 1, 16, 100, 500)
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


def decoder(beams: int, certain: bool) -> Callable[[], object]:
    """A search in 200 steps of 32 classes, or the best path where there are no beams."""
    rng = np.random.default_rng(1)
    logits = rng.standard_normal((200, 1, 32)).astype(np.float32)
    if certain:
        best = np.where(rng.random((200, 1, 1)) < 0.6, 0, rng.integers(0, 32, (200, 1, 1)))
        np.put_along_axis(logits, best, np.float32(10), -1)
    if not beams:
        return lambda: popnn.ctc_greedy_decoder(logits, logits=True)
    return lambda: popnn.ctc_beam_search_decoder(logits, beams=beams, logits=True)


@pytest.mark.parametrize("certain", [True, False])
@pytest.mark.parametrize("beams", BEAMS)
def bench_decoder(beams, certain, benchmark):
    benchmark.group = "ctc decoders"
    benchmark(decoder(beams, certain))


def milliseconds(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The median of 15 of each, all calls in turn, each as warm as its own data make it."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(15):
        for name, call in calls.items():
            call()
            began = perf_counter()
            call()
            times[name].append(perf_counter() - began)
    return {name: median(taken) * 1e3 for name, taken in times.items()}


def main() -> None:
    """Print milliseconds, and ratios to torch."""
    from poplibs_py.report.peers import limited_threads

    with limited_threads(1):
        for shape in SHAPES:
            for kind in KINDS:
                given = operands(shape)
                taken = milliseconds({"ours": ours(kind, *given), "torch": peer(kind, *given)})
                facts = f"{taken['ours']:.3f} ms, torch {taken['torch']:.3f} ms"
                print(f"ctc {kind} {shape}: {facts}; ratio {taken['torch'] / taken['ours']:.1f}", flush=True)
        for certain in (True, False):
            taken = milliseconds({str(beams): decoder(beams, certain) for beams in BEAMS})
            print("ctc beams", "certain" if certain else "random", taken, flush=True)


if __name__ == "__main__":
    main()
