"""CTC on modelled machines: PopLibs' plan in the record, this CPU's numbers, and what has no vertex."""

from __future__ import annotations

import numpy as np
import pytest

from poplibs_py import popnn, profile
from poplibs_py.errors import UnsupportedError
from poplibs_py.target import Target

DATA = popnn.log_softmax(np.random.default_rng(5).standard_normal((9, 3, 6)).astype(np.float32))
LABELS = np.array([[1, 2, 3], [4, 4, 5], [1, 5, 1]])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_loss_and_a_search_have_poplibs_plans(dtype):
    data = DATA.astype(dtype)
    due, paths = popnn.ctc_loss_and_gradient(data, LABELS), popnn.ctc_beam_search_decoder(data, beams=4)
    with profile(target="gc200") as report:
        for made, own in ((popnn.ctc_loss_and_gradient(data, LABELS), due),
                          (popnn.ctc_beam_search_decoder(data, beams=4), paths)):
            for got, expected in zip(made, own, strict=True):
                assert got.tobytes() == expected.tobytes()
    loss, search = report.runs
    assert loss.plan == popnn.plan_ctc_loss(3, 9, 3, 6, dtype=dtype)
    assert sum(loss.plan.phases.values()) == dict(loss.plan.costs)["total"]
    with profile(target="gc200") as report:
        popnn.ctc_loss_and_gradient(data, LABELS, logits=True)
        popnn.ctc_loss_and_gradient(data, LABELS, reduction="mean")
    logits, mean = (run.plan for run in report.runs)
    assert logits.steps[-2:] == loss.plan.steps == mean.steps[:2]
    assert {"logarithm", "gradient"} < logits.phases.keys()
    assert {"sum", "share"} < mean.phases.keys()
    step = popnn.plan_ctc_inference(3, 6, 4)
    assert search.plan.cycles == 9 * step.cycles > 0
    assert "CTCUpdate" in str(step)


@pytest.mark.parametrize(("call", "lacking"), [
    (lambda **how: popnn.ctc_loss(DATA, LABELS, **how), "without its gradient"),
    (lambda **how: popnn.ctc_loss_and_gradient(DATA, LABELS, zero_infinity=True, **how), "with zero_infinity"),
    (lambda **how: popnn.ctc_greedy_decoder(DATA, **how), "but of log-probabilities by beams"),
    (lambda **how: popnn.ctc_beam_search_decoder(DATA, threshold=3.0, **how), "without a threshold"),
])
def test_what_has_no_vertex_is_refused_or_runs_here(call, lacking, refused_or_here):
    refused_or_here(call, lacking)


def test_where_no_plan_fits_the_tile_the_call_runs_here():
    tiny = Target.gc200(tiles=1, bytes_per_tile=256)
    with pytest.raises(UnsupportedError, match=r"within its memory: .* least that any plan takes"):
        popnn.ctc_loss_and_gradient(DATA, LABELS, target=tiny)
