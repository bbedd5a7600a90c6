"""Expressions and sums of scaled arrays on modelled machines: numbers, vertices, what is refused."""


import numpy as np
import pytest

from poplibs_py import popops, profile, testing
from poplibs_py.formats import BF16
from poplibs_py.popops.expr import _1, _2, const
from poplibs_py.popops.vertices.scaled import scaled_1d_cycles
from poplibs_py.target import Target, linear_mapping

GC200, SMALL = Target.gc200(), Target.small(3, workers=4)
RNG = np.random.default_rng(5)
F = RNG.standard_normal((128, 64)).astype(np.float32)
H, G = F.astype(np.float16), RNG.standard_normal((128, 64)).astype(np.float16)
WHOLE = RNG.integers(-9, 9, (128, 64), np.int32)


def assert_same_bits(made, due):
    """Of one result or several, of any type."""
    for got, want in zip(*((x,) if isinstance(x, np.ndarray) else x for x in (made, due)), strict=True):
        assert (got.dtype, got.shape, got.tobytes()) == (want.dtype, want.shape, want.tobytes())


def planned(call):
    with profile(target="gc200") as report:
        call()
    (run,) = report.runs
    assert run.lacking == ""
    return run.plan


@pytest.mark.parametrize("machine", [GC200, SMALL], ids=lambda t: t.name)
def test_each_operation_of_an_expression_is_rounded(machine):
    for x, y in ((F, F[::-1]), (H, G), (H, G[0]), (H, G[:, :1]), (H, 1.5), (WHOLE, WHOLE)):
        operations = [lambda a, b: a * b + a, lambda a, b: popops.maximum(a, b) * 3, lambda a, b: (a + b, a - b * a)]
        for operation in operations:
            due = popops.map(operation, x, y, round_each=True)
            for _ in range(2):
                assert_same_bits(popops.map(operation, x, y, target=machine), due)
    assert (popops.map(_1 * _2 + _1, H, G) != popops.map(_1 * _2 + _1, H, G, target=machine)).any()
    out = np.empty_like(H), np.empty(H.shape, bool)
    made = popops.map((_1 + _2 * 2, _1 > _2), H, G, out=out, target=machine)
    assert_same_bits(made, popops.map((_1 + _2 * 2, _1 > _2), H, G, round_each=True))
    testing.check("popops.map", _1 * _2 * 1.1 + _1, H, G, target=machine)


def test_a_fused_expression_is_one_vertex_on_each_tile():
    plan = planned(lambda: popops.map(popops.relu(_1 * 2 + _2), H, G))
    mapping = linear_mapping(GC200, H.size, 2)
    (step,) = plan.steps
    assert plan.fused
    assert plan.mapping == mapping
    ((elements, tiles),) = mapping.classes
    loads = 2 * (elements // 4 + elements % 4) * 3  # two arrays, three operations
    assert [(w.tiles, w.elements, w.cycles) for w in step.work] == [(tiles, elements, -(-(20 + loads) // 6) * 6)]
    assert [v.unit for v in step.work[0].vertices] == ["tile"]


def test_a_number_beside_arrays_is_read_once_and_sent_to_every_tile_but_its_own():
    plan = planned(lambda: popops.map(_1 * _2 + _1, H, np.float16([3])))
    (work,) = plan.steps[0].work
    n = work.elements
    assert work.cycles == -(-(20 + (n // 4 + n % 4 + 1) * 2) // 6) * 6
    assert work.received == 2


def test_results_of_less_than_a_word_are_split_between_workers():
    plan = planned(lambda: popops.map((_1 + _2) > 1, H, G))
    (work,) = plan.steps[0].work
    assert {v.unit for v in work.vertices} == {"worker"}
    assert sum(v.elements for v in work.vertices) == work.elements


def test_operations_alone_and_on_arrays_that_broadcast_are_steps_of_their_own():
    alone = planned(lambda: popops.map(popops.exp(_1), H))
    assert [s.compute_cycles for s in alone.steps] == [popops.plan_elementwise("exp", H.shape).phases["compute"]]
    plan = planned(lambda: popops.map(_1 * _2 + _1, H, G[:1]))
    assert [step.name for step in plan.steps] == ["mul", "add"]
    assert not plan.fused
    assert plan.steps[0].temp_bytes > plan.steps[1].temp_bytes
    apart = planned(lambda: popops.map(_1 * _2 + const(np.inf), H, G))  # PopLibs fuses finite constants alone
    assert [step.name for step in apart.steps] == ["mul", "add"]


SUMS = [
    (lambda **k: popops.scaled_add(H, G, 0.5, **k), ("ScaledAdd", "half", "half", "half")),
    (lambda **k: popops.scaled_add(H, G, 0.3, **k), ("ScaledAdd", "half", "half", "float")),
    (lambda **k: popops.scaled_add(H, F, 0.3, **k), ("ScaledAdd", "half", "float", "float")),
    (lambda **k: popops.scaled_subtract(F, F, 2.0, **k), ("ScaledAdd", "float", "float", "float")),
    (lambda **k: popops.scaled_subtract(F, H, np.float32([2]), **k), ("ScaledSubtract", "float", "half", "float")),
    (lambda **k: popops.scaled_add(F, F, 2.0, scale_a=0.5, **k), ("aXPlusbY", "float", "float", "float")),
    (lambda **k: popops.scaled_subtract(F, F, F[:1, 0], scale_a=3.0, **k), ("aXMinusbY", "float", "float", "float")),
    (lambda **k: popops.x_minus_ax_plus_by(H, F, 0.25, 0.5, **k), ("XMinusaXPlusbY", "half", "half", "half")),
    (lambda **k: popops.scaled_add(WHOLE, WHOLE, 2, **k), ("ScaledAdd", "int", "int", "int")),
    (lambda **k: popops.scaled_add(WHOLE, WHOLE, 2, scale_a=3, **k), ("ScaledAdd", "int", "int", "int")),
]  # fmt: skip


@pytest.mark.parametrize(("call", "vertex"), SUMS)
def test_sums_of_scaled_arrays_are_this_cpu_s_by_poplibs_vertices(call, vertex):
    assert_same_bits(call(target="gc200"), call())
    plan = planned(call)
    op, *types = vertex
    (work,) = plan.steps[-1].work
    assert work.vertices[0].name == f"{op}Supervisor"
    assert work.cycles == scaled_1d_cycles(GC200, op, tuple(types), work.elements)
    assert plan.steps[0].name == "copy"
    casts = [step.name for step in plan.steps if step.name == "cast"]
    assert bool(casts) == (op == "XMinusaXPlusbY")  # of its second array


def test_a_sum_in_place_copies_nothing():
    x = H.copy()
    plan = planned(lambda: popops.scaled_add(x, G, 0.5, out=x))
    assert [step.name for step in plan.steps] == ["compute"]


@pytest.mark.parametrize(("call", "lacking"), [
    (lambda **k: popops.map(popops.silu(_1) * 2, H, **k), "map of silu"),
    (lambda **k: popops.map(_1 * 2 + _2, H, F, **k), "map of float16 beside other types"),
    (lambda **k: popops.map(_1 * 2 + _1, H, out_dtype="float32", **k), "map from float16 to float32"),
    (lambda **k: popops.map(_1 * 2 + _1, H.astype(BF16.dtype), **k), "map of bfloat16"),
    (lambda **k: popops.map(popops.cast(_1, BF16) * _1, H, **k), "map from float16 to bfloat16"),
    (lambda **k: popops.scaled_add(H, G[:1], **k), "scaled_add of shapes (128, 64) and (1, 64)"),
    (lambda **k: popops.scaled_add(H, G, out_dtype="float32", **k), "scaled_add from float16 to float32"),
    (lambda **k: popops.scaled_add(F, WHOLE, **k), "scaled_add of int32 beside float32"),
    (lambda **k: popops.mul_grad(H, G, G, **k), "mul_grad alone: it is several"),
])  # fmt: skip
def test_what_no_vertex_does_is_refused_by_name_and_runs_here_in_a_profile(call, lacking, refused_or_here):
    refused_or_here(call, f"popops.{lacking}")
