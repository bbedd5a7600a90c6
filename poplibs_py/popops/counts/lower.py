"""How counts are lowered: histograms, how often each whole number is there, and sums of weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import FP32, Array, Format
from ...kernels import Selection, select
from ...kernels.records import dtype_of
from ...memo import remembered
from ...ops.one_kernel import OneKernel, fill_cast, shared
from ...program import Program, rounded, threads_for
from ..reductions.lower import THREAD_ELEMENTS, ReduceParams, filled_rows

_SPEC, _ITEM = dtype_of("pop_counts"), dtype_of("pop_counts_item")
_MOST_CELLS = 1 << 12  # of a histogram
_MOST_COUNTED = 1 << 31  # numbers of a share, whose counters are 32 bits
_LINE = 16  # counters
_HALVES = 2  # of a cell: below its level, and from it on


@remembered()
def lower_histogram(params: ReduceParams, bins: int, magnitudes: bool, threads: int) -> OneKernel:
    """Return the program of a histogram: its operands are the numbers, the counts and the levels."""
    p, selection = params, select("reduce", "histogram", "any")
    spec, tables = _filled(p, bins, 3)
    cells = 1 << (2 * bins - 1).bit_length()
    spec["magnitudes"], spec["cells"] = magnitudes, cells if cells <= _MOST_CELLS else 0
    return _counted(p, selection, spec, tables, threads, (lower_histogram, (p, bins, magnitudes, threads)))


@remembered()
def lower_bincount(params: ReduceParams, bins: int, weights: Any, threads: int) -> OneKernel:
    """Return the program of counts of whole numbers, all below `bins`, which depends on data: a power of two.

    Its operands are these, the counts, and how many bins the result has. Where numbers have weights, of a format or a
    dtype of whole numbers, these are the fourth operand.
    """
    p = params
    spec, tables = _filled(p, bins, 3 + (weights is not None))
    spec["bound"] = 2
    again = lower_bincount, (p, bins, weights, threads)
    if weights is None:
        return _counted(p, select("reduce", "bincount", "any"), spec, tables, threads, again)
    lane = FP32.name if isinstance(weights, Format) else _lane(weights)
    selection = select("reduce", "weighted", lane)
    spec["weight_bytes"] = weights.itemsize
    if isinstance(weights, Format) and weights != FP32:
        fill_cast(spec, weights, 0, False, "weights", "decode_weights")
    elif not isinstance(weights, Format) and weights.name != lane:
        spec["decode_weights"] = select("cast", "widen", f"{weights.name}->{lane}").kernel.address
    threads = min(threads_for(p.row, THREAD_ELEMENTS, threads), bins)
    program = Program((shared(selection.kernel, _ITEM, spec, bins, threads),), 4, threads, selection.kernel.block[2],
                      8 * bins, tables=(spec, *tables))
    return OneKernel(p, program.executable(threads), selection, again, {"walk": "rows"}, p.way.kernel)


@remembered()
def lower_greatest(params: ReduceParams, threads: int) -> OneKernel:
    """Return the program that finds the greatest of whole numbers, in an int64 of each thread; see its kernel."""
    p, selection = params, select("reduce", "greatest", "any")
    spec, tables = _filled(p, 0, 2)
    threads = threads_for(p.row, THREAD_ELEMENTS, threads)
    program = Program((shared(selection.kernel, _ITEM, spec, p.row, threads),), 2, threads, selection.kernel.block[2],
                      tables=(spec, *tables))
    return OneKernel(p, program.executable(threads), selection, (lower_greatest, (p, threads)), {"walk": "rows"},
                     p.way.kernel)


def _lane(dtype: np.dtype[Any]) -> str:
    return "uint64" if dtype.kind == "u" else "int64"


def _filled(p: ReduceParams, bins: int, workspace: int) -> tuple[Array, list[Array]]:
    """The record of counts in so many bins, and the tables that it points to."""
    row, tables = filled_rows(p)
    if not isinstance(p.format, Format) and p.format.name != _lane(p.format):
        row["decode"] = select("cast", "widen", f"{p.format.name}->{_lane(p.format)}").kernel.address
    spec = np.zeros(1, _SPEC)
    spec["row"], spec["bins"], spec["workspace"], spec["bound"] = row, bins, workspace, -1
    return spec, tables


def _counted(p: ReduceParams, selection: Selection, spec: Array, tables: list[Array], threads: int,
             again: Any) -> OneKernel:
    """Counters of each share, then their sums."""
    several, near, arena = selection.kernel.block
    cells, bins, operands = (int(spec[name][0]) for name in ("cells", "bins", "workspace"))
    room = max(bins * (several if bins <= near else 1), bins + (_HALVES * several + 2) * cells if cells else 0)
    room = rounded(room, _LINE)
    threads = threads_for(p.row, max(THREAD_ELEMENTS, bins), threads)
    shares = max(threads, -(-p.row // _MOST_COUNTED))
    spec["shares"], spec["room"] = shares, room
    merge = select("reduce", "count_merge", "any").kernel
    steps = (shared(selection.kernel, _ITEM, spec, p.row, shares),
             shared(merge, _ITEM, spec, bins, threads_for(bins, THREAD_ELEMENTS, threads)))
    program = Program(steps, operands, threads, arena, 4 * room * shares, tables=(spec, *tables))
    return OneKernel(p, program.executable(threads), selection, again, {"walk": "rows"}, p.way.kernel)
