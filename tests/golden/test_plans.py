"""Plans of PopLibs' own planners: every problem, every field. ``POPLIBS_PLANNER_GOLDEN`` names the folder of cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poplibs_py.cli import main
from poplibs_py.cli.plan import plan_spec

from .families import Line, Run, folder, parameters

VARIABLE, NAME = "POPLIBS_PLANNER_GOLDEN", "planner-golden"


def dense(case: Line) -> None:
    """A convolution or dense product: method, transforms, partition, types, cost by phase, memory bound."""
    want = case.fields
    assert json.loads(plan_spec(want["spec"])) == want


FAMILIES: dict[str, Run] = {"dense": dense}


@pytest.mark.filterwarnings("ignore::poplibs_py.errors.MemoryLimitWarning")
@pytest.mark.parametrize(("run", "case"), parameters(VARIABLE, NAME, ".jsonl", FAMILIES))
def test_the_plan_is_that_of_the_original(run: Run, case: Line) -> None:
    run(case)


def test_the_command_line_prints_the_golden_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder(VARIABLE, NAME) / "dense_small.jsonl"
    if not file.exists():
        pytest.skip(f"dense_small: no cases; {VARIABLE} names their folder")
    wanted = [json.loads(line) for line in file.read_text().splitlines()[:3]]
    specs = tmp_path / "specs"
    specs.write_text("# comment\n\n" + "\n".join(w["spec"] for w in wanted) + "\n")
    assert main(["plan", "specs", "--spec-file", str(specs), "--jsonl"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == wanted
