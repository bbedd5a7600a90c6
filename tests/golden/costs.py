"""Cases of `cost-golden` run through the cost models; what is not built yet is skipped by its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from typing import Any

import numpy as np
import pytest

from poplibs_py.popops.cast_model import cast_vertex_cycles, cast_vertices
from poplibs_py.popops.model import TYPE_BYTES, Vertex, tile_cycles, unary_vertex_cycles, unary_vertices
from poplibs_py.target import Target, linear_mapping
from poplibs_py.target.mapping import Runs, split_regions

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


def listed(vertices: Iterable[Vertex]) -> list[dict[str, Any]]:
    """Vertices as the cases have them: equal neighbours counted."""
    made = []
    for vertex, alike in groupby(vertices):
        sizes = unrolled(vertex.regions)
        data = sizes if "2D" in vertex.name else sizes[0]
        made.append({"vertex": vertex.name, "params": list(vertex.params), "sizes": data, "cycles": vertex.cycles,
                     "unit": vertex.unit, "count": len(list(alike))})
    return made


def elementwise(case: Line) -> None:
    """Which vertices a tile gets, and their cycles."""
    words = spec(case)
    kind = words.pop("kind")
    if kind not in ("unary", "cast"):
        not_built(f"elementwise {kind}")
    source, regions = typed(words.pop("type")), numbers(words.pop("regions"))
    if kind == "unary":
        in_place = words.pop("inplace", "0") == "1"
        vertices = unary_vertices(GC200, words.pop("op"), source, regions, in_place=in_place)
    else:
        vertices = cast_vertices(GC200, source, typed(words.pop("to")), regions)
    assert not words
    assert listed(vertices) == case.fields["vertices"]
    if "tileCycles" in case.fields:
        assert tile_cycles(GC200, vertices) == case.fields["tileCycles"]


def vertices(case: Line) -> None:
    """Cycles of one vertex."""
    fields = case.fields
    name = fields["vertex"].rpartition("::")[2]
    if not name.startswith(("UnaryOp", "Cast1D", "Cast2D")):
        not_built("vertices of other ops")
    data = next(iter(fields["fields"].values()))
    regions = tuple((n, 1) for n in (data if isinstance(data, list) else [data]))
    if name.startswith("Cast"):
        cycles = cast_vertex_cycles(GC200, name, *fields["params"], regions)
    else:
        op, data_type = fields["params"]
        cycles = unary_vertex_cycles(GC200, op, data_type, regions, two_d="2D" in name, in_place="InPlace" in name)
    assert cycles == fields["cycles"]


def splits(case: Line) -> None:
    """Regions dealt out to tiles and workers."""
    words = spec(case)
    kind, out = words.pop("kind"), case.fields["out"]
    if kind == "split":
        regions, grain, parts = numbers(words.pop("regions")), int(words.pop("grain")), int(words.pop("parts"))
        keywords = limits(words, least="min", most="max", most_in_region="maxr")
        parts = split_regions(regions, grain, parts, **keywords)
        assert [unrolled(runs) for runs in parts] == out
    elif kind == "linear":
        keywords = limits(words, least="min", grain="grain")
        machine = GC200.replace(tiles=int(words.pop("tiles")))
        mapping = linear_mapping(machine, int(words.pop("n")), TYPE_BYTES[typed(words.pop("type"))], **keywords)
        shares = np.diff(mapping.edges())
        assert [[n, len(list(alike))] for n, alike in groupby(shares.tolist())] == out
        assert dict(mapping.classes) == Counter(shares.tolist())
    else:
        not_built(f"splits {kind}")
    assert not words
