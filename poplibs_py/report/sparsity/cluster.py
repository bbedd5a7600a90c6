"""The sweep over a Dask cluster: each worker runs one case at a time, so that nothing disturbs what it measures."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ... import __version__
from ...checks import all_of, instance
from ...errors import MissingPackageError, bad_argument
from ...kernels import _cpu, available_levels
from ..peers import installed, limited_threads
from .cases import Case
from .record import Record
from .sweep import Sweep

_PATIENCE = 30
"""Seconds to wait for a scheduler, which may be busy."""


@dataclass(frozen=True)
class _Worker:
    """What a worker is: all must be alike in what decides whether figures can stand side by side."""

    version: str
    peers: tuple[tuple[str, str], ...]
    cpu: str
    level: str


def _describe() -> _Worker:
    peers, cpu = tuple(sorted(installed().items())), _cpu.brand() or "unknown CPU"
    return _Worker(__version__, peers, cpu, available_levels()[-1])


_sweep_of = lru_cache(maxsize=8)(Sweep)
"""A worker's own sweep, which keeps what it has learnt of peers and of peaks from case to case."""


def _run(how: tuple[Any, ...], case: Case) -> tuple[list[Record], dict[str, float]]:
    sweep = _sweep_of(*how)
    with limited_threads(sweep.threads):
        return sweep.run(case), dict(sweep.rates)


class ClusterSweep:
    """A `Sweep` whose cases run on the workers of a cluster.

    Parameters
    ----------
    sweep : Sweep
        How to run each case.
    address : str
        Of the scheduler, such as ``"tcp://10.0.0.1:8786"``.

    Attributes
    ----------
    rates : dict
        FLOP/s of each arithmetic unit, the fastest that any worker has measured.

    Notes
    -----
    Start one worker process on each machine, for a machine's cases would disturb one another. Records of one case are
    of one worker, and ratios within it hold whatever the workers are; rates of different cases compare where the
    workers are alike.
    """

    def __init__(self, sweep: Sweep, address: str) -> None:
        instance("sweep", sweep, Sweep, "a Sweep")
        self._sweep = sweep
        instance("address", address, str, "a scheduler's address, such as 'tcp://10.0.0.1:8786'")
        try:
            from distributed import Client
        except ModuleNotFoundError as error:
            raise MissingPackageError("distributed", "dask", error) from error
        self._client = Client.__new__(Client)
        try:
            self._client.__init__(address, timeout=_PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            self._client.close()  # left to the garbage collector, it would wait for a thread that may wait for it
            raise bad_argument("scheduler", address, f"the address of one that answers ({error})") from error
        try:
            self._names = self._checked_workers(address)
        except BaseException:
            self._client.close()
            raise
        self.rates: dict[str, float] = {}

    def _checked_workers(self, address: str) -> dict[str, str]:
        kinds: dict[str, _Worker] = self._client.run(_describe)
        if not kinds:
            raise bad_argument("scheduler", address, "one that has workers")
        for part in ("version", "peers"):
            met = Counter(getattr(kind, part) for kind in kinds.values())
            if len(met) > 1:
                raise bad_argument("scheduler", f"workers of {part} {' and '.join(map(str, met))}", "workers of one")
        found = next(iter(kinds.values()))
        if found.version != __version__:
            raise bad_argument("scheduler", f"workers of version {found.version}", f"version {__version__}")
        absent = [name for name in self._sweep.peers if name not in dict(found.peers)]
        if absent:
            raise bad_argument("peer", absent[0], "one that is installed where the workers are")
        return {name: f"{kind.cpu}, {kind.level}" for name, kind in kinds.items()}

    @property
    def workers(self) -> Sequence[str]:
        """What each worker is: its CPU and its highest instruction-set level."""
        return list(self._names.values())

    def __enter__(self) -> ClusterSweep:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def run(self, cases: Sequence[Case]) -> Iterator[tuple[Case, list[Record]]]:
        """Yield each case with its records, numbered as the cases are, in the order in which workers finish."""
        from distributed import as_completed

        cases = all_of("cases", cases, Case, "cases")
        sweep = self._sweep
        how = tuple(sweep.types), tuple(sweep.methods), tuple(sweep.peers), sweep.threads, sweep.seconds
        waiting = iter(enumerate(cases, 1))
        running: dict[Any, tuple[int, Case, str]] = {}
        done = as_completed(loop=self._client.loop)

        def give(worker: str) -> None:
            number, case = next(waiting, (0, None))
            if case is not None:
                future = self._client.submit(_run, how, case, workers=[worker], pure=False)
                running[future] = number, case, worker
                done.add(future)

        try:
            for name in self._names:
                give(name)
            for future in done:
                number, case, worker = running.pop(future)
                records, rates = future.result()
                for unit, rate in rates.items():
                    self.rates[unit] = max(rate, self.rates.get(unit, 0.0))
                give(worker)
                yield case, [replace(record, case=number) for record in records]
        finally:
            with contextlib.suppress(Exception):  # who left may have taken the scheduler along
                self._client.cancel(list(running))
