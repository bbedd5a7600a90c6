"""What memory buys: one problem at several proportions, and one proportion for each of several problems."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import popops
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, MemoryLimitError
from poplibs_py.planner import fit, sweep
from poplibs_py.poplin.tile_conv import matmul_params

from .problems import problem

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
        with pytest.raises(MemoryLimitError, match="memory"):
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


def test_plans_of_other_ops_are_refused_with_what_is_taken() -> None:
    with pytest.raises(InvalidTypeError, match=r"^problem: got EmbeddingPlan; .* plan of a product or conv"):
        sweep(popops.plan_embedding(600, 40, 50), [0.5])


def test_problems_that_are_none() -> None:
    params = matmul_params(1, 4, 5, 6, "half")
    for call in (lambda: sweep(params, [0.5]), lambda: fit([params], 10**6), lambda: fit(problem(), 10**6)):
        with pytest.raises(InvalidTypeError, match=r"^problems?: got"):
            call()
