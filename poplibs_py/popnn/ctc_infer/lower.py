"""From what a decoder is asked to its program on this CPU: sequences are dealt out to threads."""

from __future__ import annotations

import numpy as np

from ...kernels.records import FORMAT_NUMBERS, dtype_of
from ...memo import remembered
from ...ops.one_kernel import OneKernel
from ...program import shares_of, threads_for
from ..ctc.lower import STEP, in_steps, lowered
from .params import DecoderParams

_ITEM = dtype_of("pop_ctc_search")
_HEAD = 64  # search_head of kernels/ctc/beams.h
_THREAD_WORK = 1 << 15  # classes and beams, of all steps, that are worth a thread


@remembered()
def lower(params: DecoderParams, threads: int) -> OneKernel:
    """Return what runs on at most so many threads."""
    p = params
    work = p.batch * p.time * (p.classes + 16 * p.beams)
    threads = threads_for(work, _THREAD_WORK, max(1, min(threads, p.batch)))
    items = np.zeros(threads, _ITEM)
    of = items["of"]
    of["first"], of["count"] = shares_of(p.batch, threads)
    for name in ("time", "batch", "classes", "blank", "logits"):
        of[name] = getattr(p, name)
    of["time_stride"], of["batch_stride"] = p.strides
    of["format"] = FORMAT_NUMBERS[p.format.name]
    items["beams"], items["paths"], items["threshold"] = p.beams, p.paths, p.threshold
    items["state_bytes"] = state_bytes(p) if p.by_steps else 0
    kernel = "beams" if p.beams else "best", "float32"
    return lowered(lower, p, items, kernel, 8 if p.by_steps else 5, scratch_bytes(p))


def nodes_of(p: DecoderParams) -> int:
    """Return how many nodes a sequence's tree has room for."""
    return in_steps(p.time * p.beams + 1)


def state_bytes(p: DecoderParams) -> int:
    """Return the bytes of what outlasts a step: a head, the tree, two numbers of each beam; see `lay_search`."""
    return _HEAD + 4 * (5 * nodes_of(p) + 5 * in_steps(p.beams))


def scratch_bytes(p: DecoderParams) -> int:
    """Return the bytes of a thread's workspace, as kernels/ctc/beams.h lays it out."""
    rows = 8 * in_steps(p.classes + 1)
    if not p.beams:
        return rows
    beams, classes = in_steps(p.beams), in_steps(p.classes)
    rest = rows + 4 * (19 * beams + classes) + 8 * (in_steps(2 * p.beams + STEP) + classes)
    return rest if p.by_steps else rest + state_bytes(p)
