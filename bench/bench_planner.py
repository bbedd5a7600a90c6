"""Time to plan: each golden problem from scratch, a plan from the cache, and many problems on all cores.

The original planner takes 0.7 s (median of full-size problems on one core of this kind of machine), 2.4 s for a 4096³
product in half precision and 12 s at worst. The golden problems are read from the shared data beside the checkout;
without it a few of them that are built in are timed.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from poplibs_py.cli.plan import plan_spec
from poplibs_py.cli.spec import parse_spec
from poplibs_py.errors import PoplibsError
from poplibs_py.planner import preplan
from poplibs_py.poplin.tile_conv import conv_cache, plan_convolution
from poplibs_py.poplin.tile_conv.api import run_planner

BUILT_IN = [
    "mm=1,1024,1024,1024 type=half partials=half", "mm=1,4096,4096,4096 type=half partials=half amp=0.6",
    "mm=1,4096,4096,4096 type=half partials=half amp=0.01",
    "mm=1,8,1024,1024 type=half partials=float pass=FC_TRAINING_FWD",
    "batch=16 field=56,56 ci=64 co=64 kernel=3,3 pad=1,1 type=half partials=half pass=INFERENCE_FWD",
    "batch=16 field=224,224 ci=3 co=64 kernel=7,7 pad=3,3 stride=2,2 type=half partials=half pass=INFERENCE_FWD"]

SLOW_ONCE = ["batch=16 field=480000 kernel=10 ci=1 co=512", "mm=1,2048,4096,128256 type=half pass=FC_TRAINING_FWD",
             "mm=1,7,16777213,1000", "mm=1,7,16777213,1000 type=half pass=FC_TRAINING_FWD"]
"""Long axes, many channels, a prime one: they took 3 to 50 seconds."""


def golden() -> list[dict[str, Any]]:
    shared = Path(os.environ.get("POPLIBS_SHARED", Path(__file__).parents[2] / "shared"))
    path = shared / "data" / "planner-golden" / "dense.jsonl"
    if not path.exists():
        return [{"spec": spec} for spec in BUILT_IN]
    return [json.loads(line) for line in path.read_text().splitlines()]


PROBLEMS = golden()


@pytest.mark.parametrize("wanted", PROBLEMS, ids=[p["spec"][:60] for p in PROBLEMS])
def bench_plan(wanted: dict[str, Any], benchmark: Any) -> None:
    made = json.loads(plan_spec(wanted["spec"]))
    assert len(wanted) == 1 or made == wanted
    problem = parse_spec(wanted["spec"])

    def plan() -> None:
        with contextlib.suppress(PoplibsError):
            run_planner(problem)

    benchmark(plan)
    benchmark.extra_info.update(spec=wanted["spec"], cycles=made.get("totalCycles"), tiles=made.get("totalTiles"))


@pytest.mark.parametrize("spec", SLOW_ONCE)
def bench_slow_plan(spec: str, benchmark: Any) -> None:
    problem = parse_spec(spec)
    plan = benchmark.pedantic(run_planner, (problem,), rounds=3)
    benchmark.extra_info.update(cycles=plan.cycles, tiles=plan.tiles_used)


def bench_cached_plan(benchmark: Any) -> None:
    problem = parse_spec(BUILT_IN[1])
    cache = conv_cache()
    first = plan_convolution(problem.params, target=problem.target, options=problem.options, cache=cache)

    def again() -> Any:
        return plan_convolution(problem.params, target=problem.target, options=problem.options, cache=cache)

    assert again() is first
    benchmark(again)


@pytest.mark.parametrize("jobs", [1, os.cpu_count() or 1])
def bench_preplan(jobs: int, benchmark: Any) -> None:
    specs = [p["spec"] for p in PROBLEMS]
    alone = preplan(specs, plan_spec, jobs=1)
    assert preplan(specs, plan_spec, jobs=jobs) == alone
    benchmark.pedantic(preplan, (specs, plan_spec), {"jobs": jobs}, rounds=3)
    benchmark.extra_info.update(problems=len(specs), jobs=jobs)


DRAWN = ["batch=1 field=13,3 kernel=13,3 ci=91092 co=815 type=quarter out=half pass=TRAINING_WU",
         "batch=1 field=2,26 kernel=2,26 ci=57077 co=197 type=quarter out=half pass=TRAINING_FWD",
         "batch=2 field=21889 kernel=21889 ci=1274 co=4 type=quarter out=half pass=TRAINING_FWD",
         "batch=4 field=366,58 kernel=366,5 ci=49419 co=783 type=half amp=0.1 pass=TRAINING_FWD",
         "batch=1 field=4746 kernel=2741 ci=69415 co=1 type=half amp=0.02"]


@pytest.mark.parametrize("spec", DRAWN)
def bench_drawn_plan(spec: str, benchmark: Any) -> None:
    """The slowest of some hundred problems that were drawn with extents to 2^17."""
    problem = parse_spec(spec)
    benchmark.pedantic(lambda: run_planner(problem), rounds=3)
