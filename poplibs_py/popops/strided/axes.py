"""The axes that a strided operation is walked along: ordered for memory, merged where they can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

Blocks = tuple[int, ...] | None


@dataclass(frozen=True)
class Axis:
    """One axis of the walk: its extent, and for each operand the stride in bytes and the blocks of scales."""

    extent: int
    strides: tuple[int, ...]
    blocks: tuple[int, ...]
    scale_strides: tuple[int, ...]

    def merges(self, inner: Axis) -> bool:
        """Whether this axis and the next one in can be walked as one."""
        adjacent = all(o == inner.extent * i for o, i in zip(self.strides, inner.strides, strict=True))
        return adjacent and all(b >= inner.extent for b in inner.blocks)

    def merged(self, inner: Axis) -> Axis:
        """The axis that stands for both."""
        blocks = tuple(b * inner.extent for b in self.blocks)
        return Axis(self.extent * inner.extent, inner.strides, blocks, self.scale_strides)

    @property
    def descends(self) -> bool:
        """Whether it is better walked from its other end: no scale changes along it."""
        ahead = next((s for s in reversed(self.strides) if s), 0)
        return ahead < 0 and all(b >= self.extent for b in self.blocks)


def walked(shape: tuple[int, ...], strides: Sequence[tuple[int, ...]], blocks: Sequence[Blocks], outputs: int,
           in_order: bool) -> tuple[list[Axis], list[int]]:
    """Return the axes of the walk, and for each operand the offset in bytes of the element that it begins with.

    Parameters
    ----------
    shape : tuple of int
    strides, blocks : sequence
        Strides in bytes and extents of the blocks of scales, of each operand: inputs, then outputs, which count most.
    outputs : int
        How many of them are outputs.
    in_order : bool
        Walk in C order, for what belongs to places; otherwise as the operands lie in memory.
    """
    axes = _axes(shape, strides, blocks)
    firsts = [0] * len(strides)
    if not in_order:
        for d, axis in enumerate(axes):
            if axis.descends:
                firsts = [f + (axis.extent - 1) * s for f, s in zip(firsts, axis.strides, strict=True)]
                axes[d] = replace(axis, strides=tuple(-s for s in axis.strides))
        leading = [*range(len(strides) - outputs, len(strides)), *range(len(strides) - outputs)]
        axes.sort(key=lambda axis: [-abs(axis.strides[i]) for i in leading])
    merged: list[Axis] = []
    for axis in axes:
        if merged and merged[-1].merges(axis):
            merged[-1] = merged[-1].merged(axis)
        else:
            merged.append(axis)
    return merged, firsts


def _axes(shape: tuple[int, ...], strides: Sequence[tuple[int, ...]], blocks: Sequence[Blocks]) -> list[Axis]:
    scale_strides = [_scale_strides(shape, b) for b in blocks]
    full = [b or shape for b in blocks]
    return [
        Axis(n, tuple(s[d] for s in strides), tuple(b[d] for b in full), tuple(s[d] for s in scale_strides))
        for d, n in enumerate(shape) if n != 1
    ]


def _scale_strides(shape: tuple[int, ...], blocks: Blocks) -> list[int]:
    """How far apart the exponents of neighbouring blocks lie in their C-contiguous array."""
    if blocks is None:
        return [0] * len(shape)
    counts = [-(-n // b) for n, b in zip(shape, blocks, strict=True)]
    return [int(np.prod(counts[d + 1:], dtype=np.int64)) for d in range(len(shape))]
