"""What the tests of the ops for torch share; without torch they are skipped by name."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(autouse=True)
def torch_is_seeded() -> Any:
    """torch, its generator seeded; its threads beside ours slow down tests that run side by side."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch
    torch.set_num_threads(threads)
