"""How counts are lowered: histograms, how often each whole number is there, and sums of weights."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..formats import FP32, Array, Format
from ..kernels import Selection, select
from ..kernels.records import format_facts, kernel_format
from ..ops.one_kernel import OneKernel, shared
from ..program import Program, threads_for
from ._reduce import ITEM, THREAD_ELEMENTS, ReduceParams, filled_rows

_MOST_CELLS = 1 << 12  # of a histogram
_MOST_COUNTED = 1 << 31  # numbers of a share, whose counters are 32 bits
_LINE = 16  # counters
_HALVES = 2  # of a cell: below its level, and from it on


@lru_cache(maxsize=1024)
def lower_histogram(params: ReduceParams, bins: int, magnitudes: bool, threads: int) -> OneKernel:
    """Return the program of a histogram: its operands are the numbers, the counts and the levels."""
    p, selection = params, select("reduce", "histogram", "any")
    spec, tables = filled_rows(p)
    cells = 1 << (2 * bins - 1).bit_length()
    spec["magnitudes"], spec["cells"] = magnitudes, cells if cells <= _MOST_CELLS else 0
    return _counted(p, selection, spec, tables, bins, 3, threads, (lower_histogram, (p, bins, magnitudes, threads)))


@lru_cache(maxsize=1024)
def lower_bincount(params: ReduceParams, bins: int, weights: Any, threads: int) -> OneKernel:
    """Return the program of counts of whole numbers, all below `bins`: its operands are these and the counts.

    Where numbers have weights, of a format or a dtype of whole numbers, these are the third operand.
    """
    p = params
    spec, tables = filled_rows(p)
    _widen(p, spec)
    again = lower_bincount, (p, bins, weights, threads)
    if weights is None:
        return _counted(p, select("reduce", "bincount", "any"), spec, tables, bins, 2, threads, again)
    lane = FP32.name if isinstance(weights, Format) else _lane(weights)
    selection = select("reduce", "weighted", lane)
    spec["outputs"], spec["workspace"], spec["weight_bytes"] = bins, 3, weights.itemsize
    if isinstance(weights, Format) and weights != FP32:
        spec["before"]["from"], spec["before"]["to"] = format_facts(weights), format_facts(FP32)
        spec["decode_before"] = select("cast", "decode", f"{kernel_format(weights)}->{lane}").kernel.address
    elif not isinstance(weights, Format) and weights.name != lane:
        spec["decode_before"] = select("cast", "widen", f"{weights.name}->{lane}").kernel.address
    threads = min(threads_for(p.row, THREAD_ELEMENTS, threads), bins)
    program = Program((shared(selection.kernel, ITEM, spec, bins, threads),), 3, threads, selection.kernel.block[2],
                      8 * bins, tables=(spec, *tables))
    return OneKernel(p, program.executable(threads), selection, again, {"walk": "rows"}, p.way.kernel)


@lru_cache(maxsize=1024)
def lower_greatest(params: ReduceParams, threads: int) -> OneKernel:
    """Return the program that finds the greatest of whole numbers, in an int64 of each thread; see its kernel."""
    p, selection = params, select("reduce", "greatest", "any")
    spec, tables = filled_rows(p)
    _widen(p, spec)
    threads = threads_for(p.row, THREAD_ELEMENTS, threads)
    program = Program((shared(selection.kernel, ITEM, spec, p.row, threads),), 2, threads, selection.kernel.block[2],
                      tables=(spec, *tables))
    return OneKernel(p, program.executable(threads), selection, (lower_greatest, (p, threads)), {"walk": "rows"},
                     p.way.kernel)


def _lane(dtype: np.dtype[Any]) -> str:
    return "uint64" if dtype.kind == "u" else "int64"


def _widen(p: ReduceParams, spec: Array) -> None:
    if p.format.name != _lane(p.format):
        spec["decode"] = select("cast", "widen", f"{p.format.name}->{_lane(p.format)}").kernel.address


def _counted(p: ReduceParams, selection: Selection, spec: Array, tables: list[Array], bins: int, operands: int,
             threads: int, again: Any) -> OneKernel:
    """Counters of each share, then their sums."""
    several, near, arena = selection.kernel.block
    cells = int(spec["cells"][0])
    room = max(bins * (several if bins <= near else 1), bins + (_HALVES * several + 2) * cells if cells else 0)
    room = -(-room // _LINE) * _LINE
    threads = threads_for(p.row, max(THREAD_ELEMENTS, bins), threads)
    shares = max(threads, -(-p.row // _MOST_COUNTED))
    spec["outputs"], spec["segments"], spec["room"], spec["workspace"] = bins, shares, room, operands
    merge = select("reduce", "count_merge", "any").kernel
    steps = (shared(selection.kernel, ITEM, spec, p.row, shares),
             shared(merge, ITEM, spec, bins, threads_for(bins, THREAD_ELEMENTS, threads)))
    program = Program(steps, operands, threads, arena, 4 * room * shares, tables=(spec, *tables))
    return OneKernel(p, program.executable(threads), selection, again, {"walk": "rows"}, p.way.kernel)
