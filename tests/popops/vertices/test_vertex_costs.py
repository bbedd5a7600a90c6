"""What vertices of popops must have whatever they cost: all of a tile's elements, more cycles for more of them."""

from __future__ import annotations

import numpy as np
import pytest
from golden.formulas import (
    Work,
    compare_and_swap_cycles,
    dynamic_slice_2d_cycles,
    greatest_cycles,
    heap_sort_cycles,
    scalar_multiply_1d_cycles,
)
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.planner.tile_plan import tile_cycles
from poplibs_py.popops.reductions.split import assigned_workers, intermediate_split, rows_of_workers, stages_of_workers
from poplibs_py.popops.vertices.argmax import argmax_split, gather_cycles
from poplibs_py.popops.vertices.binary import (
    binary_entry,
    binary_vertex_cycles,
    binary_vertices,
    scalar_entry,
    scalar_vertex_cycles,
    scalar_vertices,
)
from poplibs_py.popops.vertices.broadcast import broadcast_vertices, patterns_of
from poplibs_py.popops.vertices.counts import histogram_1d_cycles, nan_1d_cycles
from poplibs_py.popops.vertices.fill import fill_vertex_cycles, fill_vertices
from poplibs_py.popops.vertices.others import normalise_image_cycles
from poplibs_py.popops.vertices.reductions import (
    continuous_reduce_cycles,
    reduce_cycles,
    single_input_reduce_cycles,
    strided_reduce_cycles,
)
from poplibs_py.popops.vertices.scaled import scaled_vertices
from poplibs_py.popops.vertices.slices import (
    dynamic_slice_1d_cycles,
    multi_slice_cycles,
    multi_update_op_cycles,
    sequence_slice_cycles,
)
from poplibs_py.popops.vertices.sort import _COSTS, _step_cycles, bitonic_program
from poplibs_py.popops.vertices.ternary import ternary_vertices
from poplibs_py.target import Target
from poplibs_py.target.types import TYPE_BYTES

GC200 = Target.gc200()
FEW_WORKERS = GC200.replace(workers=4, repeat_count_max=10)
machines = st.sampled_from([GC200, Target.gc2(), FEW_WORKERS])
regions = st.lists(st.integers(1, 3000), min_size=1, max_size=12)
OPS = ("ADD", "SUBTRACT", "MULTIPLY", "DIVIDE", "MAXIMUM", "POWER", "EQUAL")
TYPES = ("float", "half", "int", "unsigned int", "long long")


@given(machines, st.sampled_from(OPS), st.sampled_from(TYPES), regions, st.booleans())
def test_vertices_of_two_operands_share_all_elements(machine, op, data_type, sizes, in_place):
    for entry, vertices in ((binary_entry, binary_vertices), (scalar_entry, scalar_vertices)):
        if entry(op, data_type, in_place) is None:
            continue
        made = vertices(machine, op, data_type, sizes, in_place=in_place)
        assert sum(v.elements for v in made) == sum(sizes)
        assert {v.name.endswith("InPlace") for v in made} == {in_place}
        assert len({v.unit for v in made}) == 1
        assert tile_cycles(machine, made) >= max(v.cycles for v in made)


@pytest.mark.parametrize(("cycles", "op", "data_type"), [
    (cycles, op, data_type) for op in OPS for data_type in TYPES
    for entry, cycles in ((binary_entry, binary_vertex_cycles), (scalar_entry, scalar_vertex_cycles))
    if entry(op, data_type) is not None])
@pytest.mark.parametrize("two_d", [False, True])
def test_a_vertex_of_two_operands_takes_no_less_time_for_more_elements(cycles, op, data_type, two_d):
    taken = [cycles(GC200, op, data_type, ((n, 1),), two_d=two_d) for n in range(1, 200)]
    assert taken == sorted(taken)


@given(machines, st.sampled_from(sorted(TYPE_BYTES)), regions)
def test_what_fills_covers_all_elements(machine, data_type, sizes):
    made = fill_vertices(machine, data_type, sizes)
    assert sum(v.elements for v in made) == sum(sizes)
    assert all(v.unit == "worker" and v.cycles > 0 for v in made)


@given(machines, st.sampled_from(["Select", "BroadcastSelect", "BroadcastSelectorSelect", "Clamp", "BroadcastClamp"]),
       st.sampled_from(["float", "half", "int"]), regions, st.booleans())
def test_what_chooses_covers_all_elements(machine, op, data_type, sizes, in_place):
    made = ternary_vertices(machine, op, data_type, sizes, in_place=in_place)
    assert sum(v.elements for v in made) == sum(sizes)
    assert len(made) <= machine.workers


@given(machines, st.sampled_from(["ScaledAdd", "ScaledSubtract", "aXPlusbY", "aXMinusbY"]),
       st.sampled_from([("float",) * 3, ("half",) * 3, ("half", "half", "float")]), regions, st.booleans())
def test_what_adds_scaled_arrays_covers_all_elements(machine, op, types, sizes, speed):
    made = scaled_vertices(machine, op, types, sizes, speed=speed)
    assert sum(v.elements for v in made) == sum(sizes)


def slow_patterns(reads):
    """The same found one element after another."""
    runs = []
    for index in reads:
        if runs and runs[-1][1] == index:
            runs[-1][0] += 1
        else:
            runs.append([1, index])
    found, begin = [], 0
    while begin < len(runs):
        inner, region = runs[begin][0], [runs[begin][1]]
        at = begin + 1
        while at < len(runs) and runs[at][0] == inner and runs[at][1] not in region:
            region.append(runs[at][1])
            at += 1
        outer = 1
        while runs[at:at + len(region)] == [[inner, index] for index in region]:
            at += len(region)
            outer += 1
        found.append((inner, len(region), outer))
        begin = at
    return found


@given(st.integers(0, 500), st.integers(1, 600), st.integers(1, 20), st.integers(1, 20))
def test_patterns_of_a_broadcast_row_or_column(offset, size, runs, period):
    reads = np.arange(offset, offset + size) // runs % period
    assert list(patterns_of(reads)) == slow_patterns(reads.tolist())
    assert sum(p.elements for p in patterns_of(reads)) == size


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_patterns_of_anything(reads):
    assert list(patterns_of(np.array(reads))) == slow_patterns(reads)


@given(machines, st.sampled_from(["ADD", "MULTIPLY", "DIVIDE", "MAXIMUM"]), st.sampled_from(["float", "half"]),
       st.integers(1, 100), st.integers(1, 100), st.lists(st.tuples(st.integers(0, 999), st.integers(1, 2000)),
                                                          min_size=1, max_size=4), st.booleans())
def test_vertices_of_a_broadcast_array_share_all_elements(machine, op, data_type, runs, period, pieces, in_place):
    reads = [np.arange(offset, offset + size) // runs % period for offset, size in pieces]
    made = broadcast_vertices(machine, op, data_type, reads, in_place=in_place)
    assert sum(v.elements for v in made) == sum(size for _, size in pieces)
    assert all(v.cycles > 0 for v in made)


def slow_step(machine, kind, comparisons, block, flip):
    """Each tile's work dealt out one comparison after another, and what the slowest takes."""
    each, taken = -(-comparisons // machine.tiles), []
    for begin in range(0, comparisons, each):
        tile = list(range(begin, min(begin + each, comparisons)))
        inside = [c for c in tile if c // block == begin // block]
        whole = [c for c in tile if c not in inside and c // block * block + block <= tile[-1] + 1]
        rest = [c for c in tile if c not in inside and c not in whole]
        share, work = -(-len(tile) // machine.workers), []
        for at in range(0, len(tile), share):
            mine, entries, first = tile[at:at + share], [], 0
            for part, width in ((inside, len(inside)), (whole, block), (rest, len(rest))):
                own = [c for c in mine if c in part]
                if own and not entries:
                    first = min(len(own), width - (own[0] - part[0]) % width)
                entries += [(width, len(own))] * bool(own)
            work.append(Work(mine[0] % flip, first, tuple(entries)))
        taken.append(compare_and_swap_cycles(machine, "float", kind, work, flip))
    return len(taken), max(taken)


@given(st.integers(1, 7), st.sampled_from([GC200, FEW_WORKERS]), st.sampled_from(["keys", "values", "secondary"]),
       st.integers(1, 200), st.integers(1, 40), st.integers(1, 40))
def test_comparisons_are_shared_as_their_lists_say(tiles, machine, kind, comparisons, block, flip):
    machine = machine.replace(tiles=tiles)
    cost = _COSTS[kind, True]
    assert _step_cycles(machine, cost, comparisons, block, flip) == slow_step(machine, kind, comparisons, block, flip)


@given(st.integers(2, 300), st.data())
def test_a_bitonic_program_keeps_at_least_what_is_asked_for(elements, data):
    count = data.draw(st.integers(1, elements))
    largest, ascending = data.draw(st.booleans()), data.draw(st.booleans())
    program = bitonic_program(GC200, elements, count, largest=largest, in_order=True, ascending=ascending)
    held = [step.elements for step in program.steps]
    assert held == sorted(held, reverse=True)
    assert held[0] == elements
    assert held[-1] >= count


GROWING = {
    "reduce": lambda n: reduce_cycles(GC200, "ADD", ("half", "float"), [(8, [8 * n, 16 * n])]),
    "reduce one by one": lambda n: reduce_cycles(GC200, "LOG_ADD", ("half", "half"), [(8, [8 * n])]),
    "reduce rows": lambda n: strided_reduce_cycles(GC200, "MAX", ("half", "half"), n, 64, 64),
    "reduce columns": lambda n: strided_reduce_cycles(GC200, "ADD", ("float", "float"), 4, 8 * n, 64),
    "reduce to one": lambda n: single_input_reduce_cycles(GC200, "ADD", ("half", "float"), 8 * n),
    "reduce runs": lambda n: continuous_reduce_cycles(GC200, "ADD", ("half", "float"), 8 * n, 5),
    "gather": lambda n: gather_cycles(GC200, "int", 192 * n, 32 * n),
    "greatest": lambda n: greatest_cycles(10 + n, 10, 1, in_order=True),
    "slice": lambda n: dynamic_slice_1d_cycles(GC200, "half", 24 * n, 3),
    "slice of regions": lambda n: dynamic_slice_2d_cycles("char", [4 * n, 8], 3, update=True),
    "rows by index": lambda n: int(multi_slice_cycles(GC200, "float", 16, n, n, 2, in_order=True)),
    "rows added by index": lambda n: int(multi_update_op_cycles(GC200, "half", "ADD", 16, n, n, scaled=True)),
    "sequences": lambda n: sequence_slice_cycles("float", 6, n, n, 12),
    "histogram": lambda n: histogram_1d_cycles(GC200, "half", 24 * n, 9, absolute=True, by_limits=False),
    "limits": lambda n: histogram_1d_cycles(GC200, "float", 24, 1 + n, absolute=False, by_limits=True),
    "NaN": lambda n: nan_1d_cycles(GC200, "half", n, False, 0, both=True),
    "sort": lambda n: heap_sort_cycles(n, values=True),
    "image": lambda n: normalise_image_cycles(GC200, "half", 8 * n),
    "product": lambda n: scalar_multiply_1d_cycles(GC200, 24 * n),
    "fill": lambda n: fill_vertex_cycles("half", ((4 * n, 1),), two_d=False),
}


@pytest.mark.parametrize("vertex", sorted(GROWING))
def test_more_work_takes_no_less_time(vertex):
    taken = [GROWING[vertex](n) for n in range(1, 60)]
    assert taken == sorted(taken)
    assert taken[0] < taken[-1]


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 200)), min_size=1, max_size=6), st.sampled_from([1, 2, 4]),
       st.integers(1, 64))
def test_pieces_of_partial_results_cover_all_columns(partials, grain, tiles):
    pieces = intermediate_split(partials, grain, tiles)
    assert [begin for begin, _, _ in pieces] == [0, *[end for _, end, _ in pieces][:-1]]
    assert pieces[-1][1] == sum(columns for _, columns in partials)
    assert all(1 <= runs <= max(rows for rows, _ in partials) for _, _, runs in pieces)


@given(st.integers(1, 500), st.integers(1, 8), st.sampled_from([1, 2, 4]))
def test_workers_take_all_rows(rows, workers, grain):
    shares = rows_of_workers(rows, workers, grain)
    assert sum(shares) == rows
    assert len(shares) <= workers


@given(st.lists(st.tuples(st.integers(1, 100), st.integers(1, 60)), min_size=1, max_size=12), machines)
def test_workers_take_each_reduction_once(reductions, machine):
    assert set(assigned_workers(machine, "ADD", "half", reductions)) <= set(range(machine.workers))
    stages = stages_of_workers(machine, "ADD", "half", reductions)
    assert len(stages) == len(reductions)
    assert sum(stages) <= max(machine.workers, len(reductions))


@given(st.integers(1, 30), st.integers(1, 3000), st.sampled_from([1, 16, 1472]))
def test_pieces_of_an_argmax_cover_all_rows(rows, columns, tiles):
    pieces = argmax_split(Target.small(tiles), rows, columns)
    at = 0
    for piece in pieces:
        assert (piece.row, piece.offset) == divmod(at, columns)
        assert 0 <= piece.tile < tiles
        assert piece.each * piece.workers >= piece.size
        at += piece.size
    assert at == rows * columns
