"""What choosing between arrays and clamping cost on a tile of a modelled machine: PopLibs' vertices, their cycles."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...planner.tile_plan import Vertex
from ...target import Target
from ...target.mapping import Runs, split_between_workers
from ...target.types import TYPE_BYTES, vector_of
from .unary import element_grain

_CLAMPS = ("Clamp", "BroadcastClamp")


def _clamp(target: Target, data_type: str, elements: int) -> int:
    vector = vector_of(target, data_type)
    return 6 + (7 * elements if data_type == "int" else 2 * (elements + vector - 1) // vector)


def _select(target: Target, data_type: str, elements: int) -> int:
    return 6 + 5 * elements


def _select_numbers(target: Target, data_type: str, elements: int) -> int:
    if TYPE_BYTES[data_type] == 4:
        return 8 + 4 * elements
    if TYPE_BYTES[data_type] == 2:
        return (23 if elements % 2 else 30) + 4 * elements
    return 66 + 17 * (elements // 4)


def _select_array(target: Target, data_type: str, elements: int) -> int:
    words, rest = divmod(elements * TYPE_BYTES[data_type], 4)
    return 35 + words + 5 * rest


_REGION: dict[str, tuple[int, Callable[[Target, str, int], int]]] = {
    "Clamp": (5, _clamp), "BroadcastClamp": (5, _clamp), "Select": (5, _select),
    "BroadcastSelect": (10, _select_numbers), "BroadcastSelectorSelect": (12, _select_array)}
"""Cycles to begin, and those of a region."""


def ternary_vertex_cycles(target: Target, op: str, data_type: str, regions: Runs, *, in_place: bool = False) -> int:
    """Cycles of a worker.

    Examples
    --------
    >>> from poplibs_py.popops.vertices.ternary import ternary_vertex_cycles
    >>> from poplibs_py.target import Target
    >>> ternary_vertex_cycles(Target.gc200(), "Select", "float", ((55, 1),))
    286
    """
    enter, region = _REGION[op]
    if op == "Select" and in_place:  # PopLibs takes the number of regions for their elements
        rows = sum(count for _, count in regions)
        return enter + rows * region(target, data_type, rows)
    return enter + sum(region(target, data_type, n) * count for n, count in regions)


def ternary_vertices(target: Target, op: str, data_type: str, sizes: Sequence[int], *,
                     in_place: bool = False) -> tuple[Vertex, ...]:
    """Return the vertices that PopLibs gives a tile, one for each worker.

    Parameters
    ----------
    target : Target
    op : {"Select", "BroadcastSelect", "BroadcastSelectorSelect", "Clamp", "BroadcastClamp"}
        ``Broadcast`` has numbers for arrays: the two to choose between, the bounds; with ``Selector`` the condition.
    data_type : str
    sizes : sequence of int
        Elements of the tile's regions as they are mapped, neighbours apart, none of them empty.
    in_place : bool, optional
        Whether the result takes the first operand's place.
    """
    grain = element_grain(target, data_type)
    parts = split_between_workers(target, sizes, grain, least=2 * grain,
                                  most_in_region=_most_in_region(target, op, data_type, in_place))
    name = f"{op}InPlace" if in_place else op
    return tuple(Vertex(name, (data_type,), runs, ternary_vertex_cycles(target, op, data_type, runs, in_place=in_place),
                        "worker") for runs in parts)


def _most_in_region(target: Target, op: str, data_type: str, in_place: bool) -> int:
    """Elements that a worker's repeat counter can count, as PopLibs has it."""
    if op in _CLAMPS and data_type in ("float", "half"):
        return target.repeat_count_max * (2 if data_type == "half" else 1)
    if op == "Select" and data_type in ("float", "int") and not in_place:
        return target.repeat_count_max
    return 1 << 62
