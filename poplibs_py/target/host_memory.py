"""Memory that this process may still take, and the check of requests whose size is a number that somebody typed."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from ..errors import bad_argument

ASKED_FROM = 1 << 28
"""Smaller requests are granted unasked: asking costs some 50 microseconds."""

_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def check_memory(name: str, got: object, needed: int) -> None:
    """Raise where an argument asks for more memory than there is.

    Linux promises memory that it does not have and ends the process that uses it, so an allocation that goes well
    proves nothing.

    Parameters
    ----------
    name : str
        The argument as the caller spells it.
    got : object
        What it was.
    needed : int
        The most bytes that it leads to at a time.

    Raises
    ------
    InvalidArgumentError
        If `needed` passes `free_bytes`.

    Examples
    --------
    >>> from poplibs_py.target.host_memory import check_memory
    >>> check_memory("shape", (2**40, 2**40), 2**80)
    Traceback (most recent call last):
        ...
    poplibs_py.errors.InvalidArgumentError: shape: got (1099511627776, 1099511627776), which takes ...
    """
    if needed >= ASKED_FROM and needed > (free := free_bytes()):
        raise bad_argument(name, f"{got}, which takes {_gib(needed)}", f"what fits in memory, {_gib(free)} of it free")


def free_bytes() -> int:
    """Return how many bytes the system, this process's control group and its own limits leave it."""
    pages, resident = _process_pages()
    page = os.sysconf("SC_PAGE_SIZE")
    left = [_system_bytes()]
    left += [limit - resident * page for limit in map(_group_limit, _LIMITS) if limit is not None]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        left.append(soft - pages * page)
    return max(0, min(left))


def _system_bytes() -> int:
    """What can be had without swapping; no limit where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return 1 << 62


def _process_pages() -> tuple[int, int]:
    try:
        pages, resident, *_ = Path("/proc/self/statm").read_text().split()
        return int(pages), int(resident)
    except (OSError, ValueError):
        return 0, 0


def _group_limit(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):  # no such group, or "max"
        return None


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
