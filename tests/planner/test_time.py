"""Planning stops when it is told to, by a limit on its time or by a signal; and ends where there is nothing to plan."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

from poplibs_py import poplin
from poplibs_py.errors import InvalidArgumentError, PlanError, TimeLimitError
from poplibs_py.planner import time_limit
from poplibs_py.planner.deadline import deadline
from poplibs_py.poplin.tile_conv import ConvParams, conv_cache, matmul_params, plan_convolution
from poplibs_py.target import Target

from .problems import problem

#: A convolution on a machine far larger than any there is: planning takes minutes.
LONG = ConvParams.create(field=[504, 504], kernel=[3, 3], in_channels=5040, out_channels=5040, batch=720,
                         input_type="half")  # fmt: skip
LARGE = Target.small(1 << 20)


def plan_long(**more: Any) -> None:
    plan_convolution(LONG, target=LARGE, cache=conv_cache(), **more)


def test_time_limit() -> None:
    start = time.perf_counter()
    with pytest.raises(TimeLimitError, match="time_limit") as caught:
        plan_long(time_limit=0.1)
    assert 0.1 <= time.perf_counter() - start < 2
    assert isinstance(caught.value, (PlanError, TimeoutError))
    with pytest.raises(TimeLimitError), time_limit(0.05), time_limit(50):
        plan_long()
    assert deadline() == 0
    # what was stopped is planned when there is time
    job = problem()
    with pytest.raises(TimeLimitError):
        plan_convolution(job.params, target=job.target, cache=conv_cache(), time_limit=1e-9)
    assert plan_convolution(job.params, target=job.target, cache=conv_cache(), time_limit=60).cycles


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_bad_limits(seconds: float) -> None:
    with pytest.raises(InvalidArgumentError, match="time_limit"):
        plan_long(time_limit=seconds)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer that sends a signal")
def test_signals_stop_a_search() -> None:
    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    start = time.perf_counter()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            plan_long(time_limit=60)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize(("m", "n"), [(5, 0), (0, 5)])
def test_an_empty_product_takes_no_cycles(m: int, n: int) -> None:
    plan = plan_convolution(matmul_params(1, m, 3, n, "half"), pass_="NONE_MATMUL")
    assert (plan.cycles, plan.temp_bytes, plan.fits) == (0, 0, True)
    assert poplin.plan_matmul((m, 3), (3, n), target="gc200").cycles == 0


def test_plans_are_hashed() -> None:
    job = problem()
    plans = {plan_convolution(job.params, target=job.target, cache=conv_cache()) for _ in range(2)}
    assert len(plans) == 1
