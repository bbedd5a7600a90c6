"""The measured peak of this CPU's arithmetic units, to which a benchmark compares a kernel's rate."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from ..checks import whole
from .registry import kernels, select

_ROUNDS = 10_000
_SECONDS = 0.03

Probe = Callable[[], int]


def peak_probes(threads: int = 1) -> dict[str, Probe]:
    """Return a probe for each arithmetic unit: chains of multiply-adds in registers alone.

    Parameters
    ----------
    threads : int, optional
        How many threads a probe runs on at once.

    Returns
    -------
    dict
        ``"float32"`` and, where the CPU has a unit for it, ``"bfloat16"``: functions that run the unit for a fraction
        of a millisecond at the highest instruction-set level that may be used, and return how many operations that was.

    Examples
    --------
    >>> peak_probes()["float32"]() > 0
    True
    """
    threads = whole("threads", threads, 1, 256)
    units = dict.fromkeys(kernel.formats for kernel in kernels("peak") if kernel.op == "fma")
    return {unit: _probe(select("peak", "fma", unit).kernel.address, threads) for unit in units}


def _probe(address: int, threads: int) -> Probe:
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)
    if threads == 1:
        return lambda: int(function(_ROUNDS))
    pool = ThreadPoolExecutor(threads, "peak")
    return lambda: sum(pool.map(function, [16 * _ROUNDS] * threads))


def peak_of(format_name: str, rates: Mapping[str, float]) -> float:
    """Return the most FLOP/s that exact products of a format with float32 sums could reach.

    Parameters
    ----------
    format_name : str
        ``"float32"``, ``"float16"``, ``"bfloat16"`` or the name of an 8-bit format.
    rates : mapping
        FLOP/s of the units that `peak_probes` names.

    Notes
    -----
    8-bit formats decode to bfloat16 without loss. A float16 value is the sum of two bfloat16 values, so four passes of
    the bfloat16 unit multiply it exactly. Either takes the float32 unit where that is faster.

    Examples
    --------
    >>> [peak_of(name, {"float32": 286.0, "bfloat16": 528.0}) for name in ("float32", "float16", "e4m3")]
    [286.0, 286.0, 528.0]
    """
    if format_name == "float32":
        return rates["float32"]
    return max(rates["float32"], rates.get("bfloat16", 0.0) / (4 if format_name == "float16" else 1))


@cache
def peak_flop_rate(format_name: str, threads: int = 1) -> float:
    """Return the peak of a format as measured now, and the same at every later call.

    Parameters
    ----------
    format_name : str
        As for `peak_of`.
    threads : int, optional
        How many threads run at once.

    Returns
    -------
    float
        Operations per second of all threads together; a product and its addition are two.

    Examples
    --------
    >>> peak_flop_rate("float32") > 1e8
    True
    """
    return peak_of(format_name, unit_rates(threads))


@cache
def unit_rates(threads: int = 1) -> dict[str, float]:
    """Return the operations per second of each unit of `peak_probes`, as measured now and kept for later calls.

    The best of several short runs counts: what disturbs a run can only slow it down.
    """
    return {unit: max(_rate(probe) for _ in range(5)) for unit, probe in peak_probes(threads).items()}


def _rate(probe: Probe) -> float:
    start, operations = time.perf_counter(), 0
    while (spent := time.perf_counter() - start) < _SECONDS:
        operations += probe()
    return operations / spent
