"""Cycles to move data between tiles."""

from __future__ import annotations

from typing import Any

from ..checks import flag, instance, one_of, whole
from .machine import TYPE_SIZES, Target

_SCALE = 16  # of bytes and of bytes per cycle, so that fractional rates round late


def scaled_exchange_rate(target: Target) -> int:
    """Sixteenths of a byte a tile receives per cycle, in [1, 2**31 - 1]."""
    instance("target", target, Target, "a Target")
    # half away from zero, as C's round; the rate is positive
    return int(min(max(1, int(target.exchange_bytes_per_cycle * _SCALE + 0.5)), 2**31 - 1))


def cycles_to_receive(target: Target, size: Any, shared: bool = False) -> Any:
    """Cycles for one tile to receive so many bytes, one number or an array of them; see `exchange_cycles`."""
    return -(-size * _SCALE // (scaled_exchange_rate(target) * (2 if shared and target.exchange_bus_sharing else 1)))


def exchange_cycles(target: Target, elements: int, data_type: str, *, shared: bool = False) -> int:
    """Cycles for one tile to receive `elements` of `data_type`.

    Parameters
    ----------
    target : Target
    elements : int
    data_type : str
        ``"float"``, ``"half"`` or ``"quarter"``.
    shared : bool
        Whether the tiles of one bus receive the same data, at double rate.

    Notes
    -----
    ``ceil(16 bytes / round(16 rate))``: PopLibs' ExchangeEstimator.

    Examples
    --------
    >>> from poplibs_py.target import Target, exchange_cycles
    >>> exchange_cycles(Target.gc200(), 1024, "half"), exchange_cycles(Target.gc200(), 1024, "half", shared=True)
    (512, 256)
    """
    one_of("data_type", data_type, tuple(TYPE_SIZES))
    whole("elements", elements, 0, 1 << 62)
    return int(cycles_to_receive(target, elements * TYPE_SIZES[data_type], flag("shared", shared)))
