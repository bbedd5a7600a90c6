"""Bytes on one tile: the limit a plan must keep to, and what is laid out."""

from __future__ import annotations

import dataclasses

from ..checks import instance, real
from .machine import Target


def checked_proportion(name: str, value: object) -> float:
    """Return a proportion of a tile's memory, or raise in the name that it was given by.

    Examples
    --------
    >>> from poplibs_py.target.memory import checked_proportion
    >>> checked_proportion("available_memory_proportion", 1)
    1.0
    """
    return real(name, value, "a finite number, 0 or more", 0, 2**32)


def memory_limit(target: Target, proportion: float) -> int | None:
    """Temporary bytes a tile may use, or None where a proportion of 0 asks for no limit.

    Parameters
    ----------
    target : Target
    proportion : float
        PopLibs' ``availableMemoryProportion``: finite, >= 0; above 1 is allowed.

    Examples
    --------
    >>> from poplibs_py.target import Target, memory_limit
    >>> memory_limit(Target.gc200(), 0.6)
    383385
    """
    instance("target", target, Target, "a Target")
    available = target.bytes_per_tile * checked_proportion("available_memory_proportion", proportion)
    return None if available == 0 else int(available)


@dataclasses.dataclass(frozen=True)
class TileBytes:
    """Bytes of one tile, by use.

    Examples
    --------
    >>> from poplibs_py.target import TileBytes
    >>> (TileBytes(inputs=64, partials=32) + TileBytes(inputs=8)).total
    104
    """

    inputs: int = 0
    weights: int = 0
    partials: int = 0
    other: int = 0

    @property
    def total(self) -> int:
        """Sum over the uses."""
        return self.inputs + self.weights + self.partials + self.other

    def __add__(self, more: TileBytes) -> TileBytes:
        return TileBytes(self.inputs + more.inputs, self.weights + more.weights, self.partials + more.partials,
                         self.other + more.other)
