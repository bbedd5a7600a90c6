"""What casts cost on a tile of a modelled machine: PopLibs' vertices, which of them it takes, their cycles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...formats import Format
from ...planner.tile_plan import Vertex
from ...target import Target
from ...target.mapping import Runs, split_between_workers
from ...target.types import TYPE_BYTES, type_of, vector_of

_SIGNED = ("int", "char", "short")
_BYTES = ("char", "signed char", "unsigned char")
_CONVERTED = {"float", "half"}, {"half", "quarter"}  # by instructions of their own
_STEP = 4  # elements that a vertex takes at a step, as PopLibs has it where it asks whether repeat counters suffice


class _Atoms(NamedTuple):
    """A loop over atoms of elements: cycles before it, of the first atom, of each further one, and of what is left."""

    before: int
    atom: int
    first: int
    further: int
    left: tuple[int, ...]

    def cycles(self, elements: int) -> int:
        atoms, left = divmod(elements, self.atom)
        made = self.before + (self.first + (atoms - 1) * self.further if atoms else 0)
        if not left:
            return made + 2
        return made + (self.left[left - 1] if left <= len(self.left) else self.left[0] * left)


_ATOMS = {("unsigned char", "half"): _Atoms(4, 4, 14, 9, (12, 14, 22))}
_ATOMS |= {("quarter", "quarter"): _Atoms(4, 8, 0, 13, (5, 5, 5))}
_ATOMS |= {("half", byte): _Atoms(8, 4, 19, 16, (14, 21, 29)) for byte in _BYTES}
_ATOMS |= {("quarter", byte): _Atoms(4, 8, 0, 28, (5, 5, 5)) for byte in _BYTES}
_ATOMS |= {(byte, "quarter"): _Atoms(4, 8, 0, 37, (7, 7, 7)) for byte in _BYTES}


def is_copy(source: str, result: str) -> bool:
    """Whether a cast changes no bit, so that PopLibs copies; FP8 has metadata, which a vertex applies."""
    alike = {"unsigned int": "int", "unsigned long long": "long long"}
    return source != "quarter" and alike.get(source, source) == alike.get(result, result)


def cast_lacks(target: Target, source: Format | None, result: Format | None) -> str:
    """Return what no vertex of a machine casts, in words; an empty string if one does."""
    read, written = type_of(source), type_of(result)
    if not read or not written:
        return f"to {result}" if read else f"from {source}"
    if {read, written} == {"float", "quarter"} and not any("quarter" in unit for unit in target.conv_units):
        return f"from {source} to {result}: cast by way of float16"
    return ""


def _worker(target: Target, source: str, result: str, elements: int) -> int:
    """Cycles of a worker's loop over one region."""
    if TYPE_BYTES[result] == 8:
        return 3 + elements * (4 + (source in _SIGNED))
    if (source, result) in _ATOMS:
        return _ATOMS[source, result].cycles(elements)
    read, written = vector_of(target, source), vector_of(target, result)
    converted = any({source, result} <= types for types in _CONVERTED)
    step = min(2 * read, written) if converted else 1
    each = max(step // min(step, read), step // min(step, written)) + (not converted)
    return 19 + each * (elements // step) + (step - 1).bit_length() + 2 * (elements % step).bit_count()


def cast_vertex_cycles(target: Target, name: str, source: str, result: str, regions: Runs) -> int:
    """Cycles of a cast's vertex: the tile's for ``"Cast1D"``, else a worker's.

    Examples
    --------
    >>> from poplibs_py.popops.vertices.cast import cast_vertex_cycles
    >>> from poplibs_py.target import Target
    >>> cast_vertex_cycles(Target.gc200(), "Cast1D", "half", "float", ((299, 1),))
    390
    """
    if name == "Cast1D":
        share = -(-regions[0][0] // target.workers)
        return 12 + target.workers * (_worker(target, source, result, share) + 18)
    if name == "Cast1DSingleWorker":
        return 5 + _worker(target, source, result, regions[0][0])
    return 5 + sum((11 + _worker(target, source, result, n)) * count for n, count in regions)


def cast_limit(target: Target) -> int:
    """Elements that one vertex takes in one region, as its workers' repeat counters count."""
    return target.workers * target.repeat_count_max * _STEP


def cast_vertices(target: Target, source: str, result: str, sizes: Sequence[int]) -> tuple[Vertex, ...]:
    """Return the vertices that PopLibs gives a tile for a cast: none for a copy.

    Parameters
    ----------
    target : Target
    source, result : str
        Types.
    sizes : sequence of int
        Elements of the tile's regions, none of them empty.
    """
    if is_copy(source, result):
        return ()
    vectors, limit = (vector_of(target, source), vector_of(target, result)), cast_limit(target)
    if len(sizes) == 1 and sizes[0] <= limit:
        alone = sizes[0] <= target.workers * min(vectors)
        parts: tuple[Runs, ...] = (((sizes[0], 1),),)
        names = ["Cast1DSingleWorker" if alone else "Cast1D"]
    else:
        grain = max(vectors)
        parts = split_between_workers(target, sizes, grain, least=2 * grain, most_in_region=limit // target.workers)
        names = ["Cast1DSingleWorker" if sum(count for _, count in runs) == 1 else "Cast2D" for runs in parts]
    return tuple(
        Vertex(name, (source, result), runs, cast_vertex_cycles(target, name, source, result, runs),
               "tile" if name == "Cast1D" else "worker") for name, runs in zip(names, parts, strict=True))
