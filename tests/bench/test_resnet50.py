"""`bench/resnet50.py` runs the network's convolutions, and what it prints and writes is of them."""

from __future__ import annotations

import sys

import pytest

from poplibs_py import Profile


@pytest.fixture
def resnet50(bench):
    return bench("resnet50")


def test_the_network_has_53_convolutions(resnet50):
    layers = list(resnet50.layers())
    assert sum(layer.count for layer in layers) == 53
    assert len(set(map(str, layers))) == len(layers) == 23
    assert sum(layer.count * layer.channels[0] * layer.channels[1] * (layer.kernel * layer.made) ** 2
               for layer in layers) == 4_087_136_256


def test_each_machine_has_a_table_and_a_report(resnet50, monkeypatch, tmp_path, capsys):
    few = [resnet50.Layer((4, 8), 8, 3, 2), resnet50.Layer((8, 8), 4, 1, 1, 2)]
    monkeypatch.setattr(resnet50, "layers", lambda: iter(few))
    monkeypatch.setattr(sys, "argv", ["resnet50.py", "--batch", "1", "--target", "host", "gc200", "bow", "--report",
                                      str(tmp_path)])
    resnet50.main()
    out = capsys.readouterr().out
    tables = [line for line in out.splitlines() if line.startswith(("3x3 4 to 8 at 8, stride 2", "all"))]
    assert len(tables) == 2 * 3
    assert out.count("times as long as the host's own") == 2
    assert out.count("with planning") == 3 * 3
    for target in ("host", "gc200", "bow"):
        data = Profile.load(tmp_path / f"resnet50-{target}.json").data
        assert len(data.calls) == 3 * 3
        assert data.target == target
    assert "Compared" in (tmp_path / "resnet50-bow.html").read_text()
    assert "Compared" not in (tmp_path / "resnet50-gc200.html").read_text()
    bow, gc200 = (Profile.load(tmp_path / f"resnet50-{name}.json") for name in ("bow", "gc200"))
    assert "gc200 to bow" in bow.compare(gc200).summary()


@pytest.mark.parametrize(("typed", "message"), [
    (["--dtype", "flaot"], "dtype: got flaot; allowed: "), (["--target", "gc20"], "target: got gc20; allowed: "),
    (["--batch", "0"], "argument --batch: invalid count value: '0'"),
    (["--target", "gc200", "--dtype", "bfloat16"], "gc200: no vertex for poplin.calculate_weight_deltas of bfloat16"),
], ids=lambda x: " ".join(x) if isinstance(x, list) else "")
def test_what_cannot_be_run_is_refused_in_a_line(resnet50, monkeypatch, capsys, typed, message):
    monkeypatch.setattr(resnet50, "layers", lambda: iter([resnet50.Layer((4, 8), 8, 3, 2)]))
    monkeypatch.setattr(sys, "argv", ["resnet50.py", "--rounds", "1", *typed])
    with pytest.raises(SystemExit):
        resnet50.main()
    assert message in capsys.readouterr().err.splitlines()[-1]
