"""The measured peak of this CPU's arithmetic units, to which a benchmark compares a kernel's rate."""

from __future__ import annotations

import ctypes
import threading
import time
from functools import cache

from ..errors import UnsupportedError, bad_argument
from .registry import select

__all__ = ["peak_flop_rate"]

_ROUNDS = 200_000
_SECONDS = 0.03


@cache
def peak_flop_rate(format_name: str, threads: int = 1) -> float:
    """Return the most FLOP/s that exact products of a format with float32 sums could reach here.

    Chains of multiply-adds run in registers alone, at the highest instruction-set level that may be used. The rate of a
    format is that of the fastest way to multiply it exactly: float32 in the float32 units; bfloat16 and 8-bit formats,
    which decode to bfloat16 without loss, in the bfloat16 units where they are faster; float16, which is the sum of
    two bfloat16 values, in the float32 units or in four passes of the bfloat16 units.

    Parameters
    ----------
    format_name : str
        ``"float32"``, ``"float16"``, ``"bfloat16"`` or the name of an 8-bit format.
    threads : int, optional
        How many threads run the probe at once.

    Returns
    -------
    float
        Operations per second of all threads together; a product and its addition are two. Measured once.

    Examples
    --------
    >>> peak_flop_rate("bfloat16") >= peak_flop_rate("float32") > 1e8
    True
    """
    if not isinstance(threads, int) or threads < 1:
        raise bad_argument("threads", threads, "a whole number of at least 1")
    single = _measured("float32", threads)
    if format_name == "float32":
        return single
    try:
        narrow = _measured("bfloat16", threads)
    except UnsupportedError:
        return single
    return max(single, narrow / 4 if format_name == "float16" else narrow)


@cache
def _measured(unit: str, threads: int) -> float:
    """The best of several short runs: what disturbs a run can only slow it down."""
    kernel = select("peak", "fma", unit).kernel
    probe = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(kernel.address)
    return max(_run(probe, threads) for _ in range(5))


def _run(probe: ctypes._CFunctionType, threads: int) -> float:
    done: list[float] = []

    def work() -> None:
        start, operations = time.perf_counter(), 0
        while (spent := time.perf_counter() - start) < _SECONDS:
            operations += probe(_ROUNDS)
        done.append(operations / spent)

    workers = [threading.Thread(target=work) for _ in range(threads - 1)]
    for worker in workers:
        worker.start()
    work()
    for worker in workers:
        worker.join()
    return sum(done)
