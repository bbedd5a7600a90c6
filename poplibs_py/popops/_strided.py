"""How an elementwise operation is lowered: params to a program of the strided driver.

What an operation asks for, formats, shape, strides, rounding, is a `StridedParams`, and nothing else decides. The
program's operands are the inputs, the outputs, the exponents of those whose scales vary, in the same order, and the
seed where rounding is stochastic; all else is in records that the program holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..formats import FORMATS, FP32, Format
from ..kernels import Kernel, kernels, select
from ..kernels.records import dtype_of, format_facts, numbers_of
from ..log import tell
from ..planner import Explanation
from ..program import ComputeSet, Executable, Program, Segment, threads_for
from ..target import LinearMapping
from ._axes import Axis, Blocks, walked

__all__ = ["OVERFLOWS", "ROUNDINGS", "THREAD_ELEMENTS", "StridedOperand", "StridedParams", "StridedProgram", "lower"]

Array = np.ndarray[Any, Any]

ROUNDINGS, OVERFLOWS = numbers_of("rounding"), numbers_of("overflow")

THREAD_ELEMENTS = 1 << 16
"""Elements that are worth a thread: 2 to 13 microseconds of work, where a thread that waits costs one or two. Measured:
128 Ki elements are 1.4 to 1.8 times faster with two."""

_SHARE_UNIT = 1 << 12  # shares begin at a multiple of this: a cache line of any format, a row of the random stream
_CHUNK = 1 << 10
_SCRATCH_BYTES = 24 << 10  # buffers that leave room for the operands in a first-level cache
_STACK_BYTES = 4096  # POP_STRIDED_STACK: a vertex has so much without asking
_SHORT_ROW = 256  # shorter rows are taken together
_WHOLE = np.iinfo(np.int64).max

_DIRECT, _GATHERED, _REPEATED = range(3)

_AXIS, _BLOCK, _SPEC = dtype_of("pop_strided_axis"), dtype_of("pop_strided_block"), dtype_of("pop_strided")
_ITEM = dtype_of("pop_strided_item")


class StridedOperand(NamedTuple):
    """One operand of a strided operation. A tuple, as its hash is taken wherever a program is found again.

    Attributes
    ----------
    format : Format or None
        Of its elements; None for float64, which only the identity's input may be.
    strides : tuple of int
        In bytes, one for each axis; 0 where it is broadcast.
    scale : int
        Exponent of the scale that all elements share, where there are no blocks.
    blocks : tuple of int or None
        Extents of the blocks that share a scale, where scales vary.
    """

    format: Format | None
    strides: tuple[int, ...]
    scale: int = 0
    blocks: Blocks = None

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.format.itemsize if self.format else 8


class StridedParams(NamedTuple):
    """What a strided operation computes, and how its operands lie.

    Attributes
    ----------
    op : str or None
        The elementwise kernel's operation; None for the identity.
    shape : tuple of int
        Of all operands, broadcast.
    inputs, outputs : tuple of StridedOperand
    rounding, overflow : str
        How results become codes.
    random_bits : int
        Of each stochastic rounding.
    """

    op: str | None
    shape: tuple[int, ...]
    inputs: tuple[StridedOperand, ...]
    outputs: tuple[StridedOperand, ...]
    rounding: str
    overflow: str
    random_bits: int = 31

    @property
    def operands(self) -> tuple[StridedOperand, ...]:
        """Inputs, then outputs."""
        return self.inputs + self.outputs

    def __str__(self) -> str:
        formats = [", ".join(str(o.format or "float64") for o in side) for side in (self.inputs, self.outputs)]
        return f"{self.shape} {formats[0]} to {formats[1]}"


@dataclass(frozen=True)
class StridedProgram:
    """What runs, ready: the executable, and for a reader its kernels' names and the axes that are left of the shape."""

    params: StridedParams
    executable: Executable
    kernel: str
    axes: int
    mapping: LinearMapping | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return lower, (self.params, self.executable.threads, self.mapping)

    def explain(self) -> Explanation:
        """Return what was decided."""
        p = self.params
        return Explanation(f"{p.op or 'cast'} {p}", {
            "kernels": self.kernel,
            "rounding": f"{p.rounding}, {p.overflow} where a number is too large",
            "axes": f"{self.axes} of {len(p.shape)}",
            "threads": str(self.executable.threads),
        })

    def __str__(self) -> str:
        return self.explain().words()


@lru_cache(maxsize=1024)
def lower(params: StridedParams, threads: int, mapping: LinearMapping | None = None) -> StridedProgram:
    """Return the program of a strided operation, on at most so many threads.

    A modelled machine's tiles take the elements that a mapping gives them; this CPU's threads take equal shares.
    Elements are dealt out as they lie in memory, and in C order where random bits belong to places.
    """
    stochastic = params.rounding == "stochastic"
    axes, firsts = walked(params.shape, [o.strides for o in params.operands], [o.blocks for o in params.operands],
                          len(params.outputs), stochastic)
    sizes = tuple(o.itemsize for o in params.operands)
    axes = axes or [Axis(1, sizes, (1,) * len(sizes), (0,) * len(sizes))]
    kernel, codecs = _kernels(params)
    count = int(np.prod(params.shape, dtype=np.int64))
    spec = np.zeros(1, _SPEC)
    straddles = len(axes) > 1 and axes[-1].extent < _SHORT_ROW and not any(o.blocks for o in params.operands)
    spec["straddles"] = straddles
    modes = [_mode(i, params, axes, straddles) for i in range(len(sizes))]
    scratch_bytes = _lay_out(spec[0], params, modes, codecs, kernel is not None, count)
    tables = _fill(spec[0], params, axes, firsts, codecs)
    spec["kernel"] = kernel.address if kernel else 0
    if stochastic:
        spec["draw"] = select("cast", "draw", "uint32").kernel.address
    executable = _executable(spec, tables, params, count, threads, scratch_bytes, mapping)
    names = ", ".join(k.label for k in (codecs[0], kernel, *codecs[1:]) if k) or "a copy"
    program = StridedProgram(params, executable, names, len(axes), mapping)
    tell("popops", program)
    return program


def _kernels(params: StridedParams) -> tuple[Kernel | None, list[Kernel | None]]:
    """The kernel and the operands' codecs: none where the kernel takes the codes as they lie."""
    if params.op is not None and (kernel := _direct_kernel(params.op, params)) is not None:
        return kernel, [None] * len(params.operands)
    codecs = [_decoder(o.format) for o in params.inputs] + [_encoder(o.format) for o in params.outputs]
    if params.op is None:
        return None, codecs
    numbers = ",".join(["float32"] * len(params.inputs)) + "->" + ",".join(["float32"] * len(params.outputs))
    return select("elementwise", params.op, numbers).kernel, codecs


def _direct_kernel(op: str, params: StridedParams) -> Kernel | None:
    """The kernel that reads and writes the operands' own codes, rounding as IEEE 754 does; None where there is none."""
    plainly = (params.rounding, params.overflow) == ("nearest-even", "inf")
    if not plainly or any(o.scale or o.blocks for o in params.operands):
        return None
    read, written = (",".join(_kernel_name(o.format) for o in side) for side in (params.inputs, params.outputs))
    formats = f"{read}->{written}"
    found = "any" not in formats and any((k.op, k.formats) == (op, formats) for k in kernels("elementwise"))
    return select("elementwise", op, formats).kernel if found else None


def _decoder(source: Format | None) -> Kernel | None:
    name = _kernel_name(source)
    return None if name == "float32" else select("cast", "decode", f"{name}->float32").kernel


def _encoder(target: Format | None) -> Kernel | None:
    name = _kernel_name(target)
    return None if name == "float32" else select("cast", "encode", f"float32->{name}").kernel


def _kernel_name(fmt: Format | None) -> str:
    """The presets have kernels of their own; every other layout is data to the generic ones."""
    if fmt is None:
        return "float64"
    return fmt.name if fmt.dtype is not None and fmt in FORMATS else "any"


def _mode(i: int, params: StridedParams, axes: list[Axis], straddles: bool) -> int:
    """How an operand's elements lie within a chunk."""
    is_input, itemsize = i < len(params.inputs), params.operands[i].itemsize
    if axes[-1].strides[i] == 0 and axes[-1].extent > 1 and is_input:
        return _REPEATED
    run = 1  # elements that lie one after another, from the innermost axis on
    for axis in reversed(axes if straddles else axes[-1:]):
        if axis.strides[i] != run * itemsize:
            return _GATHERED
        run *= axis.extent
    return _DIRECT


def _lay_out(spec: Any, params: StridedParams, modes: list[int], codecs: list[Kernel | None], computes: bool,
             count: int) -> int:
    """Give each operand that needs a buffer its place in one, and return the bytes of scratch that they take."""
    straddles, n_inputs = bool(spec["straddles"]), len(params.inputs)
    for record, mode, codec, operand in zip(spec["operands"], modes, codecs, params.operands, strict=False):
        record["mode"], record["lane_bytes"] = mode, 4 if codec else operand.itemsize
    if computes:
        widths, shared = _buffers(spec["operands"], modes, codecs, n_inputs)
    else:
        needed = _identity_needs_lanes(modes[0], modes[1], codecs[0] is not None, codecs[1] is not None, straddles)
        widths, shared = [needed * int(spec["operands"][1]["lane_bytes"]), 0], [None, 0]
    packed = max((o.itemsize for o, mode, codec in zip(params.operands, modes, codecs, strict=True)
                  if codec and mode != _DIRECT), default=0)
    words = 4 if params.rounding == "stochastic" else 0
    per_element = sum(widths) + packed + words
    if not per_element:
        spec["chunk"] = _WHOLE
        return 0
    chunk = _CHUNK
    while chunk * per_element > _SCRATCH_BYTES:
        chunk //= 2
    chunk = min(chunk, -(-count // 64) * 64)
    at = 0
    for i, width in enumerate(widths):
        owner = shared[i]
        spec["operands"][i]["lanes"] = at if owner is None else spec["operands"][owner]["lanes"]
        at += width * chunk
    spec["operands"]["packed"], spec["words"], spec["chunk"] = at, at + packed * chunk, chunk
    return 0 if chunk * per_element <= _STACK_BYTES else chunk * per_element


def _buffers(operands: Any, modes: list[int], codecs: list[Kernel | None],
             n_inputs: int) -> tuple[list[int], list[int | None]]:
    """Bytes that an element of each operand takes in a buffer of its own, and whose buffer an output takes instead.

    That is an input's, whose elements are dead by then; but repeated ones serve the next chunk too.
    """
    needs = [codec is not None or mode != _DIRECT for codec, mode in zip(codecs, modes, strict=True)]
    shared: list[int | None] = [None] * len(modes)
    free = [i for i in range(n_inputs) if needs[i] and modes[i] != _REPEATED]
    for i in range(n_inputs, len(modes)):
        found = next((f for f in free if operands[f]["lane_bytes"] == operands[i]["lane_bytes"]), None)
        if needs[i] and found is not None:
            shared[i] = found
            free.remove(found)
    widths = [int(operands[i]["lane_bytes"]) if needs[i] and shared[i] is None else 0 for i in range(len(modes))]
    return widths, shared


def _identity_needs_lanes(read: int, write: int, decodes: bool, encodes: bool, straddles: bool) -> bool:
    """Whether elements lie in a buffer between an input and an output that no kernel stands between."""
    if not (decodes or encodes or straddles):
        return False  # copied from place to place
    if read == _REPEATED:
        return True
    if encodes:
        return decodes or read == _GATHERED
    return write != _DIRECT and (decodes or read == _GATHERED)


def _fill(spec: Any, params: StridedParams, axes: list[Axis], firsts: list[int],
          codecs: list[Kernel | None]) -> list[Array]:
    """Write what the layout does not decide; return the tables that the record points to."""
    table = np.zeros(len(axes), _AXIS)
    spec["inputs"], spec["outputs"], spec["axes_count"] = len(params.inputs), len(params.outputs), len(axes)
    spec["axes"] = table.ctypes.data
    table["extent"] = [axis.extent for axis in axes]
    table["strides"][:, :len(firsts)] = [axis.strides for axis in axes]
    tables, operands = [table], len(params.operands)
    for i, operand in enumerate(params.operands):
        record, fmt, is_input = spec["operands"][i], operand.format or FP32, i < len(params.inputs)
        target = params.outputs[0].format or FP32 if is_input else fmt
        codec = record["cast"]
        codec["from"] = format_facts(fmt, operand.scale) if is_input else format_facts(FP32)
        codec["to"] = format_facts(FP32 if params.op and is_input else target, 0 if is_input else operand.scale)
        codec["rounding"], codec["overflow"] = ROUNDINGS[params.rounding], OVERFLOWS[params.overflow]
        codec["random_bits"], record["code_bytes"] = params.random_bits, operand.itemsize
        record["first"], record["codec"] = firsts[i], getattr(codecs[i], "address", 0)
        if operand.blocks is not None:
            record["scales"] = operands
            operands += 1
            blocks = np.array([(axis.blocks[i], axis.scale_strides[i]) for axis in axes], _BLOCK)
            record["blocks"] = blocks.ctypes.data
            tables.append(blocks)
    spec["seed"] = operands if params.rounding == "stochastic" else -1
    return tables


def _executable(spec: Array, tables: list[Array], params: StridedParams, count: int, threads: int,
                scratch_bytes: int, mapping: LinearMapping | None) -> Executable:
    threads, phase = threads_for(count, THREAD_ELEMENTS, threads), "compute"
    if mapping is None:
        mapping, phase = LinearMapping(count, _SHARE_UNIT, threads), ""
    edges, tiles = mapping.edges(), mapping.tiles
    items = np.zeros(tiles, _ITEM)
    items["spec"], items["first"], items["count"] = spec.ctypes.data, edges[:-1], np.diff(edges)
    vertex = select("strided", "walk", "any").kernel.address
    varying = sum(o.blocks is not None for o in params.operands)
    operands = len(params.operands) + varying + (params.rounding == "stochastic")
    step = ComputeSet(phase, (Segment(vertex, items, np.arange(tiles)),))
    program = Program((step,), operands, max(1, tiles), scratch_bytes, tables=(spec, *tables))
    return program.executable(threads)
