"""The command that pipes the bits to a battery of tests."""

from __future__ import annotations

import itertools
import shutil
from concurrent.futures import ThreadPoolExecutor

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


def test_draws_from_many_threads_at_once() -> None:
    def drawn(seed: int) -> bytes:
        return poprand.normal(300_000, seed=seed).tobytes()

    alone = [drawn(seed) for seed in range(8)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(drawn, range(8))) == alone
