"""Kernels of every level."""

from __future__ import annotations

import pytest

from poplibs_py.kernels.registry import Kernel, kernels


@pytest.fixture(scope="session")
def random_kernels() -> dict[tuple[str, str], list[Kernel]]:
    """Kernels of the family by op and formats, portable first."""
    found: dict[tuple[str, str], list[Kernel]] = {}
    for kernel in kernels("random"):
        found.setdefault((kernel.op, kernel.formats), []).append(kernel)
    return found
