"""Tables of benchmarks have rows of every op of the catalogue, and the calls that they time are right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from poplibs_py import testing
from poplibs_py.ops import catalogue
from poplibs_py.popops.elementwise.table import ELEMENTWISE
from poplibs_py.testing.cases import cases

BENCH = Path(__file__).parents[2] / "bench"


def test_every_op_has_rows_in_the_table_of_calls(bench):
    calls = bench("bench_calls")
    rows = [case.name for case in calls.CASES]
    assert len(set(rows)) == len(rows)
    for name in catalogue:
        own = [case for case in calls.CASES if case.name.startswith(f"{name}: ")]
        assert len(own) >= len(cases(name)) >= 1
        assert all(case.most <= calls.KEYWORDS for case in own if "gc200" not in case.name)
    assert {case.most for case in calls.CASES if case.name.startswith("popops.")} == {calls.ELEMENTWISE}


def test_every_elementwise_op_is_timed(bench):
    timed = bench("bench_elementwise")
    for name, row in ELEMENTWISE.items():
        given = timed.operands(name, timed.FP32, 8)
        testing.check(name, *given, out=timed.result(name, given))
        assert len(given) == len(row.operands)


@pytest.mark.parametrize("name", catalogue)
def test_small_calls_are_within_their_bounds_however_often(name):
    for case in cases(name):
        for _ in range(2):
            testing.check(name, *case.operands, **case.keywords)


def test_a_row_is_printed_with_its_cost_and_its_limit():
    done = subprocess.run([sys.executable, str(BENCH / "bench_calls.py"), "popops.exp:", "256", "--seconds", "0.01"],
                          capture_output=True, text=True, check=True)
    [row] = [line for line in done.stdout.splitlines() if line.startswith("| popops.exp: 256 |")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert float(cells[1]) > 0
    assert cells[3] == "1.00"
