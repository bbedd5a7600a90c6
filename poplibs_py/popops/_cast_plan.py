"""The plan of a cast: dimensions merged, kernels chosen, elements shared out between threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..formats import FORMATS, FP32, Format
from ..kernels import Kernel, select
from ..kernels.records import dtype_of, format_facts, numbers_of
from ..log import tell
from ..program import Executable

__all__ = ["OVERFLOWS", "ROUNDINGS", "THREAD_ELEMENTS", "CastPlan"]

Array = np.ndarray[Any, Any]
Blocks = tuple[int, ...] | None

ROUNDINGS, OVERFLOWS = numbers_of("rounding"), numbers_of("overflow")

THREAD_ELEMENTS = 1 << 16
"""Elements that are worth a thread: 2 to 13 microseconds of work, where a thread that waits costs one or two. Measured:
128 Ki elements are 1.4 to 1.8 times faster with two."""

_SHARE_UNIT = 1 << 12  # shares begin at a multiple of this: a cache line of any format, a row of the random stream
_SCRATCH_BYTES = 20 << 10
_DIMS = 64

# The records of kernels/cast/cast.h.
_FORMAT = dtype_of("pop_format")
_SCALES = np.dtype([("block", np.int64, _DIMS), ("stride", np.int64, _DIMS), ("varies", np.int64)])
_LAYOUT = np.dtype(
    [
        ("source", _FORMAT), ("target", _FORMAT),
        ("rounding", np.int32), ("overflow", np.int32), ("random_bits", np.int32),
        ("ndim", np.int32), ("in_bytes", np.int32), ("out_bytes", np.int32),
        ("decode", np.uint64), ("encode", np.uint64), ("draw", np.uint64),
        ("extents", np.int64, _DIMS), ("in_strides", np.int64, _DIMS), ("out_strides", np.int64, _DIMS),
        ("in_scales", _SCALES), ("out_scales", _SCALES),
    ],
    align=True,
)  # fmt: skip
_ITEM = np.dtype([("first", np.int64), ("count", np.int64)])


@dataclass(frozen=True)
class Axis:
    """One dimension of the walk: its extent, and for input and output the stride in bytes and the blocks of scales."""

    extent: int
    strides: tuple[int, int]
    blocks: tuple[int, int]
    scale_strides: tuple[int, int]

    def merges(self, inner: Axis) -> bool:
        """Whether this axis and the next one in can be walked as one."""
        adjacent = all(o == inner.extent * i for o, i in zip(self.strides, inner.strides, strict=True))
        return adjacent and all(b >= inner.extent for b in inner.blocks)

    def merged(self, inner: Axis) -> Axis:
        """The axis that stands for both."""
        blocks = (self.blocks[0] * inner.extent, self.blocks[1] * inner.extent)
        return Axis(self.extent * inner.extent, inner.strides, blocks, self.scale_strides)


@dataclass(frozen=True)
class CastPlan:
    """What `cast` runs: an executable, the record that its items share, the target's dtype, its kernels' names."""

    executable: Executable
    layout: Array
    dtype: np.dtype[Any]
    kernel: str

    @classmethod
    def make(cls, source: Format | None, shape: tuple[int, ...], in_strides: tuple[int, ...], in_blocks: Blocks,
             target: Format, out_strides: tuple[int, ...], out_blocks: Blocks, rounding: str, overflow: str,
             random_bits: int, threads: int) -> CastPlan:
        """Plan the cast from `source` (None for float64) to `target`."""
        axes = _axes(shape, (in_strides, out_strides), (in_blocks, out_blocks))
        if rounding != "stochastic":  # random words belong to places in C order; else memory order is faster
            axes.sort(key=lambda axis: (-abs(axis.strides[1]), -abs(axis.strides[0])))
        in_bytes = source.itemsize if source else 8
        axes = _merged(axes) or [Axis(1, (in_bytes, target.itemsize), (1, 1), (0, 0))]
        layout = np.zeros(1, _LAYOUT)
        layout["source"], layout["target"] = format_facts(source or target), format_facts(target)
        layout["rounding"], layout["overflow"] = ROUNDINGS[rounding], OVERFLOWS[overflow]
        layout["random_bits"] = random_bits
        layout["in_bytes"], layout["out_bytes"], layout["ndim"] = in_bytes, target.itemsize, len(axes)
        decoder, encoder = _decoder(source), _encoder(target)
        layout["decode"], layout["encode"] = (k.address if k else 0 for k in (decoder, encoder))
        layout["draw"] = select("cast", "draw", "uint32").kernel.address
        for d, axis in enumerate(axes):
            layout["extents"][0, d] = axis.extent
            layout["in_strides"][0, d], layout["out_strides"][0, d] = axis.strides
            for i, key in enumerate(("in_scales", "out_scales")):
                layout[key]["block"][0, d] = axis.blocks[i]
                layout[key]["stride"][0, d] = axis.scale_strides[i]
        layout["in_scales"]["varies"], layout["out_scales"]["varies"] = in_blocks is not None, out_blocks is not None
        direct = (len(axes) == 1 and axes[0].strides == (in_bytes, target.itemsize) and rounding != "stochastic"
                  and FP32 in (source, target))
        count = int(np.prod(shape, dtype=np.int64))
        executable = _executable(count, threads, 0 if direct else _SCRATCH_BYTES)
        kernel = ", ".join(f"{k.name} ({k.level})" for k in (decoder, encoder) if k) or "a copy"
        tell("popops", f"cast {shape} {source or 'float64'} to {target}, {rounding}: {kernel}; {len(axes)} axes")
        return cls(executable, layout, target.dtype or target.code_dtype, kernel)


def _axes(shape: tuple[int, ...], strides: tuple[tuple[int, ...], tuple[int, ...]],
          blocks: tuple[Blocks, Blocks]) -> list[Axis]:
    scale_strides = [_scale_strides(shape, b) for b in blocks]
    full = [b or shape for b in blocks]
    return [
        Axis(n, (strides[0][d], strides[1][d]), (full[0][d], full[1][d]), (scale_strides[0][d], scale_strides[1][d]))
        for d, n in enumerate(shape) if n != 1
    ]


def _scale_strides(shape: tuple[int, ...], blocks: Blocks) -> list[int]:
    """How far apart the exponents of neighbouring blocks lie in their C-contiguous array."""
    if blocks is None:
        return [0] * len(shape)
    counts = [-(-n // b) for n, b in zip(shape, blocks, strict=True)]
    return [int(np.prod(counts[d + 1:], dtype=np.int64)) for d in range(len(shape))]


def _merged(axes: list[Axis]) -> list[Axis]:
    found: list[Axis] = []
    for axis in axes:
        if found and found[-1].merges(axis):
            found[-1] = found[-1].merged(axis)
        else:
            found.append(axis)
    return found


def _decoder(source: Format | None) -> Kernel | None:
    name = "float64" if source is None else _kernel_name(source)
    return None if name == "float32" else select("cast", "decode", f"{name}->float32").kernel


def _encoder(target: Format) -> Kernel | None:
    name = _kernel_name(target)
    return None if name == "float32" else select("cast", "encode", f"float32->{name}").kernel


def _kernel_name(fmt: Format) -> str:
    """The presets have kernels of their own; every other layout is data to the generic ones."""
    return fmt.name if fmt.dtype is not None and fmt in FORMATS else "any"


def _executable(count: int, threads: int, scratch_bytes: int) -> Executable:
    parts = max(1, min(threads, count // THREAD_ELEMENTS))
    units = -(-count // _SHARE_UNIT)
    firsts = np.array([p * units // parts * _SHARE_UNIT for p in range(parts)])
    items = np.zeros(parts, _ITEM)
    items["first"] = firsts
    items["count"] = np.diff(np.append(firsts, count))
    vertex = select("cast", "walk", "any").kernel.address
    return Executable([[(vertex, items, np.arange(parts))]], 6, parts, scratch_bytes, 0, parts)
