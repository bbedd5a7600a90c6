"""Requests of slices by index: which axis of which array is what, the checks, and what runs.

Every op that takes indices says what it does as a `Layout`, and goes through `take_request` or `put_request`: what
becomes of bad indices, of overlapping arrays and of `out` is here alone.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...checks import one_of, real, whole
from ...config import settings
from ...errors import InvalidIndexError, bad_argument, bad_type
from ...formats import FP32, Array, Format, QuarterArray
from ...formats.arrays import as_array
from ...ops import RESULT, VALUES, Operand, Receiver, Request, own_numbers, receive
from ...ops.numpy_ops import BY_NUMPY, told
from ...ops.one_kernel import OneKernel
from ...ops.road import Told
from ...planner import Memory
from ...program import Executable, Sequence, whole_lines
from ...target import Target, TargetLike
from ..elementwise.promotion import typed
from ..maps.request import Worded
from ..reductions.request import source_of
from ..strided.copies import copying, kernel_of_copies
from .function import SliceFunction, within_limit
from .lower import Layout, SliceParams, lower_check, within_memory
from .modelled import PlanOn, TiledRun, tiled_place
from .parts import RowParts

POLICIES = ("raise", "clip", "skip", "wrap", "zero", "poplibs")
"""What may become of an index that is out of range: the words of `index_policy`."""

_MOST_LOOKUPS, _MOST_AXES = 1 << 31, 64
_COPIED = 4  # what a copy and its way back move, in tables
_NUMBERS = "float32, float16, bfloat16 or FP8 numbers, integers or truth values"
_NEED_A_PLACE = ("raise", "clip", "wrap", "poplibs")


def checked_policy(policy: Any) -> str:
    """Return an index policy, or raise."""
    one_of("index_policy", policy, POLICIES)
    return str(policy)


def table_of(name: str, value: Any) -> Operand:
    """Take what is read or updated: an array of numbers of a format, of integers or of truth values."""
    if isinstance(value, QuarterArray):
        raise bad_type(name, value, "an array: see its codes and its to_array")
    return source_of(value, name, _NUMBERS)


def updates_of(value: Any, table: Operand) -> Operand:
    """Take what a table is updated with; numbers of Python's become the table's."""
    element = elements_of(table)
    if isinstance(value, (list, tuple, int, float)):
        array = as_array("updates", value, _NUMBERS)
        if array.dtype.kind in ("biuf" if isinstance(element, Format) else "b" if element == np.bool_ else "biu"):
            value = typed("updates", array, element)
    return table_of("updates", value)


def elements_of(x: Operand) -> Any:
    """The format of an operand, or the dtype of what has none."""
    return x.array.dtype if x.format is None else x.format


@dataclass(frozen=True, eq=False)
class Check:
    """Refuses indices of which one is out of range: a program, and how many shares of them tell in an int64."""

    name: str
    layout: Layout
    executable: Executable
    shares: int

    def __call__(self, indices: Array) -> None:
        bad = np.empty(self.shares, np.int64)
        self.executable(indices, bad)
        if bad.any():
            raise self.error(indices)

    def guards(self, operands: int, parts: SequenceOf[Any] = (), teller: int | None = None, aside: int = 0) -> Sequence:
        """Return what runs parts on operands, the second of which are indices, after a look at all of these.

        `teller` is the part that tells of bad indices by itself, on its last operand, in place of the look; later parts
        may have so many bytes aside, from `aside_at`.
        """
        if teller is None:
            parts, shares = [(self.executable, (1, operands)), *parts], self.shares
        else:
            shares = parts[teller][0].threads
        room = self.aside_at(shares) + aside if aside else 8 * shares
        return Sequence(parts, operands, room, [(teller or 0, 0, 8 * shares)], lambda _, *arrays: self.error(arrays[1]))

    @staticmethod
    def aside_at(shares: int) -> int:
        """Return where what is aside begins: on the line behind what so many shares tell."""
        return whole_lines(8 * shares)

    def error(self, indices: Array) -> InvalidIndexError:
        """Name the first bad index."""
        limits = np.array([limit for _, limit in self.layout.components], np.uint64)
        vector = self.layout.vector
        rows = indices[..., None] if vector is None else np.moveaxis(indices, vector, -1)
        bad = np.argwhere((rows < 0) | (rows.astype(np.uint64) >= limits))
        if not len(bad):  # they were changed meanwhile
            return InvalidIndexError(f"{self.name}: got an index out of range; allowed: indices within the array")
        at = tuple(int(i) for i in bad[0])
        place = list(at[:-1])
        if vector is not None:
            place.insert(vector % indices.ndim, at[-1])
        where = f" at [{', '.join(map(str, place))}]" if place else ""
        return InvalidIndexError(f"{self.name}: got {rows[at]}{where}; allowed: 0 to {int(limits[at[-1]]) - 1}, or "
                                 "another index_policy than 'raise'")


def check_of(name: str, policy: str, layout: Layout, params: SliceParams) -> Check | None:
    """What refuses bad indices; what has no place at all is refused here."""
    for _, limit in layout.components:
        if limit <= 0 and policy in _NEED_A_PLACE:
            raise InvalidIndexError(f"{name}: got {params.lookups} lookups; allowed: none where the array has no place")
    if params.lookups > _MOST_LOOKUPS:
        raise bad_argument(name, f"{params.lookups} lookups", f"at most {_MOST_LOOKUPS}")
    if policy != "raise" or not layout.components:
        return None
    return Check(name, layout, *lower_check(params, settings.num_threads))


def take_request(op: str, table: Operand, indices: Operand, layout: Layout, shape: tuple[int, ...], policy: str,
                 out: Any, target: TargetLike, *, plan_on: PlanOn | None = None, memory: Memory | None = None,
                 name: str = "indices", host: Target | None = None) -> Request:
    """Describe a call that reads slices.

    Parameters
    ----------
    op : str
        Its public name.
    table, indices : Operand
    layout : Layout
        The other array is the result.
    shape : tuple of int
        Of the result.
    policy : str
        For bad indices.
    out, target
        As the op takes them.
    plan_on : callable, optional
        Plans the call on a modelled machine; None where there is no vertex.
    memory : Memory, optional
        What the call says about temporary memory.
    name : str, optional
        What the op calls its indices.
    host : Target, optional
        This CPU with the threads that the call takes there; by default those of the settings.
    """
    _, placed = tiled_place(op, target, plan_on or _no_vertex)
    elements = elements_of(table)
    receiver = receiver_of(out, shape, elements, reads=policy == "skip")
    fresh = out is None and policy == "skip"  # there is nothing to leave as it is
    lookups = prod(n for n, *_ in layout.axes)
    params = layout.params("take", "zero" if fresh else policy, indices.array, table.array, receiver.array,
                           (elements, elements))
    check = check_of(name, policy, layout, params) if lookups else None
    if not receiver.array.size:
        return Request(check and check.guards(3), (table, indices, RESULT), receiver,
                       told(op, table.shape, elements), placed=placed, checks=True)
    tells = check is not None and out is None
    program = within_memory(op, params._replace(tells=tells), placed.memory_here(memory or Memory()), host)
    run: Executable | Sequence = program.executable
    if check is not None:
        part = (program.executable, (0, 1, 2, 3) if tells else (0, 1, 2))
        run = check.guards(3, [part], 0 if tells else None)
    return Request(run, (table, indices, RESULT), receiver, program.told, placed=placed,
                   temporaries=program.temporaries)


def _put(check: Check | None, copy: Executable | None,
         program: Executable | RowParts | SliceFunction | None, scaled: bool) -> Callable[..., None]:
    """An update: the check, the copy of the table where the result is another array, the program.

    Its operands are the table, indices, updates, the result, and perhaps the words of the call.
    """
    parts: list[Any] = [] if copy is None else [(copy, (0, 3))]
    if isinstance(program, Executable):
        parts.append((program, (1, 2, 3, *(4,) * scaled)))
    first = Sequence(parts, 4 + scaled) if check is None else check.guards(4 + scaled, parts)
    if program is None or isinstance(program, Executable):
        return first

    def run(table: Array, indices: Array, updates: Array, result: Array, *words: Array) -> None:
        first(table, indices, updates, result)
        program(indices, updates, result, *words)

    return run


def _told_put(check: Check, copy: Executable, program: Executable, back: Executable | None, aside: int, scaled: bool
              ) -> Sequence:
    """An update of a copy, which tells itself of bad indices: the copy is a new result, or so many bytes aside.

    Of a small table it takes longer to look at all indices beforehand than to copy it, and back where all were good.
    """
    room, words = 4 + scaled, (4,) * scaled
    if back is None:
        return check.guards(room, [(copy, (0, 3)), (program, (1, 2, 3, *words, room))], 1)
    there = room, check.aside_at(program.threads)
    parts = (copy, (0, there)), (program, (1, 2, there, *words, room)), (back, (there, 3))
    return check.guards(room, parts, 1, aside)


def put_request(op: str, table: Operand, indices: Operand, updates: Operand, layout: Layout, policy: str, out: Any,
                target: TargetLike, *, plan_on: PlanOn | None = None, update: str | Worded = "set", scale: Any = 1.0,
                memory: Memory | None = None, name: str = "indices", host: Target | None = None) -> Request:
    """Describe a call that updates slices.

    Parameters
    ----------
    op, table, indices, layout, policy, out, target, plan_on, memory, name, host
        As for `take_request`; the other array is the updates.
    updates : Operand
    update : str or Worded, optional
        What they do: a word, or an expression that `function_of` checked.
    scale : number, optional
        What updates are multiplied by that are added.
    """
    elements = elements_of(table)
    word = update if isinstance(update, str) else "set"
    factor = _check_elements(table, updates, word, scale) if isinstance(update, str) else 1.0
    tiles, placed = tiled_place(op, target, plan_on or _no_vertex)
    receiver = receiver_of(out, table.shape, elements, in_place=(table,))
    in_place = bool(receiver.written_over)
    (own,), values = own_numbers(scale)
    how: dict[str, Any] = {"update": word, "scale": factor}
    if own is not None and update == "add" and (own.whole or isinstance(elements, Format)):
        how = {"update": word, "own": own}
    params = layout.params("put", policy, indices.array, receiver.array, updates.array,
                           (elements, elements_of(updates)), **how)
    check: Check | None = None
    made: OneKernel | SliceFunction | None = None
    program: Executable | RowParts | SliceFunction | None = None
    limit = placed.memory_here(memory or Memory())
    aside = receiver.array
    tells = False
    if params.lookups:
        check = check_of(name, policy, layout, params)
    if params.lookups and params.elements:
        if isinstance(update, str):
            small = in_place and limit.proportion is None and (
                _COPIED * table.array.nbytes <= params.lookups * indices.array.itemsize)
            tells = check is not None and tiles is None and (out is None or small)
            if tells and in_place:
                aside = np.empty(table.shape, table.array.dtype)
                params = layout.params("put", policy, indices.array, aside, updates.array,
                                       (elements, elements_of(updates)), **how)
            params = params._replace(tells=tells)
            made = within_memory(op, params, limit, host)
            program = _program(made, tiles, layout, elements, policy, update, factor)
        else:
            made = program = within_limit(op, update.outputs, layout, params, limit, host)
    scaled = params.own is not None and isinstance(program, Executable)
    words = (VALUES,) if scaled else () if program is None or isinstance(update, str) else (update.words,)
    run = _updated(check, program, table.array, receiver.array, aside, in_place, tells, scaled)

    def tell() -> Told:
        return copied() if made is None else made.told()

    copied = told(op, table.shape, elements, BY_NUMPY if in_place else kernel_of_copies())
    return Request(run, (table, indices, updates, RESULT, *words), receiver, tell, values if scaled else (),
                   placed=placed, checks=check is not None,
                   temporaries=None if made is None else made.temporaries)


def _updated(check: Check | None, program: Any, table: Array, result: Array, aside: Array, in_place: bool,
             tells: bool, scaled: bool) -> Callable[..., None]:
    """What updates a table, there or in a copy, perhaps aside."""
    if in_place and not tells:
        return _put(check, None, program, scaled)
    copy = copying(table.shape, table.itemsize, table.strides, aside.strides)
    if not tells or check is None:
        return _put(check, copy, program, scaled)
    back = copying(table.shape, table.itemsize, aside.strides, result.strides) if in_place else None
    return _told_put(check, copy, program, back, aside.nbytes, scaled)


def _program(made: OneKernel, tiles: TiledRun | None, layout: Layout, elements: Any, policy: str, update: str,
             scale: float) -> Executable | RowParts:
    """What updates the table: in the order of the look-ups, but where a modelled machine's plan gives others sums."""
    if not layout.components or tiles is None:
        return made.executable
    (axis, entries), axes = layout.components[0], layout.axes
    sizes = prod(n for n, *_ in axes[:-1]), entries, axes[-1][0] if axes else 1
    return parts_of(tiles, elements, len(axes) - 1, sizes, axis, policy, update, scale) or made.executable


def parts_of(tiles: TiledRun | None, elements: Any, front: int, sizes: tuple[int, int, int], axis: int, policy: str,
             update: str, scale: float) -> RowParts | None:
    """What updates rows as a machine's plan cuts them; None where that gives the sums in the order of the look-ups.

    Parameters
    ----------
    tiles : TiledRun or None
    elements : Format or numpy.dtype
        Of the table.
    front, axis, policy, update, scale
        As `RowParts` has them.
    sizes : (int, int, int)
        Tables, their rows, look-ups of each.
    """
    computed = tiles is not None and isinstance(elements, Format) and update in ("add", "mul")
    if tiles is None or not computed or (tiles.copies == 1 and (tiles.turns == 1 or elements == FP32)):
        return None
    partial = np.float16 if tiles.partial == "half" else np.float32
    return RowParts(front, *sizes, axis, tiles.turns, tiles.copies, np.dtype(partial), np.dtype(elements.dtype), policy,
                    update, scale)


def receiver_of(out: Any, shape: tuple[int, ...], elements: Any, reads: bool = False,
                in_place: SequenceOf[Operand] = ()) -> Receiver:
    """What receives a result of the table's elements."""
    if len(shape) > _MOST_AXES:
        raise bad_argument("indices", f"what makes a result of {len(shape)} axes", f"at most {_MOST_AXES} of them")
    if isinstance(out, QuarterArray):
        raise bad_type("out", out, f"an array of {elements}")
    return receive("out", out, shape, None, elements, in_place=in_place, reads=reads, own="that of x")


def _no_vertex(_: Target) -> str:
    return "that is planned"


def _check_elements(table: Operand, updates: Operand, update: str, scale: Any) -> float:
    """Refuse updates that the table cannot take; return the scale."""
    elements, others = elements_of(table), elements_of(updates)
    alike = elements == others
    if update != "set":
        if elements == np.bool_:
            raise bad_type("x", "dtype bool", "numbers of a format, or integers")
        alike = alike or (isinstance(elements, Format) and isinstance(others, Format))
    if not alike:
        allowed = "numbers of a format" if isinstance(elements, Format) and update != "set" else f"{elements}, as x has"
        raise bad_type("updates", f"dtype {others}", allowed)
    if isinstance(elements, Format):
        return real("scale", scale, "a finite number that float32 holds", -3.4e38, 3.4e38)
    if isinstance(scale, float) and scale.is_integer():
        scale = int(scale)
    limits = np.iinfo(np.int8 if elements == np.bool_ else elements)
    return whole("scale", scale, max(-(1 << 53), limits.min), min(1 << 53, limits.max), f", as x is of {elements}")
