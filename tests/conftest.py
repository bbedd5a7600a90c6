"""Fixtures and profiles that every test shares."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: tests run beside each other

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from poplibs_py import profile
from poplibs_py.errors import UnsupportedError
from poplibs_py.kernels import _cpu

# The same examples in every ordinary run, whoever runs it; others are looked for nightly. None are kept between runs.
settings.register_profile("ordinary", max_examples=25, deadline=None, derandomize=True, database=None,
                          suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("level", parent=settings.get_profile("ordinary"), max_examples=10)
settings.register_profile("nightly", parent=settings.get_profile("ordinary"), max_examples=5000, derandomize=False,
                          print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ordinary"))

# hypothesis also draws numbers from the sources of modules that happen to be loaded and lie neither in "site-packages"
# nor below a folder "tests": examples would depend on what ran before, and on where the clone lies.
if hasattr(providers, "_get_local_constants"):
    providers._get_local_constants = lambda: providers._local_constants


@pytest.fixture(autouse=True)
def float_control_is_left_alone() -> Iterator[None]:
    """Fail a test after which the thread rounds otherwise, or flushes subnormals."""
    before = _cpu.float_control()
    yield
    after = _cpu.float_control()
    assert after == before, f"the floating-point control word was {before:#x} and is {after:#x}"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real matrices that is not part of the repository."""
    root = Path(os.environ.get("POPLIBS_SHARED", Path(__file__).parents[2] / "shared")) / "data"
    if not root.is_dir():
        pytest.skip("the DLMC matrices are not beside this checkout: POPLIBS_SHARED names the folder with data/dlmc")
    return root


@pytest.fixture(scope="session")
def refused_or_here() -> Callable[[Callable[..., object], str], None]:
    """Check that a machine which lacks a vertex for a call refuses it by name, and that a profile's runs it here."""
    def check(call: Callable[..., object], lacking: str) -> None:
        with pytest.raises(UnsupportedError, match=rf"^target: gc200 has no vertex for .*{re.escape(lacking)}"):
            call(target="gc200")
        with profile(target="gc200") as report:
            call()
        assert lacking in report.runs[0].lacking

    return check
