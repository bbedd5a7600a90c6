"""Elementwise operations of several operands on modelled machines: numbers, vertices, exchange, what is refused."""


import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import popops, profile
from poplibs_py.errors import InvalidArgumentError, UnsupportedError
from poplibs_py.popops import plan_elementwise
from poplibs_py.popops.elementwise.table import ELEMENTWISE
from poplibs_py.popops.vertices.binary import binary_vertex_cycles, scalar_vertex_cycles
from poplibs_py.popops.vertices.operands import vertices_lack
from poplibs_py.popops.vertices.ternary import ternary_vertex_cycles
from poplibs_py.target import Target

GC200, SMALL = Target.gc200(), Target.small(3, workers=4)
RNG = np.random.default_rng(3)
TYPES = {"float": np.float32, "half": np.float16, "int": np.int32, "unsigned int": np.uint32, "long long": np.int64,
         "unsigned long long": np.uint64, "short": np.int16, "unsigned short": np.uint16, "bool": bool}  # fmt: skip
SERVED = [(name, words, numbers) for name, row in ELEMENTWISE.items() for words in TYPES
          for numbers in ((False,) * len(row.operands), (*(False,) * (len(row.operands) - 1), len(row.operands) > 1))
          if not vertices_lack(row.vertex_op, words, False, numbers)]


def operand(name, dtype, shape):
    if dtype is bool:
        return RNG.random(shape) < 0.5
    return RNG.uniform(0, 9, shape).astype(dtype)


@pytest.mark.parametrize(("name", "words", "numbers"), SERVED)
def test_a_call_gives_the_bits_of_one_here_and_its_plan(name, words, numbers):
    row, op = ELEMENTWISE[name], getattr(popops, name)
    for machine, count in ((GC200, 1000), (SMALL, 77)):
        given = [operand(arg, bool if arg in row.conditions else TYPES[words], 1 if number else count)
                 for arg, number in zip(row.operands, numbers, strict=True)]
        due = op(*given)
        for _ in range(3):
            assert op(*given, target=machine).tobytes() == due.tobytes()
        with profile() as report:
            op(*given, target=machine)
        dtype = TYPES[words]
        assert report.runs[0].plan == plan_elementwise(name, (count,), dtype=dtype, target=machine, numbers=numbers)


def test_there_are_vertices_for_what_popLibs_has():
    assert len(SERVED) > 250
    due = {name for name, row in ELEMENTWISE.items() if row.poplibs.startswith("popops::")}
    gradients = {f"{name}_grad" for name in ("tanh", "sigmoid", "relu", "gelu_erf", "gelu_tanh", "silu")}
    due |= gradients | {"silu", "gelu_tanh"}
    assert {name for name, _, _ in SERVED} == due


def test_which_vertices_and_what_they_cost():
    def only(name, dtype, count, **keywords):
        plan = plan_elementwise(name, (count,), dtype=dtype, target="gc200", **keywords)
        [vertices] = {c.vertices[0] for c in plan.classes}
        return vertices, plan

    vertex, plan = only("mul", "half", 64)
    assert (vertex.name, vertex.cycles) == (
        "BinaryOp1D", binary_vertex_cycles(GC200, "MULTIPLY", "half", ((64, 1),), two_d=False))
    assert (plan.temp_bytes, plan.tile_bytes().sum(), plan.cycles) == (0, 6 * 64, vertex.cycles)
    vertex, plan = only("mul", "half", 64 * 1472, numbers=(False, True))
    assert (vertex.name, vertex.cycles) == (
        "BroadcastScalar1D", scalar_vertex_cycles(GC200, "MULTIPLY", "half", ((64, 1),), two_d=False))
    assert (plan.temp_bytes, plan.exchanged_bytes, plan.phases["exchange"]) == (2, 2 * 1471, 1)
    assert only("sub", "half", 64 * 1472, numbers=(True, False))[0].name == "BinaryOp1D"  # it cannot be turned round
    assert only("sub", "half", 64 * 1472, numbers=(True, False))[1].temp_bytes == 128
    assert only("mul", "half", 64, numbers=(True, False))[0].name == "BroadcastScalar1D"
    assert only("mul", "half", 64, in_place=True)[0].name == "BinaryOp1DInPlace"
    vertex, plan = only("eq", "float", 64)
    assert (plan.result_type, plan.tile_bytes().sum()) == ("bool", 9 * 64)
    for numbers, kind in (((False,) * 3, "Select"), ((True, True, False), "BroadcastSelect"),
                          ((False, False, True), "BroadcastSelectorSelect"), ((False, True, False), "Select")):
        assert only("select", "float", 32, numbers=numbers)[0].name == kind
    vertex, plan = only("clamp", "float", 32, numbers=(False, True, True))
    names = {v.name for c in plan.classes for v in c.vertices}
    assert names == {"BroadcastClamp"}
    assert vertex.cycles == ternary_vertex_cycles(GC200, "BroadcastClamp", "float", vertex.regions)


@given(st.integers(1, 9000), st.sampled_from([GC200, SMALL]))
def test_a_tile_s_vertices_take_all_its_elements(count, machine):
    for name, words in (("add", "half"), ("clamp", "float"), ("select", "int"), ("lt", "unsigned int")):
        plan = plan_elementwise(name, (count,), dtype=TYPES[words], target=machine)
        for c in plan.classes:
            assert sum(v.elements for v in c.vertices) == c.elements
        assert sum(c.tiles * c.elements for c in plan.classes) == count


X, H = np.ones((2, 3), np.float32), np.ones((2, 3), np.float16)


@pytest.mark.parametrize(("call", "lacking"), [
    (lambda **how: popops.silu_grad(X, np.ones(3, np.float32), **how), "silu_grad of shapes (2, 3) and (3,)"),
    (lambda **how: popops.add(X, H, **how), "add of float16 beside other types"),
    (lambda **how: popops.floor_divide(X, X, **how), "floor_divide of float32"),
    (lambda **how: popops.add(np.int8([1, 2]), 1, **how), "add of int8"),
    (lambda **how: popops.add(X, X, out_dtype="float16", **how), "add from float32 to float16"),
])  # fmt: skip
def test_what_no_vertex_does_is_refused_by_name_and_runs_here_in_a_profile(call, lacking, refused_or_here):
    refused_or_here(call, f"popops.{lacking}")


def test_numbers_of_a_plan_are_checked():
    for numbers in ((True, True), (True,), (False,) * 3, 5, ("yes", False)):
        with pytest.raises((InvalidArgumentError, TypeError), match=r"^numbers: got"):
            plan_elementwise("add", (4,), numbers=numbers)


# Arrays of several shapes --------------------------------------------------------------------------------

SHAPES = [((64, 33), (33,)), ((64, 33), (64, 1)), ((64, 1), (1, 33)), ((3, 4, 5), (4, 1)), ((5,), (3, 5)),
          ((0, 4), (1, 4)), ((1, 33), (40, 33)), ((2, 8, 30), (8, 1))]  # fmt: skip


@pytest.mark.parametrize("machine", [GC200, SMALL], ids=lambda t: t.name)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_arrays_that_broadcast_give_the_bits_of_this_cpu_and_their_plan(shapes, machine):
    for dtype in (np.float16, np.float32, np.int32):
        x, y = (operand("", dtype, shape) + dtype(1) for shape in shapes)
        for name in ("add", "sub", "mul", "maximum", "lt"):
            op = getattr(popops, name)
            with profile() as report:
                made = op(x, y, target=machine)
            assert made.tobytes() == op(x, y).tobytes()
            common = np.broadcast_shapes(*shapes)
            assert report.runs[0].plan == plan_elementwise(name, common, dtype=dtype, shapes=shapes, target=machine)
    bounds = operand("low", np.float32, shapes[1])
    made = popops.clamp(x.astype(np.float32), bounds, np.float32(5), target=machine)
    assert made.tobytes() == popops.clamp(x.astype(np.float32), bounds, np.float32(5)).tobytes()


@pytest.mark.parametrize(("op", "shape", "shapes", "vertex"), [
    ("mul", (11776, 64), ((11776, 64), (64,)), "BroadcastVectorInner1D<MULTIPLY,half>"),
    ("mul", (11776, 64), ((64,), (11776, 64)), "BroadcastVectorInner1D<MULTIPLY,half>"),  # operands change places
    ("sub", (11776, 64), ((64,), (11776, 64)), "BinaryOp1D<SUBTRACT,half>"),
    ("mul", (11776, 64), ((11776, 64), (11776, 1)), "BroadcastVectorOuterByColumn1D<MULTIPLY,half,false>"),
    ("sub", (1472, 1024), ((1472, 1024), (1472, 1)), "BroadcastScalar1D<SUBTRACT,half>"),
    ("pow", (11776, 64), ((11776, 64), (64,)), "BinaryOp1D<POWER,half>"),
    ("clamp", (11776, 64), ((11776, 64), (64,), ()), "Clamp<half>"),
])  # fmt: skip
def test_which_vertex_broadcasts(op, shape, shapes, vertex):
    plan = plan_elementwise(op, shape, shapes=shapes)
    assert vertex in {str(v) for c in plan.classes for v in c.vertices}
    assert all(sum(v.elements for v in c.vertices) == c.elements for c in plan.classes)


def test_a_vertex_that_broadcasts_receives_each_element_once_and_others_all_that_are_met():
    once = plan_elementwise("mul", (11776, 64), shapes=((11776, 64), (64,)))  # 64 elements lie on the first tile
    tiles = once.tiles_used
    assert (once.temp_bytes, once.exchanged_bytes) == (128, 128 * (tiles - 1))
    spread = plan_elementwise("sub", (11776, 64), shapes=((64,), (11776, 64)))
    assert spread.exchanged_bytes == 2 * (11776 * 64 - spread.classes[0].elements)
    assert once.phases["exchange"] == 32
    assert once.tile_bytes().sum() == 2 * 2 * 11776 * 64 + 128
    same = plan_elementwise("add", (4, 64), shapes=((4, 64), (4, 64)))
    assert same.exchanged_bytes == 0


def test_what_broadcasts_follows_the_order_in_memory():
    x, y = np.ones((64, 11776), np.float16, order="F"), np.ones((64, 1), np.float16)
    with profile(target="gc200") as report:
        popops.mul(x, y)
    assert report.runs[0].plan.classes == plan_elementwise("mul", (11776, 64), shapes=((11776, 64), (64,))).classes


@pytest.mark.parametrize(("keywords", "words"), [
    ({"shapes": ((4,), (3,))}, "shapes: got"), ({"shapes": ((4,),)}, "shapes: got"),
    ({"shapes": ((1,), (1,))}, "shapes: got"), ({"shapes": 3}, "shapes: got"),
    ({"shapes": ((4,), (1,)), "numbers": (False, True)}, "numbers: got"),
    ({"shapes": ((1,), (4,)), "in_place": True}, "in_place: got"),
])  # fmt: skip
def test_shapes_of_a_plan_are_checked(keywords, words):
    with pytest.raises((InvalidArgumentError, TypeError), match=words):
        plan_elementwise("add", (4,), **keywords)


def test_gradients_of_non_linearities_have_no_vertex_for_several_shapes():
    with pytest.raises(UnsupportedError, match="tanh_grad of several shapes"):
        plan_elementwise("tanh_grad", (4, 3), shapes=((4, 3), (3,)))
