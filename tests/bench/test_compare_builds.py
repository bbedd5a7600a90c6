"""`bench/compare_builds.py`: what it makes of ratios, and that it finds a slower build in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"

CELLS = """
import numpy as np
import pytest
from poplibs_py import cast
from poplibs_py.report.timing import take_turns

@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def bench_cast(name, benchmark):
    x = np.ones({size}, np.float32)
    benchmark(cast, x, name)

def bench_turns(benchmark):
    x, y = np.ones(1 << 12, np.float32), np.ones({size}, np.float32)
    timings = take_turns([lambda: cast(x, "float16"), lambda: x + x, lambda: cast(y, "float16")])
    benchmark.extra_info.update(seconds=[t.seconds for t in timings])
    benchmark(lambda: None)

def bench_numpy(benchmark):
    x = np.ones({size}, np.float32)
    benchmark.pedantic(np.add, (x, x), rounds=3)

def bench_skipped(benchmark):
    pytest.skip("never runs")

def bench_checked(benchmark):
    assert {size} == 1 << 14, "its own answer"

def bench_{name}(benchmark):
    benchmark(lambda: None)
"""


@pytest.fixture
def compare(bench: Any) -> Any:
    return bench("compare_builds")


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Benchmarks of two builds; the new one's casts are of eight times as many numbers."""
    pair = tmp_path / "old", tmp_path / "new"
    for folder, size in zip(pair, (1 << 14, 1 << 17), strict=True):
        folder.mkdir()
        (folder / "bench_pair.py").write_text(CELLS.format(size=size, name=folder.name))
    return pair


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, BENCH / "compare_builds.py", sys.executable, sys.executable, "bench_pair", *arguments]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True)


def test_a_slower_build_is_found(folders, tmp_path):
    done = run("--folder", folders[0], "--folder", folders[1], "--seconds", 0.01, "--rounds", 1, "--again", 1,
               "--least-cell", 0.5, "--json", tmp_path / "samples.json")
    assert done.returncode == 1, done.stdout + done.stderr
    samples = json.loads((tmp_path / "samples.json").read_text())
    slow, others = ("cast[float16]", "cast[bfloat16]", "turns #2"), ("turns #1", "numpy")
    assert set(samples) == {f"bench_pair.py::bench_{cell}" for cell in (*slow, *others)}
    assert all(len(samples[f"bench_pair.py::bench_{cell}"]) == 2 for cell in slow)  # measured again
    assert len(samples["bench_pair.py::bench_numpy"]) == 1
    assert "cells below 0.5 in every round: 3" in done.stdout  # the peer's does not count
    assert "cells that fail in the new build alone: 1" in done.stdout
    assert "its own answer" in done.stdout
    assert "only in the old build: 1, such as bench_pair.py::bench_old" in done.stdout
    assert "skipped: 1, such as bench_pair.py::bench_skipped" in done.stdout


def test_the_same_build_passes(folders):
    done = run("--folder", folders[0], "--quick", "--rounds", 1, "-k", "cast and not bfloat16",
               "--least-median", 0.1, "--least-cell", 0.1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| all | 1 |" in done.stdout


def test_what_cannot_be_run_is_told(folders, tmp_path):
    (folders[1] / "bench_pair.py").write_text("import no_such_module")
    done = run("--folder", folders[0], "--folder", folders[1])
    assert done.returncode == 2
    assert "the new build's benchmarks cannot be collected" in done.stderr
    assert "no_such_module" in done.stderr


def outcome_of(compare: Any, rounds_of_cells: list[list[float]]) -> Any:
    """An outcome whose cells have these speeds in their rounds."""
    outcome = compare.Outcome()
    for index, speeds in enumerate(rounds_of_cells):
        for speed in speeds:
            outcome.add(f"bench_a.py::bench_{index}", False, [(speed, 1.0)] * 4)
    return outcome


LIMITS = Namespace(rounds=3, least_median=0.98, least_cell=0.93)


@pytest.mark.parametrize(("cells", "expected"), [
    ([[1.0, 1.0, 1.0]] * 3, []),
    ([[0.9, 0.9, 0.94], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]], []),  # one round in which it is not slower
    ([[0.9, 0.9, 0.92], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]], ["cells below 0.93 in every round: 1"]),
    ([[0.9, 0.9], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]], []),  # not measured in every round
    ([[0.97, 0.97, 1.0]] * 3, ["the median over all cells is 0.970, below 0.98"]),
    ([], ["no cell was measured in both builds"]),
])
def test_verdicts(compare, cells, expected):
    assert compare.complaints(outcome_of(compare, cells), LIMITS) == expected


def test_a_burst_that_slows_one_build_for_some_pairs_does_not_count(compare):
    pairs = [(1.0, 1.0)] * 8 + [(1.0, 5.0)] * 7
    assert compare.speed(pairs) == 1.0
