"""Memory has an end in these tests: a call that asks for too much gets a MemoryError, and the run goes on.

They run in a folder of their own: what is drawn may be the name of one that a call makes.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

_LIMIT = 12 << 30  # bytes of address space


@pytest.fixture(autouse=True)
def _end_of_memory() -> Iterator[None]:
    if "asan" in os.environ.get("LD_PRELOAD", ""):  # its shadow takes terabytes of addresses
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_LIMIT if hard == resource.RLIM_INFINITY else min(_LIMIT, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.fixture(scope="session")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stress")


@pytest.fixture(autouse=True)
def _elsewhere(_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(_folder)
