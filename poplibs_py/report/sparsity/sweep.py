"""Runs cases: methods, peers and the probes of the peak take turns, once each answer was found right."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ...errors import PoplibsError
from ...kernels.peak import peak_flop_rate, peak_of, peak_probes
from ..peers import LIBRARIES
from ..timing import Timing, take_turns
from .cases import TYPES, Case
from .methods import OURS, Contestant, method_contestants, peer_contestants
from .record import Record

__all__ = ["Sweep"]


@dataclass
class Sweep:
    """How to run cases.

    Parameters
    ----------
    types : sequence of str, optional
        Number types of this library's methods, all of `TYPES` by default.
    methods : sequence of str, optional
        Some of `METHODS`.
    peers : sequence of str, optional
        Libraries to compare with.
    threads : int, optional
        Threads of this library and of the peers; the caller holds them to it (`limited_threads`).
    seconds : float, optional
        About how long each case may take turns.
    """

    types: Sequence[str] = tuple(TYPES)
    methods: Sequence[str] = ("dense", "static", "dynamic")
    peers: Sequence[str] = LIBRARIES
    threads: int = 1
    seconds: float = 2.0
    _count: int = field(default=0, init=False, repr=False)
    _hopeless: set[tuple[object, ...]] = field(default_factory=set, init=False, repr=False)
    _rates: dict[str, float] = field(default_factory=dict, init=False, repr=False)

    def run(self, case: Case) -> list[Record]:
        """Check and time every contestant of a case and return their records, ours first."""
        self._count += 1
        contestants = [c for c in self._contestants(case) if _dense_key(case.shape, c) not in self._hopeless]
        verdicts = [_verdict(contestant) for contestant in contestants]
        able = [i for i, (_, share) in enumerate(verdicts) if share is not None]
        probes = peak_probes(self.threads)
        calls = [*probes.values(), *(contestants[i].run for i in able)]
        clock = time.process_time if self.threads == 1 else time.perf_counter
        found = take_turns(calls, seconds=self.seconds, clock=clock)
        for (unit, probe), timing in zip(probes.items(), found, strict=False):
            self._rates[unit] = max(self._rates.get(unit, 0.0), probe() / timing.least)
        timings = dict(zip(able, found[len(probes):], strict=True))
        records = [self._record(case, contestant, verdicts[i], timings.get(i))
                   for i, contestant in enumerate(contestants)]
        for record in records:
            if record.library == OURS:
                _compare(record, records)
        self._hopeless |= _hopeless_routes(records)
        return records

    def _contestants(self, case: Case) -> Iterator[Contestant]:
        for type_name in self.types:
            yield from method_contestants(case, type_name, self.methods)
        tasks = dict.fromkeys(method.partition("_")[2] or "forward" for method in self.methods)
        if self.peers:
            yield from peer_contestants(case, self.peers, list(tasks), self.types)

    def _record(self, case: Case, contestant: Contestant, verdict: tuple[float, float | None],
                timing: Timing | None) -> Record:
        is_dense = contestant.method == "dense"
        flops = 2.0 * case.m * case.k * case.n * (1.0 if is_dense else case.density)
        seconds = timing.seconds if timing else float("nan")
        error, share = verdict
        peak = None
        if contestant.library == OURS:  # by the fastest probe so far: what disturbs a probe can only slow it down
            name = TYPES[contestant.type].name
            peak = max(peak_of(name, self._rates), peak_flop_rate(name, self.threads))
        return Record(
            case.m, case.k, case.n, 1.0 if is_dense else case.density, None if is_dense else case.block,
            contestant.type, "CPU", contestant.method, share is not None and share <= 1, flops, flops / seconds,
            library=contestant.library, case=self._count, time_s=seconds, rounds=timing.rounds if timing else 0,
            threads=self.threads, seed=case.seed, err=error, err_over_bound=float("nan") if share is None else share,
            kernel=contestant.kernel, isa=contestant.isa, plan=contestant.plan, bytes=contestant.bytes,
            peak_flop_rate=peak, of_peak=flops / seconds / peak if peak else None,
            source=case.source.name if case.source else "",
        )


def _dense_key(shape: tuple[int, int, int], what: Contestant | Record) -> tuple[object, ...]:
    """What a dense product's time depends on."""
    return *shape, what.library, what.method, what.type


def _hopeless_routes(records: Sequence[Record]) -> set[tuple[object, ...]]:
    """The peers' dense routes that took ten times as long as the same peer's in FP32.

    A user would convert first. They are measured once for each shape, and left out of its later cases.
    """
    single = {r.library: r.time_s for r in records if r.method == "dense" and r.type == "FP32"}
    return {_dense_key(r.shape, r) for r in records
            if r.library != OURS and r.method == "dense" and r.time_s > 10 * single.get(r.library, r.time_s)}


def _verdict(contestant: Contestant) -> tuple[float, float | None]:
    """The largest error and share of the bound; no share where the library refuses the problem."""
    try:
        return contestant.judge()
    except (PoplibsError, NotImplementedError, RuntimeError):
        return float("nan"), None


def _compare(record: Record, records: Sequence[Record]) -> None:
    """Fill in how many times faster the record is than our dense product and than each peer.

    A gradient's dense product costs as much as the forward one, which stands for it.
    """
    rivals: dict[str, list[float]] = {}
    for other in records:
        if not other.valid:
            continue
        if other.library == OURS and other.method == "dense" and other.type == record.type:
            record.x_dense = other.time_s / record.time_s
        elif other.library != OURS and other.task == record.task:
            rivals.setdefault(other.library, []).append(other.time_s)
    for library, times in rivals.items():
        setattr(record, f"x_{library}", min(times) / record.time_s)
