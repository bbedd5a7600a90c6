"""A plan's work done slowly and obviously in NumPy: what the compiled program must equal bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ...formats import FP16, Array, Format
from ...popops.elementwise.cast import cast
from .grid import of_groups
from .work import ConvWork


def fused_multiply_add(x: Array, y: Array, z: Array) -> Array:
    """Return x * y + z for FP32 arrays, rounded once to nearest even.

    The product is exact in float64. Their sum is rounded to odd there, so that rounding it again to FP32 gives what one
    rounding would (Boldo and Melquiond, IEEE Transactions on Computers 57(4), 2008).
    """
    with np.errstate(all="ignore"):
        product = x.astype(np.float64) * y.astype(np.float64)
        addend = z.astype(np.float64)
        total = product + addend
        part = total - product
        error = (product - (total - part)) + (addend - part)
        even = (total.view(np.int64) & 1) == 0
        away = np.where((error > 0) == (total > 0), 1, -1)
        odd = np.where(np.isfinite(total) & (error != 0) & even, total.view(np.int64) + away, total.view(np.int64))
        return odd.view(np.float64).astype(np.float32)


def rounded_to(sums: Array, f: Format) -> Array:
    """Return FP32 sums rounded to a format, in NumPy; to FP32 they are as they are."""
    if f != FP16:
        return sums
    with np.errstate(over="ignore"):
        half: Array = sums.astype(np.float16).astype(np.float32)
    return half


def interpret(work: ConvWork, x: Array, w: Array, seed: int | None = None, bias: Array | None = None,
              activate: Callable[[Array], Array] | None = None) -> Array:
    """Return the result [batch, groups, out_channels, outputs...]: one piece, one reduction stage, one turn at a time.

    Parameters
    ----------
    work : ConvWork
        What the tiles do.
    x, w : numpy.ndarray of float32
        Values of the operands, in the shapes of `ConvWork.shapes`.
    seed : int, optional
        Of the stochastic rounding of what tiles exchange, and of the result.
    bias : numpy.ndarray of float32, optional
        Values of the result's format, broadcast to the result's shape.
    activate : callable, optional
        The activation, of FP32 arrays.
    """
    sums, rounds = _sums(work, x, w, seed)
    out = work.out

    def rounded(sums: Array, draw: int) -> Array:
        if seed is None or out != FP16:
            return rounded_to(sums, out)
        round_at_random(sums, seed, draw)
        return sums

    sums = rounded(sums, 0)
    with np.errstate(all="ignore"):
        if bias is not None:
            sums = rounded(sums + _channels_last(np.broadcast_to(bias, work.shapes["out"])), rounds + 1)
        if activate is not None:
            sums = rounded(activate(sums), rounds + 2)
        return np.moveaxis(sums.astype(out.dtype), (0, -1), (1, 2))


def _channels_last(x: Array) -> Array:
    """[batch, groups, channels, field...] as sums lie: [groups, batch, field..., channels]."""
    return np.moveaxis(x, (1, 2), (0, -1))


def _sums(work: ConvWork, x: Array, w: Array, seed: int | None) -> tuple[Array, int]:
    """The reduced sums [groups, batch, outputs..., channels], and how many stochastic roundings there have been."""
    shape = _channels_last(np.empty(work.shapes["out"], np.int8)).shape
    reduced = np.zeros(shape, np.float32)
    rounds = 0
    for turn in range(work.turns):
        if turn == 0 or work.depth_turns > 1:
            partials = np.zeros((work.parts, *shape), np.float32)
        for piece in work.of_turn(turn):
            for group in range(*piece["groups"] * work.factor):
                if group < work.params.groups:
                    _multiply(work, piece, group, x, w, partials[int(piece["part"]), group], seed)
        if work.depth_turns == 1 and turn < work.turns - 1:
            continue
        if work.direct:
            return partials[0], 0
        rounds = _reduce(work, partials, reduced, turn > 0 and work.depth_turns > 1, seed, rounds)
    return reduced, rounds


def round_at_random(sums: Array, seed: int, draw: int) -> None:
    """Round FP32 sums in place to FP16 values, with random bits of their own for each `draw`."""
    sums[...] = cast(sums, FP16, rounding="stochastic", seed=(seed + draw) % 2**64).astype(np.float32)


def _multiply(work: ConvWork, piece: Any, group: int, x: Array, w: Array, partials: Array, seed: int | None) -> None:
    """One group of a piece: its partial sums [batch, outputs..., channels], all of them at once, link by link."""
    made, summed = work.channels_out, work.channels_in
    outs, ins = (of_groups(piece[name][None], work.factor, prod(extents))[group % work.factor, 0]
                 for name, extents in (("outs", made), ("ins", summed)))
    if outs[0] == outs[1] or (ins[0] == ins[1] and prod(summed)):
        return
    batch, channel, outputs = _outputs(work, piece, outs, made)
    sums = np.zeros(batch.shape, np.float32)
    ranges = [range(*work.dims[d].kept(tuple(piece["kernel"][d]))) for d in work.taps]
    lap = (ins[1] - ins[0]) * prod(len(r) for r in ranges[len(ranges) - work.joined :])
    at = 0
    for taps in product(*ranges):
        for c in range(*ins):
            *inner, own = (int(i) for i in np.unravel_index(c, summed))
            elements = dict(zip(work.taps, taps, strict=True))
            for d, element in zip(work.inner, inner, strict=True):
                elements[d] = element + work.dims[d].elements[0]
            met = [dim.meet(out, elements[d]) for d, (dim, out) in enumerate(zip(work.dims, outputs, strict=True))]
            given = _at(x, (batch, group, own), [i for i, _ in met])
            weights = _at(w, (group, channel, own), [k for _, k in met])
            left_out = np.any([np.minimum(i, k) == -2 for i, k in met], axis=0)
            sums = np.where(left_out, sums, fused_multiply_add(given, weights, sums))
            at = at % lap + 1
            if at % work.chunk == 0 or at == lap:
                sums = rounded_to(sums, work.partial)
    if seed is None:
        sums = rounded_to(sums, work.between)
    places = [dim.first + dim.step * out for dim, out in zip(work.dims, outputs, strict=True)]
    partials[(batch, *places, channel)] = sums


def _outputs(work: ConvWork, piece: Any, outs: Array, made: tuple[int, ...]) -> tuple[Array, Array, list[Array]]:
    """Every output of a piece: its entry of the batch, its channel, and its index along each dimension."""
    ranges = [np.arange(*r) for r in (piece["batch"], *piece["field"], outs)]
    *positions, channels = (r.ravel() for r in np.meshgrid(*ranges, indexing="ij"))
    index = {0: channels, **{d + 1: np.zeros_like(channels) for d in range(len(work.dims))}}
    for merged, flat in zip(work.positions, positions, strict=True):
        if merged:
            index.update(zip(merged, np.unravel_index(flat, [work.position_extent(i) for i in merged]), strict=True))
    *flattened, own = np.unravel_index(channels, made)
    index.update((d + 1, out) for d, out in zip(work.flattened_out, flattened, strict=True))
    batch, channel = (own, index[0]) if work.swapped else (index[0], own)
    return batch, channel, [index[d + 1] for d in range(len(work.dims))]


def _at(operand: Array, where: tuple[Any, ...], elements: list[Array]) -> Array:
    """Values at these elements of the field; zeros where an element is -1."""
    there = np.all([e >= 0 for e in elements], axis=0)
    values: Array = np.where(there, operand[(*where, *(np.maximum(e, 0) for e in elements))], np.float32(0))
    return values


def _reduce(work: ConvWork, partials: Array, reduced: Array, accumulate: bool, seed: int | None, rounds: int) -> int:
    """Add the partials up in the plan's stages; return how many stochastic roundings there have been."""

    def travelling(sums: Array) -> Array:
        nonlocal rounds
        if seed is None or work.between != FP16:
            return rounded_to(sums, work.between)
        rounds += 1
        round_at_random(sums, seed, rounds)
        return sums

    if seed is not None:
        partials = travelling(partials)
    stages = work.stages or (1,)
    with np.errstate(all="ignore"):
        for i, fan_in in enumerate(stages):
            runs = [partials[j : j + fan_in] for j in range(0, len(partials), fan_in)]
            sums = np.stack([_added(run) for run in runs])
            if i == len(stages) - 1 and accumulate:
                sums = reduced + (rounded_to(sums, work.between) if seed is None else sums)
            partials = travelling(sums)
    reduced[...] = partials[0]
    return rounds


def _added(partials: Array) -> Array:
    total = partials[0]
    for part in partials[1:]:
        total = total + part
    return np.asarray(total)
