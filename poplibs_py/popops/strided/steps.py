"""What a strided operation does to a chunk: kernels one after another, and where what they leave to each other lies.

A value is the elements of a chunk as kernels see them: an operand of the operation, or a buffer in the first-level
cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...formats import BF16, FP16, FP32, Array, Format
from ...kernels import Kernel, select
from ...kernels.records import dtype_of, format_facts, infinite_overflow, kernel_format

MOST_VALUES = 64
"""Operands and buffers of one operation: POP_STRIDED_SLOTS."""

_KINDS = {"compute": 0, "decode": 1, "encode": 2, "copy": 3, "arithmetic": 4}
_STEP, _BUFFER, _NUMBER = (dtype_of(f"pop_strided_{name}") for name in ("step", "buffer", "number"))
_CAST, _REALS = dtype_of("pop_cast"), {kernel_format(fmt): fmt for fmt in (FP32, FP16, BF16)}


class Step(NamedTuple):
    """One kernel's part.

    Attributes
    ----------
    op : str
        The elementwise kernel's operation; ``"decode"`` and ``"encode"`` are a codec's, ``"copy"`` is none's.
        ``"arithmetic"`` is several operations in one kernel.
    reads, writes : tuple of int
        Which values: inputs, outputs, then buffers.
    format : Format, numpy.dtype or None
        What a codec decodes from or encodes to.
    plan : tuple of int
        The words of arithmetic: see src_cython/kernels/elementwise/arithmetic.h.
    """

    op: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    format: Format | np.dtype[Any] | None = None
    plan: tuple[int, ...] = ()

    @property
    def kind(self) -> str:
        """What the driver calls."""
        return self.op if self.op in _KINDS else "compute"

    @property
    def early(self) -> bool:
        """Whether its kernel reads before it writes: its result may lie where an operand does."""
        return self.kind in ("compute", "arithmetic")


class Number(NamedTuple):
    """A number that is the same in all elements.

    Attributes
    ----------
    lane : str
        What it is to kernels.
    bits : int
        There.
    word : (int, int) or None
        In place of bits: which block of words holds the number, and where. Negative ones are the program's operands
        before these blocks, from the last one back.
    whole : bool
        Whether that word is an int64, else a double.
    """

    lane: str
    bits: int = 0
    word: tuple[int, int] | None = None
    whole: bool = False


class Chain(NamedTuple):
    """Steps, and the values that they take to each other.

    Attributes
    ----------
    steps : tuple of Step
        None of them for the identity, of one input and one output.
    lanes : tuple of str
        What the elements of each value are to kernels: ``"float32"``, ``"bool"``, ``"int32"`` ...
    constants : tuple of (int, int)
        Values that are one number in all elements, and which of the numbers.
    numbers : tuple of Number
        Of the constants, and of arithmetic.
    """

    steps: tuple[Step, ...]
    lanes: tuple[str, ...]
    constants: tuple[tuple[int, int], ...] = ()
    numbers: tuple[Number, ...] = ()

    @property
    def blocks(self) -> int:
        """Blocks of words that the numbers are in."""
        return 1 + max((n.word[0] for n in self.numbers if n.word), default=-1)


class Places(NamedTuple):
    """Where values lie.

    Attributes
    ----------
    offsets : tuple of int
        Bytes before each value's buffer, to an element of a chunk; 0 for what has none.
    width : int
        Bytes of all buffers together, to an element.
    """

    offsets: tuple[int, ...]
    width: int


def kernel_name(dtype: Format | np.dtype[Any] | None) -> str:
    """What kernels call elements, those without a format too."""
    if dtype is None:
        return "float64"
    if not isinstance(dtype, Format):
        return dtype.name
    return kernel_format(dtype)


def codec(op: str, dtype: Format | np.dtype[Any] | None, lane: str = "float32") -> Kernel | None:
    """The decoder of a format to what kernels take, or the encoder from that; None for what they take as it is."""
    name = kernel_name(dtype)
    if name == lane:
        return None
    if isinstance(dtype, np.dtype):
        return select("cast", "widen", f"{name}->{lane}").kernel
    return select("cast", op, f"{name}->float32" if op == "decode" else f"float32->{name}").kernel


def lane_bytes(lane: str) -> int:
    """Bytes of an element."""
    return 2 if lane == "bfloat16" else np.dtype(lane).itemsize


def step_kernel(step: Step, lanes: Sequence[str]) -> Kernel | None:
    """The kernel of a step; None for a copy."""
    if step.kind == "arithmetic":
        return select("elementwise", "arithmetic", "float32").kernel
    if step.kind != "compute":
        lane = lanes[(step.writes if step.op == "decode" else step.reads)[0]]
        return None if step.op == "copy" else codec(step.op, step.format, lane)
    read, written = (",".join(lanes[i] for i in side) for side in (step.reads, step.writes))
    return select("elementwise", step.op, f"{read}->{written}").kernel


def placed(chain: Chain, buffered: Sequence[bool], lasting: Sequence[bool], inputs: int,
           apart: Sequence[bool]) -> Places:
    """Give every value that needs a buffer its place; one serves again once what it held is read for the last time.

    Parameters
    ----------
    chain : Chain
    buffered : sequence of bool
        For each value whether it needs one.
    lasting : sequence of bool
        Whether it stays: it is written once for many chunks, or read when all steps are done.
    inputs : int
        How many values are there before the first step, beside constants.
    apart : sequence of bool
        For each operand whether it begins within its place, which then none that its step reads may have.
    """
    last = {i: at for at, step in enumerate(chain.steps) for i in step.reads}
    widths = [lane_bytes(lane) for lane in chain.lanes]
    offsets, end = [0] * len(buffered), 0
    placed: set[int] = set()
    free: dict[int, list[int]] = {width: [] for width in widths}

    def take(values: Iterable[int]) -> None:
        nonlocal end
        for i in values:
            if i in placed:  # which another step wrote to before
                continue
            placed.add(i)
            if buffered[i] and free[widths[i]] and not (i < len(apart) and apart[i]):
                offsets[i] = free[widths[i]].pop()
            elif buffered[i]:
                offsets[i], end = end, end + widths[i]

    take([*range(inputs), *(i for i, _ in chain.constants)])
    for at, step in enumerate(chain.steps):
        over = [i for i in dict.fromkeys(step.reads) if buffered[i] and not lasting[i] and last[i] == at]
        if not step.early:
            take(step.writes)
        for i in over:
            free[widths[i]].append(offsets[i])
        if step.early:
            take(step.writes)
    return Places(tuple(offsets), end)


def number_records(numbers: Sequence[Number], first: int) -> tuple[Array, Array]:
    """Return the driver's records of numbers, of which the first block of words is that operand, and their codecs."""
    records, casts = np.zeros(len(numbers), _NUMBER), np.zeros(len(numbers), _CAST)
    for record, cast, number in zip(records, casts, numbers, strict=True):
        block, record["word"] = number.word or (0, 0)
        record["operand"], record["bits"] = first + block if number.word else -1, number.bits
        record["whole"], fmt = number.whole, _REALS.get(number.lane)
        record["real"] = fmt is not None
        if fmt not in (None, FP32):
            cast["from"], cast["to"], cast["overflow"] = format_facts(FP32), format_facts(fmt), infinite_overflow(fmt)
            record["encode"] = getattr(codec("encode", fmt), "address", 0)
    records["cast"] = casts.ctypes.data + np.arange(len(numbers)) * _CAST.itemsize
    return records, casts


def step_records(chain: Chain, kernels: Sequence[Kernel | None], offsets: Sequence[int],
                 operands: int) -> tuple[Array, Array, list[Array]]:
    """Return the driver's records of the steps and of the values that are no operands, and what they point to.

    Parameters
    ----------
    chain : Chain
    kernels : sequence of Kernel or None
        Of the steps.
    offsets : sequence of int
        Of the values' buffers, in bytes.
    operands : int
    """
    steps, buffers = np.zeros(len(chain.steps), _STEP), np.zeros(len(chain.lanes) - operands, _BUFFER)
    tables: list[Array] = []
    for record, step, kernel in zip(steps, chain.steps, kernels, strict=True):
        numbers = [*step.reads, *step.writes]
        slots, cast = np.array([*numbers, *step.plan], np.int64).astype(np.int32), np.zeros((), _CAST)
        if isinstance(step.format, Format):
            ends = (step.format, FP32) if step.op == "decode" else (FP32, step.format)
            cast["from"], cast["to"] = map(format_facts, ends)
            cast["overflow"] = infinite_overflow(step.format)
        record["run"], record["kind"] = getattr(kernel, "address", 0), _KINDS[step.kind]
        record["inputs"], record["outputs"] = len(step.reads), len(step.writes)
        record["bytes"] = lane_bytes(chain.lanes[step.writes[0]])
        straight = numbers == list(range(len(numbers))) and not step.plan
        record["slots"] = 0 if straight else slots.ctypes.data
        record["cast"] = cast.ctypes.data
        tables += [slots, cast]
    buffers["offset"], buffers["number"] = offsets[operands:], -1
    buffers["bytes"] = [lane_bytes(lane) for lane in chain.lanes[operands:]]
    for value, number in chain.constants:
        buffers[value - operands]["number"] = number
    return steps, buffers, tables
