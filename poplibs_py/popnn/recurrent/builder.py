"""What a pass of a recurrent layer is made of: programs, copies and conversions one after another, as one sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from ...formats import Array
from ...ops import Operand, contiguous_strides
from ...popops.sequence import SequenceBuilder
from ...popops.strided.copies import adding

NOTHING = np.empty(0, np.uint8)
"""What stands for an operand that is not there."""


class Lie(NamedTuple):
    """How an operand's array lies."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, x: Operand | None) -> Self | None:
        """Return how an operand reaches a program, or None where it is not there."""
        if x is None:
            return None
        array = np.empty(x.shape, x.array.dtype) if x.gathered else x.array
        return cls(array.shape, array.strides, array.dtype)

    @classmethod
    def in_order(cls, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Self:
        """Return how an array in C order lies."""
        return cls(shape, contiguous_strides(shape, dtype.itemsize), dtype)

    @property
    def like(self) -> Array:
        """An array that lies so, whose numbers nobody may look at."""
        made: Array = np.lib.stride_tricks.as_strided(np.empty((), self.dtype), self.shape, self.strides)
        return made


class Builder(SequenceBuilder):
    """Makes the sequence of a pass of its operands, None for those that are not there, and of its results.

    Attributes
    ----------
    arrays : list of numpy.ndarray or None
        What stands for the operands.
    views : list of numpy.ndarray
        What stands for the results.
    counts : bool
        Whether what is made only tells how many bytes and threads a run takes: some stretches stand for all.
    """

    def __init__(self, lies: Iterable[Lie | None], results: Iterable[Lie] = (), counts: bool = False) -> None:
        lies, self.counts = tuple(lies), counts
        super().__init__(*(lie.like for lie in (*lies, *results) if lie is not None))
        rest = iter(self.operands)
        self.arrays: list[Any] = [None if lie is None else next(rest) for lie in lies]
        self.views = list(rest)

    def stretches(self, steps: int, at_once: int) -> list[slice]:
        """Return so many steps at once, from the first on: all stretches, or those that differ in what they take.

        These are the first, one that has another before it, and the last, which may be shorter.
        """
        firsts = range(0, steps, at_once)
        some = sorted({*firsts[:2], *firsts[-1:]}) if self.counts else firsts
        return [slice(first, min(first + at_once, steps)) for first in some]

    def put(self, source: Array, to: Array) -> None:
        """Write numbers where others are, in the format of those."""
        if source.dtype == to.dtype:
            self.copy(source if source.shape == to.shape else np.broadcast_to(source, to.shape), to)
        elif to.size:
            self.run(_convert, source, to)

    def put_planes(self, source: Array, which: Iterable[int], to: Array, places: Iterable[int] | None = None) -> None:
        """Write planes of an array's first axis to another's, one after another or to places: neighbours at once."""
        pairs = list(enumerate(which)) if places is None else list(zip(places, which, strict=True))
        begins = [at for at, (place, plane) in enumerate(pairs) if (place - 1, plane - 1) != pairs[at - 1] or not at]
        for begin, end in pairwise([*begins, len(pairs)]):
            (place, plane), count = pairs[begin], end - begin
            self.put(source[plane:plane + count], to[place:place + count])

    def clear(self, to: Array) -> None:
        """Write zeros."""
        self.put(np.zeros((), to.dtype), to)

    def begin(self, given: Array | None, to: Array) -> None:
        """Write a state that a call gives, or zeros."""
        if given is None:
            self.clear(to)
        else:
            self.put(given, to)

    def add(self, x: Array, y: Array, to: Array) -> None:
        """Write sums of FP32 numbers, perhaps to one of the two."""
        if to.size:
            self.run(adding(to.shape, x.strides, y.strides, to.strides), x, y, to)

    def apply(self, function: Callable[..., None], *arrays: Array) -> None:
        """Run a function of arrays, if the last of them, which it writes, has any numbers."""
        if arrays[-1].size:
            self.run(function, *arrays)

    def in_order(self, x: Array, dtype: Any = None) -> Array:
        """Return an array in C order and of a type, as it is or as a copy."""
        if x.flags.c_contiguous and (dtype is None or x.dtype == dtype):
            return x
        made = self.room(x.shape, x.dtype if dtype is None else dtype)
        self.put(x, made)
        return made


def _convert(source: Array, to: Array) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        to[...] = source


def times(x: Array, y: Array, to: Array) -> None:
    """Write products, rounded to FP32 and to the format of where they go."""
    with np.errstate(over="ignore", invalid="ignore"):
        np.multiply(x, y, out=to, dtype=np.float32, casting="unsafe")
