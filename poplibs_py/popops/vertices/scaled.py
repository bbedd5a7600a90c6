"""What adding arrays by scales costs on a tile of a modelled machine: PopLibs' vertices and their cycles.

``ScaledAdd`` is x + b y, ``ScaledSubtract`` x - b y, ``aXPlusbY`` a x + b y, ``aXMinusbY`` a x - b y and
``XMinusaXPlusbY`` x - a x + b y, all in the place of x. ``ScalarMultiply`` is a x for halves and a float.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...planner.tile_plan import Vertex
from ...target import Target
from ...target.mapping import Runs, split_between_workers
from ...target.types import vector_of

_SUBTRACTS = ("ScaledSubtract",)
_BOTH_SCALED = ("aXPlusbY", "aXMinusbY")
_LONG_START = ("aXPlusbY", "XMinusaXPlusbY")  # and aXMinusbY, but PopLibs leaves it out
_INTEGERS = ("int", "unsigned int")
_MOST = 65535
_FEW = {0: 6, 1: 20, 2: 19, 3: 28, 4: 6}


def _mixed_core(elements: int) -> int:
    """Cycles of a worker for halves whose scales are floats."""
    return 15 + 5 * ((elements - 4) // 2) + 9 * (elements % 2) if elements > 4 else _FEW[elements]


def _mixed_1d(target: Target, elements: int, constrained: bool) -> int:
    """Cycles of a tile for them."""
    workers = target.workers
    each, last = elements // (2 * workers) * 2, elements % workers
    rest = elements // workers % workers + -(-last // 2)
    slowest = max(19 + _mixed_core(each + 2 * (w <= rest) + last * (w == rest)) + (w == rest) for w in range(workers))
    return 149 + 6 * constrained + 5 * (last == 0) + workers * slowest


def _float_added_to_half(workers: int, vectors: int, rest: int) -> int:
    """Cycles of the slowest worker where a float array is added to one of halves."""
    left, slowest = vectors % workers, 0
    for w in range(workers):
        steps = vectors // workers + (w < left)
        cycles = 19 + (9 + 5 * (steps - 1) if steps else 0)
        if w == left:
            cycles += 1 + (4 + 5 * (rest >= 2) + 6 * (rest % 2) if rest else 0)
        slowest = max(slowest, cycles)
    return slowest


def scaled_1d_cycles(target: Target, op: str, types: tuple[str, str, str], elements: int, *, constrained: bool = False,
                     far: bool = False) -> int:
    """Cycles of a tile whose workers share one region.

    Parameters
    ----------
    target : Target
    op : {"ScaledAdd", "ScaledSubtract", "aXPlusbY", "aXMinusbY", "XMinusaXPlusbY"}
    types : (str, str, str)
        Of x, of y and of the scales.
    elements : int
    constrained : bool, optional
        Whether x and y lie in memory elements of their own, so that both are loaded at once.
    far : bool, optional
        Whether their addresses are stored as multiples of 8 bytes.

    Examples
    --------
    >>> from poplibs_py.popops.vertices.scaled import scaled_1d_cycles
    >>> from poplibs_py.target import Target
    >>> scaled_1d_cycles(Target.gc200(), "ScaledAdd", ("half", "half", "half"), 33)
    243
    """
    data, other, scale = types
    subtracts = op in _SUBTRACTS
    if data in _INTEGERS:
        return 73 + 26 * (elements // 3 + elements % 3) + subtracts
    if op in _BOTH_SCALED and (data, scale) == ("half", "float"):
        return _mixed_1d(target, elements, constrained)
    workers, width = target.workers, vector_of(target, data)
    vectors, rest = divmod(elements, width)
    each = vectors // workers
    start = 57 + 6 * (rest > 0) + 6 * far + 12 * (op in _LONG_START) + 7 * subtracts
    if (data, other) == ("half", "float"):
        return start + subtracts + workers * _float_added_to_half(workers, vectors, rest)
    if op in _BOTH_SCALED and data == "float":
        return start + workers * (18 + (6 + 3 * (each - 1) if each else 0) + 5 * (rest > 0))
    step = (1 if each >= 16 else 2) if constrained else 3 if data == other else 4
    left = 8 if data == "float" else 5 + 7 * (rest >= 2) + 6 * (rest == 3)
    return start + workers * (19 + (6 + step * (each - 1) if each else 0) + (left if rest else 0))


def scaled_2d_cycles(target: Target, op: str, types: tuple[str, str, str], regions: Runs, *,
                     constrained: bool = False) -> int:
    """Cycles of a worker with regions of its own.

    Parameters
    ----------
    target, op, types, constrained
        As for `scaled_1d_cycles`.
    regions : Runs
    """
    data, _, scale = types
    subtracts = op in _SUBTRACTS
    if data in _INTEGERS:
        return 9 + subtracts + sum((7 + 5 * n) * count for n, count in regions)
    if op in _BOTH_SCALED and (data, scale) == ("half", "float"):  # PopLibs multiplies the row's loop by 5
        return 22 + constrained + sum(5 * _mixed_core(n) * count for n, count in regions)
    width, step = vector_of(target, data), 2 if constrained and not (op in _BOTH_SCALED and data == "float") else 3
    total = 10 + 2 * subtracts + 6 * (op in _LONG_START)
    for n, count in regions:
        vectors, rest = divmod(n, width)
        left = 7 * (rest > 0) if data == "float" else 4 * (rest > 0) + 6 * (rest >= 2) + 7 * (rest % 2)
        total += (15 + 5 * (vectors > 0) + vectors * step + left) * count
    return total


def scaled_vertices(target: Target, op: str, types: tuple[str, str, str], sizes: Sequence[int], *,
                    speed: bool = False) -> tuple[Vertex, ...]:
    """Return the vertices that PopLibs gives a tile.

    Parameters
    ----------
    target, op, types
        As for `scaled_1d_cycles`.
    sizes : sequence of int
        Elements of the tile's regions, none of them empty.
    speed : bool, optional
        PopLibs' ``optimizeForSpeed``.
    """
    data, other, scale = types
    constrained = speed and data == "half" and (other == "half" or (other == "float" and op == "XMinusaXPlusbY"))
    scales = {"ScaledAdd": (data, other, scale), "XMinusaXPlusbY": (data,)}
    params, width = scales.get(op, (data, scale)), vector_of(target, data)
    end = (str(constrained).lower(),)
    reach = target.repeat_count_max * width
    if len(sizes) == 1 and sizes[0] <= min(_MOST, reach * target.workers):
        params = types if op == "ScaledSubtract" else params
        cycles = scaled_1d_cycles(target, op, types, sizes[0], constrained=constrained)
        return (Vertex(f"{op}Supervisor", params + end, ((sizes[0], 1),), cycles, "tile"),)
    parts = split_between_workers(target, sizes, width, least=2 * width, most_in_region=min(_MOST, reach))
    return tuple(Vertex(f"{op}2D", params + end, runs, scaled_2d_cycles(
        target, op, types, runs, constrained=constrained), "worker") for runs in parts)
