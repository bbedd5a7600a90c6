"""The IPU stream against a model that walks worker by worker in Python's integers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import aox_oracle as oracle
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from poplibs_py import poprand
from poplibs_py.errors import InvalidArgumentError
from poplibs_py.poprand import hardware
from poplibs_py.target import Target, linear_mapping

single, half = np.float32, np.float16
TILES = 3
SMALL = Target.gc200(tiles=TILES)
FLOATS = st.floats(-(2.0**100), 2.0**100, width=32)
COUNTS = st.integers(0, 90)
SEEDS = st.tuples(st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 32) - 1))


class Worker:
    """One generator, drawing as the machine's instructions do."""

    def __init__(self, seed: tuple[int, int], modifier: int, tile: int, worker: int) -> None:
        self.state = oracle.ipu_state(seed[0] | seed[1] << 32, modifier, tile, worker)
        self.fresh: list[int] = []

    def urand64(self) -> int:
        (word,), self.state = oracle.outputs(self.state, 1)
        return word

    def lanes(self, bits: int) -> list[int]:
        word = self.urand64()
        return [word >> shift & (1 << bits) - 1 for shift in range(0, 64, bits)]

    def grand(self) -> int:
        word = self.urand64()
        return sum(word >> 5 * k & 31 for k in range(12)) - 186


def split(n: int) -> list[list[int]]:
    """Elements of a hand-made mapping: tile 1 holds the middle, tile 0 two pieces around it, tile 2 nothing."""
    a, b = n // 3, n // 3 * 2
    return [[*range(a), *range(b, n)], list(range(a, b)), []]


def mapping(n: int) -> list[list[tuple[int, int]]]:
    a, b = n // 3, n // 3 * 2
    return [[(b, n), (0, a)], [(a, b)], []]


def grains(n: int, grain: int) -> Iterator[tuple[int, int, list[int]]]:
    """(tile, worker, element numbers) of every grain; each worker's in the order it makes them."""
    for tile, elements in enumerate(split(n)):
        pieces = [elements[i:i + grain] for i in range(0, len(elements), grain)]
        for worker in range(6):
            for piece in pieces[worker::6]:
                yield tile, worker, piece


def modelled(n: int, seed: tuple[int, int], modifier: int, grain: int, draw: Any) -> np.ndarray[Any, Any]:
    """Values by `draw(worker, lanes wanted)`, one list of lanes for each grain."""
    workers = {(t, w): Worker(seed, modifier, t, w) for t in range(TILES) for w in range(6)}
    values: list[Any] = [None] * n
    for tile, worker, piece in grains(n, grain):
        for element, value in zip(piece, draw(workers[tile, worker], len(piece)), strict=False):
            values[element] = value
    return np.array(values)


def options(n: int, seed: tuple[int, int], modifier: int) -> dict[str, Any]:
    return {"seed": seed, "seed_modifier": modifier, "stream": "ipu", "target": SMALL, "tile_mapping": mapping(n)}


def test_seeding_of_every_worker_of_a_gc200() -> None:
    target = Target.gc200()
    states = hardware.worker_states(target, 42, 7)
    for tile in range(target.tiles):
        for worker in range(target.workers):
            assert tuple(states[tile, worker].tolist()) == oracle.ipu_state(42, 7, tile, worker)
    for name, (state, _, _) in oracle.VECTORS.items():
        if name.startswith("ipu"):
            low, high, modifier, tile, worker = (int(word) for word in name.split()[1:])
            assert tuple(hardware.worker_states(target, low | high << 32, modifier)[tile, worker].tolist()) == state


def test_no_two_workers_share_a_state() -> None:
    states = hardware.worker_states(Target.gc200(), 0, 0).reshape(-1, 2)
    assert len(np.unique(states, axis=0)) == 1472 * 6


@given(COUNTS, SEEDS, st.integers(0, 2**32 - 1), st.floats(-8, 8, width=16), st.floats(0, 8, width=16))
def test_uniform_float(n: int, seed: tuple[int, int], modifier: int, low: float, extent: float) -> None:
    scale, offset = hardware.scale_and_offset(low, low + extent, np.dtype(single))
    drawn = poprand.uniform(n, low, low + extent, **options(n, seed, modifier))
    u = modelled(n, seed, modifier, 2, lambda w, _: w.lanes(32)).astype(np.float64)
    symmetric = ((2 * u + 1 - 2.0**32) / 2.0**33).astype(single)
    assert (drawn == symmetric * single(scale) + single(offset)).all()
    assert ((drawn >= low) & (drawn <= low + extent)).all()


@given(COUNTS, SEEDS, st.integers(0, 2**32 - 1), st.floats(-8, 8, width=16), st.floats(0, 8, width=16))
def test_uniform_half(n: int, seed: tuple[int, int], modifier: int, low: float, extent: float) -> None:
    scale, offset = hardware.scale_and_offset(low, low + extent, np.dtype(half))
    drawn = poprand.uniform(n, low, low + extent, dtype=half, **options(n, seed, modifier))
    u = modelled(n, seed, modifier, 4, lambda w, _: w.lanes(16)).astype(np.float64)
    symmetric = ((2 * u + 1 - 2.0**16) / 2.0**17).astype(half)
    assert (drawn == symmetric * half(scale) + half(offset)).all()


@given(COUNTS, SEEDS, st.integers(-(1 << 31), (1 << 31) - 1), st.integers(0, (1 << 32) - 1))
def test_uniform_int(n: int, seed: tuple[int, int], low: int, extent: int) -> None:
    high = min(low + extent, (1 << 31) - 1)
    size = high - low + 1
    drawn = poprand.uniform(n, low, high, dtype=np.int32, **options(n, seed, 1))
    if size == 1 << 32:
        expected = modelled(n, seed, 1, 2, lambda w, _: w.lanes(32)).astype(np.uint32).view(np.int32)
    elif size < 1 << 24:
        u = modelled(n, seed, 1, 2, lambda w, _: w.lanes(32)).astype(np.uint32).astype(single)
        expected = np.floor(u * (single(size) * single(2.0**-32))).astype(np.int64) + low
    else:
        def large(w: Worker, _: int) -> list[int]:
            u = w.lanes(32)[0]
            parts = (u >> 16) * (size >> 16) + ((u >> 16) * (size & 0xFFFF) >> 16) + ((u & 0xFFFF) * (size >> 16) >> 16)
            return [parts + low]

        expected = modelled(n, seed, 1, 1, large)
    assert drawn.tolist() == expected.tolist()


@given(COUNTS, SEEDS, st.floats(-4, 4, width=16), st.floats(0, 4, width=16), st.booleans())
def test_normal(n: int, seed: tuple[int, int], mean: float, std: float, halves: bool) -> None:
    dtype, grain = (half, 4) if halves else (single, 2)
    drawn = poprand.normal(n, mean, std, dtype=dtype, **options(n, seed, 3))
    z = (modelled(n, seed, 3, grain, lambda w, _: [w.grand() for _ in range(grain)]) / 32).astype(dtype)
    assert (drawn == z * dtype(std) + dtype(mean)).all()


def redrawn(worker: Worker, lanes: int, wanted: int, alpha: float, redraws: int) -> list[float]:
    """A grain of truncated normal numbers; the worker's next grain is drawn already."""
    kept: list[int | None] = [None] * lanes
    for left in range(redraws, -1, -1):
        kept = [z if old is None and abs(z) <= alpha * 32 else old for old, z in zip(kept, worker.fresh, strict=True)]
        worker.fresh = [worker.grand() for _ in range(lanes)]
        # The trailing element of a pair: the machine stops unless all are accepted.
        stops = None in kept if lanes == 2 and wanted == 1 else None not in kept
        if stops or not left:
            break
    return [(z or 0) / 32 for z in kept]


@given(COUNTS, SEEDS, st.sampled_from([0.25, 0.5, 1.0, 2.0]), st.booleans())
def test_truncated_normal(n: int, seed: tuple[int, int], alpha: float, halves: bool) -> None:
    dtype, grain = (half, 4) if halves else (single, 2)
    redraws = math.ceil(-4 / math.log10(math.erfc(alpha / math.sqrt(2))))

    def draw(worker: Worker, wanted: int) -> list[float]:
        worker.fresh = worker.fresh or [worker.grand() for _ in range(grain)]
        return redrawn(worker, grain, wanted, alpha, redraws)

    z = modelled(n, seed, 0, grain, draw).astype(dtype)
    drawn = poprand.truncated_normal(n, 1.5, 0.75, alpha, dtype=dtype, **options(n, seed, 0))
    assert (drawn == z * dtype(0.75) + dtype(1.5)).all()
    assert (np.abs(drawn - 1.5) <= 0.75 * alpha).all()


@given(COUNTS, SEEDS, st.floats(0, 1), st.booleans())
def test_bernoulli_and_dropout(n: int, seed: tuple[int, int], prob: float, halves: bool) -> None:
    dtype, grain = (half, 4) if halves else (single, 2)
    lanes = modelled(n, seed, 5, grain, lambda w, _: w.lanes(64 // grain)).astype(np.int64) & 0xFFFF
    kept = lanes < int(prob * 65536)
    drawn = poprand.bernoulli(n, prob, dtype=dtype, **options(n, seed, 5))
    assert (drawn == kept).all()
    x = np.arange(1, n + 1).astype(dtype)
    dropped = poprand.dropout(x, prob, 3.0, **options(n, seed, 5))
    copied = int(prob * 65536) == 65536
    assert (dropped == (x if copied else np.where(kept, x * dtype(3), dtype(0)))).all()
    shaped = poprand.shaped_dropout(x, (n,), prob, 3.0, **options(n, seed, 5))
    assert (shaped == dropped).all()
    if not halves:
        assert (poprand.bernoulli(n, prob, dtype=np.int32, **options(n, seed, 5)) == kept).all()


@pytest.mark.parametrize("dtype", [single, half, np.int32])
@pytest.mark.parametrize("base", [math.e, 2.0])
def test_log_uniform(dtype: Any, base: float) -> None:
    n, low, high = 500, 2.0, 700.0
    ln = single(math.log(base))
    first, last = single(math.log(low)), single(math.log(high))
    if base != math.e:
        first, last = first / ln, last / ln
    x = poprand.uniform(n, float(first), float(last), **options(n, (1, 2), 0))
    x = x if base == math.e else x * ln
    expected = np.clip(np.exp(x.astype(np.float64)).astype(single), single(low), single(high)).astype(dtype)
    assert (poprand.log_uniform(n, low, high, base, dtype=dtype, **options(n, (1, 2), 0)) == expected).all()


def test_the_scale_rules() -> None:
    exact = hardware.scale_and_offset(0.0, 1.0, np.dtype(single))
    assert exact == (1.0, 0.5)
    scale, offset = hardware.scale_and_offset(1.0, 1.0 + 2.0**-22, np.dtype(single))
    assert single(offset - 0.5 * scale) >= 1.0
    lowest = 2.0**-14
    scale, offset = hardware.scale_and_offset(lowest, 1.0, np.dtype(half))
    assert scale == (1 - 2 * lowest) * 1023 / 1024
    assert offset == single(1 - lowest) / 2 + lowest
    with pytest.raises(InvalidArgumentError, match="high"):
        poprand.uniform(4, -60000, 60000, dtype=half, seed=1, stream="ipu")


@given(FLOATS, FLOATS)
def test_float_scales_keep_the_limits(a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    # PopLibs' two ulps are not enough for limits a few ulps apart, or subnormal ones.
    assume(low == high or high - low > max(2.0**-120, 2.0**-16 * max(abs(low), abs(high))))
    scale, offset = hardware.scale_and_offset(low, high, np.dtype(single))
    ends = single([-0.5, 0.5]) * single(scale) + single(offset)
    assert low <= ends[0] <= ends[1] <= high


def linear_intervals(n: int, dtype: Any) -> list[list[tuple[int, int]]]:
    edges = linear_mapping(Target.gc200(), n, np.dtype(dtype).itemsize).edges().tolist()
    return [[interval] for interval in pairwise(edges)]


@pytest.mark.parametrize(("n", "dtype", "expected"), [
    (64, single, {0: 32, 1: 32}),
    (63, single, {0: 32, 1: 31}),
    (10, half, {0: 10}),
    (64 * 3 + 4, half, {0: 64, 1: 64, 2: 68}),
    (1472 * 40, single, dict.fromkeys(range(1472), 40)),
])
def test_the_linear_mapping(n: int, dtype: Any, expected: dict[int, int]) -> None:
    found = linear_intervals(n, dtype)
    assert {t: sum(end - begin for begin, end in intervals) for t, intervals in enumerate(found)} == expected
    assert [interval for intervals in found for interval in intervals][-1][1] == n


def test_the_default_mapping_is_the_linear_one() -> None:
    given_mapping = linear_intervals(1000, half)
    explicit = poprand.normal(1000, dtype=half, seed=1, stream="ipu", tile_mapping=given_mapping)
    assert (poprand.normal(1000, dtype=half, seed=1, stream="ipu") == explicit).all()


OPS = {
    "uniform": lambda **k: poprand.uniform(100, stream="ipu", target=SMALL, **k),
    "normal": lambda **k: poprand.normal(100, dtype=half, stream="ipu", target=SMALL, **k),
    "truncated_normal": lambda **k: poprand.truncated_normal(99, stream="ipu", target=SMALL, **k),
    "bernoulli": lambda **k: poprand.bernoulli(100, stream="ipu", target=SMALL, **k),
    "dropout": lambda **k: poprand.dropout(np.ones(100, single), 0.5, stream="ipu", target=SMALL, **k),
}


@pytest.mark.parametrize("op", OPS)
def test_seeded_ops_restore_the_machine_and_others_move_it(op: str) -> None:
    poprand.set_seed((8, 9), 4, stream="ipu", target=SMALL)
    before = poprand.get_hw_seeds(SMALL)
    seeded = OPS[op](seed=(8, 9), seed_modifier=4)
    assert (poprand.get_hw_seeds(SMALL) == before).all()
    assert (OPS[op]() == seeded).all()
    moved = poprand.get_hw_seeds(SMALL)
    assert (moved != before).any()
    later = OPS[op]()
    poprand.set_hw_seeds(moved, SMALL)
    assert (OPS[op]() == later).all()


def test_how_far_an_op_moves_its_workers() -> None:
    """A worker draws for its whole grains and once more; workers of an empty tile draw nothing."""
    poprand.set_seed(3, stream="ipu", target=SMALL)
    elements = 2 * 13 + 1
    poprand.uniform(elements, stream="ipu", target=SMALL, tile_mapping=[[(0, elements)]])
    states = poprand.get_hw_seeds(SMALL).view(np.uint64)
    for worker in range(6):
        draws = len(range(worker, 13, 6)) + 1
        _, state = oracle.outputs(oracle.ipu_state(3, 0, 0, worker), draws)
        assert tuple(states[0, worker].tolist()) == state
        assert tuple(states[1, worker].tolist()) == oracle.ipu_state(3, 0, 1, worker)


def test_hardware_seeds_are_the_registers() -> None:
    poprand.set_seed((42, 0), stream="ipu")
    registers = poprand.get_hw_seeds()
    assert registers.shape == (1472, 6, 4)
    assert registers.dtype == np.uint32
    s0, s1 = oracle.ipu_state(42, 0, 9, 3)
    assert registers[9, 3].tolist() == [s0 & 0xFFFFFFFF, s0 >> 32, s1 & 0xFFFFFFFF, s1 >> 32]
