"""How much is searched for a plan, counted, since seconds are the machine's: what bounds leave out stays out."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from poplibs_py.poplin.convolution import ConvOptions, ConvParams, ConvProblem, candidates
from poplibs_py.poplin.convolution.api import run_planner
from poplibs_py.target import Target

# A kernel as large as its field, of many channels: thousands of groupings of input channels, all nearly as good.
DEEP = ConvParams.create(field=[2, 26], kernel=[2, 26], in_channels=5705, out_channels=197, input_type="quarter",
                         output_type="half")  # fmt: skip
LONG = ConvParams.create(field=[4746], kernel=[2741], in_channels=6941, out_channels=1, input_type="half")


@pytest.mark.parametrize(("params", "most"), [(DEEP, 0.6), (LONG, 0.3)], ids=["deep", "long"])
def test_a_candidate_is_searched_once_and_most_are_not(params: ConvParams, most: float,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    searched: Counter[Any] = Counter()
    real = candidates.search_candidate

    def counted(target: Any, params: Any, options: Any, joint: Any, c: Any, objective: Any, *rest: Any) -> Any:
        searched[id(c), objective] += 1
        return real(target, params, options, joint, c, objective, *rest)

    monkeypatch.setattr(candidates, "search_candidate", counted)
    problem = ConvProblem(Target.gc200(), params.canonical(), ConvOptions())
    assert run_planner(problem).cycles > 0
    every = len(candidates._space(problem.target, problem.params, problem.options, False).ordered)
    assert every > 500
    assert max(searched.values()) == 1
    by_limit = Counter(objective for _, objective in searched.elements())
    assert max(by_limit.values()) < most * every, f"{by_limit} of {every}"
