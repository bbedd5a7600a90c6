"""PopLibs' options are read in one place: a keyword and an option agree or are refused."""

from __future__ import annotations

from functools import partial
from inspect import Parameter, signature
from typing import Any

import numpy as np
import pytest
from result_bits import bits

from poplibs_py import poplin, profile
from poplibs_py.cli import main
from poplibs_py.errors import InvalidArgumentError, InvalidOptionError, InvalidTypeError
from poplibs_py.ops import catalogue
from poplibs_py.poplin.product.modelled import plan_modelled
from poplibs_py.poplin.tile_conv import ConvOptions, matmul_params, plan_convolution
from poplibs_py.popsparse import BlockSparseMatrix, dynamic, static
from poplibs_py.testing.cases import cases

TAKERS = [name for name, op in catalogue.items()  # a reduction has options of its own, none of memory
          if "options" in signature(op.face).parameters and name != "popops.reduce"]
_W = BlockSparseMatrix.from_dense(np.eye(8, dtype=np.float32), 4)


def _op(name: str) -> Any:
    """Return an op of the catalogue, to be called with keywords alone."""
    operands = cases(name)[0].operands
    return lambda **how: catalogue[name].face(*(x.copy() if isinstance(x, np.ndarray) else x for x in operands), **how)


CALLS: dict[str, Any] = {
    **{name: _op(name) for name in TAKERS},
    "matmul_grouped": _op("poplin.matmul_grouped"),
    "matmul_grouped_acc": _op("poplin.matmul_grouped_acc"),
    "matmul on a machine": lambda **how: poplin.matmul(np.ones((8, 8), np.float16), np.ones((8, 8), np.float16),
                                                       target="gc200", **how),
    "plan_matmul": lambda **how: poplin.plan_matmul((8, 8), (8, 8), **how),
    "plan_matmul on a machine": lambda **how: poplin.plan_matmul((8, 8), (8, 8), target="gc200", **how),
    "plan_modelled": lambda **how: plan_modelled((8, 8), (8, 8), **how),
    "plan_convolution": lambda **how: plan_convolution(matmul_params(1, 8, 8, 8, "half"), **how),
    "ConvOptions.parse": ConvOptions.parse,
    **{f"{module.__name__}.{name}": partial(getattr(module, name), _W, 8)
       for module in (static, dynamic) for name in module.__all__ if name.startswith("plan_")},
}  # fmt: skip
KEY, NAME = "availableMemoryProportion", "available_memory_proportion"


def test_the_ops_that_take_options_are_those_that_are_planned():
    assert {"poplin.matmul", "poplin.matmul_acc", "popsparse.static.sparse_dense_matmul"} <= set(TAKERS)
    for name in TAKERS:
        assert signature(catalogue[name].face).parameters["options"].kind is Parameter.KEYWORD_ONLY


def _outcome(name: str, **how: Any) -> Any:
    """What a call makes, the plan that it follows and the bytes that it takes."""
    with profile() as report:
        made = CALLS[name](**how)
    runs = [(run.plan, run.temporary_bytes) for run in report.runs]
    return bits(made) if runs else made, runs


@pytest.mark.parametrize("name", CALLS)
def test_no_limit_by_keyword_says_nothing(name):
    assert _outcome(name, **{NAME: None}) == _outcome(name)


@pytest.mark.parametrize("name", CALLS)
def test_a_keyword_and_an_option_that_contradict_each_other_are_refused_by_both_names(name):
    with pytest.raises(InvalidArgumentError, match=NAME) as refused:
        CALLS[name](**{NAME: 0.5}, options={KEY: 0.25})
    assert KEY in str(refused.value)
    assert "0.5" in str(refused.value)
    assert "0.25" in str(refused.value)


@pytest.mark.filterwarnings("ignore::poplibs_py.errors.MemoryLimitWarning")
@pytest.mark.parametrize("name", CALLS)
def test_a_keyword_and_an_option_may_say_the_same(name):
    once = _outcome(name, options={KEY: 0.5})
    assert _outcome(name, **{NAME: None}, options={KEY: 0.5}) == once
    for options in (None, {KEY: 0.5}, {KEY: "0.5"}, {NAME: 0.5}, {KEY: "0.5", NAME: 0.5}):
        assert _outcome(name, **{NAME: 0.5}, options=options) == once


@pytest.mark.parametrize("name", CALLS)
def test_two_spellings_that_contradict_each_other_are_refused(name):
    with pytest.raises(InvalidArgumentError, match=f"{NAME}: got 0.5.*{KEY} says, 0.25"):
        CALLS[name](options={KEY: 0.25, NAME: 0.5})


@pytest.mark.parametrize("name", CALLS)
def test_options_are_read_alike(name):
    for odd in (3, "half", [("partialsType", "float")]):
        with pytest.raises(InvalidTypeError, match=r"options: got .*a mapping of option names to values"):
            CALLS[name](options=odd)
    with pytest.raises(InvalidOptionError, match=f"did you mean '{KEY}'"):
        CALLS[name](options={"availableMemoryProportions": 0.5})
    with pytest.raises(InvalidOptionError, match=f"did you mean '{NAME}'"):
        CALLS[name](options={"available_memory_proportions": 0.5})
    with pytest.raises(InvalidOptionError, match=f"{KEY}: got much; allowed: "):
        CALLS[name](options={KEY: "much"})


@pytest.mark.parametrize("target", [None, "gc200"])
def test_what_a_keyword_says_is_refused_in_its_own_name(target):
    for keyword, value, said in ((NAME, "0.2", "'0.2'"), ("partials_type", "foo", "foo"), ("partials_type", 4, "4")):
        with pytest.raises((InvalidArgumentError, InvalidTypeError), match=f"^{keyword}: got {said}; allowed"):
            poplin.matmul(np.ones((4, 4), np.float32), np.ones((4, 4), np.float32), target=target, **{keyword: value})
    with pytest.raises(InvalidTypeError, match=r"partial_type.*\(did you mean 'partials_type'\?\)"):
        poplin.plan_matmul((3, 3), (3, 3), target=target, partial_type="half")


@pytest.mark.parametrize(("constraints", "message"), [
    ({"methd": {}}, r": got unknown key 'methd' \(did you mean 'method'\?\); allowed: 'method', .* as the key$"),
    ({"method": {"typ": "AMP"}}, r".method: got unknown key 'typ' \(did you mean 'type'\?\)"),
    ({"method": {"type": "APM"}}, r".method.type: got APM \(did you mean 'AMP'\?\)"),
    ({"0": {"transform": {"swapOperand": True}}}, r".0.transform: got unknown key 'swapOperand' \(did you mean 'swap"),
    ({"0": {"partition": {"fieldSplit": {"x": 1}}}}, r".0.partition.fieldSplit: got unknown key 'x'; allowed: a non-n"),
])  # fmt: skip
def test_a_misspelt_constraint_is_told_the_nearest_in_the_name_that_was_used(constraints, message):
    p = poplin.ConvParams.create(field=[4], kernel=[3], in_channels=1, out_channels=1)
    for how in ({"options": {"planConstraints": constraints}}, {"plan_constraints": constraints}):
        name = "plan_constraints" if "plan_constraints" in how else "planConstraints"
        for plan in (lambda how=how: poplin.plan_convolution(p, **how),
                     lambda how=how: poplin.plan_matmul((4, 4), (4, 4), target="gc200", **how)):
            with pytest.raises(InvalidOptionError, match=f"^{name}{message}"):
                plan()


def test_a_keyword_that_is_not_known_is_told_the_nearest():
    with pytest.raises(InvalidTypeError, match=r"keyword 'partial_type' \(did you mean 'partials_type'\?\), 'nothing"):
        poplin.plan_matmul((3, 3), (3, 3), partial_type="half", nothing=1)
    p = poplin.ConvParams.create(field=[4], kernel=[3], in_channels=1, out_channels=1)
    with pytest.raises(InvalidTypeError, match=r"^plan_convolution\(\): got unknown keyword 'layot' \(did you mean"):
        poplin.plan_convolution(p, target="host", layot="NHWC")


@pytest.mark.parametrize("target", [None, "gc200"])
def test_a_keyword_at_its_default_says_nothing_unless_it_was_named(target):
    a, half = np.full((8, 300), 1.001, np.float16), {"partialsType": "half"}
    want = poplin.matmul(a, a.T, target=target, partials_type="half")
    np.testing.assert_array_equal(poplin.matmul(a, a.T, target=target, options=half), want)
    with pytest.raises(InvalidArgumentError, match="partials_type: got float; allowed: what partialsType says, half"):
        poplin.plan_matmul((8, 8), (8, 8), dtype="float16", target=target, partials_type="float32", options=half)
    plan = poplin.plan_matmul((8, 8), (8, 8), target=target, options={KEY: 0.5}, available_memory_proportion=None)
    assert (plan.options if target is None else plan.problem.options).available_memory_proportion == 0.5


def test_options_that_were_made_ready_say_what_is_not_at_its_default():
    ready = ConvOptions(partials_type="half")
    assert ConvOptions.parse(ready) is ready
    assert ConvOptions.parse(ready, available_memory_proportion=0.1).partials_type == "half"
    with pytest.raises(InvalidArgumentError, match="partials_type: got float"):
        ConvOptions.parse(ready, partials_type="float")


def test_the_command_line_keeps_to_the_rule(capsys):
    problem = ["plan", "matmul", "64", "64", "64"]
    assert main([*problem, "--option", f"{KEY}=0.1", "--option", "pass=FC_INFERENCE_FWD", "--json"]) == 0
    said = capsys.readouterr().out
    assert main([*problem, "--amp", "0.1", "--pass", "FC_INFERENCE_FWD", "--json"]) == 0
    assert capsys.readouterr().out == said
    assert main([*problem, "--amp", "0.2", "--option", f"{KEY}=0.1"]) != 0
    assert KEY in capsys.readouterr().err
