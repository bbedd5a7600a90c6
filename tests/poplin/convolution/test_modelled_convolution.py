"""Convolutions on modelled machines, in three passes: the bits of the NumPy interpreter, within the plan's own bound."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest
from golden.families import folder
from hypothesis import given, settings
from hypothesis import strategies as st

from poplibs_py.cli.spec import parse_spec
from poplibs_py.errors import InvalidArgumentError, PlanError
from poplibs_py.ops import operand, receive
from poplibs_py.poplin.convolution import ConvOptions, ConvParams, ConvProblem, plan_convolution
from poplibs_py.poplin.convolution.api import planned_quietly
from poplibs_py.poplin.convolution.modelled import convolution_bound, interpret_convolution, modelled_convolution
from poplibs_py.poplin.convolution.reference import (
    reference_convolution,
    reference_input_gradient,
    reference_weight_gradient,
)
from poplibs_py.poplin.convolution.work import work_of
from poplibs_py.target import Target
from poplibs_py.testing import as_format, assert_same_bits, assert_within_bound

from .golden_cases import value_cases
from .strategies import convolutions

TYPES = {"float": np.float32, "half": np.float16, "quarter": ml_dtypes.float8_e4m3fnuz}
REFERENCES = {"forward": reference_convolution, "input_gradient": reference_input_gradient,
              "weight_gradient": reference_weight_gradient}
PASSES = tuple(REFERENCES)


def params_of(params: ConvParams, pass_: str) -> ConvParams:
    """What is planned for a pass."""
    return {"forward": params.canonical, "input_gradient": params.gradient, "weight_gradient": params.weight_update}[pass_]()


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
    goldens = {"forward": case["out"] - case["biases"].reshape(-1, *(1,) * params.ndim), "input_gradient": case["in_grad"]}
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


def _planned_cases():
    """Convolutions of the plan goldens; those of more than 10^8 products are for the night."""
    where = folder("POPLIBS_PLANNER_GOLDEN", "planner-golden")
    for name in ("dense_small", "dense"):
        path = where / f"{name}.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        for spec in (json.loads(line)["spec"] for line in lines if line.strip()):
            if spec.startswith("batch="):
                large = parse_spec(spec).params.macs() > 10**8
                yield pytest.param(spec, id=spec, marks=[pytest.mark.nightly] if large else [])


@pytest.mark.parametrize("spec", list(_planned_cases()) or [pytest.param("", marks=pytest.mark.skip("no cases"))])
@pytest.mark.filterwarnings("ignore::poplibs_py.errors.MemoryLimitWarning")
def test_convolutions_of_the_plan_goldens(spec):
    """The golden plan itself, and the three passes of the layer as GC200 plans them."""
    problem = parse_spec(spec)
    try:
        plan = planned_quietly(problem)
    except PlanError:
        return  # the original has none either
    check(problem.params, "forward", plan, TYPES[problem.params.input_type])
    words = [word for word in spec.split() if word not in ("grad=1", "wu=1") and "planConstraints" not in word]
    params = parse_spec(" ".join(words)).params
    options = ConvOptions.parse({"partialsType": problem.options.partials_type})
    for pass_ in PASSES:
        planned = planned_quietly(ConvProblem(Target.gc200(), params_of(params, pass_), options))
        check(params, pass_, planned, TYPES[params.input_type])


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
@settings(max_examples=150)
def test_every_transform_gives_the_bits_of_the_interpreter(params, pass_, target, transforms, proportion, partials, seed,
                                                           threads):
    params = params.replace(batch=min(params.batch, 3), groups=min(params.groups, 3), output_type="half" if
                            params.input_type == "quarter" else params.input_type,
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
