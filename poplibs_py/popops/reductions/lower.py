"""How a reduction is lowered: params to a program of the reduce family.

What a reduction asks for, formats, shape, strides, axes, is a `ReduceParams`, and nothing else decides. The program's
operands are the operand and the result; where threads share a row the states of its parts go through the
workspace.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...formats import FP32, Array, Format
from ...kernels import Kernel, kernels, select
from ...kernels.records import dtype_of, kernel_format, numbers_of
from ...log import tell
from ...memo import remembered
from ...ops import merged_axes
from ...ops.one_kernel import OneKernel, fill_cast, shared
from ...program import Executable, Program, threads_for

BLOCK = 512
"""Elements of a row that are reduced in FP32: POP_BLOCK."""

THREAD_ELEMENTS = 1 << 16
"""Elements that are worth a thread."""

ITEM = dtype_of("pop_reduce_item")
"""A record of work."""

_AXIS, _SPEC = dtype_of("pop_reduce_axis"), dtype_of("pop_reduce")
_STATES, _FINISHES = numbers_of("state"), numbers_of("finish")
_NARROW = 8  # columns: fewer are gathered
_STATE_BYTES = 16  # of a segment, in the workspace


class Way(NamedTuple):
    """What is reduced how: the kernel's operation, what blocks come to, and what becomes of that."""

    kernel: str
    state: str
    finish: str


class ReduceParams(NamedTuple):
    """What a reduction computes, and how its operand lies. The result is in C order.

    Attributes
    ----------
    way : Way
    format : Format or numpy.dtype
        Of the operand's elements; integers and truth values have running reductions alone.
    exponent : int
        Of the scale that they share.
    shape, strides : tuple of int
        Of the operand, in bytes.
    axes : tuple of int
        That are reduced, ascending.
    result : Format or numpy.dtype
        Of the result's elements.
    result_exponent : int
        Of their scale.
    scale : float
        What the finish multiplies the state by, or adds to a logarithm.
    update : bool
        Whether what the result holds is added.
    """

    way: Way
    format: Any
    exponent: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    axes: tuple[int, ...]
    result: Any
    result_exponent: int
    scale: float
    update: bool

    @property
    def row(self) -> int:
        """Elements that are reduced to one."""
        return prod(self.shape[d] for d in self.axes)

    def __str__(self) -> str:
        return f"{self.shape} over {self.axes}, {self.format} to {self.result}"


class _Axis(NamedTuple):
    extent: int
    stride: int
    out: int = 0


def _merged(axes: list[_Axis]) -> list[_Axis]:
    return [_Axis(n, *steps) for n, steps in merged_axes((n, (stride, out)) for n, stride, out in axes)]


@remembered()
def lower(params: ReduceParams, threads: int) -> OneKernel:
    """Return the program of a reduction of one element or more, on at most so many threads."""
    p = params
    kept: list[_Axis] = []
    step = 1
    for d in reversed(range(len(p.shape))):
        if d not in p.axes:
            kept.insert(0, _Axis(p.shape[d], p.strides[d], step))
            step *= p.shape[d]
    reduced = _merged([_Axis(p.shape[d], p.strides[d]) for d in p.axes]) or [_Axis(1, p.format.itemsize)]
    kept = _merged(kept) or [_Axis(1, 0, 1)]
    named = p.way.kernel, kernel_format(p.format)
    direct = not p.exponent and any((k.op, k.formats) == named for k in kernels("reduce"))
    column = next((i for i, axis in enumerate(kept) if axis.stride == p.format.itemsize and axis.extent >= _NARROW), -1)
    if p.way.state.startswith("arg") and not direct:
        column = -1
    if column >= 0:
        kept.append(kept.pop(column))
    merge = select("reduce", "merge", "any").kernel
    selection = select("reduce", p.way.kernel, p.format.name if direct else FP32.name)
    spec, tables = _fill(p, kept, reduced, direct, column >= 0, merge.block[0])
    executable = _executable(p, spec, tables, selection.kernel, merge, kept, column >= 0, threads)
    walk = "columns" if column >= 0 else "rows" if spec["run"][0] >= p.row else "rows, gathered"
    program = OneKernel(params, executable, selection, (lower, (params, executable.threads)), {"walk": walk},
                        p.way.kernel)
    tell("popops", program)
    return program


def _fill(p: ReduceParams, kept: list[_Axis], reduced: list[_Axis], direct: bool, by_columns: bool,
          segment: int) -> tuple[Array, list[Array]]:
    """The record, and the tables that it points to; without segments a row is one."""
    spec, n = np.zeros(1, _SPEC), p.row
    tables = [np.array(axes, _AXIS) for axes in (kept, reduced)]
    for name, table in zip(("kept", "reduced"), tables, strict=True):
        spec[name], spec[f"{name}_count"] = table.ctypes.data, len(table)
    inner = reduced[-1]
    spec["n"], spec["outputs"] = n, prod(axis.extent for axis in kept)
    spec["run"] = inner.extent if inner.stride == p.format.itemsize or inner.extent == 1 else 1
    spec["segments"] = -(-n // segment) if segment else 1
    spec["by_columns"], spec["update"] = by_columns, p.update
    spec["state"], spec["finish"], spec["scale"] = _STATES[p.way.state], _FINISHES[p.way.finish], p.scale
    spec["code_bytes"], spec["out_bytes"] = p.format.itemsize, p.result.itemsize
    if not direct:
        fill_cast(spec, p.format, p.exponent, False, "read", "decode")
    if isinstance(p.result, Format) and (p.result != FP32 or p.result_exponent):
        fill_cast(spec, p.result, p.result_exponent, True, "write", "encode")
        fill_cast(spec, p.result, p.result_exponent, False, "before", "decode_before")
    return spec, tables


@remembered()
def lower_scan(params: ReduceParams, threads: int) -> OneKernel:
    """Return the program of a running reduction, whose result has the operand's shape."""
    p, step = params, 1
    out: list[int] = []
    for n in reversed(p.shape):
        out.insert(0, step)
        step *= n
    axes = [_Axis(*lies) for lies in zip(p.shape, p.strides, out, strict=True)]
    reduced = _merged([axes[d] for d in p.axes]) or [_Axis(1, p.format.itemsize, 1)]
    kept = _merged([axis for d, axis in enumerate(axes) if d not in p.axes]) or [_Axis(1, 0, 1)]
    column = next((i for i, axis in enumerate(kept) if axis.stride == p.format.itemsize and axis.extent >= _NARROW), -1)
    if column >= 0:
        kept.append(kept.pop(column))
    lane = "float32" if isinstance(p.format, Format) else "uint64" if p.format.kind == "u" else "int64"
    selection = select("reduce", "scan", lane)
    spec, tables = _fill(p, kept, reduced, lane != "float32" or (p.format == FP32 and not p.exponent), column >= 0, 0)
    if lane != "float32" and p.format.name != lane:
        spec["decode"] = select("cast", "widen", f"{p.format.name}->{lane}").kernel.address
    units, strip = int(spec["outputs"][0]), selection.kernel.block
    if column >= 0:
        units = units // kept[-1].extent * -(-kept[-1].extent // strip[1])
    threads = threads_for(prod(p.shape), THREAD_ELEMENTS, min(threads, units))
    scanned = shared(selection.kernel, ITEM, spec, units, threads)
    program = Program((scanned,), 2, threads, strip[2], tables=(spec, *tables))
    return OneKernel(params, program.executable(threads), selection, (lower_scan, (params, threads)),
                     {"walk": "columns" if column >= 0 else "rows"}, p.way.kernel)


def filled_rows(p: ReduceParams) -> tuple[Array, list[Array]]:
    """Return the record of what goes through all elements of an operand, and the tables that it points to."""
    reduced = _merged([_Axis(n, s) for n, s in zip(p.shape, p.strides, strict=True)]) or [_Axis(1, p.format.itemsize)]
    direct = not isinstance(p.format, Format) or (p.format == FP32 and not p.exponent)
    return _fill(p, [_Axis(1, 0, 1)], reduced, direct, False, 0)


def _executable(p: ReduceParams, spec: Array, tables: list[Array], kernel: Kernel, merge: Kernel, kept: list[_Axis],
                by_columns: bool, threads: int) -> Executable:
    segments, outputs = int(spec["segments"][0]), int(spec["outputs"][0])
    rows = outputs // kept[-1].extent * -(-kept[-1].extent // merge.block[1]) if by_columns else outputs
    threads = threads_for(p.row * outputs, THREAD_ELEMENTS, min(threads, rows * segments))
    whole = segments == 1 or rows % threads == 0
    spec["whole_rows"] = whole
    steps = [shared(kernel, ITEM, spec, rows if whole else rows * segments, threads)]
    if not whole:
        steps.append(shared(merge, ITEM, spec, outputs, min(threads, outputs)))
    buffered = by_columns or spec["decode"][0] or spec["run"][0] < p.row
    program = Program(tuple(steps), 2, threads, merge.block[2] if buffered else 0,
                      0 if whole else _STATE_BYTES * segments * outputs, tables=(spec, *tables),
                      light=p.way.state != "log")
    return program.executable(threads)
