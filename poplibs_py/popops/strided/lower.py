"""How an elementwise operation is lowered: params to a program of the strided driver.

What an operation asks for, formats, shape, strides, rounding, is a `StridedParams`, and nothing else decides. The
program's operands are the inputs, the outputs, the exponents of those whose scales vary, in the same order, the seed
where rounding is stochastic, and blocks of words that numbers of the chain are made of; all else is in records that the
program holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...formats import FP32, Array, Format
from ...kernels import Kernel, kernels, select
from ...kernels.records import STREAM_BYTES, dtype_of, format_facts, numbers_of
from ...log import tell
from ...memo import remembered
from ...ops import OwnNumber
from ...planner import Explanation
from ...planner.explain import PlanDefaults, considered_kernels
from ...program import ComputeSet, Executable, Program, Segment, rounded, threads_for
from ...target import LinearMapping
from .axes import Axis, Blocks, walked
from .steps import (
    Chain,
    Number,
    Places,
    Step,
    codec,
    kernel_name,
    lane_bytes,
    number_records,
    placed,
    step_kernel,
    step_records,
)

ROUNDINGS, OVERFLOWS = numbers_of("rounding"), numbers_of("overflow")

THREAD_ELEMENTS = 1 << 16
"""Elements that are worth a thread: 2 to 13 microseconds of work, where a thread that waits costs one or two. Measured:
128 Ki elements are 1.4 to 1.8 times faster with two."""

_SHARE_UNIT = 1 << 12  # shares begin at a multiple of this: a cache line of any format, a row of the random stream
_CHUNK = 1 << 10
_SCRATCH_BYTES = 24 << 10  # buffers that leave room for the operands in a first-level cache
_STACK_BYTES = 4608  # POP_STRIDED_STACK: a vertex has so much without asking
_SHORT_ROW = 256  # shorter rows are taken together, and those of less than a chunk where none need be gathered for it
_STREAM_CHUNK = 2 << 10  # bytes of an output: with longer bursts memory is a third slower
_WHOLE = np.iinfo(np.int64).max

_DIRECT, _GATHERED, _REPEATED = range(3)

_AXIS, _BLOCK, _SPEC = dtype_of("pop_strided_axis"), dtype_of("pop_strided_block"), dtype_of("pop_strided")
_ITEM = dtype_of("pop_strided_item")


class StridedOperand(NamedTuple):
    """One operand of a strided operation. A tuple, as its hash is taken wherever a program is found again.

    Attributes
    ----------
    format : Format, numpy.dtype or None
        Of its elements; a dtype for integers and truth values, None for float64, which only the identity's input may
        be.
    strides : tuple of int
        In bytes, one for each axis; 0 where it is broadcast.
    scale : int
        Exponent of the scale that all elements share, where there are no blocks.
    blocks : tuple of int or None
        Extents of the blocks that share a scale, where scales vary.
    own : OwnNumber or None
        Where it is one number that each call has of its own.
    """

    format: Format | np.dtype[Any] | None
    strides: tuple[int, ...]
    scale: int = 0
    blocks: Blocks = None
    own: OwnNumber | None = None

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return 8 if self.format is None else self.format.itemsize


class StridedParams(NamedTuple):
    """What a strided operation computes, and how its operands lie.

    Attributes
    ----------
    op : str or None
        The elementwise kernel's operation, or a name for `chain`; None for the identity.
    shape : tuple of int
        Of all operands, broadcast.
    inputs, outputs : tuple of StridedOperand
    rounding : str
    overflow : str or tuple of str
        How results become codes; of each output where they are told apart.
    random_bits : int
        Of each stochastic rounding.
    chain : Chain or None
        The steps, where there are several.
    """

    op: str | None
    shape: tuple[int, ...]
    inputs: tuple[StridedOperand, ...]
    outputs: tuple[StridedOperand, ...]
    rounding: str
    overflow: str | tuple[str, ...]
    random_bits: int = 31
    chain: Chain | None = None

    @property
    def operands(self) -> tuple[StridedOperand, ...]:
        """Inputs, then outputs."""
        return self.inputs + self.outputs

    @property
    def arrays(self) -> int:
        """Operands of its program before the blocks of words."""
        varying = sum(o.blocks is not None for o in self.operands)
        return len(self.operands) + varying + (self.rounding == "stochastic")

    @property
    def blocks(self) -> int:
        """Blocks of words that numbers of the chain are in."""
        return 0 if self.chain is None else self.chain.blocks

    def __str__(self) -> str:
        formats = [", ".join(str(o.format or "float64") for o in side) for side in (self.inputs, self.outputs)]
        return f"{self.shape} {formats[0]} to {formats[1]}"


@dataclass(frozen=True)
class StridedProgram(PlanDefaults):
    """What runs, ready: the executable, and for a reader its kernels and the axes that are left of the shape."""

    params: StridedParams
    executable: Executable
    used: tuple[Kernel, ...]
    axes: int
    mapping: LinearMapping | None = None

    @property
    def kernel(self) -> str:
        """The kernels' names."""
        return ", ".join(dict.fromkeys(k.label for k in self.used)) or "a copy"

    @property
    def threads(self) -> int:
        """How many threads share the work."""
        return self.executable.threads

    def __reduce__(self) -> tuple[Any, ...]:
        return lower, (self.params, self.executable.threads, self.mapping)

    def explain(self) -> Explanation:
        """Return what was decided, and for each kernel those that were considered in its place."""
        p = self.params
        beyond = p.overflow if isinstance(p.overflow, str) else ", ".join(p.overflow)
        return Explanation(f"{p.op or 'cast'} {p}", {
            "kernels": self.kernel,
            "rounding": f"{p.rounding}, {beyond} where a number is too large",
            "axes": f"{self.axes} of {len(p.shape)}",
            "threads": str(self.executable.threads),
        }, tuple(c for k in self.used for c in considered_kernels(select(k.family, k.op, k.served[0]))))


@remembered()
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
    chain, steps = _chain(params)
    inputs = len(params.inputs)
    codecs = [codec("decode" if i < inputs else "encode", x.format, lane)
              for i, (x, lane) in enumerate(zip(params.operands, chain.lanes, strict=False))]
    count = int(np.prod(params.shape, dtype=np.int64))
    spec = np.zeros(1, _SPEC)
    chain = _with_words(spec[0]["operands"], params, chain)
    spec["straddles"] = straddles = _straddles(params, axes)
    modes = [_mode(i, params, axes, straddles) for i in range(len(sizes))]
    spec[0]["operands"]["streams"][:len(sizes)] = _streaming(params, modes, axes, [*codecs, *steps])
    if spec[0]["operands"]["streams"].any():
        spec["stream"] = select("cast", "stream", "any").kernel.address
    if _REPEATED in modes or chain.constants:
        spec["spread"] = select("cast", "spread", "any").kernel.address
    scratch_bytes, offsets = _lay_out(spec[0], params, modes, codecs, chain, count)
    tables = _fill(spec[0], params, axes, firsts, codecs)
    tables += _point_to_steps(spec[0], params, chain, steps, offsets)
    if stochastic:
        spec["draw"] = select("cast", "draw", "uint32").kernel.address
    used = tuple(dict.fromkeys(k for k in (*codecs[:inputs], *steps, *codecs[inputs:]) if k))
    executable = _executable(spec, tables, params, used, count, threads, scratch_bytes, mapping)
    program = StridedProgram(params, executable, used, len(axes), mapping)
    tell("popops", program)
    return program


def _chain(params: StridedParams) -> tuple[Chain, list[Kernel | None]]:
    """The steps with their kernels. One alone takes codes as they lie where there is a kernel for them, else floats."""
    chain = params.chain
    if chain is None:
        lanes = tuple("float32" if o.format is None or isinstance(o.format, Format) else o.format.name
                      for o in params.operands)
        inputs, operands = len(params.inputs), tuple(range(len(params.operands)))
        steps = () if params.op is None else (Step(params.op, operands[:inputs], operands[inputs:]),)
        own = tuple(kernel_name(o.format) for o in params.operands)
        chain = Chain(steps, own if params.op and _takes_codes(params.op, params, own) else lanes)
    return chain, [step_kernel(step, chain.lanes) for step in chain.steps]


def _with_words(records: Any, params: StridedParams, chain: Chain) -> Chain:
    """Return the chain with the operands that are words of the call behind its numbers."""
    records["number"], numbers = -1, list(chain.numbers)
    for i, operand in enumerate(params.inputs):
        if operand.own is not None:
            records["number"][i] = len(numbers)
            at, whole = operand.own
            numbers.append(Number(kernel_name(operand.format), word=(i - params.arrays, at), whole=whole))
    return chain._replace(numbers=tuple(numbers))


def _takes_codes(op: str, params: StridedParams, lanes: tuple[str, ...]) -> bool:
    """Whether a kernel reads and writes the operands' own codes, rounding as IEEE 754 does."""
    plainly = (params.rounding, params.overflow) == ("nearest-even", "inf")
    if not plainly or any(o.scale or o.blocks for o in params.operands):
        return False
    formats = "->".join(",".join(side) for side in (lanes[:len(params.inputs)], lanes[len(params.inputs):]))
    return "any" not in formats and any(k.op == op and formats in k.served for k in kernels("elementwise"))


def _straddles(params: StridedParams, axes: list[Axis]) -> bool:
    """Whether a chunk has elements of several rows."""
    if len(axes) < 2 or any(o.blocks for o in params.operands):
        return False
    lies = all(_mode(i, params, axes, straddles=True) != _GATHERED for i in range(len(params.operands)))
    return axes[-1].extent < (_CHUNK if lies else _SHORT_ROW)


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


def _streaming(params: StridedParams, modes: Sequence[int], axes: Sequence[Axis],
               used: Sequence[Kernel | None]) -> list[bool]:
    """For each operand whether it is a result that goes past the caches.

    So go rows of whole cache lines, where all operands together are larger than the caches and memory is what every
    kernel waits for.
    """
    row, operands = axes[-1].extent, params.operands
    large = math.prod(params.shape) * sum(o.itemsize for o, mode in zip(operands, modes, strict=True)
                                          if mode != _REPEATED) >= STREAM_BYTES["arrays"]
    kernels_used = [k for k in used if k]  # none of a copy, which is streamed by itself
    bound = bool(kernels_used) and not any(k.long for k in kernels_used)
    return [i >= len(params.inputs) and large and bound and modes[i] == _DIRECT
            and (len(axes) == 1 or (row >= _CHUNK and row * o.itemsize % 64 == 0)) for i, o in enumerate(operands)]


def _lay_out(spec: Any, params: StridedParams, modes: list[int], codecs: list[Kernel | None], chain: Chain,
             count: int) -> tuple[int, list[int]]:
    """Settle how many elements a chunk has, and return the bytes of scratch, and before each value's buffer in it."""
    straddles, inputs, operands = bool(spec["straddles"]), len(params.inputs), len(params.operands)
    needs = [codec is not None or mode != _DIRECT for codec, mode in zip(codecs, modes, strict=True)]
    records = spec["operands"]
    streams = [bool(s) for s in records["streams"][:operands]]
    records["mode"][:operands] = modes
    records["lane_bytes"][:operands] = [lane_bytes(lane) if codec else o.itemsize for codec, lane, o
                                        in zip(codecs, chain.lanes, params.operands, strict=False)]
    records["held"][:operands] = streams
    if chain.steps:
        records["held"][inputs:operands] |= _held(chain, needs, inputs)
        buffered = [n or bool(h) for n, h in zip(needs, records["held"], strict=False)]
        buffered += [True] * (len(chain.lanes) - operands)
        lasting = [i >= inputs or mode == _REPEATED for i, mode in enumerate(modes)]
        lasting += [i in dict(chain.constants) for i in range(operands, len(buffered))]
        places = placed(chain, buffered, lasting, inputs, streams)
    else:
        between = _identity_needs_lanes(modes[0], modes[1], codecs[0] is not None, codecs[1] is not None, straddles)
        between |= streams[1] and codecs[1] is None
        places = Places((0, 0), between * int(records[1]["lane_bytes"]))
    packed = max((o.itemsize for o, mode, codec, far in zip(params.operands, modes, codecs, streams, strict=True)
                  if codec and (mode != _DIRECT or far)), default=0)
    words = 4 if params.rounding == "stochastic" else 0
    per_element, numbers = places.width + packed + words, 8 * len(chain.numbers)
    if not per_element:
        spec["chunk"] = _WHOLE
        return (0 if numbers <= _STACK_BYTES else numbers), [0] * len(places.offsets)
    chunk = _CHUNK
    far = max((o.itemsize for o, one in zip(params.operands, streams, strict=True) if one), default=0)
    while chunk * per_element > _SCRATCH_BYTES or chunk * far > _STREAM_CHUNK:
        chunk //= 2
    chunk = min(chunk, rounded(count, 64))
    room = chunk + 64 * bool(far)  # results that stream may begin within a cache line
    offsets = [offset * room for offset in places.offsets]
    records["lanes"][:operands] = offsets[:operands]
    at = places.width * room
    records["packed"], spec["words"], spec["chunk"] = at, at + packed * room, chunk
    spec["numbers_at"] = room * per_element
    total = room * per_element + numbers
    return (0 if total <= _STACK_BYTES else total), offsets


def _held(chain: Chain, needs: list[bool], inputs: int) -> list[bool]:
    """For each output whether it is written before an operand is read where it lies, which may be the same memory."""
    written = {i: at for at, step in enumerate(chain.steps) for i in step.writes}
    reads = max((at for at, step in enumerate(chain.steps) if any(i < inputs and not needs[i] for i in step.reads)),
                default=-1)
    return [not needs[i] and written[i] < reads for i in range(inputs, len(needs))]


def _point_to_steps(spec: Any, params: StridedParams, chain: Chain, kernels: list[Kernel | None],
                    offsets: list[int]) -> list[Array]:
    """Write where the steps are; return the tables that the record points to."""
    steps, buffers, tables = step_records(chain, kernels, offsets, len(params.operands))
    numbers, casts = number_records(chain.numbers, params.arrays)
    for name, table in (("steps", steps), ("buffers", buffers), ("numbers", numbers)):
        spec[f"{name}_count"], spec[name] = len(table), table.ctypes.data
    return [steps, buffers, numbers, casts, *tables]


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
        record, fmt, is_input = spec["operands"][i], _numbers(operand), i < len(params.inputs)
        target = _numbers(params.outputs[0]) if is_input else fmt
        codec = record["cast"]
        codec["from"] = format_facts(fmt, operand.scale) if is_input else format_facts(FP32)
        codec["to"] = format_facts(FP32 if params.op and is_input else target, 0 if is_input else operand.scale)
        beyond = params.overflow
        if not isinstance(beyond, str):
            beyond = beyond[max(0, i - len(params.inputs))]
        codec["rounding"], codec["overflow"] = ROUNDINGS[params.rounding], OVERFLOWS[beyond]
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


def _numbers(x: StridedOperand) -> Format:
    """The format that a codec is told of; any where there is none."""
    return x.format if isinstance(x.format, Format) else FP32


def _executable(spec: Array, tables: list[Array], params: StridedParams, used: Sequence[Kernel], count: int,
                threads: int, scratch_bytes: int, mapping: LinearMapping | None) -> Executable:
    threads, phase = threads_for(count, THREAD_ELEMENTS, threads), "compute"
    if mapping is None:
        mapping, phase = LinearMapping(count, _SHARE_UNIT, threads), ""
    edges, tiles = mapping.edges(), mapping.tiles
    items = np.zeros(tiles, _ITEM)
    items["spec"], items["first"], items["count"] = spec.ctypes.data, edges[:-1], np.diff(edges)
    vertex = select("strided", "walk", "any").kernel.address
    step = ComputeSet(phase, (Segment(vertex, items, np.arange(tiles)),))
    program = Program((step,), params.arrays + params.blocks, max(1, tiles), scratch_bytes, tables=(spec, *tables),
                      light=not any(k.long for k in used))
    return program.executable(threads)
