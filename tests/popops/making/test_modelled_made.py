"""Arrays that are made or put another way on modelled machines: PopLibs' vertices, the bits of this CPU."""

from __future__ import annotations

import numpy as np
import pytest

from poplibs_py import popops, profile, testing
from poplibs_py.errors import UnsupportedError
from poplibs_py.planner.facts import facts_of
from poplibs_py.planner.tile_plan import tile_cycles
from poplibs_py.popops.vertices.fill import fill_vertices, iota_cycles
from poplibs_py.popops.vertices.others import (
    normalise_image_cycles,
    spline_basis_cycles,
    spline_weighting_cycles,
    transpose_cycles,
)
from poplibs_py.popops.vertices.slices import one_hot_cycles, sequence_slice_cycles
from poplibs_py.target import Target

GC200, RNG = Target.gc200(), np.random.default_rng(6)
X = RNG.standard_normal((64, 128)).astype(np.float16)
I32 = np.arange(300, dtype=np.int32)
PIXELS, POINTS = np.full((8, 8, 3), 9, np.uint8), np.abs(X[:50, :2]).astype(np.float32)
F143 = testing.as_format(X, "f143")
W = np.ones((5, 128, 7), np.float32)

CALLS = {
    "fill": (lambda **how: popops.fill((100, 200), 0.5, dtype="float16", **how),
             lambda: {"fill": tile_cycles(GC200, fill_vertices(GC200, "half", (68,)))}),
    "iota": (lambda **how: popops.iota(5000, **how), lambda: {"iota": 6 * iota_cycles(GC200, "int", (6,))}),
    "encode_one_hot": (lambda **how: popops.encode_one_hot(I32, 50, **how),
                       lambda: {"encode": 6 * one_hot_cycles("int", "float", 1)[0]}),
    "custom one-hot": (lambda **how: popops.encode_one_hot(I32.view(np.uint32), 5000, on=2, dtype="float16", **how),
                       lambda: {"encode": 6 * one_hot_cycles("unsigned int", "half", 1, custom=True)[0]}),
    "pad": (lambda **how: popops.pad(X, 3, "reflect", **how), lambda: {"exchange": 34, "copy": 0}),
    "transpose": (lambda **how: popops.transpose(X, **how),
                  lambda: {"exchange": 8, "transpose": transpose_cycles(GC200, "half", 1, 4, 4)}),
    "odd transpose": (lambda **how: popops.transpose(X[:3], **how), lambda: {"exchange": 32, "copy": 0}),
    "normalise_image": (lambda **how: popops.normalise_image(PIXELS, [1, 2, 3], [1, 2, 1], **how),
                        lambda: {"normalise": normalise_image_cycles(GC200, "unsigned char", 16)}),
    "spline_basis": (lambda **how: popops.spline_basis(POINTS, [4, 5], [1, 0], 2, **how).basis,
                     lambda: {"basis": 6 * spline_basis_cycles("float", 6)}),
    "spline_weighting": (lambda **how: popops.spline_weighting(
        np.round(X[:10].astype(np.float32)), W, np.ones((10, 3), np.float32), np.ones((10, 3), np.int32), **how),
        lambda: {"weighting": 6 * spline_weighting_cycles("float", 128, 3, 6)}),
    "sequence_slice": (lambda **how: popops.sequence_slice(X, X[:9], [2, 3], [4, 1], [0, 5], **how),
                       lambda: {"slice": sequence_slice_cycles("half", 2, 9, 64, 4)}),
}


@pytest.mark.parametrize("name", CALLS)
def test_vertices_and_bits(name):
    call, phases = CALLS[name]
    with profile() as report:
        made = call(target="gc200")
    [run] = report.runs
    assert made.tobytes() == call().tobytes()
    assert run.lacking == ""
    assert run.plan.phases | phases() == run.plan.phases
    assert facts_of(run.plan).cycles == run.plan.cycles > 0
    assert run.plan.fits
    assert run.tile_bytes.sum() >= made.nbytes


def test_splines_are_weighted_channel_by_channel():
    rng = np.random.default_rng(7)
    x, weight = (rng.standard_normal(shape).astype(np.float32) for shape in ((60, 37), (9, 37, 6)))
    basis, nodes = rng.random((60, 4)).astype(np.float32), rng.integers(0, 9, (60, 4))
    due = np.zeros((60, 6), np.float32)
    for s in range(4):
        product = np.zeros_like(due)
        for channel in range(37):
            product += x[:, channel, None] * weight[nodes[:, s], channel]
        due += basis[:, s, None] * product
    made = testing.check("popops.spline_weighting", x, weight, basis, nodes, target="gc200")
    assert made.tobytes() == due.tobytes()


def test_a_machine_of_few_tiles_has_more_on_each():
    for call, _ in CALLS.values():
        plans = []
        for machine in (Target.small(3), "gc200"):
            with profile() as report:
                call(target=machine)
            plans.append(report.runs[0].plan)
        assert plans[0].tiles_used <= 3
        assert plans[0].cycles >= plans[1].cycles


def test_least_blocks_are_transposed_by_workers_and_longer_ones_row_by_row():
    assert transpose_cycles(GC200, "half", 1, 4, 4) == 7 + 6 * 29
    assert transpose_cycles(GC200, "half", 13, 4, 4) == 7 + 6 * (37 + 4)
    assert transpose_cycles(GC200, "float", 2, 8, 2) == 7 + 6 * (27 + 35 + 3 * 2)
    assert transpose_cycles(GC200, "float", 1, 4, 8) == 7 + 6 * (29 + 18 + 2 * (12 + 3 * 2))


@pytest.mark.parametrize("call", [
    lambda **how: popops.pad(X, 3, "mean", **how), lambda **how: popops.pad(X, 3, "wrap", **how),
    lambda **how: popops.transpose(testing.as_format(X, "bfloat16"), **how),
    lambda **how: popops.fill(3, 1, dtype="bfloat16", **how), lambda **how: popops.iota(3, dtype="int16", **how),
    lambda **how: popops.encode_one_hot(I32, 4, dtype="bfloat16", **how),
    lambda **how: popops.spline_weighting(X[:2], W, np.ones((2, 1)).astype(np.float16), np.zeros((2, 1), int), **how),
    lambda **how: popops.sequence_slice(F143, F143, [1], [1], [1], **how),
])  # fmt: skip
def test_what_has_no_vertex_is_refused_by_name(call):
    with pytest.raises(UnsupportedError, match=r"^target: gc200 has no vertex for popops"):
        call(target="gc200")
    with profile(target="gc200") as report:
        call()
    assert report.runs[0].lacking


def test_nothing_is_planned_too():
    for made in (popops.fill((0, 3), 1, target="gc200"), popops.iota(0, target="gc200"),
                 popops.encode_one_hot(I32[:0], 3, target="gc200"), popops.transpose(X[:0], target="gc200"),
                 popops.pad(X[:0, :0], 0, target="gc200")):
        assert made.size == 0
