"""How much is searched for a plan, counted, since seconds are the machine's: what bounds leave out stays out."""

from __future__ import annotations

from typing import Any

import pytest

from poplibs_py.poplin.tile_conv import ConvOptions, ConvParams, ConvProblem, search
from poplibs_py.poplin.tile_conv.api import run_planner
from poplibs_py.target import Target

# A kernel as large as its field, of many channels: thousands of groupings of input channels, all nearly as good.
DEEP = ConvParams.create(field=[2, 26], kernel=[2, 26], in_channels=5705, out_channels=197, input_type="quarter",
                         output_type="half")  # fmt: skip
LONG = ConvParams.create(field=[4746], kernel=[2741], in_channels=6941, out_channels=1, input_type="half")


def effort(problem: ConvProblem, monkeypatch: pytest.MonkeyPatch) -> int:
    """Options of axes that are taken up to plan a problem."""
    models: list[Any] = []
    real = search.make_model

    def counted(*args: Any) -> Any:
        models.append(real(*args))
        return models[-1]

    monkeypatch.setattr(search, "make_model", counted)
    assert run_planner(problem).cycles > 0
    assert models
    return sum(model.visited for model in models)


@pytest.mark.parametrize(("params", "most"), [(DEEP, 550_000), (LONG, 100)], ids=["deep", "long"])
def test_most_of_a_space_is_left_out(params: ConvParams, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert effort(ConvProblem(Target.gc200(), params.canonical(), ConvOptions()), monkeypatch) < most
