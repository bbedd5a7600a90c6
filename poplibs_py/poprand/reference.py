"""The counter stream and inverse distribution functions, plainly: whole numbers of Python, and float64.

Shares no code with the kernels; `docs/reference/poprand.md` defines the stream.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import erfinv, ndtri

Array = np.ndarray[Any, Any]
State = tuple[int, int]

MASK = (1 << 64) - 1
MODULUS = 1 << 128 | 0x00653CED7F29F88A << 64 | 0x5FD66762F0E1C001
"""The characteristic polynomial of a step, over the integers modulo 2."""

LANES = 16


def rotl(x: Any, k: int) -> Any:
    """Rotate 64 bits to the left."""
    return (x << k | x >> (64 - k)) & MASK


def step(s0: Any, s1: Any, a: int = 55, b: int = 14, c: int = 36) -> tuple[Any, Any, Any]:
    """Return the output of a state, and the state that follows; arrays of uint64 are many states."""
    sx, sa = s0 ^ s1, s0 & s1
    return sx ^ (rotl(sa, 1) | rotl(sa, 2)), rotl(s0, a) ^ sx ^ (sx << b & MASK), rotl(sx, c)


def outputs(state: State, n: int, *constants: int) -> tuple[list[int], State]:
    """Return so many outputs, and the state after them."""
    s0, s1 = state
    drawn = []
    for _ in range(n):
        word, s0, s1 = step(s0, s1, *constants)
        drawn.append(word)
    return drawn, (s0, s1)


def multiply(a: int, b: int) -> int:
    """Multiply polynomials modulo the characteristic one."""
    product = 0
    while b:
        if b & 1:
            product ^= a
        a <<= 1
        if a >> 128:
            a ^= MODULUS
        b >>= 1
    return product


@lru_cache(maxsize=64)
def power(n: int) -> int:
    """Return x^n modulo the characteristic polynomial."""
    result, square = 1, 2
    while n:
        if n & 1:
            result = multiply(result, square)
        square = multiply(square, square)
        n >>= 1
    return result


def jump(state: State, n: int) -> State:
    """Return the state after so many steps."""
    polynomial, (s0, s1), t0, t1 = power(n), state, 0, 0
    while polynomial:
        if polynomial & 1:
            t0, t1 = t0 ^ s0, t1 ^ s1
        _, s0, s1 = step(s0, s1)
        polynomial >>= 1
    return t0, t1


def splitmix(seed: int, n: int) -> list[int]:
    """Return so many outputs of splitmix64."""
    drawn = []
    for _ in range(n):
        seed = seed + 0x9E3779B97F4A7C15 & MASK
        z = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        drawn.append(z ^ z >> 31)
    return drawn


@lru_cache(maxsize=32)
def _lanes(seed: int, modifier: int, substream: int) -> tuple[State, ...]:
    """The states of the sixteen lanes at row 0."""
    s0, s1 = splitmix(seed, 2)
    lanes = [jump((s0, s1), modifier << 96 | substream << 80)]
    for _ in range(LANES - 1):
        lanes.append(jump(lanes[-1], 1 << 64))
    return tuple(lanes)


def counter_words(seed: int, row: int, rows: int, modifier: int = 0, substream: int = 0) -> Array:
    """Return rows of the counter stream: uint64 [rows, 16]."""
    states = [jump(state, row) for state in _lanes(seed, modifier, substream)]
    s0, s1 = (np.array(word, np.uint64) for word in zip(*states, strict=True))
    drawn = np.empty((rows, LANES), np.uint64)
    for i in range(rows):
        drawn[i], s0, s1 = step(s0, s1)
    return drawn


def words(bits: int, count: int, seed: Any, modifier: int = 0, first: int = 0, substream: int = 0) -> Array:
    """Return words of 8, 16, 32 or 64 bits of the counter stream, from a logical index on."""
    number = int(seed[0]) | int(seed[1]) << 32 if isinstance(seed, (tuple, list, np.ndarray)) else int(seed)
    per_row = 1024 // bits
    row, end = first // per_row, -(-(first + count) // per_row)
    stream = counter_words(number, row, max(0, end - row), int(modifier), substream)
    begin = first - row * per_row
    return stream.astype("<u8").view(f"<u{bits // 8}").reshape(-1)[begin:begin + count].astype(f"u{bits // 8}")


def normal_quantile(q: Array, side: Array) -> Array:
    """Return the normal number of a tail probability on a side."""
    z: Array = -ndtri(q / 2)
    return np.where(side == 1, -z, z)


def narrow_normal_quantile(y: Array, side: Array) -> Array:
    """Return the normal number of which another is smaller in magnitude with a probability."""
    z: Array = np.sqrt(2.0) * erfinv(y)
    return np.where(side == 1, -z, z)


def exponential_quantile(q: Array, side: Array) -> Array:
    """Return the exponential number of half a tail probability below or above."""
    z: Array = np.where(side == 1, -np.log1p(-q / 2), -np.log(q / 2))
    return z


def gumbel_quantile(q: Array, side: Array) -> Array:
    """Return the Gumbel number of half a tail probability below or above."""
    z: Array = np.where(side == 1, -np.log(-np.log(q / 2)), -np.log(-np.log1p(-q / 2)))
    return z
