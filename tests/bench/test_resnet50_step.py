"""`bench/resnet50_step.py`: a small network of its kind learns, and all of its step has plans on a modelled machine."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def network(bench, monkeypatch):
    made = bench("resnet50_step")
    for name, value in (("STAGES", ((4, 1), (8, 2))), ("SIDE", 32), ("CLASSES", 10), ("RATE", 0.3)):
        monkeypatch.setattr(made, name, value)
    return made


def test_the_whole_network_has_53_convolutions(bench):
    made = bench("resnet50_step")
    assert sum(len(block.inside) + (block.past is not None) for block in made.blocks()) == 52  # and the first


def test_it_learns_a_batch(network):
    rng = np.random.default_rng(2)
    images, labels = rng.standard_normal((8, 3, 32, 32), np.float32), np.arange(8, dtype=np.int32)
    trained = network.ResNet50(np.float32)
    losses = [float(trained.step(images, labels).mean()) for _ in range(20)]
    assert losses[-1] < 0.5 * losses[0]


def test_each_operation_has_a_plan_on_a_modelled_machine(network, capsys):
    report, seconds, loss = network.measured("gc200", 2, np.float16)
    assert loss.shape == (2,)
    assert {run.lacking for run in report.runs} == {""}
    network.told("gc200", report, seconds, loss)
    assert f"{len(report.runs)} of {len(report.runs)} operations on gc200" in capsys.readouterr().out
