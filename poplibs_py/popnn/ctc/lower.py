"""From the params of a CTC loss to its program on this CPU: sequences are dealt out to threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...formats import Array
from ...kernels.records import FORMAT_NUMBERS, dtype_of
from ...kernels.registry import select
from ...log import tell
from ...memo import remembered
from ...ops.one_kernel import OneKernel
from ...program import Segment, host_program, rounded, shares_of, spread, threads_for
from .params import HostLossParams

_ITEM = dtype_of("pop_ctc_item")
STEP = 16  # POP_STEP of kernels/ctc/rows.h
_THREAD_WORK = 1 << 16  # states and classes that are worth a thread
_OPERANDS = 6  # and the gradient


@remembered()
def lower(params: HostLossParams, threads: int) -> OneKernel:
    """Return what runs on at most so many threads."""
    p = params
    work = p.batch * p.time * (4 * p.labels + p.classes)
    threads = threads_for(work, _THREAD_WORK, max(1, min(threads, p.batch)))
    items = np.zeros(threads, _ITEM)
    items["first"], items["count"] = shares_of(p.batch, threads)
    for name in ("time", "batch", "classes", "labels", "blank", "logits", "gradient", "softmax", "zero_infinity"):
        items[name] = getattr(p, name)
    items["time_stride"], items["batch_stride"] = p.strides
    items["format"], items["out_format"] = FORMAT_NUMBERS[p.format.name], FORMAT_NUMBERS[p.result.name]
    return lowered(lower, p, items, ("loss", p.result.name), _OPERANDS + p.gradient, scratch_bytes(p))


def lowered(lower: Callable[..., OneKernel], params: Any, items: Array, kernel: tuple[str, str], operands: int,
            arena_bytes: int) -> OneKernel:
    """Return a program of one kernel over sequences, an item on each thread.

    Parameters
    ----------
    lower : callable
        What returns it again of its params and threads.
    params : object
        With the format of its numbers.
    items : numpy.ndarray
    kernel : (str, str)
        Its op, and the format that it makes.
    operands, arena_bytes : int
        Of the program.
    """
    (op, to), threads = kernel, len(items)
    selection = select("ctc", op, f"{params.format.name}->{to}")
    executable = host_program((Segment(selection.kernel.address, items, spread(threads, threads)),),
                              operands=operands, threads=threads, arena_bytes=arena_bytes)
    program = OneKernel(params, executable, selection, (lower, (params, threads)))
    tell("popnn", program)
    return program


def in_steps(n: int) -> int:
    """Return a number of lanes rounded up to whole steps."""
    return rounded(n, STEP)


def scratch_bytes(p: HostLossParams) -> int:
    """Return the bytes of a thread's workspace, as kernels/ctc/loss.h lays it out: rows, labels, logarithms, states."""
    lanes = in_steps(p.labels + 1)
    logs = (max(2, p.time) if p.gradient else 2) * (lanes + STEP)
    states = (p.time + 2 if p.gradient else 2) * 4 * lanes
    return 4 * (2 * in_steps(p.classes + 1) + 4 * lanes + STEP + logs + states)
