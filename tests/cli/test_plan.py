"""``poplibs-py plan``: products, convolutions and files of specs, with errors that name what was typed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from poplibs_py.cli import main
from poplibs_py.errors import InvalidArgumentError
from poplibs_py.poplin.tile_conv import ConvParams, ConvPlan, FieldTransform, plan_convolution


def run(capsys: pytest.CaptureFixture[str], words: str) -> str:
    assert main(["plan", *words.split()]) == 0
    return capsys.readouterr().out


def test_command_line_plans_a_product(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "matmul 64 64 64 --dtype half --partials half --target gc200 --amp 0.2 --explain")
    assert "cycles      725" in out
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
    assert run(capsys, words) == run(capsys, words.replace("--kernel 3", "--kernel 3,3"))
    assert main(["plan", *words.replace("--kernel 3", "--kernel 3,3,3").split()]) == 2
    capsys.readouterr()
    fields = json.loads(run(capsys, words.replace("--kernel 3", "--kernel 3,3 --pad 1 --stride 2,2")))
    assert fields["totalTiles"] <= 16


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
        assert main(["plan", "specs", "--spec-file", str(specs), "--jsonl"]) == status
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert len([line for line in lines if "error" in line]) == text.count("mm=1\n") + text.count("mm=2\n")


def test_a_file_of_specs_names_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    specs = tmp_path / "specs.txt"
    specs.write_text("mm=1,64,64,64 target=bow\nmm=1,64,64,64 target=gc2 tiles=4\nmm=1,64,64,64\n")
    assert main(["plan", "specs", "--spec-file", str(specs), "--jobs", "1"]) == 0
    machines = re.findall(r"^machine +(\w+): ([\d,]+) tiles", capsys.readouterr().out, re.MULTILINE)
    assert machines == [("bow", "1,472"), ("gc2", "4"), ("gc200", "1,472")]


@pytest.mark.parametrize(("spec", "error"), [
    ("mm=1,4,4", "mm: got 1,4,4"), ("mm=1,8,8,8 type=hlf", "type: got hlf"), ("mm=1,8,8,8 amp=-3", "amp: got -3"),
    ("mm=1,8,8,8 partials=quarter", "partials: got quarter"), ("mm=1,8,8,8 pass=FOO", "pass: got FOO"),
    ("mm=1,8,8,-9", r"mm \(N\): got -9"), ("mm=1,8,8,8 type=quarter", "out: got 'quarter'"),
    ("mm=1,8,8,8 o:enableFastReduce=7", "o:enableFastReduce: got '7'"),
    ("mm=1,8,8,8 o:foo=7", "o: got unknown key 'foo'"),
    ('mm=1,8,8,8 o:planConstraints={"a":1}', "o:planConstraints: got unknown key 'a'"),
    ('mm=1,8,8,8 o:planConstraints={"method":{"5":1}}', "o:planConstraints.method: got unknown key '5'"),
    ("mm=1,8,8,8 tiles=0", "tiles: got 0"),
    ("mm=1,8,8,8 target=gc300", "target: got gc300"), ("mm=1,8,8,8 target=host", "target: got host; allowed: a "),
    ("mm=1,8,8,8 ci=4", "ci: got '4'; allowed: a convolution's key"), ("mm=1,8,8,8 grad=2", "grad: got '2'"),
    ("mm=1,8,8,8 amp=1 amp=2", "amp: got amp=2; allowed: one value"), ("field=8 kernel=3 ci=4,5 co=4", "ci: got 4,5"),
    ("field=8 kernel=3 co=4", "spec: got field=8 kernel=3 co=4"), ("field=8 kernel=3 ci=4 co=4 pad=-1", "pad: got -1"),
    ("field=8 kernel=3 ci=4 co=4 stride=0", "stride: got 0"), ("field=8 kernel=3 ci=4 co=4 dil=0", "dil: got 0"),
    ("field=8 kernel=3 ci=4 co=4 g=-1", "g: got -1"), ("field=8 kernel=3 ci=-1 co=4", "ci: got -1"),
    ("field=2 kernel=3 ci=4 co=4", "field: got transformed size 2"),
])  # fmt: skip
def test_errors_in_a_file_of_specs_name_its_line_and_key(
    spec: str, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    specs = tmp_path / "specs.txt"
    specs.write_text(f"# one that has a plan\nmm=1,8,8,8 tiles=4\n\n{spec}\n")
    assert main(["plan", "specs", "--spec-file", str(specs), "--jsonl"]) == 0
    planned, failed = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert planned["totalTiles"] <= 4
    assert failed["spec"] == spec
    assert re.match(re.escape(f"{specs}:4: ") + error, failed["error"])
    assert main(["plan", "specs", "--spec-file", str(specs)]) == 0
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
    ("words", "error"),
    [
        ("matmul 4 4 4 --explain --sweep", "--explain: got --sweep too; allowed: one of the two"),
        ("matmul 4 4 4 --all", "--all: got no --explain; allowed: --explain --all"),
        ("specs --spec-file /nowhere/at/all --jsonl", "--spec-file: got /nowhere/at/all; allowed: a text file"),
        ("specs --spec-file - --jsonl --jobs 0", "--jobs: got 0; allowed: 1 or more"),
        ("matmul 4 4 4 --target host", "--target: got host; allowed: a modelled machine"),
        ("matmul 4 4 4 --against host", "--against: got host; allowed: gc2"),
        ("matmul 4 4 4 --target gc300", "--target: got gc300; allowed: a modelled machine: gc2, gc200, bow or c600"),
        ("matmul 4 4 4 --amp nan", "--amp: got nan; allowed: a finite number, 0 or more"),
        ("matmul 4 4 4 --option fast", "--option: got fast; allowed: KEY=VALUE"),
        ("conv --field 8,8 --kernel 3,3 --ci 4 --co 4 --pad 1,1,1",
         "--pad: got [1, 1, 1]; allowed: one number, or one for each dimension of --field, 2"),
    ],
)
def test_command_line_refuses(words: str, error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *words.split()]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"poplibs-py plan: {error}")


def test_sizes_that_are_none_are_told_what_is_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(capsys, "conv --field 8x8 --kernel 3 --ci 4 --co 4")
    assert "--field: got 8x8; allowed: whole numbers with commas between them" in capsys.readouterr().err


def test_an_empty_product_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "matmul 0 4 4")
    for line in ("none: the result is empty", "memory      1 byte on a tile of 638,976: fits", "nothing to multiply"):
        assert line in out
    assert "nothing" not in run(capsys, "matmul 4 4 4")


def test_errors_become_a_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    specs = tmp_path / "specs"
    specs.write_text("mm=1,2,3,4 colour=red\nmm=1,8,8,8 tiles=4\n")
    assert main(["plan", "specs", "--spec-file", str(specs), "--jsonl"]) == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert "colour=red" in first["error"]
    assert second["totalTiles"] <= 4


def test_plans_are_compared_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "matmul 64 64 64 --against bow,0.1")
    assert [word in out.splitlines()[0] for word in ("gc200, 0.6", "bow, 0.6", "gc200, 0.1")] == [True] * 3
    figures = json.loads(run(capsys, "matmul 64 64 64 --against bow --json"))
    assert [each["machine"].split(":")[0] for each in figures] == ["gc200", "bow"]
    assert figures[0]["cycles"] == figures[1]["cycles"]
    assert main(["plan", "matmul", "64", "64", "64", "--against", "gc9"]) != 0
    assert "--against: got gc9" in capsys.readouterr().err


def test_a_training_pass_of_a_layer_is_no_pass_of_a_convolution(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "conv", "--field", "56,56", "--kernel", "3,3", "--pad", "1", "--ci", "8", "--co", "8"]
    assert main([*words, "--pass", "FC_TRAINING_FWD"]) != 0
    assert "--pass: got FC_TRAINING_FWD; allowed: one without FC_" in capsys.readouterr().err
    params = ConvParams.create(field=[4], kernel=[1], in_channels=8, out_channels=8)
    with pytest.raises(InvalidArgumentError, match="pass: got FC_TRAINING_WU"):
        plan_convolution(params, pass_="FC_TRAINING_WU")
    padded = ConvParams.create(field=[1], kernel=[1], in_channels=8, out_channels=8,
                               input_transform=[FieldTransform(padding_lower=1, padding_upper=1)])
    with pytest.raises(InvalidArgumentError, match="pass: got FC_TRAINING_FWD"):
        plan_convolution(padded, pass_="FC_TRAINING_FWD")


@pytest.mark.parametrize("pass_", ["FC_TRAINING_FWD", "FC_TRAINING_BWD", "FC_TRAINING_WU"])
def test_passes_of_a_layer_take_fields_of_one_element_on_any_number_of_axes(
    pass_: str, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [run(capsys, f"conv --field {ones} --kernel 1 --batch 4 --ci 8 --co 8 --pass {pass_}")
             for ones in ("1", "1,1", "1,1,1")]
    assert "matmul [4, 8] x [8, 8]" in texts[0]
    assert texts[0] == texts[1] == texts[2]
    params = ConvParams.create(batch=4, field=[1, 1], kernel=[1, 1], in_channels=8, out_channels=8)
    plan = plan_convolution(params, pass_=pass_)
    assert ConvPlan.from_json(plan.to_json()) == plan


def test_gradients_and_fp8_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    layer = "conv --field 14,14 --kernel 3 --pad 1 --ci 16 --co 24 --batch 2"
    params = ConvParams.create(input_type="half", batch=2, field=[14, 14], kernel=[3, 3], in_channels=16,
                               out_channels=24, input_transform=[FieldTransform(padding_lower=1, padding_upper=1)] * 2)
    for flag, derived in (("", params), (" --grad", params.gradient()), (" --wu", params.weight_update())):
        plan = ConvPlan.from_json(run(capsys, f"{layer}{flag} --json"))
        assert plan.problem is not None
        assert plan.problem.params == derived.canonical()
    slow, fast = (ConvPlan.from_json(run(capsys, f"matmul 256 256 256 --dtype quarter --json{flag}"))
                  for flag in ("", " --fp8"))
    assert fast.cycles < slow.cycles
    words = "conv --field 14,14 --kernel 3 --pad 1 --ci 64 --co 64 --batch 4 --dtype quarter --json"
    assert json.loads(run(capsys, words + " --fp8"))["totalCycles"] < json.loads(run(capsys, words))["totalCycles"]


def test_a_sweep_takes_its_proportions(capsys: pytest.CaptureFixture[str]) -> None:
    swept = json.loads(run(capsys, "matmul 64 64 64 --sweep 0.1,0.3 --amp 0.2 --json"))
    assert [point["proportion"] for point in swept] == [0.1, 0.2, 0.3]
    assert main(["plan", "matmul", "64", "64", "64", "--sweep", "much"]) != 0
    assert "--sweep: got much" in capsys.readouterr().err


def test_what_is_too_large_or_cannot_be_met_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "matmul", "2000000", "2000000", "1"]) != 0
    assert "M x K: got" in capsys.readouterr().err
    constraints = '{"0": {"partition": {"convGroupSplit": 7}}}'
    assert main(["plan", "matmul", "8", "8", "8", "--option", f"planConstraints={constraints}"]) != 0
    assert "planConstraints: got" in capsys.readouterr().err


def test_fp8_convolutions_give_half_by_default() -> None:
    params = ConvParams.create(input_type="quarter", field=[4], kernel=[1], in_channels=8, out_channels=8)
    assert params.output_type == "half"
    assert plan_convolution(params).cycles > 0
