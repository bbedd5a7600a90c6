"""Cache, threads and processes, trade-offs, fits, explanations, and the command line."""

from __future__ import annotations

import contextlib
import itertools
import json
import multiprocessing
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.cli import main
from poplibs_py.errors import (
    InvalidArgumentError,
    InvalidOptionError,
    InvalidTypeError,
    MemoryBoundError,
    PlanError,
    UnsupportedError,
)
from poplibs_py.planner import PlanConstraints, fit, preplan, sweep
from poplibs_py.poplin import plan_matmul
from poplibs_py.poplin.convolution import (
    ConvOptions,
    ConvParams,
    ConvPlan,
    ConvProblem,
    FieldTransform,
    OutputTransform,
    conv_cache,
    matmul_params,
    plan_convolution,
)
from poplibs_py.poplin.convolution.api import plan_problem, run_planner
from poplibs_py.poplin.matmul.modelled import plan_modelled
from poplibs_py.target import Target


def problem(columns: int = 96, tiles: int = 32, **options: Any) -> ConvProblem:
    params = matmul_params(1, 128, 64, columns, "half").canonical()
    return ConvProblem(Target.small(tiles), params, ConvOptions.parse({"pass": "NONE_MATMUL", **options}))


def plan_into(folder: str) -> str:
    cache = conv_cache(folder)
    return plan_problem(problem(), cache).to_json()


# Cache ---------------------------------------------------------------------------------------------


def test_threads_get_one_plan() -> None:
    cache = conv_cache()
    start = threading.Barrier(8)

    def ask() -> ConvPlan:
        start.wait()
        return plan_problem(problem(), cache)

    with ThreadPoolExecutor(8) as pool:
        plans = [job.result() for job in [pool.submit(ask) for _ in range(8)]]
    assert len(cache) == 1
    assert all(p is plans[0] for p in plans)


def test_processes_write_one_file(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        texts = pool.map(plan_into, [str(tmp_path)] * 4)
    assert len(set(texts)) == 1
    [file] = tmp_path.iterdir()
    assert ConvPlan.from_json(file.read_text()) == run_planner(problem())


def test_plan_is_read_from_the_folder(tmp_path: Path) -> None:
    plan = plan_problem(problem(), conv_cache(tmp_path))

    def never() -> ConvPlan:
        raise AssertionError("planned again")

    fresh = conv_cache(tmp_path)
    assert fresh.get_or_plan(problem(), never, problem().key) == plan


@pytest.mark.parametrize("text", ["", "{", "[]", '{"method": 3}'])
def test_damaged_file_is_planned_again(tmp_path: Path, text: str) -> None:
    plan = plan_problem(problem(), conv_cache(tmp_path))
    [file] = tmp_path.iterdir()
    file.write_text(text)
    assert plan_problem(problem(), conv_cache(tmp_path)) == plan
    assert ConvPlan.from_json(file.read_text()) == plan


def test_different_problems_have_different_keys() -> None:
    keys = {problem(columns, tiles, **options).key() for columns, tiles, options in [
        (96, 32, {}), (95, 32, {}), (96, 31, {}), (96, 32, {"partialsType": "half"}),
        (96, 32, {"planConstraints": {"method": {"type": "AMP"}}}),
    ]}
    assert len(keys) == 5


def test_joint_plan_serves_the_other_passes() -> None:
    cache = conv_cache()
    params = matmul_params(1, 64, 4096, 4096, "half")
    forward = plan_convolution(params, cache=cache, pass_="FC_TRAINING_FWD")
    assert forward.joint
    assert forward.cycles == forward.costs["totalCycles"] + sum(
        c["totalCycles"] for c in (forward.backward_costs, forward.weight_update_costs) if c
    )
    backward = plan_convolution(params, cache=cache, pass_="FC_TRAINING_BWD")
    assert (backward.order, backward.costs) == ("FC_BWD_AS_CONV", forward.backward_costs)
    assert backward.partition.in_chan_split.parallel == forward.partition.field_split[-1]
    update = plan_convolution(matmul_params(1, 4096, 64, 4096, "half"), cache=cache, pass_="FC_TRAINING_WU")
    assert (update.order, update.costs) == ("FC_WU", forward.weight_update_costs)
    assert update.partition.out_chan_split == forward.partition.in_chan_split
    for plan in (forward, backward, update):
        assert ConvPlan.from_json(plan.to_json()) == plan


def test_separate_plans_are_kept_for_the_other_passes() -> None:
    cache = conv_cache()
    options = {"pass": "FC_TRAINING_FWD"}
    forward = plan_convolution(matmul_params(1, 8, 1024, 1024, "half"), cache=cache, options=options)
    assert not forward.joint
    assert len(forward.additional) == 2
    assert len(cache) == 3
    backward = plan_convolution(matmul_params(1, 8, 1024, 1024, "half"), cache=cache, pass_="FC_TRAINING_BWD")
    assert len(cache) == 3
    assert backward.costs == forward.additional[0].costs


# Many problems -------------------------------------------------------------------------------------


def test_processes_plan_as_one_does() -> None:
    jobs = [problem(columns) for columns in range(80, 90)] + [problem(80)]
    assert preplan(jobs, run_planner, jobs=2) == preplan(jobs, run_planner, jobs=1)


def test_bad_job_count() -> None:
    with pytest.raises(InvalidArgumentError, match="jobs"):
        preplan([1], str, jobs=0)


# Trade-offs ----------------------------------------------------------------------------------------

PROPORTIONS = [0.01, 0.02, 0.03, 0.04, 0.06, 0.1]


def test_sweep_is_monotonic_where_plans_fit() -> None:
    result = sweep(problem(columns=256, tiles=8), PROPORTIONS)
    fitting = [p for p in result.points if p.fits]
    assert len(fitting) > 2
    assert all(a.cycles >= b.cycles for a, b in itertools.pairwise(fitting))
    assert all(p.temp_bytes <= p.limit for p in fitting)
    frontier = result.frontier()
    assert all(a.temp_bytes < b.temp_bytes and a.cycles > b.cycles for a, b in itertools.pairwise(frontier))
    assert len(str(result).splitlines()) == len(PROPORTIONS) + 1


def test_sweep_plots() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    result = sweep(problem(columns=256, tiles=8), [0.01, 0.6])
    axes = result.plot()
    marked = {line.get_label(): len(line.get_xdata()) for line in axes.lines[1:]}
    assert marked == {"fits": 1, "does not fit": 1}
    assert [point["fits"] for point in json.loads(result.to_json())] == [False, True]
    pyplot.close("all")


@pytest.mark.parametrize("shared", [False, True])
@given(memory=st.integers(1000, 60000))
def test_fit_is_the_best_choice(shared: bool, memory: int) -> None:
    layers = [problem(columns, 8) for columns in (64, 200, 256)]
    menus = [sweep(layer, PROPORTIONS).points for layer in layers]
    total = max if shared else sum
    choices = [c for c in itertools.product(*menus) if total(p.temp_bytes for p in c) <= memory]
    if not choices:
        with pytest.raises(MemoryBoundError, match="memory"):
            fit(layers, memory, proportions=PROPORTIONS, shared=shared)
        return
    made = fit(layers, memory, proportions=PROPORTIONS, shared=shared)
    assert made.cycles == min(sum(p.cycles for p in c) for c in choices)
    assert made.temp_bytes <= memory
    assert len(made.proportions) == 3


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: sweep(problem(), []), InvalidArgumentError),
        (lambda: sweep(problem(), [-1.0]), InvalidArgumentError),
        (lambda: sweep(problem(), [float("nan")]), InvalidArgumentError),
        (lambda: sweep(problem(), ["half"]), InvalidTypeError),  # type: ignore[list-item]
        (lambda: fit([], 100), InvalidArgumentError),
        (lambda: fit([problem()], -1), InvalidArgumentError),
        (lambda: fit([problem()], 1.5), InvalidTypeError),  # type: ignore[arg-type]
    ],
)
def test_bad_trade_offs_are_refused(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


# Explanations --------------------------------------------------------------------------------------


def test_explanation_names_the_winner_and_why_the_others_lost() -> None:
    plan = run_planner(problem())
    explanation = plan.explain()
    assert (explanation.chosen.cycles, explanation.chosen.temp_bytes) == (plan.cycles, plan.temp_bytes)
    assert sum(c.chosen for c in explanation) == 1
    for c in explanation:
        assert c.verdict
        if c.cycles is not None and not c.chosen:
            assert c.temp_bytes is not None
            assert (c.cycles, c.temp_bytes) >= (plan.cycles, plan.temp_bytes)
    assert str(explanation).count("\n") == len(explanation)


# Products ------------------------------------------------------------------------------------------


def test_matmul_options_reach_the_planner() -> None:
    made = plan_modelled((1, 64, 64), (1, 64, 64), dtype=np.float16, options={"partialsType": "half"})
    assert made.cycles == 725
    assert made == plan_modelled((64, 64), (64, 64), partials_type="half")
    update = plan_modelled((64, 64), (64, 64), fully_connected_pass="TRAINING_WU")
    assert update.order == "FC_WU" or not update.joint


def test_plan_matmul_of_a_modelled_machine() -> None:
    made = plan_matmul((2, 64, 64), (2, 64, 64), dtype=np.float16, target="gc200", partials_type="half")
    assert made == plan_modelled((2, 64, 64), (2, 64, 64), partials_type="half")
    with pytest.raises(UnsupportedError):
        plan_matmul((64, 64), (64, 64), dtype=np.float16, target="gc200", activation="relu")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (((4, 5), (6, 7)), InvalidArgumentError),
        (((4,), (4, 5)), InvalidArgumentError),
        (((2, 4, 5), (3, 5, 6)), InvalidArgumentError),
        (((4, -5), (-5, 6)), InvalidArgumentError),
        (((4, 5.5), (5.5, 6)), InvalidTypeError),
        ((7, (4, 5)), InvalidTypeError),
        (((4, 2**31), (2**31, 6)), InvalidArgumentError),
        (((2**30, 2**30), (2**30, 2**30)), InvalidArgumentError),
    ],
)
def test_bad_shapes_are_refused(arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        plan_modelled(*arguments)


@pytest.mark.parametrize("option", [{"fullyConnectedPass": "WU"}, {"partialType": "half"}, {"fidelity": 1}])
def test_bad_matmul_options_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        plan_modelled((4, 4), (4, 4), options=option)


def test_bad_types_are_refused() -> None:
    with pytest.raises((InvalidArgumentError, InvalidTypeError)):
        plan_modelled((4, 4), (4, 4), dtype=np.float64)
    with pytest.raises(InvalidOptionError, match="output_type"):
        plan_modelled((4, 4), (4, 4), dtype="quarter", out_dtype="float32")


def params_of(**changes: Any) -> ConvParams:
    fields: dict[str, Any] = {"field": [5, 5], "kernel": [3, 3], "in_channels": 2, "out_channels": 2}
    return ConvParams.create(**{**fields, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"field": [5]},
        {"field": []},
        {"field": "55"},
        {"field": [2, 2]},
        {"field": [5, -1]},
        {"batch": -1},
        {"batch": 2.5},
        {"batch": True},
        {"groups": 2**31},
        {"kernel": [0, 3]},
        {"input_type": "double"},
        {"input_transform": [FieldTransform()]},
        {"input_transform": [OutputTransform()] * 2},
        {"input_transform": [FieldTransform(truncation_lower=6)] * 2},
        {"input_transform": [FieldTransform(dilation=0)] * 2},
        {"kernel_transform": [FieldTransform(truncation_upper=3)] * 2},
        {"input_transform": [FieldTransform(padding_lower=-1)] * 2},
        {"output_transform": [OutputTransform(stride=0)] * 2},
        {"output_transform": [OutputTransform(truncation_lower=4)] * 2},
        {"field": [2**20, 2**20], "kernel": [1, 1]},
        {"field": [2] * 9, "kernel": [1] * 9},
    ],
)
def test_bad_convolutions_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises((InvalidArgumentError, InvalidTypeError)):
        params_of(**changes)


@pytest.mark.parametrize("sizes", [{"batch": 0}, {"in_channels": 0}, {"out_channels": 0}, {"groups": 0}])
@pytest.mark.parametrize("input_type", ["float", "half"])
def test_empty_tensors_plan_or_raise(sizes: dict[str, int], input_type: str) -> None:
    with contextlib.suppress(PlanError):
        assert plan_convolution(params_of(input_type=input_type, **sizes)).cycles >= 0


@pytest.mark.parametrize("method", ["AMP", "SLIC", "HMAC", "VMAC", "OUTER_PRODUCT"])
@pytest.mark.parametrize("value", [0, 1, 3, 2**32 - 1])
def test_absurd_constraints_plan_or_raise(method: str, value: int) -> None:
    pins = {
        "method": {"type": method, "windowWidth": value, "convUnits": value, "convInputLoadElems": value},
        "convGroupsPerGroup": value,
        "inChansPerGroup": value,
        "partialChansPerGroup": value,
    }
    split = {"parallel": value, "serial": value}
    part = {"batchSplit": value, "fieldSplit": {"1": value}, "outChanSplit": split, "inChanSplit": split}
    for name, pin in [*pins.items(), ("0", {"partition": part})]:
        constraints = {"method": {"type": method}, name: pin}
        with contextlib.suppress(PlanError):
            plan_convolution(params_of(input_type="half"), planConstraints=constraints, cache=conv_cache())


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", '{"transforms": [1]}'])
def test_json_that_is_no_plan(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        ConvPlan.from_json(text)


@pytest.mark.filterwarnings("ignore::poplibs_py.errors.MemoryBoundWarning")
def test_less_than_a_byte_does_not_fit() -> None:
    assert not plan_convolution(params_of(), available_memory_proportion=1e-12).fits


def test_no_output_still_plans() -> None:
    empty = params_of(output_transform=[OutputTransform(truncation_lower=3)] * 2)
    assert empty.output_shape == (0, 0)
    assert plan_convolution(empty).cycles > 0


def test_bad_arguments_of_plan_convolution() -> None:
    with pytest.raises(InvalidTypeError, match="params"):
        plan_convolution((1, 2))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="target"):
        plan_convolution(params_of(), target="gc300")
    with pytest.raises(InvalidArgumentError, match="target"):
        plan_convolution(params_of(), target="host")
    with pytest.raises(InvalidOptionError, match="memory"):
        plan_convolution(params_of(), memory=3)
    with pytest.raises(PlanError):
        plan_convolution(params_of(), planConstraints={"method": {"type": "VMAC"}})


def test_constraints_file(tmp_path: Path) -> None:
    stem = tmp_path / "plan"
    plan = plan_convolution(params_of(), pass_="INFERENCE_FWD", plan_constraints_output_filename=str(stem))
    written = PlanConstraints.parse((tmp_path / "plan_FWD.json").read_text())
    assert written == plan.constraints()
    again = plan_convolution(params_of(), pass_="INFERENCE_FWD", plan_constraints=written)
    assert again.partition == plan.partition


# Command line --------------------------------------------------------------------------------------


def run(capsys: pytest.CaptureFixture[str], words: str) -> str:
    assert main(["plan", *words.split()]) == 0
    return capsys.readouterr().out


def test_command_line_plans_a_product(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "matmul 64 64 64 --dtype half --partials half --target gc200 --amp 0.2 --explain")
    assert "725 cycles" in out
    few = out.partition("candidate")[2].splitlines()
    assert "chosen" in few[1]
    every = run(capsys, "matmul 64 64 64 --dtype half --partials half --amp 0.2 --explain --all")
    left_out = len(every.partition("candidate")[2].splitlines()) - 11
    assert (len(few), few[-1]) == (12, f"  and {left_out} others: see --all")


def test_command_line_sweeps(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "matmul 256 256 256 --tiles 16 --sweep --amp 0.25")
    assert " 0.25" in out
    assert "Cycles against" in out


def test_command_line_plans_a_convolution(capsys: pytest.CaptureFixture[str]) -> None:
    words = "conv --batch 2 --field 8,8 --kernel 3 --ci 4 --co 4 --tiles 16 --json"
    with pytest.raises(InvalidArgumentError):
        ConvParams.create(field=[8, 8], kernel=[3], in_channels=4, out_channels=4)
    assert main(["plan", *words.split()]) == 2
    capsys.readouterr()
    fields = json.loads(run(capsys, words.replace("--kernel 3", "--kernel 3,3 --pad 1 --stride 2,2")))
    assert fields["totalTiles"] <= 16


def test_problems_that_are_none() -> None:
    params = params_of()
    for call in (lambda: sweep(params, [0.5]), lambda: fit([params], 10**6), lambda: fit(problem(), 10**6)):
        with pytest.raises(InvalidTypeError, match=r"^problems?: got"):
            call()
    with pytest.raises(InvalidTypeError, match=r"^options: got"):
        ConvProblem("gc200", params, {})  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"^target: got host"):
        ConvProblem("host", params, ConvOptions())  # type: ignore[arg-type]
    assert ConvProblem("gc200", params, ConvOptions()).target.name == "gc200"  # type: ignore[arg-type]


def test_data_types_have_several_names() -> None:
    wanted = matmul_params(1, 8, 8, 8, "half", "float")
    assert matmul_params(1, 8, 8, 8, np.float16, "float32") == wanted
    assert ConvOptions.parse(partials_type=np.float16) == ConvOptions.parse(partialsType="half")
    for value in ("bfloat16", "int8", 3, None):
        with pytest.raises(InvalidArgumentError, match=r"^input_type: got"):
            matmul_params(1, 8, 8, 8, value)
    with pytest.raises(InvalidOptionError, match=r"^partialsType: got quarter"):
        ConvOptions.parse(partialsType="quarter")


@pytest.mark.parametrize(("words", "named"), [
    ("matmul -- -5 4 4", "M"), ("matmul 4 4 4 --dtype int8", "--dtype"), ("matmul 4 4 4 --amp -1", "--amp"),
    ("matmul 4 4 4 --partials int8", "--partials"), ("matmul 4 4 4 --target host", "--target"),
    ("conv --field 8 --kernel 3 --ci -4 --co 4", "--ci"),
])  # fmt: skip
def test_command_line_names_what_was_typed(words: str, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *words.split()]) == 2
    assert f" {named}: got" in capsys.readouterr().err


def test_command_line_plans_in_numpys_words(capsys: pytest.CaptureFixture[str]) -> None:
    words = "matmul 64 64 64 --tiles 16 --dtype {} --partials {} --json"
    assert run(capsys, words.format("half", "float")) == run(capsys, words.format("float16", "float32"))
    assert len(json.loads(run(capsys, words.format("half", "half") + " --sweep"))) > 9


def test_a_file_of_specs_fails_where_every_line_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    specs = tmp_path / "specs.txt"
    for text, status in (("mm=1\nmm=2\n", 1), ("mm=1\nmm=1,8,8,8 tiles=4\n", 0), ("# none\n", 0)):
        specs.write_text(text)
        assert main(["plan", "dense", "--spec-file", str(specs), "--jsonl"]) == status
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert len([line for line in lines if "error" in line]) == text.count("mm=1\n") + text.count("mm=2\n")


@pytest.mark.parametrize(("spec", "error"), [
    ("mm=1,4,4", "mm: got 1,4,4"), ("mm=1,8,8,8 type=hlf", "type: got hlf"), ("mm=1,8,8,8 amp=-3", "amp: got -3"),
    ("mm=1,8,8,8 partials=quarter", "partials: got quarter"), ("mm=1,8,8,8 pass=FOO", "pass: got FOO"),
    ("mm=1,8,8,-9", r"mm \(N\): got -9"), ("mm=1,8,8,8 type=quarter", "out: got 'quarter'"),
    ("mm=1,8,8,8 o:enableFastReduce=7", "o:enableFastReduce: got 7"),
    ("mm=1,8,8,8 o:foo=7", "o: got unknown key 'foo'"),
    ('mm=1,8,8,8 o:planConstraints={"a":1}', "o:planConstraints.a: got a"), ("mm=1,8,8,8 tiles=0", "tiles: got 0"),
    ("mm=1,8,8,8 ci=4", "ci: got 4; allowed: a convolution's key"), ("mm=1,8,8,8 grad=2", "grad: got 2"),
    ("mm=1,8,8,8 amp=1 amp=2", "amp: got amp=2; allowed: one value"), ("field=8 kernel=3 ci=4,5 co=4", "ci: got 4,5"),
    ("field=8 kernel=3 co=4", "spec: got field kernel co"), ("field=8 kernel=3 ci=4 co=4 pad=-1", "pad: got -1"),
    ("field=8 kernel=3 ci=4 co=4 stride=0", "stride: got 0"), ("field=8 kernel=3 ci=4 co=4 dil=0", "dil: got 0"),
    ("field=8 kernel=3 ci=4 co=4 g=-1", "g: got -1"), ("field=8 kernel=3 ci=-1 co=4", "ci: got -1"),
    ("field=2 kernel=3 ci=4 co=4", "field: got transformed size 2"),
])  # fmt: skip
def test_errors_in_a_file_of_specs_name_its_line_and_key(
    spec: str, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    specs = tmp_path / "specs.txt"
    specs.write_text(f"# one that has a plan\nmm=1,8,8,8 tiles=4\n\n{spec}\n")
    assert main(["plan", "dense", "--spec-file", str(specs), "--jsonl"]) == 0
    planned, failed = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert planned["totalTiles"] <= 4
    assert failed["spec"] == spec
    assert re.match(re.escape(f"{specs}:4: ") + error, failed["error"])
    assert main(["plan", "dense", "--spec-file", str(specs)]) == 0
    assert f"{specs}:4: " in capsys.readouterr().out


def test_a_plan_as_json_holds_its_candidates(capsys: pytest.CaptureFixture[str]) -> None:
    words = "matmul 64 64 64 --dtype half --partials half --amp 0.2 --json"
    plain = run(capsys, words)
    few, every = (json.loads(run(capsys, words + more)) for more in (" --explain", " --explain --all"))
    assert few["candidates"][0]["chosen"]
    assert len(few["candidates"]) == 10 < len(every["candidates"])
    assert {k: v for k, v in every.items() if k != "candidates"} == json.loads(plain)
    assert ConvPlan.from_json(json.dumps(few)) == ConvPlan.from_json(plain)


@pytest.mark.parametrize(
    "words",
    [
        "matmul 4 4 4 --explain --sweep",
        "matmul 4 4 4 --all",
        "dense --spec-file /nowhere/at/all --jsonl",
        "dense --spec-file - --jsonl --jobs 0",
        "matmul 4 4 4 --target gc300",
        "matmul 4 4 4 --amp nan",
        "matmul 4 4 4 --option fast",
        "conv --field 8,8 --kernel 3,3 --ci 4 --co 4 --pad 1,1,1",
    ],
)
def test_command_line_refuses(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *words.split()]) == 2
    assert "got" in capsys.readouterr().err
