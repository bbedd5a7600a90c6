"""Fixtures and profiles that every test shares."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from poplibs_py.kernels import _cpu

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True,
                          suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("level", parent=settings.get_profile("ci"), max_examples=15)
settings.register_profile("nightly", max_examples=5000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))


@pytest.fixture(autouse=True)
def float_control_is_left_alone() -> Iterator[None]:
    """Fail a test after which the thread rounds otherwise, or flushes subnormals."""
    before = _cpu.float_control()
    yield
    after = _cpu.float_control()
    assert after == before, f"the floating-point control word was {before:#x} and is {after:#x}"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of golden plans and real matrices that is not part of the repository."""
    root = Path(os.environ.get("POPLIBS_SHARED", Path(__file__).parents[2] / "shared")) / "data"
    if not root.is_dir():
        pytest.skip("the golden plans and DLMC matrices are not beside this checkout")
    return root
