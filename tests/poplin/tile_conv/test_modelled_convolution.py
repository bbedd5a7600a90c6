"""Convolutions on modelled machines in three passes: the bits of the NumPy interpreter, within the plan's bound."""

from __future__ import annotations

import json
import re

import ml_dtypes
import numpy as np
import pytest
from examples import examples
from golden.families import folder
from hypothesis import given, settings
from hypothesis import strategies as st

from poplibs_py import testing
from poplibs_py.cli.spec import parse_spec
from poplibs_py.errors import InvalidArgumentError, PlanError
from poplibs_py.formats import format_of
from poplibs_py.ops import VALUES, operand, receive
from poplibs_py.poplin.tile_conv import (
    ConvOptions,
    ConvParams,
    ConvProblem,
    OutputTransform,
    plan_convolution,
    plan_convolutions,
)
from poplibs_py.poplin.tile_conv.api import planned_quietly
from poplibs_py.poplin.tile_conv.count import count
from poplibs_py.poplin.tile_conv.modelled import (
    PassCall,
    convolution_bound,
    interpret_convolution,
    modelled_convolution,
    modelled_convolutions,
)
from poplibs_py.poplin.tile_conv.reference import (
    reference_convolution,
    reference_input_gradient,
    reference_weight_gradient,
)
from poplibs_py.poplin.tile_conv.work import work_of
from poplibs_py.program import Loop
from poplibs_py.target import Target
from poplibs_py.testing import as_format, assert_same_bits, assert_within_bound

from .golden_cases import value_cases
from .strategies import convolutions

TYPES = {"float": np.float32, "half": np.float16, "quarter": ml_dtypes.float8_e4m3fnuz}
REFERENCES = {"forward": reference_convolution, "input_gradient": reference_input_gradient,
              "weight_gradient": reference_weight_gradient}
PASSES = tuple(REFERENCES)
HOST = {"forward": "convolution", "input_gradient": "convolution_input_gradient",
        "weight_gradient": "calculate_weight_deltas"}
"""From a pass to the op."""


def params_of(params: ConvParams, pass_: str) -> ConvParams:
    """What is planned for a pass."""
    made = {"forward": params.canonical, "input_gradient": params.gradient, "weight_gradient": params.weight_update}
    return made[pass_]()


def shapes_of(params: ConvParams, pass_: str) -> tuple[tuple[int, ...], ...]:
    """Of a pass' operands and result."""
    x = params.batch, params.groups * params.in_channels, *params.field_shape
    w = params.groups, params.out_channels, params.in_channels, *params.kernel_shape
    out = params.batch, params.groups * params.out_channels, *params.output_shape
    return {"forward": (x, w, out), "input_gradient": (out, w, x), "weight_gradient": (x, out, w)}[pass_]


def run(plan, a, b, shape, pass_="forward", **how):
    """The result of a pass."""
    left, right = operand("a", a), operand("b", b)
    receiver = receive("out", how.pop("out", None), shape, None, work_of(plan).out, (left, right))
    request = modelled_convolution(plan, left, right, receiver, pass_=pass_, **how)
    request.run()
    return receiver.array


def small(rng, shape, dtype, most=1):
    return rng.integers(-most, most + 1, shape).astype(np.float32).astype(dtype)


def check(params, pass_, plan, dtype, seed=0):
    """A pass within its bound, and exactly on small integers."""
    rng = np.random.default_rng(seed)
    first, second, shape = shapes_of(params, pass_)
    a, b = (rng.standard_normal(s).astype(np.float32).astype(dtype) for s in (first, second))
    assert_within_bound(run(plan, a, b, shape, pass_), convolution_bound(plan, a, b, pass_=pass_))
    a, b = (small(rng, s, dtype) for s in (first, second))
    assert_same_bits(run(plan, a, b, shape, pass_), as_format(REFERENCES[pass_](a, b, params), work_of(plan).out))


@pytest.mark.parametrize("dtype", ["float", "half"])
@pytest.mark.parametrize(("given_params", "case"), value_cases())
def test_the_original_computes_the_same(given_params, case, dtype):
    params = given_params(case, input_type=dtype)
    x, w, grad = (case[name].astype(np.float32).astype(TYPES[dtype]) for name in ("x", "weights", "out_grad"))
    out = case["out"] - case["biases"].reshape(-1, *(1,) * params.ndim)
    goldens = {"forward": out, "input_gradient": case["in_grad"]}
    if "weight_deltas" in case.spec["outputs"]:
        goldens["weight_gradient"] = case["weight_deltas"]
    for pass_, golden in goldens.items():
        a, b = {"forward": (x, w), "input_gradient": (grad, w), "weight_gradient": (x, grad)}[pass_]
        plan = plan_convolution(params_of(params, pass_), target="gc200")
        made = run(plan, a, b, golden.shape, pass_)
        ball = convolution_bound(plan, a, b, pass_=pass_)
        assert_within_bound(golden, ball)
        assert_within_bound(made, ball)
        if case.exact:
            assert_same_bits(made, as_format(golden, work_of(plan).out))


def _planned_specs():
    """Convolutions of the plan goldens."""
    where = folder("POPLIBS_PLANNER_GOLDEN", "planner-golden")
    for name in ("dense_small", "dense"):
        path = where / f"{name}.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        for spec in (json.loads(line)["spec"] for line in lines if line.strip()):
            if spec.startswith("batch="):
                yield spec


def _layer(spec):
    """The layer that a convolution is a pass of, whatever the plan was asked for."""
    words = [word for word in spec.split() if word.partition("=")[0] not in ("grad", "wu", "pass", "amp")]
    return " ".join(word for word in words if not word.startswith("o:"))


def _cases(specs, most):
    """Each once; those of more products than so many are for the night."""
    for spec in dict.fromkeys(specs):
        large = parse_spec(spec).params.macs() > most
        yield pytest.param(spec, id=spec, marks=[pytest.mark.nightly] if large else [])


_NO_CASES = [pytest.param("", marks=pytest.mark.skip("no cases"))]
_LAYERS = [_layer(spec) for spec in _planned_specs()]


@pytest.mark.parametrize("spec", list(_cases(_planned_specs(), 10**8)) or _NO_CASES)
@pytest.mark.filterwarnings("ignore::poplibs_py.errors.MemoryLimitWarning")
def test_convolutions_of_the_plan_goldens(spec):
    """The golden plan itself."""
    problem = parse_spec(spec)
    try:
        plan = planned_quietly(problem)
    except PlanError:
        return  # the original has none either
    check(problem.params, "forward", plan, TYPES[problem.params.input_type])


@pytest.mark.parametrize("spec", list(_cases(_LAYERS, 10**8)) or _NO_CASES)
@pytest.mark.filterwarnings("ignore::poplibs_py.errors.MemoryLimitWarning")
def test_layers_of_the_plan_goldens(spec):
    """The three passes, as GC200 plans them."""
    problem = parse_spec(spec)
    options = ConvOptions.parse({"partialsType": problem.options.partials_type})
    for pass_ in PASSES:
        planned = planned_quietly(ConvProblem(Target.gc200(), params_of(problem.params, pass_), options))
        check(problem.params, pass_, planned, TYPES[problem.params.input_type])


@pytest.mark.parametrize("spec", list(_cases((re.sub(r" partials=\w+", "", x) for x in _LAYERS), 10**6)) or _NO_CASES)
def test_layers_of_the_plan_goldens_on_this_cpu(spec):
    """The three passes, within their bounds, and exactly on small integers."""
    params = parse_spec(spec).params
    dtype = TYPES[params.input_type]
    made = "float16" if params.output_type == "half" else "float32"
    rng = np.random.default_rng(1)
    for pass_, op in HOST.items():
        first, second, _ = shapes_of(params, pass_)
        exact = [small(rng, s, dtype) for s in (first, second)]
        due = as_format(REFERENCES[pass_](*exact, params), format_of(made))
        for a, b in (exact, [rng.standard_normal(s).astype(np.float32).astype(dtype) for s in (first, second)]):
            operands = (b, a) if pass_ == "weight_gradient" else (a, b)
            got = testing.check(op, *operands, params=params, out_dtype=made)
            if a is exact[0]:
                assert_same_bits(got.reshape(due.shape), due)


TRANSFORMS = st.sampled_from([
    (), (), (), (("swapOperands", True),), (("swapOperands", False),), (("expandDims", (0,)),), (("expandDims", ()),),
    (("outChanFlattenDims", (0,)),), (("swapOperands", True), ("outChanFlattenDims", (0,))),
    (("swapOperands", True), ("outChanFlattenDims", ()), ("expandDims", ())),
    (("swapOperands", True), ("outChanFlattenDims", ()), ("expandDims", (0,))),
])
TARGETS = st.sampled_from([Target.gc200(tiles=n) for n in (1, 4, 10)] + [Target.c600(tiles=6)])


@pytest.mark.filterwarnings("ignore::poplibs_py.errors.MemoryLimitWarning")
@given(convolutions(any_transform=True) | convolutions(), st.sampled_from(PASSES), TARGETS, TRANSFORMS,
       st.sampled_from([0.6, 0.001, 0]), st.sampled_from(["float", "half"]), st.sampled_from([None, 3]),
       st.integers(1, 3))
@settings(max_examples=examples(150))
def test_every_transform_gives_the_bits_of_the_interpreter(params, pass_, target, transforms, proportion, partials,
                                                           seed, threads):
    made = "half" if params.input_type == "quarter" else params.input_type
    params = params.replace(batch=min(params.batch, 3), groups=min(params.groups, 3), output_type=made,
                            in_channels=min(params.in_channels, 9), out_channels=min(params.out_channels, 9))
    asked = tuple((name, list(value) if isinstance(value, tuple) else value) for name, value in transforms)
    try:
        plan = plan_convolution(
            params_of(params, pass_), target=target, available_memory_proportion=proportion, partials_type=partials,
            plan_constraints={"0": {"transform": dict(asked)}} if asked else {},
            enable_tile_level_expand_dims=not asked)
        work_of(plan)
    except (PlanError, InvalidArgumentError):
        return  # no such plan, or one of a dimension that is both expanded and flattened
    dtype = TYPES[params.input_type]
    rng = np.random.default_rng(1)
    first, second, shape = shapes_of(params, pass_)
    a, b = (rng.standard_normal(s).astype(np.float32).astype(dtype) for s in (first, second))
    made = run(plan, a, b, shape, pass_, seed=seed, threads=threads)
    slow = interpret_convolution(plan, operand("a", a), operand("b", b), pass_=pass_, seed=seed)
    assert_same_bits(made, np.ascontiguousarray(slow))
    assert_within_bound(made, convolution_bound(plan, a, b, pass_=pass_, seed=seed))


@pytest.mark.parametrize("partials", ["float", "half"])
@pytest.mark.parametrize("dtype", ["float", "half", "quarter"])
@pytest.mark.parametrize(("spec", "pass_", "tiles"), [
    ("batch=2 field=5,35 kernel=3,4 ci=5 co=3 pad=1,2", "forward", 20),
    ("field=3,40 kernel=2,3 ci=2 co=2 g=3 dil=1,2 pad=1,1", "forward", 20),  # of taps apart
    ("batch=2 field=70 kernel=7 ci=1 co=2 pad=3", "forward", 20),  # runs along the taps
    ("field=6,40 kernel=5,3 ci=64 co=1 pad=2,1", "forward", 1),  # in blocks of the depth
    ("field=7,66 kernel=3,5 ci=3 co=8 stride=2,2 pad=1,2", "input_gradient", 20),  # in phases
])
def test_neighbours_that_share_lines_give_the_bits_of_the_interpreter(spec, pass_, tiles, dtype, partials):
    params = parse_spec(f"{spec} type={dtype}").params
    params = params.replace(output_type="half" if dtype == "quarter" else dtype)
    plan = plan_convolution(params_of(params, pass_), target=Target.gc200(tiles=tiles), partials_type=partials)
    rng = np.random.default_rng(4)
    first, second, shape = shapes_of(params, pass_)
    a, b = (rng.standard_normal(s).astype(np.float32).astype(TYPES[dtype]) for s in (first, second))
    made = run(plan, a, b, shape, pass_)
    slow = interpret_convolution(plan, operand("a", a), operand("b", b), pass_=pass_)
    assert_same_bits(made, np.ascontiguousarray(slow))


@pytest.mark.parametrize("pass_", PASSES)
@pytest.mark.parametrize(("dtype", "partials"), [("float", "float"), ("half", "float"), ("half", "half")])
def test_parts_of_sums_that_are_added_as_they_are_made_give_the_bits_of_those_that_are_kept(pass_, dtype, partials):
    params = parse_spec(f"batch=3 field=13,12 kernel=3,2 ci=24 co=20 g=4 stride=2,3 pad=1,1 type={dtype}").params
    plan = plan_convolution(params_of(params, pass_), target=Target.gc200(tiles=200), partials_type=partials)
    assert work_of(plan).parts > 1
    rng = np.random.default_rng(8)
    first, second, shape = shapes_of(params, pass_)
    a, b = (rng.standard_normal(s).astype(np.float32).astype(TYPES[dtype]) for s in (first, second))
    a[0] = -np.finfo(a.dtype).tiny  # products that vanish, of either sign
    left, right = operand("a", a), operand("b", b)
    receiver = receive("out", None, shape, None, work_of(plan).out, (left, right))
    results, workspaces = [], []
    for threads in (1, 64):  # for many threads there are too few sums
        request = modelled_convolution(plan, left, right, receiver, pass_=pass_, threads=threads)
        request.run()
        results.append(receiver.array.copy())
        workspaces.append(request.program.workspace_bytes)
    assert_same_bits(*results)
    assert workspaces[0] < workspaces[1]


def _layers(dtype="half"):
    """Convolutions of different kinds, and operands."""
    rng = np.random.default_rng(2)
    layers = [("batch=2 field=9,7 kernel=3,3 ci=24 co=16", "forward"), ("field=5 kernel=2 ci=3 co=4 g=6", "forward"),
              ("batch=2 field=6,6 kernel=3,3 ci=8 co=8", "input_gradient"),
              ("batch=3 field=8 kernel=3 ci=5 co=40", "weight_gradient")]
    for spec, pass_ in layers:
        params = parse_spec(f"{spec} type={dtype}").params
        first, second, shape = shapes_of(params, pass_)
        yield params, pass_, *(rng.standard_normal(s).astype(TYPES[dtype]) for s in (first, second)), shape


@pytest.mark.parametrize("seed", [None, 6])
@pytest.mark.parametrize("kind", ["parallel", "serial"])
def test_several_convolutions_in_one_program(kind, seed):
    layers = list(_layers())
    multi = plan_convolutions([params_of(params, pass_) for params, pass_, *_ in layers], target="gc200",
                              options={"partialsType": "half"}, multi_options={"planType": kind})
    assert multi.parallel == (kind == "parallel")
    calls = []
    for plan, (_, pass_, a, b, shape) in zip(multi.plans, layers, strict=True):
        left, right = operand("a", a), operand("b", b)
        bias = operand("bias", np.arange(shape[1], dtype=np.float16)) if pass_ == "forward" else None
        calls.append(PassCall(left, right, receive("out", None, shape, None, work_of(plan).out, ()), pass_, bias,
                              "relu" if bias else None))
    for threads in (1, 2):
        program, operands = modelled_convolutions(multi, calls, seeded=seed is not None, threads=threads)
        program(*(np.array([seed], np.uint64) if x == VALUES else x.array for x in operands))
        for plan, call, (_, pass_, a, b, shape) in zip(multi.plans, calls, layers, strict=True):
            alone = run(plan, a, b, shape, pass_, seed=seed, bias=call.bias, activation=call.activation)
            assert_same_bits(call.receiver.array, alone)
    steps = program.program.steps
    assert len([s for s in steps if isinstance(s, Loop)]) == (1 if multi.parallel else len(layers))
    assert program.program.exchanged_bytes == sum(count(work_of(plan)).exchanged_bytes for plan in multi.plans)


@pytest.mark.parametrize("dtype", ["float", "half", "quarter"])
@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize("seed", [None, 5])
def test_a_bias_and_an_activation_round_once_more_each(dtype, activation, seed):
    params = ConvParams.create(input_type=dtype, batch=2, field=[6, 5], kernel=[3, 2], in_channels=9, out_channels=7,
                               groups=2)
    rng = np.random.default_rng(4)
    first, second, shape = shapes_of(params, "forward")
    a, b = (rng.standard_normal(s).astype(np.float32).astype(TYPES[dtype]) for s in (first, second))
    plan = plan_convolution(params, target=Target.gc200(tiles=30))
    bias = rng.standard_normal(shape[1]).astype(work_of(plan).out.dtype)
    relu = (lambda sums: np.where(sums < 0, np.float32(0), sums)) if activation else None
    made = run(plan, a, b, shape, bias=operand("bias", bias), activation=activation, seed=seed)
    slow = interpret_convolution(plan, operand("a", a), operand("b", b), bias=bias, activate=relu, seed=seed)
    assert_same_bits(made, np.ascontiguousarray(slow))


@pytest.mark.parametrize("pass_", PASSES)
def test_operands_and_results_of_any_strides(pass_):
    params = ConvParams.create(input_type="half", batch=3, field=[7, 6], kernel=[3, 3], in_channels=5, out_channels=4,
                               groups=2, output_transform=[OutputTransform(stride=2), OutputTransform()])
    rng = np.random.default_rng(7)
    *operands, shape = shapes_of(params, pass_)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in operands)
    plan = plan_convolution(params_of(params, pass_), target=Target.gc200(tiles=40))
    made = run(plan, a, b, shape, pass_)
    last = [np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1) for x in (a, b)]
    backwards = [np.ascontiguousarray(x[::-1, ..., ::-1])[::-1, ..., ::-1] for x in (a, b)]
    apart = [np.repeat(np.repeat(x, 2, axis=1), 3, axis=-1)[:, ::2, ..., ::3] for x in (a, b)]
    room = np.zeros((*shape[:-1], 2 * shape[-1]), np.float16)
    for left, right in (last, backwards, apart):
        assert_same_bits(run(plan, left, right, shape, pass_), made)
    assert_same_bits(np.ascontiguousarray(run(plan, a, b, shape, pass_, out=room[..., ::2])), made)
    turned = np.zeros(shape[::-1], np.float16).T
    assert_same_bits(np.ascontiguousarray(run(plan, a, b, shape, pass_, out=turned)), made)


def test_what_is_counted_is_what_a_request_tells():
    params = parse_spec("batch=2 field=12,12 kernel=3,3 ci=16 co=32 type=half").params
    plan = plan_convolution(params, target="gc200")
    first, second, shape = shapes_of(params, "forward")
    left, right = (operand("x", np.ones(s, np.float16)) for s in (first, second))
    request = modelled_convolution(plan, left, right, receive("out", None, shape, None, work_of(plan).out, ()))
    counted, told = count(work_of(plan)), request.measure()
    assert counted.tile_macs.sum() == params.macs()  # no zeros: nothing is padded
    assert (told["tile_macs"] == counted.tile_macs).all()
    assert (told["tile_bytes"] == counted.tile_bytes).all()
    assert told["exchanged_bytes"] == counted.exchanged_bytes
    assert counted.operand_bytes >= 2 * (np.prod(first) + np.prod(second))  # each number reaches a tile at least
    assert counted.cycles == plan.cycles
    what, _, planned = request.tell()
    assert (what, planned) == ("2 x 12x12 by 3x3 to 10x10, 16 to 32 channels: float16 x float16 -> float16", plan)


@pytest.mark.parametrize("pass_", PASSES)
@pytest.mark.parametrize("spec", [
    "batch=2 field=9,8 kernel=3,2 ci=5 co=6 g=2", "batch=3 field=7,7 kernel=3,3 ci=3 co=8 stride=2,2",
    "batch=2 field=6,6 kernel=1,1 ci=24 co=8", "batch=1 field=8,8 kernel=3,3 ci=1 co=1 g=6 pad=1,1",
])
@pytest.mark.parametrize("transform", [{}, {"expandDims": [0]}, {"swapOperands": True, "outChanFlattenDims": [0]}])
def test_pieces_hold_every_term_once(spec, pass_, transform):
    params = params_of(parse_spec(spec).params, pass_)
    try:
        plan = plan_convolution(params, target=Target.gc200(tiles=24), plan_constraints={"0": {"transform": transform}},
                                available_memory_proportion=0.002 if not transform else 0.6)
    except PlanError:
        return
    work = work_of(plan)
    grid = work.grid
    assert (np.bincount(work.pieces["turn"], minlength=work.turns) > 0).all()
    view = work.view
    extents = view.groups, view.batch, *view.output_shape, *view.kernel_shape, view.in_channels, view.out_channels
    done = np.zeros(extents, np.int8)
    for p in work.pieces:
        ranges = (p["groups"], p["batch"], *p["field"], *p["kernel"], p["ins"], p["outs"])
        done[tuple(slice(*ends) for ends in ranges)] += 1
    assert (done == 1).all()
    assert set(work.pieces["part"]) == set(range(work.parts))
    assert grid.amounts.macs.sum() == work.tile_macs().sum()


@pytest.mark.parametrize("dims", [[0], [1], [1, 0]])
def test_kernel_elements_that_are_channels_on_a_tile_alone(dims):
    """Groups of channels run across them: half partials are rounded elsewhere than where they are kernel elements."""
    params = parse_spec("batch=2 field=6,7 kernel=3,2 ci=16 co=16 type=half").params
    plan = plan_convolution(
        params, target=Target.gc200(tiles=5), partials_type="half", enable_tile_level_expand_dims=True,
        plan_constraints={"0": {"transform": {"expandDims": []}}, "1": {"transform": {"expandDims": dims}}})
    assert work_of(plan).joined == len(dims)
    rng = np.random.default_rng(3)
    first, second, shape = shapes_of(params, "forward")
    a, b = (rng.standard_normal(s).astype(np.float16) for s in (first, second))
    made = run(plan, a, b, shape)
    assert_same_bits(made, np.ascontiguousarray(interpret_convolution(plan, operand("a", a), operand("b", b))))
    assert_within_bound(made, convolution_bound(plan, a, b))
