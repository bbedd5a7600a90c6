"""Kernels that differ in their level alone, for tests that compute once what all of them are held to."""

from __future__ import annotations

from collections.abc import Iterable

from poplibs_py.kernels import Kernel


def of_levels(found: Iterable[Kernel]) -> list[list[Kernel]]:
    """Kernels of one op and formats together."""
    rows: dict[tuple[str, str], list[Kernel]] = {}
    for kernel in found:
        rows.setdefault((kernel.op, kernel.formats), []).append(kernel)
    return list(rows.values())
