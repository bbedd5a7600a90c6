"""Calls of attention: operands checked, seen as batches, heads and tokens, and what runs on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod, sqrt
from typing import Any

import numpy as np

from ...checks import check_shape, finite, flag, instance, whole
from ...config import settings
from ...errors import bad_argument, bad_type
from ...formats import FP32, Array, Format
from ...ops import (
    Operand,
    Receiver,
    Request,
    argument,
    contiguous_strides,
    merged_axes,
    one_scale_operand,
    operand,
    own_host,
)
from ...ops.parts import Results, alone
from ...planner.ladder import Memory, first_within
from ...popsparse.pattern import BlockPattern
from ...target import TargetLike
from .lower import lower
from .modelled import place_of_attention
from .params import AttentionParams, HeadsLayout
from .plan import AttentionPlan, plan_attention, several_strips

_MASKS = "truth values, or float32, float16 or bfloat16 numbers to add"
_FAR = 1 << 40


@dataclass(frozen=True)
class Heads:
    """What queries, keys and values are together.

    Attributes
    ----------
    lead : tuple of int
        Axes before the heads.
    heads, shares : int
        Of keys; query heads to each of these.
    queries, keys, width, value_width : int
    axes : int
        Of an operand: 2 where there is one head.
    """

    lead: tuple[int, ...]
    heads: int
    shares: int
    queries: int
    keys: int
    width: int
    value_width: int
    axes: int

    @property
    def batch(self) -> int:
        """Of the axes before the heads."""
        return prod(self.lead)

    def shape(self, *after: int) -> tuple[int, ...]:
        """The shape of what each query of each head has so many of."""
        heads = (self.heads * self.shares,) if self.axes > 2 else ()
        return (*self.lead, *heads, self.queries, *after)


@dataclass(frozen=True)
class HeadsOperand:
    """An operand as a program reads it."""

    name: str
    operand: Operand
    strides: tuple[int, int, int]


def tokens_operand(name: str, value: Any) -> Operand:
    """Take numbers that share a scale, at least tokens by elements."""
    x = one_scale_operand(name, value)
    check_shape(name, x, len(x.shape) >= 2, "[..., heads, tokens, elements], or [tokens, elements]")
    return x


def logarithms(value: Any, shape: tuple[int, ...]) -> Operand:
    """Take what `scaled_dot_product_attention` returned as lse."""
    x = operand("lse", value, "float32 numbers")
    if x.format != FP32:
        raise bad_type("lse", f"dtype {x.format}", "float32 numbers")
    check_shape("lse", x, x.shape == shape, f"shape {shape}")
    return x


def heads_of(q: Operand, k: Operand, v: Operand) -> Heads:
    """Return what operands are together, or refuse what does not fit."""
    for name, x in (("k", k), ("v", v)):
        check_shape(name, x, len(x.shape) == len(q.shape) and x.shape[:-3] == q.shape[:-3],
                    f"{len(q.shape)} axes, those before the heads as q has them, which has shape {q.shape}")
    check_shape("k", k, k.shape[-1] == q.shape[-1], f"{q.shape[-1]} elements of a token, as q has")
    check_shape("v", v, v.shape[:-1] == k.shape[:-1], f"heads and tokens as k has them, which has shape {k.shape}")
    of_q, of_k = (x.shape[-3] if len(x.shape) > 2 else 1 for x in (q, k))
    if of_q != of_k and (of_k == 0 or of_q % of_k):
        raise bad_argument("k", f"{of_k} heads", f"as many as q has, or a divisor of these {of_q}")
    return Heads(q.shape[:-3], of_k, of_q // of_k if of_k else 1, q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1],
                 len(q.shape))


def _seen(name: str, x: Operand, after: int = 1) -> HeadsOperand:
    """An operand, and its bytes from a batch, a head, a token to the next: a copy where elements are apart."""
    array = x.array
    strides = _strides(array.shape, array.strides, array.itemsize, after)
    if strides is None or not array.flags.aligned:
        x = x.in_c_order()
        strides = _dense(array, after)
    return HeadsOperand(name, x, strides)


def _dense(array: Array, after: int) -> tuple[int, int, int]:
    """The same of an array in C order."""
    strides = _strides(array.shape, contiguous_strides(array.shape, array.itemsize), array.itemsize, after)
    assert strides is not None
    return strides


def _strides(shape: tuple[int, ...], steps: tuple[int, ...], item: int, after: int) -> tuple[int, int, int] | None:
    if after and shape[-1] > 1 and steps[-1] != item:
        return None
    if after:
        shape, steps = shape[:-1], steps[:-1]
    batch = merged_axes((n, (step,)) for n, step in zip(shape[:-2], steps[:-2], strict=True))
    if len(batch) > 1:
        return None
    return batch[0][1][0] if batch else 0, steps[-2] if len(shape) > 1 else 0, steps[-1]


def taken_mask(value: Any, h: Heads) -> HeadsOperand:
    """Take a mask that broadcasts to [..., heads, queries, keys]: its keys one after another."""
    x = argument("mask", value, _MASKS, np.float32)
    if x.array.dtype != np.bool_:
        x = operand("mask", value, _MASKS)
        if x.format is None or x.format.bits < 16:
            raise bad_type("mask", f"dtype {x.format}", _MASKS)
    due = h.shape(h.keys)
    try:
        wide = np.broadcast_to(x.array, due)
    except ValueError:
        raise bad_argument("mask", f"shape {x.shape}", f"one that broadcasts to {due}") from None
    strides = _strides(wide.shape, wide.strides, wide.itemsize, 1)
    if strides is None or not wide.flags.aligned:
        wide = np.ascontiguousarray(wide)
        strides, x = _dense(wide, 1), Operand(wide, x.format)
    return HeadsOperand("mask", x, strides)


@dataclass(frozen=True)
class How:
    """What a call says beside its arrays."""

    scale: float
    causal: bool
    query_offset: int
    pattern: BlockPattern | None
    memory: Memory
    target: TargetLike


def checked_how(h: Heads, scale: Any, causal: Any, query_offset: Any, pattern: Any, memory: Memory, target: Any) -> How:
    """Check what a call says beside its arrays."""
    by = 1 / sqrt(max(1, h.width)) if scale is None else finite("scale", scale, -3e38, 3e38)
    causal, offset = flag("causal", causal), whole("query_offset", query_offset, -_FAR, _FAR)
    if offset and not causal:
        raise bad_argument("query_offset", offset, "0, where nothing is causal")
    if pattern is not None:
        instance("pattern", pattern, BlockPattern, "a BlockPattern")
        check_shape("pattern", pattern, pattern.shape == (h.queries, h.keys), f"queries by keys, {(h.queries, h.keys)}")
        allowed = {1, h.heads * h.shares, h.batch * h.heads * h.shares}
        if pattern.groups not in allowed:
            raise bad_argument("pattern", f"{pattern.groups} groups", f"one for all heads, or {sorted(allowed)[1:]}")
    return How(by, causal, offset, pattern, memory, target)


def _lies(x: HeadsOperand, number: int) -> HeadsLayout:
    o = x.operand
    width = 1 if x.name in ("lse", "mask") else o.shape[-1]
    return HeadsLayout(number, o.format, width, *x.strides, o.scale)


def written(h: Heads, name: str, number: int, shape: tuple[int, ...], form: Format, exponent: int = 0
            ) -> tuple[str, HeadsLayout]:
    """How a result lies, in C order."""
    width = 1 if name == "lse" else shape[-1]
    tokens = h.keys if name in ("k_grad", "v_grad") else h.queries
    heads = h.heads if name in ("k_grad", "v_grad") else h.heads * h.shares
    token = width * int((form.dtype or form.code_dtype).itemsize)
    return name, HeadsLayout(number, form, width, heads * tokens * token, tokens * token, token, exponent, True)


def request(op: str, h: Heads, how: How, reads: dict[str, Any], mask: HeadsOperand | None,
            makes: list[tuple[str, tuple[int, ...], Format, int]], to: Receiver | Results) -> Request:
    """Describe a call.

    Parameters
    ----------
    op : str
    h, how
        What is computed.
    reads : dict
        Operands by the record's names.
    mask : HeadsOperand or None
    makes : list
        Results: name, shape, format, exponent of the scale.
    to : Receiver or Results
    """
    seen = [_seen(name, x, int(name != "lse")) for name, x in reads.items()] + ([mask] if mask else [])
    operands: list[Any] = [x.operand for x in seen]
    lies = [(x.name, _lies(x, number)) for number, x in enumerate(seen)]
    pattern = how.pattern
    made, first = alone(to), len(operands)
    operands += made.operands
    lies += [written(h, name, number, shape, fmt, by) for number, (name, shape, fmt, by) in enumerate(makes, first)]
    if pattern is not None:
        operands += [pattern.row_offsets.astype(np.int64), pattern.column_indices.astype(np.int32)]
    params = AttentionParams(
        "grad" in reads, h.batch, h.heads, h.shares, h.queries, h.keys, how.scale, how.causal, how.query_offset,
        None if pattern is None else pattern.block_shape, 1 if pattern is None else pattern.groups,
        0 if pattern is None else pattern.n_blocks, len(operands), tuple(lies))
    placed = place_of_attention(op, how.target, params, how.memory)
    found = _within_memory(op, params, placed.memory_here(how.memory))
    program = lower(found)
    return Request(program.executable, tuple(operands), made.receiver, program.told, wrap=made.wrap, placed=placed,
                   temporaries=found.temporaries, keep=pattern is None)


def _within_memory(op: str, params: AttentionParams, memory: Memory) -> AttentionPlan:
    """The plan, which keeps keys packed where the limit lets it."""
    several, limit = several_strips(params), memory.limit(own_host())
    if limit is None:
        return plan_attention(params, settings.num_threads, several)

    def plan(kept: bool) -> AttentionPlan:
        return plan_attention(params, settings.num_threads, kept, limit)

    kept, raised = first_within(f"popnn.{op}", (True, False) if several else (False,),
                                lambda kept: plan(kept).temporary_bytes, memory, own_host(), plan(False).threads)
    return plan(kept) if raised is None else replace(plan(kept), raised=raised)
