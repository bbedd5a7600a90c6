"""Operands with scales of blocks: decoded before the pass, to what holds their numbers exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...formats import BF16, FP32, Array, Format
from ...ops import Operand, Receiver
from ...popops.strided.request import strided_request
from ...program import temporary


def decoded(x: Operand) -> Operand:
    """Return an operand as its pass reads it: where it has scales of blocks, numbers in the order of its codes.

    Their memory is not touched.
    """
    return x if x.scales is None else Operand(_Room.of(x).take(np.empty), _format(x))


def _format(x: Operand) -> Format:
    """Numbers of 8 bits at their scales are BF16's; others are as `matmul` takes them, FP32's."""
    return BF16 if x.format.bits <= 8 else FP32


@dataclass(frozen=True)
class _Room:
    """Memory of an array, its axes in the order of another's."""

    shape: tuple[int, ...]
    order: tuple[int, ...]
    dtype: Any

    @classmethod
    def of(cls, x: Operand) -> _Room:
        order = sorted(range(len(x.shape)), key=lambda axis: -abs(x.array.strides[axis]))
        return cls(x.shape, tuple(order), _format(x).dtype)

    def take(self, make: Callable[..., Array]) -> Array:
        array = make(tuple(self.shape[axis] for axis in self.order), self.dtype)
        return array.transpose(np.argsort(self.order))


def decoding(program: Callable[..., Any], operands: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a program that decodes operands of another that have scales of blocks, and what it takes."""
    steps: list[tuple[int, _Room, Callable[..., Any]]] = []
    exponents: list[Operand] = []
    for number, x in enumerate(operands):
        if isinstance(x, Operand) and x.scales is not None:
            made = decoded(x)
            step = strided_request(None, (x,), Receiver(made.array, made.format), "inf").program
            if step is not None:
                steps.append((number, _Room.of(x), step))
                exponents.append(x.scales)
    count = len(operands)

    def run(*arrays: Array) -> None:
        held = list(arrays[:count])
        for (number, room, step), scales in zip(steps, arrays[count:], strict=True):
            held[number] = room.take(temporary)
            step(arrays[number], held[number], scales)
        program(*held)

    return run, (*operands, *exponents)
