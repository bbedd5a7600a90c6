"""Runs cases: methods, peers and the probes of the peak take turns, once each answer was found right."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ...checks import instance
from ...errors import PoplibsError
from ...kernels.peak import peak_of, peak_probes, unit_rates
from ..peers import LIBRARIES
from ..timing import Timing, take_turns
from .cases import TYPES, Case
from .methods import Contestant, method_contestants, peer_contestants
from .record import LEAST_ROUNDS, OURS, Record, fastest_route, task_of

_LONGEST = 0.8
"""Seconds that all rounds of one method or route may take; a slower one has fewer rounds."""


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
        About how long each case may take turns, if seven rounds take less. A method or route whose rounds would take
        more than 0.8 seconds, or a quarter of `seconds`, has fewer; so has a peer's route that another of it beats.
    """

    types: Sequence[str] = tuple(TYPES)
    methods: Sequence[str] = ("dense", "static", "dynamic")
    peers: Sequence[str] = LIBRARIES
    threads: int = 1
    seconds: float = 2.0
    _count: int = field(default=0, init=False, repr=False)
    _hopeless: dict[tuple[str, str, str], int] = field(default_factory=dict, init=False, repr=False)
    _rates: dict[str, float] = field(default_factory=dict, init=False, repr=False)

    def run(self, case: Case) -> list[Record]:
        """Check and time every contestant of a case and return their records, ours first."""
        instance("case", case, Case, "a Case")
        self._count += 1
        contestants = [c for c in self._contestants(case) if not self._is_hopeless(case, c)]
        verdicts = [_verdict(contestant) for contestant in contestants]
        able = [i for i, (_, share) in enumerate(verdicts) if share is not None]
        probes = peak_probes(self.threads)
        calls = [*probes.values(), *(contestants[i].run for i in able)]
        clock = time.process_time if self.threads == 1 else time.perf_counter
        rivals = [None] * len(probes) + [_rivals(contestants[i]) for i in able]
        found = take_turns(calls, seconds=self.seconds, least_rounds=LEAST_ROUNDS, rivals=rivals, clock=clock,
                           longest=max(_LONGEST, self.seconds / 4))
        for (unit, probe), timing in zip(probes.items(), found, strict=False):
            self._rates[unit] = max(self.rates[unit], probe() / timing.least)
        timings = dict(zip(able, found[len(probes):], strict=True))
        records = [self._record(case, contestant, verdicts[i], timings.get(i))
                   for i, contestant in enumerate(contestants)]
        for record in records:
            if record.library == OURS:
                _compare(record, records)
        self._note_hopeless(records)
        return records

    @property
    def rates(self) -> dict[str, float]:
        """FLOP/s of each arithmetic unit: by its fastest probe so far, for what disturbs a probe can only slow it."""
        return unit_rates(self.threads) | self._rates

    def _is_hopeless(self, case: Case, contestant: Contestant) -> bool:
        least = self._hopeless.get((contestant.library, contestant.method, contestant.type))
        return least is not None and case.m * case.k * case.n >= least

    def _note_hopeless(self, records: Sequence[Record]) -> None:
        """Keep in mind which dense routes of peers took ten times as long as the same peer's in FP32.

        A user would convert first. They are left out of later cases that have as many multiply-adds or more.
        """
        single = {r.library: r.time_s for r in records if r.method == "dense" and r.type == "FP32"}
        for r in records:
            if r.library != OURS and r.method == "dense" and r.time_s > 10 * single.get(r.library, r.time_s):
                key, size = (r.library, r.method, r.type), r.m * r.k * r.n
                self._hopeless[key] = min(size, self._hopeless.get(key, size))

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
        if contestant.library == OURS:
            peak = peak_of(TYPES[contestant.type].name, self.rates)
        return Record(case.m, case.k, case.n, 1.0 if is_dense else case.density, None if is_dense else case.block,
                      contestant.type, "CPU", contestant.method, share is not None and share <= 1, flops,
                      flops / seconds, library=contestant.library, source=case.source.name if case.source else "",
                      case=self._count, time_s=seconds, rounds=timing.rounds if timing else 0, threads=self.threads,
                      seed=case.seed, err=error, err_over_bound=float("nan") if share is None else share,
                      kernel=contestant.kernel, isa=contestant.isa, plan=contestant.plan, bytes=contestant.bytes,
                      peak_flop_rate=peak, of_peak=flops / seconds / peak if peak else None)


def _rivals(contestant: Contestant) -> tuple[str, str] | None:
    """The group of a peer's routes to one product, of which the fastest counts; ours are all of interest."""
    if contestant.library == OURS:
        return None
    return contestant.library, task_of(contestant.method)


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
    for other in records:
        if other.library == OURS and other.method == "dense" and other.type == record.type and other.valid:
            record.x_dense = other.time_s / record.time_s
            record.of_ideal = record.x_dense * record.density if record.method != "dense" else None
    for library in {other.library for other in records} - {OURS}:
        rival = fastest_route(records, library, record.task)
        if rival is not None:
            setattr(record, f"x_{library}", rival.time_s / record.time_s)
