"""Calls of other ops described one after another, and made one program: what an op that is made of them runs."""

from __future__ import annotations

from bisect import bisect, bisect_left, insort
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..errors import bad_argument, bad_type
from ..formats import Array, Format, QuarterArray
from ..ops import RESULT, VALUES, Operand, Receiver, Request, own_host
from ..ops.numpy_ops import BY_NUMPY, told
from ..ops.parts import ResultPart
from ..planner.explain import Composition
from ..program import Executable, OnArrays, Room, Sequence, Views, value_words
from ..program.operands import aligned_bytes, lying_like
from .strided.copies import copying, kernel_of_copies


@dataclass(frozen=True)
class _Memory:
    """Bytes that nobody reads or writes, and the operand that they stand for, with what their first is behind it."""

    held: Array
    operand: int
    offset: int

    def place(self, before: int) -> tuple[int, int] | None:
        """Return the place of an array that begins so many bytes behind their first, or None if it is none of them."""
        return (self.operand, self.offset + before) if before < self.held.size else None


def as_taken(array: Array, of: Operand) -> Any:
    """Return what stands for an operand as ops take it: an array, or codes with their scales, which are this call's."""
    if not isinstance(of.format, Format) or array.dtype == of.format.dtype:
        return array
    return QuarterArray(array, of.format, of.scale if of.scales is None else of.scales.array, of.block_shape or None)


class SequenceBuilder:
    """Makes one `Sequence` of calls that are described and not done.

    Arrays stand for what there will be in a run: the operands, and room for what calls leave to each other. They have
    memory of their own, by which it is known what a call reads, and nobody looks at their numbers.

    Parameters
    ----------
    *operands : numpy.ndarray
        What a run will be given, or the like of it.

    Attributes
    ----------
    operands : tuple of numpy.ndarray
        What stands for them.
    """

    def __init__(self, *operands: Array) -> None:
        self._memory: dict[int, _Memory] = {}  # by address, as `_begins` has them in order
        self._begins: list[int] = []
        self._parts: list[tuple[Executable | OnArrays, list[Any]]] = []
        self._status: list[tuple[int, int, int]] = []
        self._kernels: list[Callable[[], str]] = []
        self._room = Room(len(operands))
        self.operands = tuple(self._like(i, x) for i, x in enumerate(operands))

    def room(self, shape: tuple[int, ...], dtype: Any = np.float32, strides: tuple[int, ...] | None = None) -> Array:
        """Return an array that stands for room of a run, in C order or with strides that fill it."""
        made = aligned_bytes(max(1, prod(shape) * np.dtype(dtype).itemsize))
        self._know(_Memory(made, *self._room.take(made.size)))
        return np.ndarray(shape, dtype, made, 0, strides)

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Give room that is taken within away again behind it: what is taken then may lie there."""
        known, end = len(self._memory), self._room.end
        yield
        while len(self._memory) > known:
            begin, _ = self._memory.popitem()
            del self._begins[bisect_left(self._begins, begin)]
        self._room.end = end

    def call(self, face: Any, *arguments: Any, **named: Any) -> Any:
        """Describe a call of an op, such as ``popops.add``; return what stands for its result, or for several.

        Without a `target` it is this CPU's, whatever machine a profile is of.
        """
        request: Request = face.function(*arguments, **({"target": own_host()} | named))
        receiver = request.receiver
        if request.spoilt():
            raise bad_argument("out", "an array that overlaps an operand", "arrays apart from them")
        if receiver.given is None:
            array = self.room(receiver.array.shape, receiver.array.dtype, receiver.array.strides)
            receiver = Receiver(array, receiver.format)
        if request.program is not None and receiver.array.size:
            tell, words = request.tell, None if face.op.values else value_words(request.ready, request.values)
            self.run(request.program, *(self._array(x, receiver, words) for x in request.operands),
                     kernel=lambda: tell()[1])
        return request.wrap(receiver.array, None) if isinstance(request.wrap, Views) else receiver.array

    def run(self, program: Any, *arrays: Array, kernel: Callable[[], str] | None = None) -> None:
        """Add a program that runs on arrays which stand for others, or are the same in every run.

        `kernel` says what serves it, by default NumPy. A sequence among others runs as a function of arrays.
        """
        part = program if isinstance(program, Executable) else OnArrays(program, arrays)
        self._parts.append((part, [self._source(x) for x in arrays]))
        self._kernels.append(kernel or (lambda: BY_NUMPY))

    def copy(self, source: Array, result: Array) -> None:
        """Add a copy of elements as bits."""
        if result.size:
            self.run(copying(result.shape, result.itemsize, source.strides, result.strides), source, result,
                     kernel=kernel_of_copies)

    def end_where(self, status: Array) -> None:
        """End a run behind what was added last where a byte of this, which it writes, is not zero."""
        _, begin = self._source(status)
        self._status.append((len(self._parts) - 1, begin, status.nbytes))

    def made(self, refuse: Callable[..., Exception] | None = None) -> Sequence:
        """Return what runs all of it; `refuse` makes what is raised of a status and the operands."""
        return Sequence(self._parts, len(self.operands), self._room.bytes, self._status, refuse)

    def told(self, op: str, shape: tuple[int, ...], dtype: Any) -> Callable[[], tuple[str, str, Composition]]:
        """Return what tells, for a reader, which kernels serve the steps."""
        def tell() -> tuple[str, str, Composition]:
            kernels = ", ".join(kernel() for kernel in self._kernels).split(", ")
            return told(op, shape, dtype, ", ".join(dict.fromkeys(kernels)))()

        return tell

    def _like(self, operand: int, x: Array) -> Array:
        """Memory for an operand that lies as an array does."""
        made, held = lying_like(x)
        self._know(_Memory(held, operand, held.ctypes.data - made.ctypes.data))
        return made

    def _know(self, memory: _Memory) -> None:
        begin = memory.held.ctypes.data
        self._memory[begin] = memory
        insort(self._begins, begin)

    def _source(self, array: Array) -> Any:
        if not array.size:  # it lies nowhere
            return array
        begins, address = self._begins, array.ctypes.data
        at = bisect(begins, address)
        place = self._memory[begins[at - 1]].place(address - begins[at - 1]) if at else None
        return array if place is None else place

    @staticmethod
    def _array(x: Any, receiver: Receiver, words: Array | None) -> Array:
        if isinstance(x, Operand) and not x.gathered:
            return x.array
        if isinstance(x, np.ndarray):
            return x
        if isinstance(x, ResultPart):
            return x.of(receiver.array)
        if x == VALUES and words is not None:  # numbers, which are the same in every run
            return words
        if x != RESULT or receiver.view is not None:
            raise bad_type("operands", x, "arrays as they lie, and a result")
        return receiver.array
