"""Operands with scales of blocks: decoded before the pass, to what holds their numbers exactly."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import BF16, FP32, Format
from ...ops import Operand
from ...popops.strided import request as strided
from ...program import Executable, Room, Sequence


def decoded(x: Operand) -> Operand:
    """Return an operand as its pass reads it: where it has scales of blocks, numbers in the order of its codes.

    Their memory is not touched.
    """
    if x.scales is None:
        return x
    order = sorted(range(len(x.shape)), key=lambda axis: -abs(x.array.strides[axis]))
    array = np.empty(tuple(x.shape[axis] for axis in order), _format(x).dtype)
    return Operand(array.transpose(np.argsort(order)), _format(x))


def _format(x: Operand) -> Format:
    """Numbers of 8 bits at their scales are BF16's; others are as `matmul` takes them, FP32's."""
    return BF16 if x.format.bits <= 8 else FP32


def decoding(program: Executable | Sequence, operands: tuple[Any, ...]) -> tuple[Sequence, tuple[Any, ...]]:
    """Return a program that decodes operands of another that have scales of blocks, and what it takes."""
    scaled = [(n, x) for n, x in enumerate(operands) if isinstance(x, Operand) and x.scales is not None]
    count = len(operands) + len(scaled)
    places, room, parts = [(n, 0) for n in range(len(operands))], Room(count), list[Any]()
    for exponents, (n, x) in enumerate(scaled, len(operands)):
        places[n] = room.take(x.array.size * _format(x).itemsize)
        parts.append((strided.decoding(x, strided.lies_of(decoded(x))), (n, places[n], exponents)))
    if isinstance(program, Sequence):
        parts += program.within((*places, room.take(program.workspace_bytes)))
    else:
        parts.append((program, places))
    return Sequence(parts, count, room.bytes), (*operands, *(x.scales for _, x in scaled))
