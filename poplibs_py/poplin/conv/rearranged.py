"""Convolutions of images whose channels lie apart, as channels first has them: rearranged, some images at once.

A product of matrices gathers such a number anew for each kernel element; with channels side by side it is read where it
lies. So images are copied to room of the run, channels innermost, convolved there, and results copied back while the
caches hold them; a gradient of weights, whose sums are over all images, has both operands copied whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from ...ops import contiguous_strides
from ...popops.making.rearrange import transposing
from ...program import Executable, Room, Sequence, whole_lines
from ...target import Target
from ..gemm.options import GemmOptions
from ..gemm.plan import Epilogue
from ..gemm.search import FEW, on_units
from .params import ConvCall, FieldLayout

_GATHERED = 1.6  # numbers that products gather for each that is rearranged, from which that pays
_FEWEST = 16  # channels that fill vectors
_FEWEST_DELTAS = 32  # channels of deltas from which gradients of weights are sums of windows
_SUMS = 3  # of such a gradient for each number that is copied: with more they are what takes the time
_CACHES = 4  # second-level caches that both operands of such a gradient in FP32 may fill
_ROWS = 1024  # positions for which weights are packed
_MOST_BYTES = 1 << 26  # that what is rearranged at once may take where no limit is named
_CACHE_SHARE = 0.5  # of the second-level cache, that rearranged images fill where no limit is named
_LIMIT_SHARE = 2  # of a limit that is named, one part in so many

IMAGES, KERNELS, RESULT = range(3)


class Move(NamedTuple):
    """An operand that is rearranged, or a result: axes are [images, field..., channels].

    Attributes
    ----------
    operand : int
    shape, strides : tuple of int
        Of all images, and as they lie.
    itemsize : int
    """

    operand: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    def some(self, count: int) -> Move:
        """The same for so many images."""
        return self._replace(shape=(count, *self.shape[1:]))

    @property
    def elements(self) -> int:
        """Numbers that are copied."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Room that they take."""
        return whole_lines(self.elements * self.itemsize)

    @property
    def packed(self) -> tuple[int, ...]:
        """Strides with channels innermost."""
        return contiguous_strides(self.shape, self.itemsize)

    def program(self, threads: int) -> Executable:
        """Return what copies an operand to room, or a result from there."""
        shape, strides = self.shape, self.strides
        if self.operand == RESULT:
            shape, strides = ((axes[0], axes[-1], *axes[1:-1]) for axes in (self.shape, self.packed))
        copy = transposing(shape, strides, self.itemsize, threads)
        assert copy is not None
        return copy.executable


@dataclass(frozen=True)
class Rearranged:
    """How a convolution's arrays are rearranged.

    Attributes
    ----------
    call : ConvCall
        The convolution of some images, channels innermost.
    chunks : int
        How often that is done.
    moves : tuple of Move
        What is copied each time.
    options : GemmOptions
        What room leaves of a limit on memory.
    """

    call: ConvCall
    chunks: int
    moves: tuple[Move, ...]
    options: GemmOptions

    @property
    def room_bytes(self) -> int:
        """Bytes of what is copied."""
        return sum(move.bytes for move in self.moves)

    @property
    def gathers(self) -> bool:
        """Whether products would gather many more numbers than are copied."""
        p = self.call.params
        return p.flops() > 2 * p.out_channels * _GATHERED * sum(move.elements for move in self.moves)

    @property
    def to_few(self) -> bool:
        """Whether it serves sums as long as dots' alone: else elements as they lie are multiplied with all taps."""
        return self.call.params.groups == 1 and self.call.params.out_channels <= FEW

    @property
    def multiplies_halves(self) -> bool:
        """Whether BF16 units multiply."""
        return on_units(self.call.x.format, self.call.weights.format, self.options)

    @property
    def words(self) -> str:
        """What is done, in words."""
        names = {IMAGES: "images", KERNELS: "deltas", RESULT: "results"}
        what = " and ".join(names.get(move.operand, "residual") for move in self.moves)
        count = self.moves[0].shape[0]
        at_once = f"{count} image{'s' * (count > 1)} at once" if self.chunks > 1 else "all images at once"
        return f"{what} rearranged, channels side by side; {at_once}, {self.room_bytes:,} bytes"


def rearrange(call: ConvCall, options: GemmOptions, epilogue: Epilogue, target: Target,
              residual: bool) -> Rearranged | str:
    """Return how a convolution is rearranged; where channels lie side by side, or where it is no gain, say so."""
    p, x, w, out = call.params, call.x, call.weights, call.out
    update = abs(x.channel) > abs(x.row) and abs(w.channel) > abs(w.row)
    found = [_move(IMAGES, x, (p.batch, p.groups, p.in_channels), p.field_shape, update)]
    if update:
        found.append(_move(KERNELS, w, (p.out_channels, p.groups, p.in_channels), p.kernel_shape, True))
    elif residual or not epilogue.beta:  # results on top of old ones stay
        made = _move(RESULT, out, (p.batch, p.groups, p.out_channels), p.output_shape, False)
        found += [made, made._replace(operand=call.behind) if made and residual else None]
    moves = [move for move in found if move]
    if not moves or moves[0].operand == RESULT:
        return "channels lie side by side, or not as channels first has them"
    limit = options.memory.limit(target)
    budget = _CACHE_SHARE * target.tiles * target.bytes_per_tile if limit is None else limit / _LIMIT_SHARE
    images = moves[0].shape[0]
    each = sum(move.elements * move.itemsize for move in moves) // images
    count = images if update else _at_once(images, math.prod(p.output_shape), each, budget)
    moves = [move.some(count) for move in moves]
    share = options.available_memory_proportion
    if sum(move.bytes for move in moves) > (_MOST_BYTES if limit is None else budget):
        return f"it takes {sum(move.bytes for move in moves):,} bytes"
    if share is not None:
        options = replace(options, available_memory_proportion=share / _LIMIT_SHARE, strict_memory=True)
    moved = {move.operand: move for move in moves}
    x, w, out = (_packed(lies, moved[operand], p.groups, update) if operand in moved else lies
                 for operand, lies in enumerate((x, w, out)))
    params = p if count == images else p.replace(batch=count)
    way = Rearranged(ConvCall(params, x, w, out, call.bias), images // count, tuple(moves), options)
    pays = _update_pays(way, _CACHES * target.bytes_per_tile) if update else way.to_few or _pays(way)
    return way if pays else "it takes longer than it saves"


def _move(operand: int, lies: FieldLayout, counts: tuple[int, int, int], field: tuple[int, ...],
          update: bool) -> Move | None:
    """How an array is rearranged, its `counts` rows, groups and channels; None where it stays as it is."""
    rows, groups, channels = counts
    image, channel, count, each = (lies.row, lies.channel, rows, channels)
    if update:
        image, channel, count, each = lies.channel, lies.row, channels, rows
    size, every = lies.format.itemsize, groups * each
    shape, strides = (count, *field, every), (image, *lies.field, channel if each > 1 else lies.group)
    along = [step for n, step in zip(field, lies.field, strict=True) if n > 1]
    if not along or min(shape) < 1 or every < 2 or along[-1] != size or strides[-1] == size or lies.offset or (
            each > 1 and groups > 1 and lies.group != each * channel):
        return None
    if operand == RESULT:
        dense = contiguous_strides((count, every, *field), size)
        if any(n > 1 and step != wanted for n, step, wanted in zip(
                shape, strides, (dense[0], *dense[2:], dense[1]), strict=True)):
            return None
    return Move(operand, shape, strides, size)


def _packed(lies: FieldLayout, move: Move, groups: int, update: bool) -> FieldLayout:
    image, *field, channel = move.packed
    row, step = (channel, image) if update else (image, channel)
    return replace(lies, row=row, group=move.shape[-1] // groups * channel, channel=step, field=tuple(field),
                   aligned=True)


def _pays(way: Rearranged) -> bool:
    """Whether rearranging takes less than it saves, as measured."""
    p, units = way.call.params, way.multiplies_halves
    lanes = 1 < p.in_channels <= _FEWEST or (p.groups == 1 and p.out_channels < _FEWEST)
    return way.gathers and (units or not lanes)  # numbers of lanes are decoded once


def _update_pays(way: Rearranged, caches: int) -> bool:
    """The same of a gradient of weights."""
    p, units = way.call.params, way.multiplies_halves
    sums = p.groups * p.batch * p.out_channels * math.prod(p.output_shape)
    if sums > _SUMS * sum(move.elements for move in way.moves) or (way.room_bytes > caches and not units):
        return False
    if p.groups == 1:
        return way.gathers and p.batch >= _FEWEST and p.out_channels >= _FEWEST_DELTAS
    return way.gathers and (units or not 1 < p.batch <= _FEWEST)


def _at_once(images: int, positions: int, each: int, budget: float) -> int:
    """Images that are rearranged at once: as many as fit the budget, and as weights are worth packing for."""
    least, most = -(-_ROWS // max(1, positions)), budget // each
    divisors = [n for n in range(1, images + 1) if images % n == 0]
    fitting = [n for n in divisors if n <= most]
    enough = next((n for n in divisors if n >= least), images)
    return max(enough, *fitting, 1)


def in_chunks(way: Rearranged, call: ConvCall, residual: bool, executable: Executable) -> Sequence:
    """Return what rearranges, runs the executable of some images, and copies results back, chunk by chunk."""
    room = Room(executable.operands)
    places = {move.operand: room.take(move.bytes) for move in way.moves}
    copies = [(move.operand, move.program(executable.threads)) for move in way.moves]
    count = way.call.params.batch
    steps = {IMAGES: call.x.row, RESULT: call.out.row}
    if residual:
        steps[call.behind] = call.out.row
    parts = []
    for chunk in range(way.chunks):
        lie = [(operand, chunk * count * steps.get(operand, 0) if way.chunks > 1 else 0)
               for operand in range(executable.operands)]
        parts += [(copy, [lie[operand], places[operand]]) for operand, copy in copies if operand != RESULT]
        parts.append((executable, [places.get(operand, lies) for operand, lies in enumerate(lie)]))
        parts += [(copy, [places[operand], lie[operand]]) for operand, copy in copies if operand == RESULT]
    return Sequence(parts, executable.operands, room.bytes)
