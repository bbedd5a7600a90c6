"""What operations on elements cost on a tile of a modelled machine: PopLibs' vertices, their cycles, unary operations.

Types go by PopLibs' names: ``"float"``, ``"half"``, ``"quarter"``, ``"int"``, ``"unsigned int"`` and so on. A vertex
spreads itself over the workers, and its cycles are the tile's, or it runs on one of them: the tile then waits for the
slowest, and a cycle of a worker takes as many of the tile's as there are workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from ...planner.tile_plan import Vertex
from ...target import Target
from ...target.mapping import Runs, split_between_workers
from ...target.types import TYPE_BYTES, vector_of

NO_LIMIT = 1 << 62
"""More elements than there are."""

_TYPES = {"f": ("float",), "h": ("half",), "i": ("int",), "u": ("unsigned int",), "I": ("long long",),
          "U": ("unsigned long long",), "s": ("short", "unsigned short"), "b": ("bool",)}

# A row for each operation: types, and the cycles and elements of a step of the inner loop (v: as many as one load has);
# after the bar what differs in place, or is all there is. IS_* write truth values, which have no place among numbers.
_ROWS = """
ABSOLUTE              fh 1/0  i 2/0  I 10/0           | fh 1/v
ASIN                  fh 102/0
BITWISE_NOT           iu 1/v  IU 3/v  s 2/4
CBRT                  f 27/v  h 17/v
CEIL                  fh 2/v
COS                   f 2300/0  h 25/1
COUNT_LEADING_ZEROS   iu 1/0
ERF                   f 41/1  h 13/1
EXPONENT              f 6/2  h 4/4
EXPONENT2             f 6/2  h 4/4
EXPONENT_MINUS_ONE    f 4/0  h 5/v
FLOOR                 fh 2/v
GELU_ERF              f 22/1  h 16/1
INVERSE               f 6/2  h 15/4
IS_FINITE             fh 5/v                          | only
IS_INF                f 3/v  h 5/v                    | only
IS_NAN                fh 3/v                          | only
LOGARITHM             f 12/2  h 4/4                   | f 14/2  h 6/4
LOGARITHM_ONE_PLUS    fh 18/v                         | h 17/v
LOGICAL_NOT           b 17/0                          | b 17/v
NEARBY_INT            fh 2/v
NEGATE                f 2/2  h 2/4  i 2/0  I 5/0      | f 3/2  h 3/4
POPCOUNT              iu 1/0
RELU                  f 3/2  h 3/4                    | f 2/2  h 2/4
ROUND                 fh 2/v
RSQRT                 f 8/2  h 19/4
SIGMOID               f 12/2  h 6/4                   | f 10/2  h 4/4
SIGNUM                fh 5/v  i 5/0
SIN                   f 2300/0  h 25/1
SQRT                  f 10/2  h 23/4  i 110/0
SQUARE                f 2/2  h 2/4  iu 1/v
TAN                   f 5100/1  h 5700/1
TANH                  f 12/2  h 4/4                   | f 10/2  h 2/4
TRUNC                 f 3/2  h 11/4                   | f 4/2
"""

_NARROW = {"TANH", "RELU", "SIGMOID", "GELU_ERF"}  # half of a load at a time
_TRUTHS = {"IS_FINITE", "IS_INF", "IS_NAN", "EQUAL", "NOT_EQUAL",
           "GREATER_THAN", "GREATER_THAN_EQUAL", "LESS_THAN", "LESS_THAN_EQUAL"}  # what writes bool
_WIDE = {"BITWISE_NOT", "BITWISE_AND", "BITWISE_OR"}  # of the operations on 16-bit integers


class Entry(NamedTuple):
    """The inner loop of a vertex: cycles of a step, and its elements, -1 for those of one load."""

    cycles: int
    elements: int

    def loop(self, elements: int, vector: int) -> int:
        """Cycles of a worker for so many elements."""
        if self.elements > 0:
            return -(-elements // self.elements) * self.cycles
        if self.elements:
            return (self.cycles + 4) * (elements + vector - 1) // vector  # truncates after the product, as PopLibs does
        return (self.cycles + 4) * elements


Entries = dict[tuple[str, str], Entry]
"""The inner loops of a kind of vertex, by operation and type."""


@cache
def entry_tables(rows: str) -> tuple[Entries, Entries]:
    """The entries of a table, out of place and in place.

    Parameters
    ----------
    rows : str
        A row for each operation: its name, then types by their letters with cycles and elements; after a bar what
        differs in place, or after ``only`` what there is in place.
    """
    made: tuple[Entries, Entries] = {}, {}
    for line in rows.strip().splitlines():
        row, _, other = line.partition("|")
        op, *words = row.split()
        out_of_place, differing = _entries(op, words), other.split()
        made[0].update(out_of_place)
        if differing[:1] == ["only"]:
            made[1].update(_entries(op, differing[1:]))
        else:
            made[1].update(out_of_place | _entries(op, differing))
    return made


def _entries(op: str, words: Sequence[str]) -> Entries:
    made = {}
    for letters, entry in zip(words[::2], words[1::2], strict=True):
        cycles, elements = entry.split("/")
        for data_type in (name for letter in letters for name in _TYPES[letter]):
            made[op, data_type] = Entry(int(cycles), -1 if elements == "v" else int(elements))
    return made


def unary_entry(op: str, data_type: str, in_place: bool = False) -> Entry | None:
    """The inner loop of an operation's vertices on a type; None where PopLibs has none.

    Examples
    --------
    >>> from poplibs_py.popops.vertices.unary import unary_entry
    >>> unary_entry("TANH", "half"), unary_entry("TANH", "half", in_place=True), unary_entry("TANH", "quarter")
    (Entry(cycles=4, elements=4), Entry(cycles=2, elements=4), None)
    """
    return entry_tables(_ROWS)[in_place].get((op, data_type))


def unary_vertex_cycles(target: Target, op: str, data_type: str, regions: Runs, *, two_d: bool,
                        in_place: bool = False) -> int:
    """Cycles of a unary vertex: the tile's of one region, a worker's of several.

    Examples
    --------
    >>> from poplibs_py.popops.vertices.unary import unary_vertex_cycles
    >>> from poplibs_py.target import Target
    >>> unary_vertex_cycles(Target.gc200(), "TANH", "half", ((96, 1),), two_d=False)
    218
    """
    entry = unary_entry(op, data_type, in_place)
    assert entry is not None
    vector, workers = vector_of(target, data_type), target.workers
    if two_d:
        return 20 + sum(entry.loop(n, vector) * count for n, count in regions)
    enter = 55 if in_place else 33 if op == "EXPONENT" else 17
    return workers * (enter + entry.loop(-(-regions[0][0] // workers), vector)) + 20


def unary_vertices(target: Target, op: str, data_type: str, sizes: Sequence[int], *,
                   in_place: bool = False) -> tuple[Vertex, ...]:
    """Return the vertices that PopLibs gives a tile for a unary operation.

    One that spreads itself where the tile has one region that repeat counters can count, else one for each worker.

    Parameters
    ----------
    target : Target
    op : str
        PopLibs' name of it, such as ``"EXPONENT"``.
    data_type : str
        Of the operand.
    sizes : sequence of int
        Elements of the tile's regions, none of them empty.
    in_place : bool, optional
    """
    params, ending = (op, data_type), "InPlace" if in_place else ""
    limit = element_limit(target, op, data_type)
    one_d = len(sizes) == 1 and sizes[0] <= limit
    parts: tuple[Runs, ...] = (((sizes[0], 1),),)
    if not one_d:
        narrow = target.repeat_count_max if in_place and op in _NARROW else None
        parts = element_split(target, op, data_type, sizes, most_in_region=narrow)
    name, unit = (f"UnaryOp1D{ending}", "tile") if one_d else (f"UnaryOp2D{ending}", "worker")
    return tuple(
        Vertex(name, params, runs, unary_vertex_cycles(target, op, data_type, runs, two_d=not one_d, in_place=in_place),
               unit) for runs in parts)


def element_grain(target: Target, data_type: str) -> int:
    """Elements that stay together where an operation's elements are dealt out to workers."""
    return max(vector_of(target, data_type), target.atomic_store_bytes)  # PopLibs compares elements with bytes


def element_split(target: Target, op: str, data_type: str, sizes: Sequence[int],
                  most_in_region: int | None = None) -> tuple[Runs, ...]:
    """Deal out a tile's regions to its workers, as PopLibs does for operations on one operand or two.

    Parameters
    ----------
    target, op, data_type, sizes
        As for `unary_vertices`.
    most_in_region : int, optional
        Elements of a region; by default those that a worker's repeat counter can count.
    """
    grain, limit = element_grain(target, data_type), element_limit(target, op, data_type)
    if limit == NO_LIMIT:
        return split_between_workers(target, sizes, grain, least=2 * grain)
    longest = limit // target.workers if most_in_region is None else most_in_region
    return split_between_workers(target, sizes, grain, least=2 * grain, most_in_region=longest)


def element_limit(target: Target, op: str, data_type: str) -> int:
    """Elements that one vertex takes in one region, as its workers' repeat counters count; or `NO_LIMIT`."""
    if TYPE_BYTES[data_type] != 2 and (data_type != "float" or op in _TRUTHS):
        return NO_LIMIT
    return target.workers * target.repeat_count_max * _op_width(target, op, data_type)


def _op_width(target: Target, op: str, data_type: str) -> int:
    """Elements that a vertex takes at a step, as PopLibs has it where it asks whether repeat counters suffice."""
    vector = vector_of(target, data_type)
    if data_type in ("float", "half"):
        if op in _TRUTHS:
            return 4
        return max(1, vector // 2) if op in _NARROW else vector
    return 4 if op in _WIDE else 2
