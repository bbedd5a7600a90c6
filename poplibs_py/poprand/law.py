"""The counter stream's distributions as programs, and calls of them as requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..checks import whole
from ..config import settings
from ..errors import bad_argument
from ..kernels.records import dtype_of
from ..kernels.registry import Kernel, select
from ..memo import remembered, tabled
from ..ops import RESULT, VALUES, Operand, Receiver, Request, seed_of
from ..ops.road import Told
from ..program import Executable, Segment, host_program, threads_for
from ._stream import FROM_DEFAULT, FROM_SEED, LAST

_DEFAULTS = {"scale": 1.0, "slope": 1.0, "range": 1}

ELEMENTS_PER_THREAD = 1 << 16
"""Elements that are worth a thread: 3 to 25 microseconds of work, where a thread that waits costs one or two. Measured:
128 Ki elements are 1.3 to 1.9 times faster with two."""


@dataclass(frozen=True)
class Place:
    """Where a call draws: with a seed, or at the place that comes next in the default stream.

    Attributes
    ----------
    words : tuple of int
        Seed, modifier, offset.
    ready : int
        Address of what makes them a place of the stream; see `Request`.
    """

    words: tuple[int, int, int]
    ready: int

    @classmethod
    def of(cls, seed: object, seed_modifier: object, offset: object) -> Place:
        """Take the arguments of a call."""
        modifier = whole("seed_modifier", seed_modifier, 0, (1 << 32) - 1)
        first = whole("offset", offset, 0, LAST)
        if seed is not None:
            return cls((seed_of(seed), modifier, first), FROM_SEED)
        if first or modifier:
            name, value = ("offset", first) if first else ("seed_modifier", modifier)
            raise bad_argument(name, value, "0 where there is no seed")
        return cls((0, 0, 0), FROM_DEFAULT)


@dataclass(frozen=True)
class Law:
    """A distribution with its numbers.

    Attributes
    ----------
    kernel : Kernel
        One of the random family.
    dtype : numpy.dtype
        Of the elements.
    numbers : tuple of (str, number)
        What the kernel reads; see `pop_random_call` in `src_cython/records/random.def`.
    """

    kernel: Kernel
    dtype: np.dtype[Any]
    numbers: tuple[tuple[str, float], ...]

    @property
    def unit(self) -> int:
        """The kernel's elements for one of the dtype: some kernels count bytes."""
        return self.dtype.itemsize if self.kernel.formats == "bytes" else 1

    def words(self, size: int, place: Place) -> tuple[int, ...]:
        """Return the words of a call for so many elements, before they are ready."""
        if place.words[2] > LAST // self.unit:
            whole("offset", place.words[2], 0, LAST // self.unit)
        return *place.words, size * self.unit, self.kernel.grain[1], self.unit

    def program(self, size: int, threads: int | None = None) -> Executable:
        """Return the program that fills so many elements, on as many threads as are worth while by default.

        Its operands are the elements, behind their source if the kernel has one, and the words of a call, made ready.
        """
        if threads is None:
            threads = threads_for(size, ELEMENTS_PER_THREAD, settings.num_threads)
        return _program(self.kernel.address, self.kernel.op == "dropout", self.numbers, threads)

    def request(self, receiver: Receiver, place: Place, *sources: Operand) -> Request:
        """Describe a call of this law alone."""
        size = receiver.array.size
        return Request(self.program(size), (*sources, RESULT, VALUES), receiver, lambda: self.told(receiver),
                       self.words(size, place), place.ready)

    def told(self, receiver: Receiver) -> Told:
        """What ran, for a reader, its kernel, and no plan."""
        array = receiver.array
        return f"{array.shape} {array.dtype}", self.kernel.label, None


@remembered()
def _program(address: int, reads: bool, numbers: tuple[tuple[str, float], ...], threads: int) -> Executable:
    items = np.zeros(threads, dtype_of("pop_random_item"))
    items["share"], items["shares"] = np.arange(threads), threads
    for name, number in (_DEFAULTS | dict(numbers)).items():
        items["law"][name] = number
    draws = Segment(address, items, np.arange(threads))
    return host_program((draws,), operands=3 if reads else 2, threads=threads)


def law_of(op: str, formats: str, dtype: np.dtype[Any], **numbers: float) -> Law:
    """Return a distribution with its numbers, drawn by the kernel of the random family that serves it here."""
    return Law(_kernel(op, formats), dtype, tuple(numbers.items()))


@tabled(256)
def _kernel(op: str, formats: str) -> Kernel:
    return select("random", op, formats, consistent=True).kernel
