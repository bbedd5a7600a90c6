"""How a pooling on this CPU is lowered: windows and layouts to a program of the pool family."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...formats import FP32, Array, Format
from ...kernels import Selection, select
from ...kernels.records import FORMAT_NUMBERS, STREAM_BYTES, dtype_of, kernel_format
from ...log import tell
from ...memo import remembered
from ...ops import contiguous_strides
from ...ops.one_kernel import OneKernel, fill_cast, from_to, shared
from ...program import ComputeSet, Program, rounded, threads_for
from .field import Window, divisors, held
from .kinds import KINDS, MADE, PASSES, READ, SECOND, THIRD, PoolPass

_AXIS, _SEGMENT, _PHASE, _SPEC, _ITEM = (dtype_of(f"pop_pool{part}") for part in
                                         ("_axis", "_segment", "_phase", "", "_item"))
_DIRECT = ("float32", "float16", "bfloat16")
_SLACK = 16  # POP_POOL_SLACK
_MOST_LANES, _LANES = 512, 256  # channels of a group: POP_POOL_PLACES, and of each where there are more
_LINE, _WHOLE_LINE, _RESULTS = 1 << 13, 1 << 14, 1 << 13  # floats: of a part of a line, of one in one part, of a unit
_FIELD = 1 << 16  # floats of the fields that a unit adds to, where it can
_THREAD_ELEMENTS = 1 << 15  # that are worth a thread
_AHEAD, _AHEAD_CHANNELS = 3 << 9, 1 << 9  # bytes of windows between a kernel and what it prefetches, by its lanes


class Lies(NamedTuple):
    """How an operand lies: elements from a sample, a channel, an element of the field to the next.

    Attributes
    ----------
    format : Format or None
        None for places, which are int64.
    exponent : int
        Of the scale that all elements share.
    batch, channel : int
    field : tuple of int
    """

    format: Format | None
    exponent: int
    batch: int
    channel: int
    field: tuple[int, ...]


@dataclass(frozen=True)
class PoolCall:
    """A pooling, or a gradient of one, and how its operands lie.

    Attributes
    ----------
    kind : str
        One of `PASSES`. A gradient by places knows its windows or not.
    op : str
        One of `KINDS`.
    batch, channels : int
    windows : tuple of Window
    count_include_pad : bool
        Whether averages count padding.
    channels_last : bool
        Whether lanes are channels.
    operands : tuple of Lies
        What is read, in the program's order, then what is made.
    scaled : bool, optional
        Whether those that are a window's maximum share its gradient.
    """

    kind: str
    op: str
    batch: int
    channels: int
    windows: tuple[Window, ...]
    count_include_pad: bool
    channels_last: bool
    operands: tuple[Lies, ...]
    scaled: bool = False

    @property
    def own(self) -> PoolPass:
        """What it does."""
        return PASSES[self.kind]

    @property
    def elements(self) -> int:
        """Elements of the fields of all samples."""
        return self.batch * self.channels * prod(w.inputs for w in self.windows)

    def __str__(self) -> str:
        words = "" if self.kind == "pool" else f" {self.kind.replace('_', ' ')}"
        shape = " x ".join(str(w.inputs) for w in self.windows)
        kernel = " x ".join(str(w.kernel) if w.kernel else f"to {w.outputs}" for w in self.windows)
        *read, made = [x.format for x in self.operands]
        return (f"{self.op} pooling{words} [{self.batch}, {self.channels}, {shape}] by {kernel}, "
                f"{from_to(read, [made])}")


class _Line(NamedTuple):
    """What happens along the last axis: see ``records/pool.def``."""

    segments: Array
    phases: Array
    taps: Array
    split: int = 1
    pitch: int = 0
    advance: int = 1
    join: int = 1
    joined: int = 0
    places: int = 0


def _parts(count: int, each: int) -> Iterator[tuple[int, int]]:
    for begin in range(0, count, each):
        yield begin, min(count, begin + each)


def _made_of_pairs(window: Window, backward: bool) -> _Line:
    """Windows that have each their own elements: a phase for each that is made."""
    pairs = held(window, backward)
    made, read = (window.inputs, window.outputs) if backward else (window.outputs, window.inputs)
    phases = np.zeros(made, _PHASE)
    phases["made"], phases["count"] = np.arange(made), 1
    phases["first"], phases["last"] = pairs.first[:-1], pairs.first[1:]
    segment = np.array([(0, read, 0, 0, 0, made, 0, made)], _SEGMENT)
    return _Line(segment, phases, pairs.read, joined=rounded(made, _SLACK), places=read)


def _forward_line(w: Window, lanes: int) -> _Line:
    """From the field to windows, split by strides where lanes are positions."""
    by_channel, far = lanes > 1, w.span - 1
    whole = (w.outputs - 1) * w.stride + w.span <= _WHOLE_LINE // lanes
    each = w.outputs if whole else max(1, (_LINE // lanes - far) // w.stride)
    segments, split = [], 1 if by_channel else w.stride
    for begin, end in _parts(w.outputs, each):
        origin = begin * w.stride - w.lower
        low, high = max(0, origin), min(w.inputs, origin + (end - begin - 1) * w.stride + w.span)
        reads = max(0, high - low)
        segments.append((low if reads else 0, reads, low - origin if reads else 0, origin, begin, end - begin, 0,
                         end - begin))
    steps = np.arange(w.kernel, dtype=np.int64) * w.dilation
    count = min(each, w.outputs)
    pitch = rounded(count + far // split, _SLACK) if split > 1 else (count - 1) * w.stride + w.span
    taps = steps % split * pitch + steps // split
    phases = np.array([(0, 0, 0, w.kernel)], _PHASE)
    return _Line(np.array(segments, _SEGMENT), phases, taps, split, pitch, w.stride if by_channel else 1,
                 joined=rounded(count, _SLACK), places=split * pitch)


def _backward_line(w: Window, lanes: int) -> _Line:
    """From windows to the field: a phase for each remainder by the stride."""
    s, back = w.stride, (w.span - 1) // w.stride
    first = w.lower // s * s  # places of the padded field, from one that is a whole number of strides
    end = w.inputs + w.lower
    whole = end - first <= _WHOLE_LINE // lanes
    each = -(-(end - first) // s) if whole else max(1, (_LINE // lanes - back) // s)
    segments = []
    for low, high in _parts(end - first, each * s):
        origin, stop = first + low, first + high
        made, number = max(0, origin - w.lower), origin // s
        read, ended = max(0, number - back), min(w.outputs, number + -(-(stop - origin) // s))
        reads = max(0, ended - read)
        segments.append((read if reads else 0, reads, read - (number - back) if reads else 0, number - back, made,
                         min(w.inputs, stop - w.lower) - made, made + w.lower - origin, -(-(stop - origin) // s)))
    steps = np.arange(w.kernel, dtype=np.int64)[::-1] * w.dilation  # windows ascending
    order = np.argsort(steps % s, kind="stable")
    counts = np.bincount(steps % s, minlength=s)
    ends = np.cumsum(counts)
    joined = rounded(each, _SLACK)
    phases = np.zeros(s, _PHASE)
    phases["made"] = np.arange(s) * (1 if lanes > 1 else joined)
    phases["first"], phases["last"] = ends - counts, ends
    return _Line(np.array(segments, _SEGMENT), phases, back - steps[order] // s, join=s, joined=joined,
                 places=each + back)


def _axes(call: PoolCall, backward: bool, read: Lies, made: Lies, *, weights: bool) -> tuple[Array, list[Array]]:
    """The outer axes, and their tables."""
    outer = call.windows[:-1]
    axes, tables, step = np.zeros(len(outer), _AXIS), [], 1
    if not backward:
        step = call.windows[-1].inputs
    for d in reversed(range(len(outer))):
        w, pairs = outer[d], held(outer[d], backward)
        read_extent, made_extent = (w.outputs, w.inputs) if backward else (w.inputs, w.outputs)
        axes[d]["extent"], axes[d]["read_step"] = made_extent, step
        axes[d]["read_stride"], axes[d]["made_stride"] = read.field[d], made.field[d]
        axes[d]["first"], axes[d]["coordinates"] = pairs.first.ctypes.data, pairs.read.ctypes.data
        tables += [pairs.first, pairs.read]
        if weights:
            counts = divisors(w, call.count_include_pad)
            own = (1 / counts[pairs.read] if backward else counts).astype(np.float32)
            axes[d]["weights" if backward else "divisors"] = own.ctypes.data
            tables.append(own)
        step *= read_extent
    return axes, tables


def fill_operand(record: Any, number: int, lies: Lies, made: bool) -> None:
    """Fill in the record of an operand: what is made is encoded, what is read decoded."""
    fmt = lies.format
    record["operand"] = number
    record["batch"], record["channel"], record["position"] = lies.batch, lies.channel, lies.field[-1]
    if fmt is None:
        record["bytes"] = 8
        return
    record["bytes"] = fmt.itemsize
    name = kernel_format(fmt)
    record["format"] = FORMAT_NUMBERS[name] if name in _DIRECT and not lies.exponent else -1
    if fmt != FP32 or lies.exponent:
        fill_cast(record, fmt, lies.exponent, made)


def _ahead(call: PoolCall, places: dict[int, tuple[int, Lies]], fields: tuple[int, ...]) -> int:
    """How far ahead operands are prefetched: where all together outgrow a core's cache, channel beside channel."""
    size = 0
    for place, (_, lies) in places.items():
        elements = prod(w.inputs if place in fields else w.outputs for w in call.windows)
        apart, least = (lies.field[-1], call.channels) if call.channels_last else (lies.channel, elements)
        if apart != least:
            return 0
        size += elements * (8 if lies.format is None else lies.format.itemsize)
    if call.batch * call.channels * size <= STREAM_BYTES["rows"]:
        return 0
    return _AHEAD_CHANNELS if call.channels_last else _AHEAD


def _fill(call: PoolCall, backward: bool, places: dict[int, tuple[int, Lies]]) -> tuple[Array, list[Array]]:
    """The record of a walk over rows, and the tables that it points to.

    `places` says which operand of the program each of the record's is, and how it lies.
    """
    read, made, last = places[READ][1], places[MADE][1], call.windows[-1]
    lanes = 1
    if call.channels_last:
        lanes = call.channels if call.channels <= _MOST_LANES else _LANES
    if last.kernel:
        line = (_backward_line if backward else _forward_line)(last, lanes)
    else:
        line = _made_of_pairs(last, backward)
    averages = KINDS[call.op].divides
    axes, tables = _axes(call, backward, read, made, weights=averages)
    spec = np.zeros(1, _SPEC)
    taps = line.taps * lanes
    for name, table in (("axes", axes), ("segments", line.segments), ("phases", line.phases), ("taps", taps)):
        spec[name] = table.ctypes.data
        tables.append(table)
    if averages:
        counts = divisors(last, call.count_include_pad)
        own = (1 / counts if backward else counts).astype(np.float32)
        spec["multipliers" if backward else "divisors"] = own.ctypes.data
        tables.append(own)
    for name in ("split", "pitch", "advance", "join", "joined"):
        spec[name] = getattr(line, name)
    for name in ("stride", "kernel", "dilation"):
        spec[name] = getattr(last, name)
    spec["backward"], spec["by_place"] = backward, call.own.by_place
    spec["read_extent"], spec["made_extent"] = (last.outputs, last.inputs)[:: 1 if backward else -1]
    if call.channels_last:
        pairs = held(last, backward)
        spec["first"], spec["coordinates"] = pairs.first.ctypes.data, pairs.read.ctypes.data
        tables += [pairs.first, pairs.read]
    spec["places"] = max(line.places, line.join * line.joined if not call.channels_last else 0)
    spec["all_channels"], spec["channels"], spec["groups"] = call.channels, lanes, -(-call.channels // lanes)
    spec["rows"] = rows = prod(int(axis["extent"]) for axis in axes)
    makes, reads = int(line.segments["makes"].max()), int(line.segments["reads"].max())
    spec["block"] = block = max(1, min(rows, _RESULTS // (makes * lanes)))
    spec["blocks"] = -(-rows // block)
    spec["axis_count"], spec["segment_count"], spec["phase_count"] = len(axes), len(line.segments), len(line.phases)
    spec["row_limit"] = most = prod(int(np.diff(held(w, backward).first).max(initial=1)) for w in call.windows[:-1])
    spec["by_channel"] = call.channels_last
    spec["run"] = len(line.segments) == 1 and lanes == (call.channels if call.channels_last else 1)
    spec["result_room"] = block * makes * lanes + _SLACK
    spec["decoded_room"] = most * (max(makes, reads) * lanes + _SLACK)
    for place, (number, lies) in places.items():
        fill_operand(spec["operands"][0, place], number, lies, place == MADE)
    spec["ahead"] = _ahead(call, places, (SECOND, MADE) if backward else (READ,))
    return spec, tables


def _arena(spec: Array) -> int:
    """Bytes of `pop_pool_rooms`."""
    s = {name: int(spec[name][0]) for name in ("row_limit", "places", "channels", "join", "joined", "result_room",
                                               "decoded_room")}
    floats = (s["row_limit"] + 2 * _line_floats(spec) + s["join"] * s["joined"] * s["channels"] + _SLACK
              + s["result_room"] + s["decoded_room"])
    return 40 * s["row_limit"] + 4 * floats + 8


def _line_floats(spec: Array) -> int:
    return int(spec["places"][0]) * int(spec["channels"][0]) + 2 * _SLACK


def _set(selection: Selection, spec: Array, call: PoolCall, threads: int) -> ComputeSet:
    """A share of the units for each thread."""
    units = call.batch * int(spec["groups"][0]) * int(spec["blocks"][0]) * int(spec["segment_count"][0])
    return shared(selection.kernel, _ITEM, spec, units, threads)


def _c_order(call: PoolCall) -> Lies:
    """How FP32 numbers of the windows lie in C order of the layout."""
    extents = [w.outputs for w in call.windows]
    each = call.channels if call.channels_last else 1
    field = contiguous_strides(extents, each)
    channel = 1 if call.channels_last else prod(extents)
    return Lies(FP32, 0, call.channels * prod(extents), channel, field)


@remembered(weight=2)
def lower(call: PoolCall, threads: int) -> OneKernel:
    """Return the program of a pooling on at most so many threads."""
    return _PROGRAMS[call.own.program](call, threads_for(call.elements, _THREAD_ELEMENTS, threads))


def _places(call: PoolCall) -> dict[int, tuple[int, Lies]]:
    """Which operand of the program each of a record's is, and how it lies."""
    return {place: (number, lies)
            for number, (place, lies) in enumerate(zip(call.own.operands, call.operands, strict=True))}


def _walked(call: PoolCall, threads: int) -> OneKernel:
    """A walk over rows, each of which is read as what is made needs it."""
    own, places, room = call.own, _places(call), 0
    if own.finds_places:
        number, made = places[MADE]
        places[THIRD] = number + 1, made._replace(format=None)
    spec, tables = _fill(call, not own.forward, places)
    if own.finds_places:
        room = 8 * _line_floats(spec)
    operands = len(call.operands) + own.finds_places
    return _program(call, own.kernel or KINDS[call.op].kernel, spec, tables, threads, operands, room)


def _kept_lines(call: PoolCall, threads: int) -> OneKernel:
    """Gradients by comparison, or by places in windows: lines of windows are kept while rows of the field pass."""
    places, own = _places(call), call.own
    ties: list[ComputeSet] = []
    more, workspace = 0, 0
    kept: list[Any] = []
    if call.scaled:
        grad, between = places[READ], _c_order(call)
        shares = len(call.operands), between
        first, kept = _fill(call, False, {READ: places[SECOND], SECOND: grad, THIRD: places[THIRD], MADE: shares})
        workspace = 4 * call.batch * between.batch
        more = _arena(first) + 4 * (2 * int(first["result_room"][0]) + _line_floats(first))
        ties = [_set(select("pool", "ties", "any"), first, call, threads)]
        kept = [first, *kept]
        places[READ] = shares
    spec, tables = _fill(call, True, places)
    rows = prod(w.outputs for w in call.windows[:-1])
    spec["slots"] = slots = max(min(rows, 4 if len(call.windows) < 3 else 16), int(spec["row_limit"][0]))
    room = 8 * slots + 4 * (2 * slots * _line_floats(spec) + int(spec["places"][0] * spec["channels"][0])
                            + int(spec["decoded_room"][0]))
    if own.by_place:  # words of the places of two channels
        room = max(room, 4 * prod(w.outputs for w in call.windows) + 160)
    return _program(call, own.kernel, spec, [*tables, *kept], threads, len(call.operands), room, ties, more, workspace)


def _program(call: PoolCall, kernel: str, spec: Array, tables: list[Any], threads: int, operands: int, own: int = 0,
             before: list[ComputeSet] | None = None, arena: int = 0, workspace: int = 0) -> OneKernel:
    """A program of a kernel that takes so many bytes of its own, after other compute sets."""
    selection = select("pool", kernel, "any")
    steps = (*(before or ()), _set(selection, spec, call, threads))
    program = Program(steps, operands, threads, max(arena, _arena(spec) + own), workspace, (spec, *tables))
    made = OneKernel(call, program.executable(threads), selection, (lower, (call, threads)),
                     {"lanes": "channels" if call.channels_last else "positions"})
    tell("popnn", made)
    return made


def _of_a_field(call: PoolCall, threads: int) -> OneKernel:
    """Gradients to their places, or to all of a field: fields and windows are seen as one axis each."""
    made, places = call.operands[-1], call.own.by_place
    elements, results = (prod(getattr(w, side) for w in call.windows) for side in ("inputs", "outputs"))
    lanes = 1
    if call.channels_last:
        direct = not places or (made.format == FP32 and not made.exponent)  # without a field in the arena
        fit = max(_SLACK, min(_MOST_LANES, _FIELD // max(1, elements) // _SLACK * _SLACK))
        lanes = min(call.channels, _MOST_LANES if direct else fit)
    spec = np.zeros(1, _SPEC)
    segment = np.array([(0, 0, 0, 0, 0, elements, 0, 0)], _SEGMENT)
    spec["segments"], spec["segment_count"] = segment.ctypes.data, 1
    spec["all_channels"], spec["channels"], spec["groups"] = call.channels, lanes, -(-call.channels // lanes)
    spec["rows"] = spec["block"] = spec["blocks"] = spec["row_limit"] = spec["run"] = 1
    spec["by_channel"], spec["results"] = call.channels_last, results
    spec["slots"] = spec["places"] = chunk = max(1, min(results, _LINE // lanes))
    spec["decoded_room"] = chunk * lanes + _SLACK
    spec["result_room"] = elements * lanes + _SLACK if places else _SLACK
    spec["join"], spec["joined"] = 1, 1
    count = prod(np.prod(divisors(w, False)) for w in call.windows) if KINDS[call.op].divides else 1
    multiplier = np.array([1 / count], np.float32)
    spec["multipliers"] = multiplier.ctypes.data
    for place, (number, lies) in _places(call).items():
        fill_operand(spec["operands"][0, place], number, lies, place == MADE)
    return _program(call, call.own.kernel, spec, [segment, multiplier], threads, len(call.operands))


_PROGRAMS = {"walk": _walked, "lines": _kept_lines, "field": _of_a_field}
