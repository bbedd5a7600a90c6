"""CTC losses of random sequences, with their gradients: this library and torch, in FP32; and this library's decoders.

``python bench/bench_classes.py CTC beam`` prints ratios, of searches to others' too.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from poplibs_py import popnn, testing

SHAPES = [(50, 32, 64, 10), (150, 16, 32, 30), (500, 8, 32, 100), (500, 8, 1024, 100), (1000, 4, 29, 200)]
KINDS = ("loss", "gradient")
Calls = dict[str, Callable[[], object]]


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


def frames(certain: bool) -> Any:
    """Logits of 200 steps of 32 classes, of which one is certain at each step or none is."""
    rng = np.random.default_rng(1)
    logits = rng.standard_normal((200, 1, 32)).astype(np.float32)
    if certain:
        best = np.where(rng.random((200, 1, 1)) < 0.6, 0, rng.integers(0, 32, (200, 1, 1)))
        np.put_along_axis(logits, best, np.float32(10), -1)
    return logits


def decoder(beams: int, certain: bool) -> Callable[[], object]:
    """A search, which is checked on a few frames."""
    logits = frames(certain)
    testing.check("ctc_beam_search_decoder", logits[:20], beams=beams, logits=True)
    return lambda: popnn.ctc_beam_search_decoder(logits, beams=beams, logits=True)


def decoders(beams: int, certain: bool) -> Calls:
    """Others' searches, in C++ and Rust, of probabilities or their logarithms; what prunes is told not to."""
    found: Calls = {}
    probabilities = popnn.softmax(frames(certain))[:, 0]
    logs, letters = np.log(probabilities), [chr(97 + i) for i in range(31)]
    if importlib.util.find_spec("fast_ctc_decode"):
        import fast_ctc_decode

        found["fast_ctc_decode"] = lambda: fast_ctc_decode.beam_search(probabilities, ["", *letters], beams, 0.0)
    if importlib.util.find_spec("ctc_beam_decoder"):
        import ctc_beam_decoder

        search = ctc_beam_decoder.BeamSearchDecoder([*letters, ""])
        last = np.ascontiguousarray(np.roll(logs, -1, 1))
        found["ctc_beam_decoder"] = lambda: search.decode_beams(last, beams, -1e9, -1e9)
    if importlib.util.find_spec("flashlight"):
        from flashlight.lib.text import decoder as of

        for tokens in (32, 8):
            how = of.LexiconFreeDecoderOptions(beams, tokens, 1e9, 0.0, 0.0, True, of.CriterionType.CTC)
            beam = of.LexiconFreeDecoder(how, of.ZeroLM(), -1, 0, [])
            found[f"flashlight, {tokens} a step"] = lambda beam=beam: beam.decode(logs.ctypes.data, *logs.shape)
    return found


def rows() -> Iterator[tuple[str, str, Callable[[], Calls]]]:
    """Classes, rows, and what makes a row's calls."""
    for shape, kind in product(SHAPES, KINDS):
        yield "CTC loss", f"{kind} {shape}", partial(row, kind, shape)
    for certain, beams in product((True, False), (16, 100)):
        yield "beam search", f"{beams} beams, {'certain' if certain else 'random'}", lambda given=(beams, certain): {
            "ours": decoder(*given), **decoders(*given)}


def row(kind: str, shape: tuple[int, int, int, int]) -> Calls:
    """Ours and torch's."""
    given = operands(shape)
    testing.check("ctc_loss_and_gradient", given[0][:60, :1], given[1][:1, :10])
    return {"ours": ours(kind, *given), "torch": peer(kind, *given)}

