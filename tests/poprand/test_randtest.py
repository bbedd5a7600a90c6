"""The command that pipes the bits to a battery of tests."""

from __future__ import annotations

import itertools
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aox_oracle as oracle
import numpy as np
import pytest

from poplibs_py import poprand
from poplibs_py.cli import main, randtest


def test_what_is_piped() -> None:
    two = [np.frombuffer(block, np.uint64) for block in itertools.islice(randtest.blocks("counter", 7), 2)]
    expected = poprand.bits(sum(map(len, two)), dtype=np.uint64, seed=7)
    assert (np.concatenate(two) == expected).all()
    generator = np.frombuffer(next(randtest.blocks("generator", 7)), np.uint64)
    assert (generator == poprand.Xoroshiro128aox(7).random_raw(generator.size)).all()
    workers = np.frombuffer(next(randtest.blocks("workers", 7)), np.uint64)
    for tile, worker in ((0, 0), (0, 1), (1471, 5)):
        words, _ = oracle.outputs(oracle.ipu_state(7, 0, tile, worker), 2)
        assert workers[6 * tile + worker::1472 * 6][:2].tolist() == words


def test_without_a_battery(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert main(["randtest"]) == 2
    assert "dieharder" in capsys.readouterr().err


def test_what_the_workers_fail_is_said_where_they_are_offered(capsys: pytest.CaptureFixture[str]) -> None:
    """PractRand is on no machine that runs this; what `test_workers_states_differ...` sees is what it rejects."""
    with pytest.raises(SystemExit):
        main(["randtest", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    page = " ".join((Path(__file__).parents[2] / "docs/explanation/random_numbers.md").read_text().split())
    rejected, amount = "6 streams pass the suite's own tests and fail PractRand at", "128 MB"
    assert f"{rejected} {amount}: BRank" in page
    assert f"which PractRand rejects at {amount}: states of two workers of a tile differ by the same bits" in shown
    assert "--source workers # the 1,472 x 6 workers of a GC200, a word of each in turn: PractRand rejects it" in page


def test_draws_from_many_threads_at_once() -> None:
    def drawn(seed: int) -> bytes:
        return poprand.normal(300_000, seed=seed).tobytes()

    alone = [drawn(seed) for seed in range(8)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(drawn, range(8))) == alone
