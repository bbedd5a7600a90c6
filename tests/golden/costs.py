"""Cases of `cost-golden` run through the cost models; what is not built yet is skipped by its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pytest

from poplibs_py.planner.tile_plan import Vertex, tile_cycles
from poplibs_py.popops.reductions.split import assigned_workers, intermediate_split, rows_of_workers, stages_of_workers
from poplibs_py.popops.vertices.argmax import argmax_split
from poplibs_py.popops.vertices.binary import binary_vertices, scalar_vertices
from poplibs_py.popops.vertices.broadcast import broadcast_vertices, patterns_of
from poplibs_py.popops.vertices.cast import cast_vertices
from poplibs_py.popops.vertices.fill import fill_vertices
from poplibs_py.popops.vertices.scaled import scaled_vertices
from poplibs_py.popops.vertices.sort import bitonic_program
from poplibs_py.popops.vertices.ternary import ternary_vertices
from poplibs_py.popops.vertices.unary import unary_vertices
from poplibs_py.target import Target, linear_mapping
from poplibs_py.target.mapping import Runs, split_regions
from poplibs_py.target.types import TYPE_BYTES

from .families import Line

GC200 = Target.gc200()
TYPES = {"uint": "unsigned int", "ushort": "unsigned short", "longlong": "long long", "ulonglong": "unsigned long long"}
"""PopLibs' names of the types that specs abbreviate."""


def spec(case: Line) -> dict[str, str]:
    """The words of a case's specification."""
    return dict(word.split("=") for word in case.fields["spec"].split())


def not_built(what: str) -> None:
    """Skip a case."""
    pytest.skip(f"{what}: not built yet")


def numbers(words: str) -> list[int]:
    """A list as specifications have it."""
    return [int(word) for word in words.split(",")]


def limits(words: dict[str, str], **names: str) -> dict[str, int]:
    """Keywords from those words of a specification that are there."""
    return {name: int(words.pop(word)) for name, word in names.items() if word in words}


def typed(name: str) -> str:
    """PopLibs' name of a type."""
    return TYPES.get(name, name)


def unrolled(regions: Runs) -> list[int]:
    """The elements of each region."""
    return [elements for elements, count in regions for _ in range(count)]


def flag(words: dict[str, str], name: str) -> bool:
    """Whether a word of a specification is there and not nought."""
    return words.pop(name, "0") != "0"


_SIZES_LISTED = ("2D", "2d", "Select", "Clamp")  # what has regions of its own, as PopLibs' classes are named


def listed(vertices: Iterable[Vertex]) -> list[dict[str, Any]]:
    """Vertices as the cases have them: equal neighbours counted."""
    made = []
    for vertex, alike in groupby(vertices):
        sizes = unrolled(vertex.regions)
        data = sizes if any(word in vertex.name for word in _SIZES_LISTED) else sizes[0]
        fields = {name: list(value) if isinstance(value, tuple) else value for name, value in vertex.fields}
        made.append({"vertex": vertex.name, "params": list(vertex.params), "sizes": data, "cycles": vertex.cycles,
                     "unit": vertex.unit, "count": len(list(alike))} | fields)
    return made


def elementwise(case: Line) -> None:
    """Which vertices a tile gets, and their cycles."""
    words = spec(case)
    kind, data_type = words.pop("kind"), typed(words.pop("type"))
    if kind not in ELEMENTWISE:
        not_built(f"elementwise {kind}")
    vertices = ELEMENTWISE[kind](case, words, data_type)
    assert not words
    assert listed(vertices) == case.fields["vertices"]
    if "tileCycles" in case.fields:
        assert tile_cycles(GC200, vertices) == case.fields["tileCycles"]


def _choice(choose: Any) -> Any:
    """A kind of operation that is told what it does, on what, and whether in place."""
    def run(case: Line, words: dict[str, str], data_type: str) -> Sequence[Vertex]:
        op, sizes = words.pop("op"), numbers(words.pop("regions"))
        made: Sequence[Vertex] = choose(GC200, op, data_type, sizes, in_place=flag(words, "inplace"))
        return made
    return run


def _cast(case: Line, words: dict[str, str], data_type: str) -> Sequence[Vertex]:
    return cast_vertices(GC200, data_type, typed(words.pop("to")), numbers(words.pop("regions")))


def _fill(case: Line, words: dict[str, str], data_type: str) -> Sequence[Vertex]:
    return fill_vertices(GC200, data_type, numbers(words.pop("regions")))


def _pattern(case: Line, words: dict[str, str], data_type: str) -> Sequence[Vertex]:
    runs, period = numbers(words.pop("b"))
    reads = []
    for word in words.pop("regions").split(","):
        offset, _, size = word.rpartition(":")
        begin = int(offset or 0)
        reads.append(np.arange(begin, begin + int(size)) // runs % period)
    assert [list(pattern) for region in reads for pattern in patterns_of(region)] == case.fields["patterns"]
    return broadcast_vertices(GC200, words.pop("op"), data_type, reads, in_place=flag(words, "inplace"))


SCALED = {(): "ScaledAdd", ("subtract",): "ScaledSubtract", ("axpby",): "aXPlusbY", ("axpby", "subtract"): "aXMinusbY",
          ("axpby", "xmaxpby"): "XMinusaXPlusbY"}


def _scaled(case: Line, words: dict[str, str], data_type: str) -> Sequence[Vertex]:
    types = data_type, typed(words.pop("b")), typed(words.pop("scale"))
    op = SCALED[tuple(word for word in ("axpby", "subtract", "xmaxpby") if flag(words, word))]
    return scaled_vertices(GC200, op, types, numbers(words.pop("regions")), speed=flag(words, "speed"))


ELEMENTWISE = {"unary": _choice(unary_vertices), "binary": _choice(binary_vertices), "scalar": _choice(scalar_vertices),
               "ternary": _choice(ternary_vertices), "pattern": _pattern, "cast": _cast, "fill": _fill,
               "scaledAdd": _scaled}
"""What gives a tile its vertices, by the kind of operation."""


def splits(case: Line) -> None:
    """Regions dealt out to tiles and workers."""
    words = spec(case)
    kind = words.pop("kind")
    if kind not in SPLITS:
        not_built(f"splits {kind}")
    SPLITS[kind](words, case.fields["out"])
    assert not words


def _regions(words: dict[str, str], out: list[Any]) -> None:
    keywords = limits(words, least="min", most="max", most_in_region="maxr")
    parts = split_regions(numbers(words.pop("regions")), int(words.pop("grain")), int(words.pop("parts")), **keywords)
    assert [unrolled(runs) for runs in parts] == out


def _linear(words: dict[str, str], out: list[Any]) -> None:
    keywords = limits(words, least="min", grain="grain")
    machine = GC200.replace(tiles=int(words.pop("tiles")))
    mapping = linear_mapping(machine, int(words.pop("n")), TYPE_BYTES[typed(words.pop("type"))], **keywords)
    shares = np.diff(mapping.edges())
    assert [[n, len(list(alike))] for n, alike in groupby(shares.tolist())] == out
    assert dict(mapping.classes) == Counter(shares.tolist())


def products(words: str) -> list[tuple[int, ...]]:
    """A list of sizes as specifications have them."""
    return [tuple(int(n) for n in word.split("x")) for word in words.split(",")]


def _intermediate(words: dict[str, str], out: list[Any]) -> None:
    keywords = limits(words, columns="minCols", rows="minRows", elements="minSize")
    partials: Any = products(words.pop("partials"))
    pieces = intermediate_split(partials, int(words.pop("grain")), int(words.pop("pieces")), **keywords)
    assert [list(piece) for piece in pieces] == out


def _rows(words: dict[str, str], out: list[Any]) -> None:
    assert list(rows_of_workers(int(words.pop("rows")), int(words.pop("n")), int(words.pop("grain")))) == out


def _on_workers(deal: Any) -> Any:
    def run(words: dict[str, str], out: list[Any]) -> None:
        machine = GC200.replace(workers=int(words.pop("workers")))
        reductions = [(outputs, factor) for outputs, factor, *_ in products(words.pop("red"))]
        assert list(deal(machine, words.pop("op"), words.pop("type"), reductions)) == out
    return run


def _argmax(words: dict[str, str], out: list[Any]) -> None:
    machine = GC200.replace(tiles=int(words.pop("tiles")))
    assert [list(p) for p in argmax_split(machine, int(words.pop("rows")), int(words.pop("cols")))] == out


SPLITS = {"split": _regions, "linear": _linear, "calcSplit": _intermediate, "rows": _rows,
          "twoStage": _on_workers(stages_of_workers), "assign": _on_workers(assigned_workers), "argmax": _argmax}
"""What deals out, by the kind of what is dealt out."""


def topk(case: Line) -> None:
    """The steps of a bitonic program."""
    words, fields = spec(case), case.fields
    machine = GC200.replace(tiles=int(words.pop("tiles")))
    values = words.pop("val", "") != ""
    program = bitonic_program(
        machine, int(words.pop("n")), int(words.pop("k")), batch=int(words.pop("b")), key_type=typed(words.pop("key")),
        values=values, secondary=flag(words, "sec"), largest=flag(words, "largest"), in_order=flag(words, "sorted"),
        ascending=flag(words, "asc"))
    assert not words
    copies = iter(program.copies)
    steps = [[["copy", next(copies)] for _ in range(1 + values)] + [["cs", step.tiles, step.cycles]]
             for step in program.steps]
    assert [entry for step in steps for entry in step] == fields["steps"]
    assert (len(program.copies), sum(program.copies)) == (fields["copies"], fields["copyBytes"])
    assert (len(program.steps), program.cycles) == (fields["computeSets"], fields["computeCycles"])
