"""The random numbers of a modelled IPU: its workers' generators, how elements reach them, and PopLibs' arithmetic.

Each worker of each tile has a generator. A random op deals the elements of a tile, in ascending order, to its
workers in grains of 8 bytes, and every worker turns one or more 64-bit draws into a grain. What silicon does not
publish is modelled and named so below: which half of a word a 32-bit draw takes (the low one), which 16 bits a mask
of 32-bit lanes compares (the low ones), and the Gaussian (PopLibs' own host formula: twelve 5-bit fields of a draw,
summed, less 186, over 32).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import UnsupportedError, bad_argument, bad_type
from ..formats import Array
from ..immutable import frozen
from ..memo import tabled
from ..ops import RESULT, Operand, Receiver, Request, seed_of
from ..target import Target, linear_mapping, resolve_target
from . import _workers
from .arguments import INT32, Seed, TargetLike, TileMapping, at_least

WARM_UP_DRAWS = 15
ALWAYS = 65536
"""The operand of a mask that keeps all."""

_DTYPES = np.dtype(np.float32), np.dtype(np.float16), INT32
_HALF_THRESHOLD = 2.0**-13  # twice the smallest normal half

_lock = threading.RLock()
_machines: dict[tuple[int, int], Array] = {}


def worker_states(target: Target, seed: int, modifier: int) -> Array:
    """Return the state of every worker after PopLibs' ``setSeed``.

    Words (s0, s1) of tile t and worker w: s0 is the seed; s1 has ``((16 t) xor 0xAAAAAAA0) or w`` below and
    ``modifier xor 0x55555555`` above; then 15 draws are discarded.

    Returns
    -------
    ndarray of uint64 [tiles, workers, 2]
    """
    return _seeded(target.tiles, target.workers, seed, modifier).copy()


@tabled(4)
def _seeded(tiles: int, workers: int, seed: int, modifier: int) -> Array:
    states = np.empty((tiles, workers, 2), np.uint64)
    low = ((np.arange(tiles, dtype=np.uint64) << 4 & 0xFFFFFFFF) ^ 0xAAAAAAA0)[:, None] | np.arange(
        workers, dtype=np.uint64)
    states[..., 0] = seed
    states[..., 1] = low | np.uint64((modifier ^ 0x55555555) << 32)
    _workers.warm_up(states, WARM_UP_DRAWS)
    return states


def _machine(target: TargetLike) -> tuple[Target, Array]:
    """The modelled machine and the states that its workers are in; a machine starts with seed 0."""
    target = Target.gc200() if target is None else resolve_target(target)
    if target.kind != "ipu":
        raise bad_argument("target", target.name, "a modelled IPU, such as Target.gc200()")
    key = target.tiles, target.workers
    if key not in _machines:
        _machines[key] = worker_states(target, 0, 0)
    return target, _machines[key]


def seed_machine(target: TargetLike, seed: int, modifier: int) -> None:
    """Seed every worker of a modelled machine."""
    with _lock:
        machine, states = _machine(target)
        states[...] = worker_states(machine, seed, modifier)


def get_hw_seeds(target: TargetLike = None) -> Array:
    """Return the state of every worker's generator on a modelled IPU.

    Corresponds to Poplar's ``getHwSeeds``. Machines with the same numbers of tiles and workers share their state.

    Parameters
    ----------
    target : Target or str, optional
        The machine; a GC200 by default.

    Returns
    -------
    ndarray of uint32 [tiles, workers, 4]
        The registers PRNG_0_0, PRNG_0_1, PRNG_1_0, PRNG_1_1.

    Examples
    --------
    >>> from poplibs_py import poprand
    >>> poprand.get_hw_seeds().shape
    (1472, 6, 4)
    """
    with _lock:
        _, states = _machine(target)
        return np.ascontiguousarray(states.astype("<u8")).view("<u4").astype(np.uint32, copy=True)


def set_hw_seeds(seeds: Array, target: TargetLike = None) -> None:
    """Set the state of every worker's generator on a modelled IPU, as `get_hw_seeds` gave it.

    Corresponds to Poplar's ``setHwSeeds``.

    Parameters
    ----------
    seeds : array of uint32 [tiles, workers, 4]
    target : Target or str, optional
        The machine; a GC200 by default.

    Raises
    ------
    InvalidArgumentError
        If the shape is not the machine's, or a worker's words are all zero.
    """
    if not isinstance(seeds, np.ndarray) or seeds.dtype != np.uint32:
        raise bad_type("seeds", seeds, "an array of uint32")
    with _lock:
        machine, states = _machine(target)
        if seeds.shape != (machine.tiles, machine.workers, 4):
            raise bad_argument("seeds", f"an array of shape {seeds.shape}",
                               f"one of shape {(machine.tiles, machine.workers, 4)}")
        if not seeds.any(axis=2).all():
            tile, worker = np.argwhere(~seeds.any(axis=2))[0]
            got = f"four zeros for worker {worker} of tile {tile}"
            raise bad_argument("seeds", got, "states that are not all zero")
        states[...] = np.ascontiguousarray(seeds).astype("<u4").view("<u8")


@dataclass(frozen=True)
class _Dealing:
    """A mapping, checked: elements on each tile, and the flat index of each element in the order of tiles."""

    elements: Array
    order: Array | None


def _dealing(target: Target, count: int, dtype: np.dtype[Any], mapping: TileMapping) -> _Dealing:
    if mapping is None:
        return _linear_dealing(target, count, dtype.itemsize)
    if not isinstance(mapping, (list, tuple)) or len(mapping) > target.tiles:
        raise bad_type("tile_mapping", mapping, f"a list of intervals for each of at most {target.tiles} tiles")
    elements = np.zeros(target.tiles, np.int64)
    pieces = [np.empty(0, np.int64)]
    for tile, intervals in enumerate(mapping):
        if not isinstance(intervals, (list, tuple)):
            raise bad_type("tile_mapping", intervals, "a list of intervals for each tile")
        for begin, end in sorted(_interval(i, count) for i in intervals):
            elements[tile] += end - begin
            pieces.append(np.arange(begin, end))
    order = np.concatenate(pieces)
    times = np.bincount(order, minlength=count)
    if (times != 1).any():
        element = int(np.argmax(times != 1))
        raise bad_argument("tile_mapping", f"element {element} on {times[element]} tiles", "every element on one tile")
    return _Dealing(elements, order)


@tabled(64)
def _linear_dealing(target: Target, count: int, itemsize: int) -> _Dealing:
    shares = np.diff(linear_mapping(target, count, itemsize).edges())
    return _Dealing(frozen(np.pad(shares, (0, target.tiles - len(shares)))), None)


def _interval(interval: object, count: int) -> tuple[int, int]:
    if (not isinstance(interval, (tuple, list)) or len(interval) != 2
            or not all(isinstance(bound, (int, np.integer)) for bound in interval)):
        raise bad_type("tile_mapping", interval, "intervals (begin, end) of whole numbers")
    begin, end = int(interval[0]), int(interval[1])
    if not 0 <= begin <= end <= count:
        raise bad_argument("tile_mapping", interval, f"0 <= begin <= end <= {count}")
    return begin, end


class Dealer:
    """Draws for one op on one machine: PopLibs' vertices, their scales and offsets included.

    With a seed, the machine's own states are neither read nor changed: that is PopLibs' saving and restoring.
    """

    def __init__(self, target: TargetLike, mapping: TileMapping, seed: Seed, modifier: int) -> None:
        with _lock:
            self.target, self.states = _machine(target)
        if seed is not None:
            self.states = worker_states(self.target, seed_of(seed), modifier)
        self.mapping = mapping

    def request(self, receiver: Receiver, draw: Callable[[int], Array], *sources: Operand,
                size: int | None = None) -> Request:
        """Describe a call that draws so many elements, the result's by default, flat."""
        array = receiver.array
        self._checked(array.size if size is None else size, array.dtype)

        def program(*arrays: Array) -> None:
            result = arrays[-1]
            result[...] = draw(result.size).reshape(result.shape)

        return Request(program, (*sources, RESULT), receiver, lambda: (
            f"{array.shape} {array.dtype}", f"the workers of a modelled {self.target.name}", None),
                       keep=False)  # whose states go on

    def _lanes(self, count: int, dtype: np.dtype[Any], lane_bits: int, grain: int) -> Array:
        """One draw's lanes of `lane_bits` for each grain, flat in element order."""
        dealing = self._checked(count, dtype)
        with _lock:
            words = _workers.deal(self.states, dealing.elements, grain, 1)
        shifts = np.arange(grain, dtype=np.uint64) * np.uint64(64 // max(grain, 2))
        lanes = (words >> shifts) & np.uint64((1 << lane_bits) - 1)
        return self._flat(lanes, dealing, grain)

    def _checked(self, count: int, dtype: np.dtype[Any]) -> _Dealing:
        if dtype not in _DTYPES:
            raise UnsupportedError(f"dtype: got {dtype}; allowed for stream='ipu': float32, float16, int32")
        return _dealing(self.target, count, dtype, self.mapping)

    @staticmethod
    def _flat(lanes: Array, dealing: _Dealing, grain: int) -> Array:
        """Drop the lanes past each tile's end and put the elements in their flat order."""
        elements = dealing.elements[dealing.elements > 0]
        grains = -(-elements // grain)
        kept = lanes.reshape(-1)
        if (elements % grain).any():
            starts = np.repeat(np.cumsum(grains) * grain - grains * grain, elements)
            within = np.arange(elements.sum()) - np.repeat(np.cumsum(elements) - elements, elements)
            kept = kept[starts + within]
        return _ordered(kept, dealing)

    def uniform(self, count: int, low: float, high: float, dtype: np.dtype[Any]) -> Array:
        """``u * scale + offset`` in the arithmetic of the dtype, u symmetric about zero."""
        scale, offset = scale_and_offset(low, high, dtype)
        lane_bits, grain = (16, 4) if dtype == np.float16 else (32, 2)
        lanes = self._lanes(count, dtype, lane_bits, grain).astype(np.float64)
        u = ((2 * lanes + 1 - 2.0**lane_bits) / 2.0 ** (lane_bits + 1)).astype(dtype)
        values: Array = u * dtype.type(scale) + dtype.type(offset)
        return values

    def uniform_integers(self, count: int, low: int, high: int) -> Array:
        """PopLibs' three ways, by the size of the range; none is exactly uniform but the whole of int32."""
        size = high - low + 1
        grain = 1 if 1 << 24 <= size < 1 << 32 else 2
        draws = self._lanes(count, INT32, 32, grain)
        if size == 1 << 32:
            return draws.astype(np.uint32).view(np.int32)
        if size < 1 << 24:
            scale = np.float32(size) * np.float32(2.0**-32)
            scaled: Array = np.floor(draws.astype(np.uint32).astype(np.float32) * scale)
            return (scaled.astype(np.int64) + low).astype(INT32)
        upper, lower = draws >> np.uint64(16), draws & np.uint64(0xFFFF)
        size_upper, size_lower = np.uint64(size >> 16), np.uint64(size & 0xFFFF)
        product = upper * size_upper + (upper * size_lower >> np.uint64(16)) + (lower * size_upper >> np.uint64(16))
        shifted: Array = product.astype(np.int64) + low
        return shifted.astype(INT32)

    def log_uniform(self, count: int, low: float, high: float, base: float, dtype: np.dtype[Any]) -> Array:
        """The exponential of a float32 uniform number, kept within the limits squeezed to the dtype."""
        single = np.float32
        inner_low, inner_high = squeeze(low, high, np.dtype(single))
        ln_base = single(math.log(base))
        natural = abs(1.0 - float(ln_base)) < 1e-7
        log_low, log_high = single(math.log(inner_low)), single(math.log(inner_high))
        if not natural:
            log_low, log_high = single(log_low / ln_base), single(log_high / ln_base)
        if log_low > log_high:
            log_low, log_high = log_high, log_low
        x = self.uniform(count, float(log_low), float(log_high), np.dtype(single))
        if not natural:
            x = x * ln_base
        least, most = squeeze(inner_low, inner_high, dtype)
        if most < least:
            raise bad_argument("low", low, f"limits with a {dtype} number between them")
        y = np.clip(np.exp(x.astype(np.float64)).astype(single), single(least), single(most))
        return y.astype(dtype)

    def normal(self, count: int, mean: float, std: float, dtype: np.dtype[Any]) -> Array:
        """``z * std + mean`` in the arithmetic of the dtype, z a multiple of 1/32."""
        dealing = self._checked(count, dtype)
        grain = 4 if dtype == np.float16 else 2
        with _lock:
            words = _workers.deal(self.states, dealing.elements, grain, grain)
        fields = np.zeros(words.shape, np.int64)
        for k in range(12):
            fields += (words >> np.uint64(5 * k) & np.uint64(31)).astype(np.int64)
        z = ((self._flat(fields, dealing, grain) - 186) / 32).astype(dtype)
        values: Array = z * dtype.type(std) + dtype.type(mean)
        return values

    def truncated_normal(self, count: int, mean: float, std: float, alpha: float, dtype: np.dtype[Any]) -> Array:
        """As `normal`, redrawn while outside ``mean +- alpha * std``; what stays outside becomes the mean."""
        dealing = self._checked(count, dtype)
        limit = float(dtype.type(alpha))
        with _lock:
            z = _workers.deal_truncated(self.states, dealing.elements, 4 if dtype == np.float16 else 2, limit,
                                        redraws(alpha))
        values: Array = _ordered(z, dealing).astype(dtype) * dtype.type(std) + dtype.type(mean)
        return values

    def keep(self, count: int, probability: float, dtype: np.dtype[Any]) -> Array:
        """Which elements are kept: the lane's low 16 bits below the probability's 16 bits."""
        grain = 4 if dtype.itemsize == 2 else 2
        lanes = self._lanes(count, dtype, 64 // grain, grain)
        kept: Array = (lanes & np.uint64(0xFFFF)) < np.uint64(sixteen_bits(probability))
        return kept


def _ordered(values: Array, dealing: _Dealing) -> Array:
    if dealing.order is None:
        return values
    flat = np.empty_like(values)
    flat[dealing.order] = values
    return flat


def sixteen_bits(probability: float) -> int:
    """The 17-bit operand of the machine's masks."""
    return int(probability * ALWAYS)


def redraws(alpha: float) -> int:
    """How often PopLibs draws again, so that about 1 in 10,000 stay outside."""
    outside = math.erfc(alpha / math.sqrt(2.0))
    return math.ceil(-4.0 / math.log10(outside)) if 0.0 < outside < 1.0 else 0


def squeeze(low: float, high: float, dtype: np.dtype[Any]) -> tuple[float, float]:
    """Round two limits inwards to numbers of the dtype."""
    if dtype == INT32:
        return math.ceil(low), math.floor(high)
    return at_least(low, dtype), -at_least(-high, dtype)


def scale_and_offset(low: float, high: float, dtype: np.dtype[Any]) -> tuple[float, float]:
    """PopLibs' ``uniformScaleAndOffset`` for float and half.

    The limits are rounded inwards to float32. float: where ``offset +- scale/2`` would pass a limit, the scale loses
    two ulps. half: a limit within 2**-13 of zero is drawn away from zero and the scale loses 1/1024, the offset
    staying what it was; other samples may round past the limits.
    """
    single = np.float32
    first, last = (single(x) for x in squeeze(low, high, np.dtype(single)))
    scale = single(float(last) - float(first))
    if float(scale) > float(last) - float(first):
        scale = np.nextafter(scale, single(0))
    offset = single(scale / single(2) + first)
    if dtype == np.float32:
        if -0.5 * float(scale) + float(offset) < first or 0.5 * float(scale) + float(offset) > last:
            scale = np.nextafter(np.nextafter(scale, single(0)), single(0))
    else:
        threshold = single(_HALF_THRESHOLD)
        if 0 < first < threshold:
            first = threshold
        if -threshold < last < 0:
            last = -threshold
        if first == threshold or last == -threshold:
            scale = single(single(last - first) * single(0x3FF) / single(0x400))
        if abs(float(scale)) > 65504:
            raise bad_argument("high", high, "limits whose difference is at most 65504, the largest half")
    return float(scale), float(offset)
