"""Plans of PopLibs' own planners: every problem, every field. ``POPLIBS_PLANNER_GOLDEN`` names the folder of cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poplibs_py.cli import main
from poplibs_py.cli.plan import plan_spec
from poplibs_py.cli.plan_sparse import dynamic_fields, partition_fields, static_fields

from .families import Line, Run, folder, parameters

VARIABLE, NAME = "POPLIBS_PLANNER_GOLDEN", "planner-golden"


def dense(case: Line) -> None:
    """A convolution or dense product: method, transforms, partition, types, cost by phase, memory bound."""
    want = case.fields
    assert json.loads(plan_spec(want["spec"])) == want


def sparse_static(case: Line) -> None:
    """A static sparse product: order of rows and columns, bands, parts of N, cycles and bytes; or none that fits."""
    want = case.fields
    assert json.loads(static_fields(want["spec"])) == want


def sparse_dynamic(case: Line) -> None:
    """A dynamic sparse layer: vertices, partition, buckets, cycles and bytes of each phase of each pass."""
    want = case.fields
    assert json.loads(dynamic_fields(want["spec"])) == want


def sparse_partitioner(case: Line) -> None:
    """A pattern in buckets: every word of meta-information, every value, and how far buckets travel."""
    want = case.fields
    assert json.loads(partition_fields(want["spec"])) == want


FAMILIES: dict[str, Run] = {"dense": dense, "sparse_static": sparse_static, "sparse_dynamic": sparse_dynamic,
                            "sparse_partitioner": sparse_partitioner}


@pytest.mark.filterwarnings("ignore::poplibs_py.errors.MemoryLimitWarning")
@pytest.mark.parametrize(("run", "case"), parameters(VARIABLE, NAME, ".jsonl", FAMILIES))
def test_the_plan_is_that_of_the_original(run: Run, case: Line) -> None:
    run(case)


@pytest.mark.parametrize(("kind", "family"), [("specs", "dense_small"), ("static-sparse", "sparse_static"),
                                              ("dynamic-sparse", "sparse_dynamic"),
                                              ("partition", "sparse_partitioner")])
def test_the_command_line_prints_the_golden_lines(kind: str, family: str, tmp_path: Path,
                                                  capsys: pytest.CaptureFixture[str]) -> None:
    file = folder(VARIABLE, NAME) / f"{family}.jsonl"
    if not file.exists():
        pytest.skip(f"{family}: no cases; {VARIABLE} names their folder")
    lines = file.read_text().splitlines()[:3]
    specs = tmp_path / "specs"
    specs.write_text("# comment\n\n" + "\n".join(json.loads(line)["spec"] for line in lines) + "\n")
    assert main(["plan", kind, "--spec-file", str(specs), "--jsonl"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == list(map(json.loads, lines))
