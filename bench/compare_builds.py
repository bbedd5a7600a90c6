"""Is a build slower than another? Two builds of poplibs_py run the same benchmarks in turns, sample by sample.

``python bench/compare_builds.py OLD NEW`` takes two Python interpreters, each of which has a build installed, such as
the ``.venv/bin/python`` of two checkouts, and prints for each benchmark file and for all how the speeds of the new
build's cells lie to those of the old one's. It exits with 1 where the median is below ``--least-median``, where a cell
is below ``--least-cell`` in every round, or where a cell fails in the new build alone.

Each build has a process that stops where a cell hands its call to the fixture `benchmark`, or the library's calls to
`take_turns`. The two then time short samples in turns, on the same core, which changes from pair to pair; the clock is
the process's CPU time unless other threads or processes do part of the work. A cell's figure in a round is the ratio of
the first quartiles of its times: less is left there of other work than in medians, and less of luck than in the best.
Every round has new processes, so that no round shares memory's layout with another.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BENCHES = ("bench_matmul", "bench_sparse", "bench_cast", "bench_poprand", "bench_planner", "bench_prepared_values")
SAMPLE = 1e-3  # seconds that a sample should last at least
SLOW = 0.05  # seconds of a call that needs no warming-up before a sample
MOST_PAIRS = 101
BUSY = 1.5  # load average of a core, above which threads wait for each other
CLOSER = 5  # times the samples where a cell is measured again
LEVELS = (0.98, 0.93)  # of speed, new over old: cells below in all rounds are counted
BINS = (0.8, 0.9, 0.93, 0.96, 0.98, 1.0, 1.02, 1.04, 1.07, 1.1, 1.25)


class BuildError(Exception):
    """A build's process ended, or its benchmarks cannot be run."""


class Build:
    """The process that serves one build's cells."""

    def __init__(self, name: str, python: str, folder: Path, benches: Sequence[str], words: str) -> None:
        self.name = name
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        server = Path(__file__).with_name("cell_server.py")
        files = [str(folder / f"{bench.removesuffix('.py')}.py") for bench in benches]
        self._process = subprocess.Popen([python, "-P", str(server), str(folder), words, *files], text=True, cwd=folder,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log)

    def ask(self, **command: Any) -> None:
        """Send a command."""
        assert self._process.stdin is not None
        try:
            print(json.dumps(command), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            self._fail()

    def hear(self) -> dict[str, Any]:
        """Wait for an answer."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._fail()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def sample(self, **how: Any) -> dict[str, float]:
        """Return one sample's seconds by either clock."""
        self.ask(**how)
        return self.hear()

    def finish(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Let a cell run to its end without samples."""
        while "ready" in answer:
            self.ask(go=True)
            answer = self.hear()
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def _fail(self) -> None:
        self._process.wait()
        self._log.seek(0)
        raise BuildError(f"the {self.name} build's process ended:\n{self._log.read()[-4000:]}")


@dataclass
class Cell:
    """What is known of one cell.

    Attributes
    ----------
    rounds : list of list of (float, float)
        For each round the seconds of a call in the old and in the new build, pair by pair.
    peer : bool
        Whether no code of the library is in the call; such cells show what the machine does.
    """

    name: str
    peer: bool = False
    rounds: list[list[tuple[float, float]]] = field(default_factory=list)

    @property
    def bench(self) -> str:
        return self.name.partition(".py::")[0]

    @property
    def speeds(self) -> list[float]:
        """For each round the new build's speed over the old one's."""
        return [speed(pairs) for pairs in self.rounds]

    @property
    def speed(self) -> float:
        return statistics.median(self.speeds)

    def is_below(self, level: float, rounds: int) -> bool:
        """Whether the cell is below a level in every round."""
        return len(self.rounds) >= rounds and max(self.speeds) < level


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[round(share * (len(ordered) - 1))]


def speed(pairs: Sequence[tuple[float, float]]) -> float:
    """The new build's speed over the old one's, by the first quartiles of their times."""
    old, new = zip(*pairs, strict=True)
    return quantile(old, 0.25) / quantile(new, 0.25)


@dataclass
class Outcome:
    """All cells, and what could not be compared."""

    cells: dict[str, Cell] = field(default_factory=dict)
    only: dict[str, set[str]] = field(default_factory=lambda: {"old": set(), "new": set()})
    failed: dict[str, dict[str, str]] = field(default_factory=lambda: {"old": {}, "new": {}})
    skipped: set[str] = field(default_factory=set)

    def add(self, name: str, peer: bool, pairs: list[tuple[float, float]]) -> None:
        self.cells.setdefault(name, Cell(name, peer)).rounds.append(pairs)

    @property
    def own(self) -> list[Cell]:
        """The cells in which the library takes part."""
        return [cell for cell in self.cells.values() if not cell.peer]

    def slow(self, options: argparse.Namespace) -> list[Cell]:
        """The library's cells that are below the limit in every round."""
        return [cell for cell in self.own if cell.is_below(options.least_cell, options.rounds)]


def take_pairs(old: Build, new: Build, ready: tuple[dict[str, Any], dict[str, Any]], seconds: float,
               least: int) -> list[tuple[float, float]]:
    """Let both builds time a call in turns: old first, then new first."""
    call = min(answer["seconds"] for answer in ready)
    alone = not any(answer["threads"] or answer["processes"] for answer in ready)
    apart = not any(answer["processes"] for answer in ready)
    repeats = max(1, min(20000, round(SAMPLE / max(call, 1e-8))))
    warm = call < SLOW
    pairs = max(least, min(MOST_PAIRS, round(seconds / (call * (repeats + warm)))))
    samples = []
    for turn in range(pairs):
        order = (old, new) if turn % 2 == 0 else (new, old)
        place = turn // 2 if alone else "apart" if apart else "anywhere"
        took = {build.name: build.sample(sample=repeats, warm=warm, place=place)["cpu" if alone else "wall"]
                for build in order}
        samples.append((took["old"], took["new"]))
    return samples


def run_cell(old: Build, new: Build, options: argparse.Namespace, outcome: Outcome) -> None:
    """Measure every call of the cell that both builds have begun, in step, and see both to its end."""
    builds = old, new
    while True:
        answers = old.hear(), new.hear()
        name = answers[0].get("ready")
        if name is None or answers[1].get("ready") != name:
            break
        if min(answer["seconds"] for answer in answers) > options.longest:
            outcome.skipped.add(name)
        else:
            pairs = take_pairs(old, new, answers, options.seconds, options.least_pairs)
            outcome.add(name, answers[0]["peer"] and answers[1]["peer"], pairs)
        for build in builds:
            build.ask(go=True)
    for build, answer in zip(builds, answers, strict=True):
        if "ready" in answer:
            outcome.only[build.name].add(answer["ready"])
        end = build.finish(answer)
        if end["outcome"] == "failed":
            outcome.failed[build.name][end["end"]] = end["why"]
        elif end["outcome"] == "skipped":
            outcome.skipped.add(end["end"])


def run_round(title: str, options: argparse.Namespace, folders: Sequence[Path], outcome: Outcome,
              only: set[str] | None = None) -> None:
    """Measure all cells once, or some, in new processes."""
    began = said = time.monotonic()
    builds: list[Build] = []
    try:
        for name, python, folder in zip(("old", "new"), (options.old, options.new), folders, strict=True):
            builds.append(Build(name, python, folder, options.benches, options.words))
        old, new = builds
        cells: dict[str, list[str]] = {}
        for build in builds:
            hello = build.hear()
            if hello["broken"]:
                lines = "\n".join(f"{name}: {why}" for name, why in hello["broken"].items())
                raise BuildError(f"the {build.name} build's benchmarks cannot be collected:\n{lines}")
            cells[build.name] = hello["cells"]
            if not outcome.cells:
                print(f"{build.name}: {hello['package']}, level {hello['level']}")
        for build, other in ((old, new), (new, old)):
            outcome.only[build.name] |= set(cells[build.name]) - set(cells[other.name])
        shared = set(cells["old"]) & set(cells["new"])
        common = [name for name in cells["old"] if name in shared][:: options.every]
        if only is not None:
            common = [name for name in common if name in only]
        for build in builds:
            build.ask(select=common)
        for index, name in enumerate(common):
            if time.monotonic() - said > 10:
                said = time.monotonic()
                print(f"{title}, {said - began:.0f} s: {index} of {len(common)}, {name}", file=sys.stderr, flush=True)
            run_cell(old, new, options, outcome)
    finally:
        for build in builds:
            build.close()


def run_rounds(options: argparse.Namespace, folders: Sequence[Path], outcome: Outcome) -> None:
    """Measure all cells in each round, then those below the limit again, with more samples."""
    for number in range(options.rounds):
        run_round(f"round {number + 1} of {options.rounds}", options, folders, outcome)
    closer = argparse.Namespace(**vars(options))
    closer.seconds, closer.least_pairs = CLOSER * options.seconds, CLOSER * options.least_pairs
    for number in range(options.again):
        slow = {re.sub(r" #\d+$", "", cell.name) for cell in outcome.slow(options)}
        if slow:
            run_round(f"again {number + 1} of {options.again}", closer, folders, outcome, slow)


def folder_of(python: str) -> Path:
    """The folder of benchmarks of the checkout that an interpreter's build is installed from."""
    code = "import os, poplibs_py; print(os.path.dirname(poplibs_py.__file__))"
    done = subprocess.run([python, "-P", "-c", code], capture_output=True, text=True)
    if done.returncode:
        raise BuildError(f"{python} has no poplibs_py:\n{done.stderr}")
    folder = Path(done.stdout.strip()).parent / "bench"
    if not folder.is_dir():
        raise BuildError(f"{python}: its poplibs_py is in no checkout, so --folder must name one of benchmarks")
    return folder


def print_table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    for line in (heads, ["---"] * len(heads), *rows):
        print("| " + " | ".join(f"{x:.3f}" if isinstance(x, float) else str(x) for x in line) + " |")
    print()


def groups_of(outcome: Outcome) -> Iterator[tuple[str, list[Cell]]]:
    """The library's cells by benchmark file, all of them, and the peers'."""
    for bench in dict.fromkeys(cell.bench for cell in outcome.own):
        yield bench, [cell for cell in outcome.own if cell.bench == bench]
    yield "all", outcome.own
    yield "peers", [cell for cell in outcome.cells.values() if cell.peer]


def print_report(outcome: Outcome, rounds: int) -> None:
    """Tables of the ratios, then the cells below each level and what could not be compared."""
    heads = ["speed, new over old", "cells", "median", "5 %", "25 %", "75 %", "95 %",
             *(f"below {level} in all rounds" for level in LEVELS)]
    print_table(heads, [
        (name, len(group), *(quantile([cell.speed for cell in group], q) for q in (0.5, 0.05, 0.25, 0.75, 0.95)),
         *(sum(cell.is_below(level, rounds) for cell in group) for level in LEVELS))
        for name, group in groups_of(outcome) if group])
    counts = Counter(sum(cell.speed >= edge for edge in BINS) for cell in outcome.own)
    edges = ["", *(f"{edge:g}" for edge in BINS), ""]
    print_table(["speed", "cells"], [(f"{edges[i]} .. {edges[i + 1]}", counts[i]) for i in range(len(BINS) + 1)])
    below = sorted((cell for cell in outcome.own if cell.is_below(max(LEVELS), rounds)), key=lambda cell: cell.speed)
    if below:
        print_table([f"below {max(LEVELS)} in all rounds", "speed", "in each round", "old, µs"], [
            (cell.name, cell.speed, " ".join(f"{s:.3f}" for s in cell.speeds),
             f"{1e6 * statistics.median(old for pairs in cell.rounds for old, _ in pairs):.4g}") for cell in below])
    for name in ("old", "new"):
        if outcome.only[name]:
            print(f"only in the {name} build: {len(outcome.only[name])}, such as {min(outcome.only[name])}")
        for cell, why in outcome.failed[name].items():
            print(f"failed in the {name} build: {cell}\n{why[-1000:]}")
    if outcome.skipped:
        print(f"skipped: {len(outcome.skipped)}, such as {min(outcome.skipped)}")


def complaints(outcome: Outcome, options: argparse.Namespace) -> list[str]:
    """Why the new build does not pass."""
    reasons = []
    if not outcome.own:
        return ["no cell was measured in both builds"]
    median = statistics.median(cell.speed for cell in outcome.own)
    if median < options.least_median:
        reasons.append(f"the median over all cells is {median:.3f}, below {options.least_median}")
    slow = outcome.slow(options)
    if slow:
        reasons.append(f"cells below {options.least_cell} in every round: {len(slow)}")
    failed = outcome.failed["new"].keys() - outcome.failed["old"].keys()
    if failed:
        reasons.append(f"cells that fail in the new build alone: {len(failed)}")
    return reasons


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="the Python interpreter that has the build before")
    parser.add_argument("new", help="the one that has the build to judge")
    parser.add_argument("benches", nargs="*", default=BENCHES, help=f"files (default: {' '.join(BENCHES)})")
    parser.add_argument("--folder", type=Path, action="append", default=[], metavar="FOLDER",
                        help="where the benchmarks are, for both builds; given twice, the old one's and the new one's "
                             "(default: bench/ of the checkout that each is installed from)")
    parser.add_argument("-k", dest="words", default="", help="cells to choose, as pytest's -k has it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--again", type=int, default=2, metavar="N",
                        help="rounds more, with five times the samples, of the cells below --least-cell (%(default)s)")
    parser.add_argument("--seconds", type=float, default=0.1, help="of a cell in a round and build (%(default)s)")
    parser.add_argument("--least-pairs", type=int, default=5, help="in a round, however slow a call (%(default)s)")
    parser.add_argument("--longest", type=float, default=math.inf, metavar="SECONDS",
                        help="leave out calls that take longer (default: none)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="measure one of N cells (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="as --seconds 0.02 --least-pairs 3 --longest 0.1")
    parser.add_argument("--least-median", type=float, default=LEVELS[0], help="over all cells (%(default)s)")
    parser.add_argument("--least-cell", type=float, default=LEVELS[1], help="in the best round (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample there")
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.least_pairs, options.longest = 0.02, 3, 0.1
    for name in ("rounds", "least_pairs", "every"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')}: got {getattr(options, name)}; allowed: 1 and more")
    if len(options.folder) > 2:
        parser.error("--folder: once for both builds, or twice")
    return options


def main() -> int:
    """Compare; see the head of this file."""
    options = arguments()
    outcome = Outcome()
    try:
        folders = [folder.resolve() for folder in options.folder] or [folder_of(options.old), folder_of(options.new)]
        run_rounds(options, (folders * 2)[:2], outcome)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 2
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > BUSY * cores:
        print(f"the machine is busy, load {load:.1f} on {cores} cores: calls of several threads may differ twofold")
    if options.json:
        options.json.write_text(json.dumps({name: cell.rounds for name, cell in outcome.cells.items()}))
    print()
    print_report(outcome, options.rounds)
    reasons = complaints(outcome, options)
    print("\n".join(reasons) or "nothing is slower")
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main())
