"""What filling costs on a tile of a modelled machine, with a number or with one after another: vertices and cycles."""

from __future__ import annotations

from collections.abc import Sequence

from ...planner.tile_plan import Vertex
from ...target import Target
from ...target.mapping import Runs, split_between_workers
from ...target.types import TYPE_BYTES, vector_of

_STEP = {"half": 4}  # elements that a vertex takes at a step, where that is not 2


def fill_vertex_cycles(data_type: str, regions: Runs, *, two_d: bool) -> int:
    """Cycles of a worker that fills its regions.

    Examples
    --------
    >>> from poplibs_py.popops.vertices.fill import fill_vertex_cycles
    >>> fill_vertex_cycles("half", ((2724, 1),), two_d=False)
    707
    """
    if not two_d:
        return _fill(data_type, regions[0][0])
    enter, saved = (5, 2) if data_type == "half" or TYPE_BYTES[data_type] == 8 else (6, 3)
    return enter + sum((_fill(data_type, n) - saved) * count for n, count in regions)


def _fill(data_type: str, elements: int) -> int:
    """Cycles of a worker for one region."""
    if data_type == "half":
        return 26 + elements // 4 if elements > 2 else 9 + 6 * elements
    if TYPE_BYTES[data_type] == 8:
        return 5 + elements
    if TYPE_BYTES[data_type] == 1 and data_type != "quarter":
        return 28 + elements // 4 if elements < 64 else 39 + elements // 8
    return 23 + elements // 2 + elements % 2


def fill_vertices(target: Target, data_type: str, sizes: Sequence[int]) -> tuple[Vertex, ...]:
    """Return the vertices that PopLibs gives a tile to fill its regions, which may be more than it has workers.

    Where the program may copy, PopLibs copies from a constant instead.

    Parameters
    ----------
    target : Target
    data_type : str
    sizes : sequence of int
        Elements of the tile's regions, none of them empty.
    """
    grain, most = vector_of(target, data_type), target.repeat_count_max * _STEP.get(data_type, 2)
    made = []
    for runs in split_between_workers(target, sizes, grain, least=2 * grain, most=most):
        two_d = sum(count for _, count in runs) > 1
        cycles = fill_vertex_cycles(data_type, runs, two_d=two_d)
        made.append(Vertex("Fill2d" if two_d else "Fill", (data_type,), runs, cycles, "worker"))
    return tuple(made)


def iota_cycles(target: Target, data_type: str, regions: Sequence[int]) -> int:
    """Cycles of a worker to count through its regions (``Iota``)."""
    return 10 + sum(4 + 3 * -(-n // vector_of(target, data_type)) for n in regions)
