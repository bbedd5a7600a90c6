"""What operations on two arrays, or on an array and a number, cost on a tile of a modelled machine.

Their vertices are `BinaryOp1D`, which spreads itself over the workers, and `BinaryOp2D`, one for each worker; where the
second operand is one number, `BroadcastScalar1D`, `BroadcastScalar2DData` and, where each region meets a number of its
own, `BroadcastScalar2D`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...planner.tile_plan import Vertex
from ...target import Target
from ...target.mapping import Runs
from ...target.types import vector_of
from .unary import Entry, element_limit, element_split, entry_tables

SUPERVISOR = 11
"""Cycles of a tile to start its workers and to wait for them."""

ARITHMETIC = {(op, data_type) for op in ("ADD", "SUBTRACT", "MULTIPLY") for data_type in ("float", "half")}
"""What vertices have inner loops in assembly for."""

# As the table of unary operations.
_BINARY = """
ADD                      fh 1/v  iu 7/1  IU 11/1
ATAN2                    f 272/2  h 578/4
BITWISE_AND              iu 7/1  IU 9/1  s 3/4
BITWISE_OR               iu 7/1  IU 9/1  s 3/4
BITWISE_XNOR             iu 7/1  IU 9/1  s 6/2
BITWISE_XOR              iu 7/1  IU 9/1  s 5/2
DIVIDE                   f 10/2  h 21/4  i 277/1  u 265/1  U 115/1  I 130/1  | u 264/1  U 113/1
EQUAL                    f 14/4  h 9/4  ius 22/4  IU 48/4  b 6/4             | only b 6/4
GREATER_THAN             f 14/4  h 9/4  iu 22/4  IU 56/4  b 31/4             | only b 31/4
GREATER_THAN_EQUAL       f 14/4  h 9/4  iu 26/4  IU 62/4  b 28/4             | only b 28/4
LESS_THAN                f 14/4  h 9/4  iu 22/4  IU 56/4  b 28/4             | only b 28/4
LESS_THAN_EQUAL          f 14/4  h 9/4  iu 26/4  IU 62/4  b 28/4             | only b 28/4
LOGICAL_AND              b 5/4
LOGICAL_OR               b 5/4
MAXIMUM                  f 3/2  h 4/4  i 7/1  u 8/1  U 13/1  I 15/1          | f 4/2
MINIMUM                  f 3/2  h 4/4  i 7/1  u 8/1  U 13/1  I 15/1          | f 4/2
MULTIPLY                 fh 1/v  iu 7/1  IU 30/1                             | IU 28/1
NOT_EQUAL                f 20/4  h 11/4  ius 22/4  IU 48/4  b 5/4            | only b 5/4
POWER                    f 312/1  h 325/1  i 32/1                            | i 34/1
REMAINDER                f 133/2  h 300/4  i 292/1  u 282/1  U 149/1  I 166/1  | U 146/1  I 165/1
SHIFT_LEFT               iu 7/1  IU 18/1                                     | IU 16/1
SHIFT_RIGHT              iu 7/1  IU 6/1
SHIFT_RIGHT_SIGN_EXTEND  i 7/1  I 19/1                                       | I 17/1
SUBTRACT                 fh 1/v  iu 7/1  IU 11/1
"""

_SCALAR = """
ADD                      fh 1/v  iu 6/1  IU 9/1
ATAN2                    f 272/2  h 578/4
BITWISE_AND              iu 6/1  IU 7/1  s 2/4
BITWISE_OR               iu 6/1  IU 7/1  s 2/4
BITWISE_XNOR             iu 6/1  IU 7/1  s 4/2
BITWISE_XOR              iu 6/1  IU 7/1  s 4/2
DIVIDE                   f 6/2  h 8/2  i 277/1  u 260/1  U 148/1  I 103/1
EQUAL                    f 12/4  h 8/4  ius 16/4  IU 32/4  b 14/4            | only b 5/4
GREATER_THAN             f 12/4  h 8/4  iu 16/4  IU 38/4  b 12/4             | only b 12/4
GREATER_THAN_EQUAL       f 12/4  h 8/4  iu 20/4  IU 50/4  b 12/4             | only b 12/4
INV_STD_DEV_TO_VARIANCE  f 11/2  h 10/2                                      | f 7/v
LESS_THAN                f 12/4  h 8/4  iu 16/4  IU 38/4  b 16/4             | only b 16/4
LESS_THAN_EQUAL          f 12/4  h 8/4  iu 20/4  IU 50/4  b 16/4             | only b 16/4
LOGICAL_AND              b 4/4
LOGICAL_OR               b 4/4
MAXIMUM                  f 3/2  h 3/4  i 6/1  u 7/1  U 11/1  I 14/1
MINIMUM                  f 3/2  h 3/4  i 6/1  u 8/1  U 13/1  I 14/1
MULTIPLY                 fh 1/v  iu 6/1  IU 26/1
NOT_EQUAL                f 18/4  h 10/4  ius 16/4  IU 32/4  b 4/4            | only b 4/4
POWER                    f 312/1  h 325/1  i 23/1                            | i 25/1
REMAINDER                f 93/2  h 225/4  i 280/1  u 267/1  U 178/1  I 137/1 | U 179/1  I 135/1
SHIFT_LEFT               iu 6/1  IU 16/1
SHIFT_RIGHT              iu 6/1  IU 5/1
SHIFT_RIGHT_SIGN_EXTEND  i 6/1  I 17/1
SUBTRACT                 fh 1/v  iu 6/1  IU 9/1
VARIANCE_TO_INV_STD_DEV  f 12/2  h 24/4
"""


def binary_entry(op: str, data_type: str, in_place: bool = False) -> Entry | None:
    """The inner loop of an operation's vertices on two arrays of a type; None where PopLibs has none.

    Examples
    --------
    >>> from poplibs_py.popops.vertices.binary import binary_entry
    >>> binary_entry("DIVIDE", "half"), binary_entry("EQUAL", "half", in_place=True)
    (Entry(cycles=21, elements=4), None)
    """
    return entry_tables(_BINARY)[in_place].get((op, data_type))


def scalar_entry(op: str, data_type: str, in_place: bool = False) -> Entry | None:
    """The same where the second operand is one number."""
    return entry_tables(_SCALAR)[in_place].get((op, data_type))


def steps(entry: Entry, elements: int, vector: int, overhead: int) -> int:
    """Cycles of a worker for so many elements; a step of one load costs `overhead` besides."""
    if entry.elements > 0:
        return -(-elements // entry.elements) * entry.cycles
    return -(-elements // vector) * (entry.cycles + overhead)


def binary_vertex_cycles(target: Target, op: str, data_type: str, regions: Runs, *, two_d: bool,
                         in_place: bool = False) -> int:
    """Cycles of a vertex on two arrays: the tile's of one region, a worker's of several.

    Examples
    --------
    >>> from poplibs_py.popops.vertices.binary import binary_vertex_cycles
    >>> from poplibs_py.target import Target
    >>> binary_vertex_cycles(Target.gc200(), "MULTIPLY", "half", ((256, 1),), two_d=False)
    365
    """
    entry = binary_entry(op, data_type, in_place)
    assert entry is not None
    vector, overhead = vector_of(target, data_type), 2 if (op, data_type) in ARITHMETIC else 5
    if two_d:
        enter = 20 if in_place else 5
        return enter + sum(steps(entry, n, vector, overhead) * count for n, count in regions)
    enter = 58 if in_place else 29 if data_type == "float" else 26
    share = -(-regions[0][0] // target.workers)
    return target.workers * (enter + steps(entry, share, vector, overhead)) + SUPERVISOR


def scalar_vertex_cycles(target: Target, op: str, data_type: str, regions: Runs, *, two_d: bool, uniform: bool = True,
                         in_place: bool = False, result_type: str = "") -> int:
    """Cycles of a vertex on an array and a number: the tile's of one region, a worker's of several.

    Parameters
    ----------
    target : Target
    op, data_type : str
    regions : Runs
    two_d : bool
    uniform : bool, optional
        Whether all regions meet the same number.
    in_place : bool, optional
    result_type : str, optional
        Where it is another than `data_type`.
    """
    two_types = bool(result_type) and result_type != data_type
    entry = scalar_entry(op, "float" if two_types else data_type, in_place)
    assert entry is not None
    if two_types:
        overhead = 0 if result_type == "float" else 1
    else:
        overhead = 1 if (op, data_type) in ARITHMETIC and (uniform or not two_d) else 4
    vector = vector_of(target, data_type)
    if two_d:
        return 20 + sum((28 + steps(entry, n, vector, overhead)) * count for n, count in regions)
    share = -(-regions[0][0] // target.workers)
    return target.workers * (20 + steps(entry, share, vector, overhead)) + SUPERVISOR


def binary_vertices(target: Target, op: str, data_type: str, sizes: Sequence[int], *,
                    in_place: bool = False) -> tuple[Vertex, ...]:
    """Return the vertices that PopLibs gives a tile for an operation on two arrays.

    Parameters
    ----------
    target : Target
    op : str
        PopLibs' name of it, such as ``"MULTIPLY"``.
    data_type : str
        Of the operands.
    sizes : sequence of int
        Elements of the tile's regions, none of them empty.
    in_place : bool, optional
    """
    ending, params = "InPlace" if in_place else "", (op, data_type)
    one_d = len(sizes) == 1 and sizes[0] <= element_limit(target, op, data_type)
    parts: tuple[Runs, ...] = (((sizes[0], 1),),) if one_d else element_split(target, op, data_type, sizes)
    name, unit = ("BinaryOp1D", "tile") if one_d else ("BinaryOp2D", "worker")
    return tuple(Vertex(name + ending, params, runs, binary_vertex_cycles(
        target, op, data_type, runs, two_d=not one_d, in_place=in_place), unit) for runs in parts)


def scalar_vertices(target: Target, op: str, data_type: str, sizes: Sequence[int], *, in_place: bool = False,
                    uniform: bool = True) -> tuple[Vertex, ...]:
    """Return the vertices that PopLibs gives a tile for an operation on an array and a number.

    One that spreads itself for each region, where that is estimated to cost less than one for each worker.

    Parameters
    ----------
    target, op, data_type, sizes, in_place
        As for `binary_vertices`.
    uniform : bool, optional
        Whether all regions meet the same number.
    """
    params, ending = (op, data_type), "InPlace" if in_place else ""

    def cycles(runs: Runs, two_d: bool) -> int:
        return scalar_vertex_cycles(target, op, data_type, runs, two_d=two_d, uniform=uniform, in_place=in_place)

    shared = element_split(target, op, data_type, sizes)
    longest = max(shared, key=lambda runs: sum(count for _, count in runs))
    singles = [cycles(((n, 1),), False) for n in sizes]
    if sum(singles) < target.workers * cycles(longest, True) and max(sizes) <= element_limit(target, op, data_type):
        name = f"BroadcastScalar1D{ending}"
        return tuple(Vertex(name, params, ((n, 1),), c, "tile") for n, c in zip(sizes, singles, strict=True))
    name = f"BroadcastScalar2D{'Data' if uniform else ''}{ending}"
    return tuple(Vertex(name, params, runs, cycles(runs, True), "worker") for runs in shared)
