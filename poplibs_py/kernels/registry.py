"""The registry of compiled kernels, and the selection of one with reasons for the rest.

Each family's module holds the kernels of one instruction-set level. Only modules of levels that this machine can run
are ever imported.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from .. import log
from ..config import LEVELS
from ..errors import UnsupportedError
from .levels import available_levels

__all__ = ["CONSISTENT", "FAMILIES", "Kernel", "Rejection", "Selection", "kernels", "select"]

FAMILIES = ("cast", "dot", "elementwise", "math", "peak", "random", "softmax", "sparse", "strided")
"""Kernel families, one folder of ``src_cython/kernels`` each, and drivers, one source of ``src_cython/drivers``."""

CONSISTENT = 1
"""Flag: the kernel gives the same bits as the portable kernel of the same op and formats."""

_log = log.get("kernels")


@dataclass(frozen=True)
class Kernel:
    """One compiled kernel, as its registration line describes it.

    Attributes
    ----------
    family, op, formats, name, level : str
        Where it belongs, what it does, what it selects by, what it is called, which level it needs.
    address : int
        Its entry point, for the compiled frame that calls it.
    grain, block : tuple of int
        Rows, columns and depth of the least and of the unrolled unit.
    flags : int
        `CONSISTENT` or 0.
    """

    family: str
    op: str
    formats: str
    name: str
    level: str
    address: int
    grain: tuple[int, int, int]
    block: tuple[int, int, int]
    flags: int

    @property
    def consistent(self) -> bool:
        """Whether its bits equal the portable kernel's."""
        return bool(self.flags & CONSISTENT)


@dataclass(frozen=True)
class Rejection:
    """A kernel that was not taken, and why."""

    kernel: Kernel
    reason: str


@dataclass(frozen=True)
class Selection:
    """The kernel taken, and those that were not."""

    kernel: Kernel
    rejected: tuple[Rejection, ...]

    def explain(self) -> str:
        """Return one line for each candidate, the chosen one marked with ``*``."""
        lines = [f"* {self.kernel.name} ({self.kernel.level})"]
        lines += [f"  {r.kernel.name} ({r.kernel.level}): {r.reason}" for r in self.rejected]
        return "\n".join(lines)


@cache
def kernels(family: str) -> tuple[Kernel, ...]:
    """Return every kernel of `family` that this machine may run, lowest level first."""
    found: list[Kernel] = []
    for level in available_levels():
        try:
            module = importlib.import_module(f"{__package__}._tiles.{family}_{level}")
        except ModuleNotFoundError:
            continue
        for op, formats, name, address, grain, block, flags in module.kernels():
            found.append(Kernel(family, op, formats, name, level, address, grain, block, flags))
    return tuple(found)


def select(
    family: str,
    op: str,
    formats: str,
    *,
    consistent: bool = False,
    cost: Callable[[Kernel], float] | None = None,
) -> Selection:
    """Choose the kernel for an op and formats.

    Parameters
    ----------
    family, op, formats : str
        What is needed.
    consistent : bool, optional
        Take only kernels whose bits equal the portable kernel's.
    cost : callable, optional
        Predicted cost of a kernel for the shape at hand; the least wins. By default, and between equals, the highest
        instruction-set level wins.

    Returns
    -------
    Selection
        The kernel and the reasons against the others.

    Raises
    ------
    UnsupportedError
        If no kernel that may run here serves the op and formats.
    """
    candidates = [k for k in kernels(family) if k.op == op and k.formats == formats]
    rejected = [Rejection(k, "its bits may differ from the portable kernel's") for k in candidates
                if consistent and not k.consistent]
    allowed = [k for k in candidates if not consistent or k.consistent]
    if not allowed:
        levels = ", ".join(available_levels())
        raise UnsupportedError(f"no {family} kernel does {op} for {formats} at the usable levels ({levels})")
    costs = {k: cost(k) if cost else 0.0 for k in allowed}
    allowed.sort(key=lambda k: (costs[k], -_rank(k.level)))
    best = allowed[0]
    for kernel in allowed[1:]:
        same = "another of its level comes first; where a caller weighs shapes, cost decides"
        level = same if kernel.level == best.level else "a higher level serves"
        reason = f"cost {costs[kernel]:.4g} against {costs[best]:.4g}" if cost else level
        rejected.append(Rejection(kernel, reason))
    selection = Selection(best, tuple(rejected))
    if _log.isEnabledFor(log.TRACE):
        _log.log(log.TRACE, "%s %s %s\n%s", family, op, formats, selection.explain())
    return selection


def _rank(level: str) -> int:
    return LEVELS.index(level.removesuffix("_emulated"))
