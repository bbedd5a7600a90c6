"""Plans of the original planner: every problem, every field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from poplibs_py.cli import main
from poplibs_py.cli.plan import plan_spec
from poplibs_py.planner import preplan

FILES = ("dense.jsonl", "dense_small.jsonl")


def golden(shared_data: Path, name: str) -> list[dict[str, Any]]:
    path = shared_data / "planner-golden" / name
    if not path.exists():
        pytest.skip(f"{path} is absent")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", FILES)
def test_every_field_of_every_plan(shared_data: Path, name: str) -> None:
    wanted = golden(shared_data, name)
    made = [json.loads(line) for line in preplan([w["spec"] for w in wanted], plan_spec)]
    for want, got in zip(wanted, made, strict=True):
        assert got == want


def test_command_line_prints_the_golden_lines(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = golden(shared_data, "dense_small.jsonl")[:3]
    specs = tmp_path / "specs"
    specs.write_text("# comment\n\n" + "\n".join(w["spec"] for w in wanted) + "\n")
    assert main(["plan", "dense", "--spec-file", str(specs), "--jsonl"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == wanted


def test_errors_become_a_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    specs = tmp_path / "specs"
    specs.write_text("mm=1,2,3,4 colour=red\nmm=1,8,8,8 tiles=4\n")
    assert main(["plan", "dense", "--spec-file", str(specs), "--jsonl"]) == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert "colour=red" in first["error"]
    assert second["totalTiles"] <= 4
