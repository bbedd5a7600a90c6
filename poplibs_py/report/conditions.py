"""How a benchmark was run: what its reader needs in order to run it again, or to doubt it."""

from __future__ import annotations

import math
import os
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np

from .. import __version__
from ..checks import all_of, instance, whole
from ..kernels import _cpu, available_levels
from ..kernels.peak import unit_rates
from .peers import LIBRARIES, installed

__all__ = ["Conditions", "copy_rate", "environment", "machine"]

_PREFIXES = ("OPENBLAS_", "GOTO_", "MKL_", "BLIS_", "NVPL_", "VECLIB_", "ONEDNN_", "DNNL_", "ATEN_", "OMP_", "GOMP_",
             "KMP_")
_OWN = ("POPLIBS_MAX_ISA", "POPLIBS_NUM_THREADS", "POPLIBS_RESULT_POOL", "POPLIBS_EMULATE_AMX",
        "POPLIBS_EMULATE_AVX512")
_UNITS = {"float32": "FP32 FMA", "bfloat16": "BF16 dot"}
_LEAST_COPY, _MOST_COPY = 32 << 20, 128 << 20
_COPIES = 5


def environment(variables: Mapping[str, str] = os.environ) -> list[str]:
    """Return the settings of BLAS libraries, of threads and of this library that are in force, as ``NAME=value``.

    Examples
    --------
    >>> environment({"OMP_NUM_THREADS": "1", "HOME": "/root", "MKL_CBWR": ""})
    ['OMP_NUM_THREADS=1']
    """
    allowed = "a mapping of texts, such as os.environ"
    instance("variables", variables, Mapping, allowed)
    all_of("variables", variables, str, allowed)
    return [f"{name}={value}" for name, value in sorted(variables.items())
            if value and (name.startswith(_PREFIXES) or name in _OWN)]


def copy_rate(threads: int = 1) -> float:
    """Return the memory's bandwidth as measured now, and the same at every later call.

    It is counted in bytes read and written in a second by copies that no cache holds.

    Parameters
    ----------
    threads : int, optional
        How many threads copy at once, each its own part.

    Examples
    --------
    >>> copy_rate() > 1e8
    True
    """
    return _copy_rate(whole("threads", threads, 1, 256))


@cache
def _copy_rate(threads: int) -> float:
    size = min(max(4 * _cpu.cache_bytes(3), _LEAST_COPY), _MOST_COPY) // threads
    pairs = [(np.zeros(size, np.uint8), np.ones(size, np.uint8)) for _ in range(threads)]
    clock = time.process_time if threads == 1 else time.perf_counter
    best = math.inf
    with nullcontext() if threads == 1 else ThreadPoolExecutor(threads, "copies") as pool:
        each = map if pool is None else pool.map  # a process that ends starts no threads
        for _ in range(_COPIES):
            start = clock()
            list(each(lambda pair: np.copyto(*pair), pairs))
            best = min(best, clock() - start)
    return 2 * size * threads / best


@dataclass(frozen=True)
class Conditions:
    """What a benchmark ran on and with.

    Attributes
    ----------
    command : str
        The command line.
    threads : int
        Threads of every method and peer.
    peaks : dict
        FLOP/s of each arithmetic unit, measured in registers alone.
    bandwidth : float
        Bytes read and written in a second by copies in memory.
    commit : str
        What ``git describe`` says where the package is used from a clone, else an empty text.
    date : str
        When it began, in UTC.
    load : str
        The machine's load average at that moment, where the system tells it.
    environment : list of str
        The settings that `environment` tells.
    workers : sequence of str
        What each worker of a cluster is, where one ran the cases; all else is of the machine that asked.
    """

    command: str
    threads: int
    peaks: Mapping[str, float]
    bandwidth: float
    commit: str = ""
    date: str = ""
    load: str = ""
    environment: list[str] = field(default_factory=environment)
    workers: Sequence[str] = ()

    @classmethod
    def measure(cls, command: str, threads: int = 1) -> Conditions:
        """Return the conditions of a run that begins now; this takes about a second.

        Examples
        --------
        >>> "FP32 FMA" in dict(Conditions.measure("python").rows())["peaks"]
        True
        """
        instance("command", command, str, "a command line")
        threads = whole("threads", threads, 1, 1 << 10)
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        load = f"load {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
        return cls(command, threads, unit_rates(threads), copy_rate(threads), _commit(), now, load)

    def rows(self) -> list[tuple[str, str]]:
        """Return the conditions as pairs of a heading and a text."""
        rates = [f"{_UNITS.get(unit, unit)} {rate / 1e9:.0f} GFLOP/s" for unit, rate in self.peaks.items()]
        peers = [f"{name} {version}" for name, version in installed().items()]
        absent = ", ".join(name for name in LIBRARIES if name not in installed())
        threads = f"{self.threads} thread{'s' * (self.threads > 1)}"
        bandwidth = f"memory {self.bandwidth / 1e9:.1f} GB/s, read and written by copies"
        cluster = [f"{count} of {kind}" for kind, count in Counter(self.workers).items()]
        return [*([("workers", "; ".join(cluster))] if cluster else []),
                ("version", f"poplibs_py {__version__}{f', commit {self.commit}' * bool(self.commit)}"),
                ("date", self.date), ("command", self.command),
                ("machine", machine() + f", {self.load}" * bool(self.load)),
                ("instructions", f"{available_levels()[-1]}; every method and peer on {threads}"),
                ("peaks", f"{', '.join(rates)} in registers; {bandwidth}"),
                ("libraries", ", ".join(peers) + f"; not installed: {absent}" * bool(absent)),
                ("environment", ", ".join(self.environment) or "no setting of BLAS libraries, threads or this library")]


def machine() -> str:
    """The CPU with its family and model, which tell more than a virtual machine's name for it, its cores and caches."""
    facts: dict[str, str] = {}
    about = Path("/proc/cpuinfo")
    for line in about.read_text(errors="replace").splitlines() if about.exists() else ():
        name, _, value = line.partition(":")
        facts.setdefault(name.strip(), value.strip())
    kind = f" (family {facts['cpu family']}, model {facts['model']})" if {"cpu family", "model"} <= set(facts) else ""
    caches = ", ".join(f"L{level} {_size(size)}" for level in (1, 2, 3) if (size := _cpu.cache_bytes(level)))
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores = f"{usable} of {os.cpu_count()} CPUs for this process"
    return ", ".join(filter(None, [f"{_cpu.brand() or 'unknown CPU'}{kind}", cores, caches]))


def _size(count: int) -> str:
    return f"{count / 2**20:g} MiB" if count >= 1 << 20 else f"{count / 2**10:g} KiB"


def _commit() -> str:
    """The commit of the clone that the package lies in; an installed one has none."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return ""
    words = ["git", "-C", str(root), "describe", "--always", "--dirty", "--tags"]
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=2, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
