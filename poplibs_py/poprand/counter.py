"""The counter stream: element i depends on seed, modifier and i alone.

`src_cython/kernels/random/aox.h` defines the stream. Here it is opened for a call, and calls without a seed are given
the places of one stream after another.
"""

from __future__ import annotations

import struct
import threading
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..config import settings
from ..errors import bad_argument
from ..kernels.registry import select
from ..program import Executable
from .arguments import Array, Seed, modifier_of, seed_of, whole

__all__ = ["Call", "Place", "draw", "operand", "place", "seed_default"]

# pop_random_call of src_cython/kernels/random/distributions.h: where to draw, then what
_WHERE = struct.Struct("=QIIqq")
_WHAT = struct.Struct("=ffffffIIQQq")
_LAST = 1 << 62
_ELEMENTS_PER_THREAD = 1 << 17


class Call(NamedTuple):
    """What a distribution gives its kernel; see `pop_random_call`."""

    scale: float = 1.0
    shift: float = 0.0
    low: float = 0.0
    high: float = 0.0
    slope: float = 1.0
    intercept: float = 0.0
    bound: int = 0
    one: int = 0
    range: int = 1
    threshold: int = 0
    offset: int = 0

    def packed(self) -> bytes:
        """Return the numbers as the kernel reads them."""
        return _WHAT.pack(*self)


class Place(NamedTuple):
    """Where in all streams a call draws: the 64-bit seed, the modifier, and the logical index of its first element."""

    seed: int
    modifier: int
    first: int


class _Kernel(NamedTuple):
    """A kernel and the elements that it makes of one row of the stream."""

    address: int
    per_row: int


@cache
def _kernel(op: str, formats: str) -> _Kernel:
    chosen = select("random", op, formats, consistent=True).kernel
    return _Kernel(chosen.address, chosen.grain[1])


@cache
def _executable(address: int, operands: int, threads: int) -> Executable:
    shares = np.array([(k, threads) for k in range(threads)], dtype=[("share", np.int64), ("shares", np.int64)])
    return Executable([[(address, shares, np.arange(threads))]], operands, threads, 0, 0, threads)


class _Default:
    """The stream that calls without a seed share; a call takes whole rows."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.seed: int | None = None
        self.modifier = 0
        self.row = 0

    def start(self, seed: int | None, modifier: int) -> None:
        with self.lock:
            self.seed, self.modifier, self.row = seed, modifier, 0

    def take(self, count: int, per_row: int) -> Place:
        with self.lock:
            if self.seed is None:
                self.seed = int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
            first = self.row * per_row
            self.row += -(-count // per_row)
            return Place(self.seed, self.modifier, first)


_default = _Default()


def seed_default(seed: int | None, modifier: int) -> None:
    """Start the stream of the calls without a seed again; None: from the system's entropy."""
    _default.start(seed, modifier)


def place(op: str, formats: str, seed: Seed, seed_modifier: int, offset: int, count: int) -> Place:
    """Check where to draw; where there is no seed, take the next place of the default stream."""
    modifier = modifier_of(seed_modifier)
    first = whole("offset", offset, 0, _LAST)
    if seed is not None:
        return Place(seed_of(seed), modifier, first)
    if offset or seed_modifier:
        name, value = ("offset", offset) if offset else ("seed_modifier", seed_modifier)
        raise bad_argument(name, value, "0 where there is no seed")
    return _default.take(count, _kernel(op, formats).per_row)


def operand(where: Place, count: int, what: bytes) -> Array:
    """Return the kernel's last operand: where to draw how many elements, and the distribution's numbers."""
    return np.frombuffer(_WHERE.pack(where.seed, where.modifier, 0, where.first, count) + what, np.uint8)


def draw(op: str, formats: str, where: Place, what: bytes, out: Array, source: Array | None = None) -> Array:
    """Fill `out` from the stream, in the order of its logical index (C order), whatever its strides.

    Parameters
    ----------
    op, formats : str
        The kernel.
    where : Place
        Which draws.
    what : bytes
        The distribution's numbers: `Call.packed`.
    out : ndarray
        Filled and returned.
    source : ndarray, optional
        Input of the same shape.
    """
    if not out.flags.c_contiguous or (source is not None and _overlaps(source, out)):
        out[...] = draw(op, formats, where, what, np.empty(out.shape, out.dtype), source)
        return out
    count = out.nbytes if op == "bits" else out.size
    if not count:
        return out
    kernel = _kernel(op, formats)
    threads = min(settings.num_threads, 1 + count // _ELEMENTS_PER_THREAD)
    call = operand(where, count, what)
    if source is None:
        _executable(kernel.address, 2, threads)(out, call)
    else:
        _executable(kernel.address, 3, threads)(np.ascontiguousarray(source), out, call)
    return out


def _overlaps(source: Array, out: Array) -> bool:
    """Whether writing `out` could change what is still to be read; element for element in place is allowed."""
    if not np.may_share_memory(source, out):
        return False
    same: Any = source.__array_interface__["data"][0] == out.__array_interface__["data"][0]
    return not (same and source.flags.c_contiguous)
