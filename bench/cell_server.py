"""One build's side of `compare_builds.py`: runs the cells of benchmarks one by one, as it is told to.

``python -P bench/cell_server.py FOLDER WORD FILE...`` collects benchmark files with pytest and sends the names of their
cells. Then it starts each cell that it is asked for. Where the benchmark hands its call over, to the fixture
`benchmark` or to `take_turns`, the call is kept and timed whenever the other side asks for a sample, so that two builds
can take turns within one cell. Of the calls of `take_turns` only this library's are kept: peers cost time and are the
same in both builds.

Commands come as lines of JSON on standard input, answers go out on standard output; all else goes to standard error.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

import pytest

import poplibs_py
from poplibs_py.kernels import available_levels
from poplibs_py.report.timing import Timing

PACKAGE = Path(poplibs_py.__file__).parent
CALIBRATION = 2e-3  # seconds that the calls last that tell how long one takes
ELSEWHERE = 0.05  # share of a call's CPU time, more than which in other threads or processes makes it theirs too
UNTIMED = Timing(1.0, 1.0, 0)

Call = Callable[[], Any]


def does_nothing(call: Call) -> bool:
    """Whether a call is ``lambda: None``, which stands where a benchmark's figures come from `take_turns`."""
    code, nothing = getattr(call, "__code__", None), (lambda: None).__code__
    return code is not None and (code.co_code, code.co_consts) == (nothing.co_code, nothing.co_consts)


def records_runs(call: Call) -> bool:
    """Whether a call runs an op of the library. It is made once at least, so the next one finds all in place."""
    with poplibs_py.profile() as report:
        call()
    return bool(report.runs)


def enters_package(call: Call) -> bool:
    """Whether a call runs Python code of the library, its wrappers of peers apart."""
    entered = False

    def watch(frame: Any, event: str, argument: object) -> None:
        nonlocal entered
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE) and not path.is_relative_to(PACKAGE / "report"):
            entered = True
            sys.setprofile(None)

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return entered


def cpu_seconds() -> tuple[float, float, float]:
    """CPU seconds of this thread, of this process's other threads, and of its children that have ended."""
    own, times = time.thread_time(), os.times()
    return own, time.process_time() - own, times.children_user + times.children_system


def calibrate(call: Call) -> tuple[float, bool, bool]:
    """Return the seconds of one call, and whether other threads and whether other processes do part of it."""
    repeats = 1
    while True:
        before, began = cpu_seconds(), time.perf_counter()
        for _ in range(repeats):
            call()
        seconds, after = time.perf_counter() - began, cpu_seconds()
        if seconds >= CALIBRATION:
            spent = [b - a for a, b in zip(before, after, strict=True)]
            threads, processes = (part > ELSEWHERE * sum(spent) for part in spent[1:])
            return seconds / repeats, threads, processes
        repeats *= 4


class Benchmark:
    """The fixture `benchmark`, as much of pytest-benchmark's as benchmarks use; it keeps no figures."""

    group: str | None = None
    stats = None

    def __init__(self, server: CellServer, cell: str) -> None:
        self.extra_info: dict[str, Any] = {}
        self._server = server
        self._cell = cell

    def __call__(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        def call() -> Any:
            return function(*args, **keywords)

        kept = call if args or keywords else function
        if not does_nothing(kept):
            peer = not (records_runs(kept) or enters_package(kept))
            self._server.serve(self._cell, kept, peer)
        return kept()

    def pedantic(self, target: Callable[..., Any], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None,
                 rounds: int = 1, warmup_rounds: int = 0, iterations: int = 1) -> Any:
        return self(target, *args, **kwargs or {})


class CellServer:
    """A pytest plugin that runs items on command."""

    def __init__(self, commands: TextIO, answers: TextIO) -> None:
        self._commands = commands
        self._answers = answers
        self._cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self._place: int | str = "anywhere"
        self._outcome, self._why = "passed", ""
        self._broken: dict[str, str] = {}

    def tell(self, **answer: Any) -> None:
        """Send an answer."""
        print(json.dumps(answer), file=self._answers, flush=True)

    def told(self) -> dict[str, Any]:
        """Wait for a command; where the other side is gone, so is this one."""
        line = self._commands.readline()
        if not line:
            os._exit(1)
        command: dict[str, Any] = json.loads(line)
        return command

    def serve(self, cell: str, call: Call, peer: bool = False) -> list[float]:
        """Time samples of a call until told to go on; return their seconds for one call."""
        seconds, threads, processes = calibrate(call)
        self.tell(ready=cell, seconds=seconds, threads=threads, processes=processes, peer=peer)
        samples = []
        gc.collect()
        gc.disable()
        try:
            while "sample" in (command := self.told()):
                self._keep_to(command["place"])
                wall, cpu = self._sample(call, command["sample"], command["warm"])
                self.tell(wall=wall, cpu=cpu)
                samples.append(wall)
        finally:
            gc.enable()
            self._keep_to("anywhere")
        return samples

    def _sample(self, call: Call, repeats: int, warm: bool) -> tuple[float, float]:
        if warm:  # the other build has had the caches
            call()
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(repeats):
            call()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        return wall / repeats, cpu / repeats

    def _keep_to(self, place: int | str) -> None:
        """Keep this thread to a core; or, "apart", it to the first and the others to the rest; or none to any.

        A machine with other work may else run both of two threads on one core, or two builds on cores that differ.
        """
        tasks = Path("/proc/self/task")
        if len(self._cores) < 2 or not tasks.exists() or place == self._place:
            return
        self._place = place
        if isinstance(place, int):
            os.sched_setaffinity(0, {self._cores[place % len(self._cores)]})
            return
        own, others = (self._cores[:1], self._cores[1:]) if place == "apart" else (self._cores, self._cores)
        for task in tasks.iterdir():  # all of them: a thread that a call started has its caller's core
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), own if int(task.name) == os.getpid() else others)

    def take_turns(self, cell: str) -> Callable[..., list[Timing]]:
        """A `take_turns` that serves the library's calls one after the other, as cells of their own."""
        numbers = itertools.count(1)

        def serve_all(calls: Sequence[Call], **options: Any) -> list[Timing]:
            timings = []
            for call in calls:
                samples = []
                if records_runs(call):
                    samples = self.serve(f"{cell} #{next(numbers)}", call)
                timings.append(Timing(statistics.median(samples), min(samples), len(samples)) if samples else UNTIMED)
            return timings

        return serve_all

    @pytest.fixture
    def benchmark(self, request: pytest.FixtureRequest) -> Benchmark:
        """Hands calls over to the server."""
        return Benchmark(self, name_of(request.node))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep what cannot be collected."""
        if report.failed:
            self._broken[report.nodeid] = str(report.longrepr)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what became of a cell."""
        if report.outcome != "passed":
            self._outcome, self._why = report.outcome, str(report.longrepr)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run what the other side chooses, in its order."""
        items = {name_of(item): item for item in session.items}
        self.tell(cells=list(items), broken=self._broken, package=str(PACKAGE), level=available_levels()[-1])
        chosen = [items[name] for name in self.told()["select"]]
        for item, following in zip(chosen, [*chosen[1:], None], strict=True):
            module: Any = getattr(item, "module", None)
            if hasattr(module, "take_turns"):
                module.take_turns = self.take_turns(name_of(item))
            if hasattr(module, "dense_routes"):  # the peers of dense products, which would be run and checked
                module.dense_routes = lambda *operands: []
            self._outcome, self._why = "passed", ""
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self.tell(end=name_of(item), outcome=self._outcome, why=self._why)
        return True


def name_of(item: pytest.Item) -> str:
    """A cell's name, the same in both builds: its file's, its function's and its parameters'."""
    return f"{item.path.name}::{item.nodeid.partition('::')[2]}"


def main() -> None:
    """Serve the cells of the files named; see the head of this file."""
    folder, words, *files = sys.argv[1:]
    commands, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    options = ["-c", os.devnull, "--rootdir", folder, "-q", "--continue-on-collection-errors",
               "-p", "no:cacheprovider", "-p", "no:benchmark", "-p", "no:timeout", "-p", "no:xdist",
               "-o", "python_files=bench_*.py", "-o", "python_functions=bench_*", "-k", words]
    pytest.main([*options, *files], plugins=[CellServer(commands, answers)])


if __name__ == "__main__":
    main()
