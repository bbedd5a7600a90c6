"""Hypothesis strategies for whole calls of CTC: sequences and labels of any lengths, some that are impossible."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..ops import WIDE
from .data import as_format
from .strategies import Call, arrays, layouts, options, relaid, sampled

_DTYPES = [f.name for f in WIDE]
_INTEGERS = (np.int32, np.uint32, np.int64, np.uint8)


@st.composite
def _numbers(draw: st.DrawFn, shape: tuple[int, ...], logits: bool) -> Any:
    """Logits, or logarithms of probabilities with some of nothing; sometimes any bit patterns."""
    fmt, seed = draw(sampled(*WIDE)), draw(st.integers(0, 2**16))
    if draw(sampled(False, False, True)):
        return relaid(draw(arrays(shape, fmt)), draw(layouts()))
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * draw(sampled(1.0, 10.0, 100.0))
    if not logits:
        x -= np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)) + x.max(-1, keepdims=True)
        x = np.where(rng.random(shape) < draw(sampled(0.0, 0.1)), -np.inf, x)
    return relaid(as_format(x, fmt), draw(layouts()))


@st.composite
def ctc_loss_calls(draw: st.DrawFn, gradient: bool = False) -> Call:
    """Calls of `ctc_loss`."""
    steps, batch, classes = draw(st.integers(0, 12)), draw(st.integers(0, 4)), draw(st.integers(1, 40))
    logits, blank = draw(st.booleans()), draw(st.integers(0, classes - 1))
    data = draw(_numbers((steps, batch, classes), logits))
    longest = draw(st.integers(0, 34 if draw(st.booleans()) else 4)) if classes > 1 else 0
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    labels = rng.integers(0, max(1, classes - 1), (batch, longest))
    labels = (labels + (labels >= blank)).astype(draw(sampled(*_INTEGERS)))
    given: list[Any] = [data, relaid(labels, draw(layouts()))]
    if draw(st.booleans()):
        given.append(rng.integers(0, steps, batch, endpoint=True))
        if draw(st.booleans()):
            given.append(rng.integers(0, min(longest, steps), batch, endpoint=True).astype(np.uint32))
    allowed: dict[str, Any] = {"reduction": ["none", "sum", "mean"], "out_dtype": _DTYPES, "zero_infinity": [True]}
    if gradient:
        allowed["include_softmax_gradient"] = [False]
    return tuple(given), {"blank": blank, "logits": logits} | draw(options(allowed))


def ctc_loss_and_gradient_calls() -> st.SearchStrategy[Call]:
    """Calls of `ctc_loss_and_gradient`."""
    return ctc_loss_calls(gradient=True)


@st.composite
def ctc_greedy_decoder_calls(draw: st.DrawFn, most_steps: int = 12, most_classes: int = 40) -> Call:
    """Calls of `ctc_greedy_decoder`."""
    steps, batch = draw(st.integers(0, most_steps)), draw(st.integers(0, 3))
    classes, logits = draw(st.integers(1, most_classes)), draw(st.booleans())
    given: list[Any] = [draw(_numbers((steps, batch, classes), logits))]
    if draw(st.booleans()):
        rng = np.random.default_rng(draw(st.integers(0, 2**16)))
        given.append(rng.integers(0, steps, batch, endpoint=True))
    blank = draw(st.integers(0, classes - 1))
    return tuple(given), {"blank": blank, "logits": logits} | draw(options({"out_dtype": _DTYPES}))


@st.composite
def ctc_beam_search_decoder_calls(draw: st.DrawFn) -> Call:
    """Calls of `ctc_beam_search_decoder`; a scorer has no form that a call could be told in."""
    given, how = draw(ctc_greedy_decoder_calls(most_steps=8, most_classes=20))
    how["beams"] = draw(sampled(1, 2, 3, 17))
    how["top_paths"] = draw(st.integers(1, min(3, how["beams"])))
    return given, how | draw(options({"threshold": [0.0, 5.0]}))
