"""Look-ups on a modelled machine: bags, their gradient, and one element of each row.

A bag is PopLibs' `multiSlice` and a reduction, the gradient its `multiUpdateAdd` to zeros. Scalars of rows are taken
where the rows lie, linearly; a row that several tiles have parts of gives a number on each, and these are added up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...planner.tile_plan import Step, TilePlan, TileWork, Vertex, tile_cycles, work_of
from ...target import Target, linear_mapping
from ...target.types import TYPE_BYTES, type_of
from ..reductions.compose import StepsBuilder
from ..vertices.fill import fill_vertices
from ..vertices.slices import interval_cycles
from .modelled import TiledRun, rows_planner

_NUMBERS = ("half", "float")
_INDEX_BYTES = 4


def bags_plan(op: str, target: Target, elements: tuple[Any, Any], sizes: tuple[int, int, int, int], mode: str, *,
              weighted: bool, skips: bool) -> TilePlan | str:
    """Rows looked up by an embedding's plan, perhaps multiplied by weights, and reduced.

    Parameters
    ----------
    op : str
        Its public name.
    target : Target
    elements : (Format, Format)
        Of the table, and of the result.
    sizes : (int, int, int, int)
        Entries and elements of a row of the table; bags, and look-ups of each, or -1 where they differ.
    mode : {"sum", "mean", "max"}
    weighted : bool
    skips : bool
        Whether a bad index leaves its look-up out.
    """
    (table, result), (entries, width, bags, each) = elements, sizes
    word = type_of(table)
    if word not in _NUMBERS or result != table:
        return f"of {table} to {result}"
    if each < 0:
        return "with offsets: PopLibs reduces rows of one length"
    if weighted and word != "float":
        return f"of {table} with weights of float32"
    if skips and mode != "sum":
        return f"({mode}) with index_policy 'skip', which leaves look-ups out"
    rows = rows_planner(op, table, table, (1, entries, width, bags * each), "", None)(target)
    if isinstance(rows, str) or not rows.plan.steps:
        return rows if isinstance(rows, str) else rows.plan
    made = StepsBuilder(target, word)
    made.take(rows.plan.steps)
    if weighted:
        made.broadcast("weigh", "MULTIPLY", (bags, each, width), (bags, each, 1), in_place=True)
    made.reduce(mode, "MAX" if mode == "max" else "ADD", (bags, each, width), (1,), scaled=mode == "mean")
    problem = f"{mode} of {bags:,} bags of {each:,} rows of [{entries:,}, {width:,}] {word}"
    return made.plan(problem, reads=entries * width, writes=bags * width, decisions=rows.plan.decisions)


def gradient_plan(op: str, target: Target, element: Any, sizes: tuple[int, int, int]) -> TiledRun | str:
    """Rows added to a table of zeros by an embedding's plan.

    Parameters
    ----------
    op : str
        Its public name.
    target : Target
    element : Format
        Of the rows, and of their sums.
    sizes : (int, int, int)
        Entries and elements of a row of the table, and look-ups.
    """
    entries, width, lookups = sizes
    made = rows_planner(op, element, element, (1, entries, width, lookups), "add", None)(target)
    if isinstance(made, str) or not made.plan.steps:
        return made
    word = type_of(element)
    mapping = linear_mapping(target, entries * width, TYPE_BYTES[word])
    zero = Step("zero table", work_of(target, mapping.classes, lambda n: fill_vertices(target, word, (n,))))
    return made._replace(plan=made.plan.with_steps((zero, *made.plan.steps)))


def scalars_plan(target: Target, element: Any, rows: int, columns: int, *, update: bool) -> TilePlan | str:
    """One element of each row read, or made less by 1 where it is.

    Parameters
    ----------
    target : Target
    element : Format
    rows, columns : int
    update : bool
    """
    word = type_of(element)
    if word not in _NUMBERS:
        return f"of {element}"
    made, size = StepsBuilder(target, word), TYPE_BYTES[word]
    mapping = linear_mapping(target, rows * columns, size)
    if rows and columns:
        edges = mapping.edges()
        first, last = edges[:-1] // columns, (edges[1:] - 1) // columns
        parts = np.stack([np.diff(edges), last - first + 1])
        name = "UpdateIntervalDEC" if update else "SelectFromInterval"
        kinds, tiles = np.unique(parts, axis=1, return_counts=True)
        work = tuple(_scalars(target, name, word, int(held), int(pieces), int(count))
                     for (held, pieces), count in zip(kinds.T, tiles, strict=True))
        temporary = int(parts[1].max()) * (_INDEX_BYTES + size * (not update))
        made.add(Step("update" if update else "select", work, temporary))
        most = int(np.bincount(np.concatenate([first, last[last > first]]).astype(np.int64)).max())
        if not update and most > 1:
            made.reduce("sum", "ADD", (rows, most), (1,))
        elif not update:
            made.copy("gather", rows)
    what = f"{'less 1 in' if update else 'a scalar of each of'} {rows:,} rows of {columns:,} {word}"
    return made.plan(what, reads=rows * columns, writes=0 if update else rows)


def _scalars(target: Target, name: str, word: str, held: int, pieces: int, tiles: int) -> TileWork:
    """Tiles that have so many elements, of so many rows."""
    vertices = (Vertex(name, (word,), ((held, pieces),), interval_cycles(word, pieces), "worker"),)
    return TileWork(tiles, held, vertices, tile_cycles(target, vertices), pieces * _INDEX_BYTES)
