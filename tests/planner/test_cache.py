"""Plans are kept: one for all threads and processes that ask, in memory and in a folder; many are planned at once."""

from __future__ import annotations

import dataclasses
import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from poplibs_py.errors import InvalidArgumentError
from poplibs_py.planner import preplan
from poplibs_py.poplin.tile_conv import ConvPlan, conv_cache
from poplibs_py.poplin.tile_conv.api import plan_problem, run_planner

from .problems import problem


def plan_text(file: Path) -> str:
    """The plan in a file of the cache, behind its checksum."""
    return file.read_text().partition("\n")[2]


def plan_into(folder: str) -> str:
    cache = conv_cache(folder)
    return plan_problem(problem(), cache).to_json()


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
    assert ConvPlan.from_json(plan_text(file)) == run_planner(problem())


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
    assert ConvPlan.from_json(plan_text(file)) == plan


def test_an_edited_file_is_planned_again(tmp_path: Path) -> None:
    plan = plan_problem(problem(), conv_cache(tmp_path))
    [file] = tmp_path.iterdir()
    whole = file.read_text()
    cheaper = dataclasses.replace(plan, costs=plan.costs | {"totalCycles": plan.cycles - 1})
    assert ConvPlan.from_json(cheaper.to_json()) == cheaper  # a plan, but not the one that was kept
    for edited in (whole.partition("\n")[0] + "\n" + cheaper.to_json(), cheaper.to_json()):
        file.write_text(edited)
        assert plan_problem(problem(), conv_cache(tmp_path)) == plan
        assert file.read_text() == whole


def test_a_file_of_another_problem_is_planned_again(tmp_path: Path) -> None:
    plan_problem(problem(96), conv_cache(tmp_path))
    [other] = tmp_path.iterdir()
    text = other.read_text()
    other.unlink()
    plan = plan_problem(problem(), conv_cache(tmp_path))
    [file] = tmp_path.iterdir()
    file.write_text(text)
    assert plan_problem(problem(), conv_cache(tmp_path)) == plan


def test_different_problems_have_different_keys() -> None:
    keys = {problem(columns, tiles, **options).key() for columns, tiles, options in [
        (96, 32, {}), (95, 32, {}), (96, 31, {}), (96, 32, {"partialsType": "half"}),
        (96, 32, {"planConstraints": {"method": {"type": "AMP"}}}),
    ]}
    assert len(keys) == 5


def test_processes_plan_as_one_does() -> None:
    jobs = [problem(columns) for columns in range(80, 90)] + [problem(80)]
    assert preplan(jobs, run_planner, jobs=2) == preplan(jobs, run_planner, jobs=1)


def test_bad_job_count() -> None:
    with pytest.raises(InvalidArgumentError, match="jobs"):
        preplan([1], str, jobs=0)
