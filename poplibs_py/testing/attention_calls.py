"""Hypothesis strategies for whole calls of attention and of its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..formats import BF16
from ..popsparse import BlockPattern
from .strategies import NAMES, Call, formats, numbers, options, sampled

_MOSTLY = st.sampled_from([True, True, True, False])


@st.composite
def _patterns(draw: st.DrawFn, queries: int, keys: int, groups: int) -> BlockPattern:
    sides = draw(st.tuples(st.sampled_from([1, 4, 16, 33]), st.sampled_from([1, 4, 16, 33])))
    rows, columns = -(-queries // sides[0]), -(-keys // sides[1])
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    stored = rng.random((groups * rows, columns)) < draw(sampled(0.2, 0.7, 1.0))
    offsets = np.concatenate([[0], np.cumsum(stored.sum(1))])
    return BlockPattern((queries, keys), sides, offsets, np.nonzero(stored)[1], groups)


@st.composite
def scaled_dot_product_attention_calls(draw: st.DrawFn, gradient: bool = False) -> Call:
    """Calls of `scaled_dot_product_attention`."""
    few = st.sampled_from([1, 1, 2, 3])
    lead = draw(sampled((), (), (1,), (2,), (2, 1)))
    heads, shares = draw(few), draw(few)
    queries, keys = draw(sampled(0, 1, 2, 5, 17, 50)), draw(sampled(0, 1, 3, 16, 17, 40, 300))
    d, e = draw(sampled(1, 2, 3, 8, 17, 64)), draw(sampled(1, 2, 8, 19))
    of_q, of_k = (*lead, heads * shares), (*lead, heads)
    if not lead and heads == shares == 1 and draw(st.booleans()):
        of_q = of_k = ()
    fmt = draw(st.sampled_from([None, BF16, BF16]) | formats())
    shapes = [(*of_q, queries, d), (*of_k, keys, d), (*of_k, keys, e)] + [(*of_q, queries, e)] * gradient
    operands = [draw(numbers(shape, fmt or draw(formats()), draw(_MOSTLY))) for shape in shapes]
    how: dict[str, Any] = draw(options({"scale": [0.125, -0.5], "out_dtype": NAMES, "causal": [True],
                                        "available_memory_proportion": [0.0, 1e4]}))
    if "causal" in how:
        how |= draw(options({"query_offset": [-3, 7, keys]}))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    due = (*of_q, queries, keys)
    kind = draw(sampled("", "", "truths", "numbers", "pattern"))
    if kind in ("truths", "numbers"):
        shape = tuple(n if draw(st.booleans()) else 1 for n in due)[draw(st.integers(0, len(due) - 1)):]
        truths = rng.random(shape) < draw(sampled(0.2, 0.8))
        added = np.where(truths, rng.standard_normal(shape), -np.inf).astype(draw(sampled("f4", "f2")))
        how["mask"] = truths if kind == "truths" else added
    elif kind == "pattern":
        own = [1, int(np.prod(of_q)), int(np.prod(of_q[len(lead):]))]
        how["pattern"] = draw(_patterns(queries, keys, draw(st.sampled_from(own))))
    if gradient:
        return tuple(operands), how
    return tuple(operands), how | draw(options({"return_lse": [True]}))


@st.composite
def scaled_dot_product_attention_grad_calls(draw: st.DrawFn) -> Call:
    """Calls of `scaled_dot_product_attention_grad`, with what the forward pass returned."""
    from ..popnn import scaled_dot_product_attention

    (q, k, v, grad), how = draw(scaled_dot_product_attention_calls(gradient=True))
    forward = {name: value for name, value in how.items() if name != "out_dtype"}
    y, lse = scaled_dot_product_attention(q, k, v, return_lse=True, **forward)
    return (grad, q, k, v, y, lse), how
