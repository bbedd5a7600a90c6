"""``poplibs-py bench sparsity``: the PopSparse paper's sweep on this CPU, as tables, plots, a CSV and an HTML file."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TextIO, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..config import settings
from ..errors import bad_argument
from ..report import paper, sparsity, tables, text
from ..report.chart import reciprocal
from ..report.conditions import Conditions
from ..report.peers import LIBRARIES, installed, limited_threads, restraints
from ..report.sparsity import charts, record
from ..report.sparsity.cluster import ClusterSweep
from ..report.sparsity.machine import machine_heads, machine_rows, measured_here, run_on_machine
from ..report.sparsity.record import OURS, fastest_route
from ..report.sparsity.summary import commonest, how_it_was_run, static_rows
from ..target import Target, resolve_target
from . import INTERRUPTED
from .bench_paper import compare_with_paper, machine_table
from .spec import named_as_typed

_T = TypeVar("_T")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of the command line."""
    suites = subparsers.add_parser("bench", help="measure this library beside the others that are installed")
    parser = suites.add_subparsers(dest="suite", required=True).add_parser(
        "sparsity", help="block-sparse products: the PopSparse paper's sweep",
        description="Time dense, static and dynamic block-sparse products and the installed peers. Control-C keeps "
                    "what was measured.")
    parser.add_argument("--quick", action="store_true",
                        help="fourteen cases, or five of each file, in about a minute; axes narrow them")
    parser.add_argument("--matrix", metavar="FILE", action="append", default=[],
                        help="take the pattern from a .smtx, .mtx or .npz file (may be given again)")
    parser.add_argument("--target", metavar="NAME", help="plan the sweep for a modelled machine, gc200, bow ..., not "
                        "measure it on this CPU; files run on both (default: host, and bow with --compare-paper)")
    parser.add_argument("--compare-paper", metavar="FILE", nargs="?", const="", help="beside the figures of the "
                        "PopSparse paper, or those of a file: a JSON object on each line, of the same fields")
    lists = parser.add_argument_group("axes, each a list with commas; by default the paper's")
    lists.add_argument("--size", metavar="LIST", help="m = k, or MxK, for example 1024,512x2048")
    lists.add_argument("--n", metavar="LIST", help="columns of X")
    lists.add_argument("--density", metavar="LIST", help="for example 1/4,1/16")
    lists.add_argument("--block", metavar="LIST", help="sides of the blocks")
    lists.add_argument("--type", metavar="LIST",
                       help=f"out of {','.join(sparsity.TYPES)} (default: all; FP16,FP32 on a modelled machine)")
    lists.add_argument("--method", metavar="LIST", default="dense,static,dynamic",
                       help=f"out of {','.join(sparsity.METHODS)} (default: %(default)s)")
    lists.add_argument("--peer", metavar="LIST", help=f"out of {','.join(LIBRARIES)}, or none (default: all installed)")
    parser.add_argument("--threads", type=int, default=1, help="threads of every method and peer (default: 1)")
    parser.add_argument("--seconds", type=float,
                        help="about how long the methods of a case take turns (default: 2; with --quick: 1)")
    parser.add_argument("--scheduler", metavar="ADDRESS",
                        help="run the cases on the workers of a Dask cluster, for example tcp://10.0.0.1:8786")
    parser.add_argument("--seed", type=int, default=123, help="seed of patterns and values (default: 123)")
    for option, what in (("csv", "rows"), ("html", "plots")):
        parser.add_argument(f"--{option}", metavar="FILE", default=f"sparsity.{option}",
                            help=f"where the {what} go (default: %(default)s)")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    with named_as_typed({"target": "--target"}, ""):
        machine = resolve_target(arguments.target or ("host" if arguments.compare_paper is None else "bow"))
    if machine.kind == "ipu" and not arguments.matrix:
        return _run_modelled(arguments, machine)
    if arguments.compare_paper is not None:
        given = "--matrix" if arguments.matrix else f"--target {arguments.target}"
        raise bad_argument("--compare-paper", f"{given} beside it", "a modelled machine, such as bow, and no files")
    cases = _cases(arguments)
    sweep = _sweep(arguments, "FP16,FP32" if machine.kind == "ipu" else ",".join(sparsity.TYPES))
    runs = paper.MachineRuns(machine, sweep.types, sweep.methods) if machine.kind == "ipu" else None
    records: list[sparsity.Record] = []
    interrupted = False
    with _created(arguments.csv) as rows, _created(arguments.html) as page, limited_threads(sweep.threads):
        record.write_header(rows)
        absent = [name for name in LIBRARIES if name not in installed()]
        if absent and arguments.peer is None:
            print(f"not installed: {', '.join(absent)} (pip install {' '.join(absent)})")
        for setting in restraints():
            print(f"{setting} is set: a peer may not run its fastest kernels")
        conditions = Conditions.measure(shlex.join(["poplibs-py", *arguments.words]), sweep.threads)
        with contextlib.ExitStack() as stack:
            cluster = stack.enter_context(ClusterSweep(sweep, arguments.scheduler)) if arguments.scheduler else None
            try:
                _measure(sweep, cluster, runs, cases, records, rows)
            except KeyboardInterrupt:
                interrupted = True
            rates, workers = (cluster.rates or conditions.peaks, cluster.workers) if cluster else (sweep.rates, ())
        conditions = replace(conditions, peaks=rates, workers=workers)
        page.write(sparsity.results_page(records, conditions))
    here = measured_here(records)
    told = "\n".join(f"{name:<13} {what}" for name, what in how_it_was_run(here, conditions))
    beside = tables.table(machine_heads(records), machine_rows(records)) if runs else ""
    for part in filter(None, (_plot(here), sparsity.summary(here, sweep.peers), beside, told)):
        print(f"\n{part}")
    print(f"\n{len(records)} rows in {arguments.csv}, plots in {arguments.html}"
          + (" (interrupted: what was measured is kept)" if interrupted else ""))
    if interrupted:
        return INTERRUPTED
    return int(any(not r.valid for r in here if r.library == OURS)
               or any(r.err_over_bound > 1 for r in run_on_machine(records)))


def _run_modelled(arguments: argparse.Namespace, machine: Target) -> int:
    """Plan the sweep for a modelled machine; a quick one, with figures, plans no more than those."""
    columns: list[int | None] = list(_list("--n", arguments.n, _count, "whole numbers of at least 1")) or [None]
    figures: list[paper.Figure] = []
    if arguments.compare_paper is not None:
        figures = paper.read_figures(arguments.compare_paper) if arguments.compare_paper else list(paper.PUBLISHED)
    axes = None if arguments.quick and figures else _axes(arguments, sparsity.paper_axes())
    types = _names("--type", arguments.type or "FP16,FP32", sparsity.TYPES)
    methods = _names("--method", arguments.method, sparsity.METHODS)
    products = paper.ModelledProducts(machine, arguments.seed)
    with _created(arguments.csv) as rows, _created(arguments.html) as page:
        return compare_with_paper(products, axes, types, methods, columns, figures, (rows, page), arguments.words)


def _measure(sweep: sparsity.Sweep, cluster: ClusterSweep | None, runs: paper.MachineRuns | None,
             cases: Sequence[sparsity.Case], records: list[sparsity.Record], rows: TextIO) -> None:
    """Run the cases, here or on a cluster, and on a modelled machine; print, keep and write each one's rows at once."""
    terminal = Console(stderr=True)
    columns = BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal,
                  redirect_stdout=sys.stdout.isatty()) as progress:
        task = progress.add_task("", total=len(cases))

        def here() -> Iterator[tuple[sparsity.Case, list[sparsity.Record]]]:
            for case in cases:
                progress.update(task, description=str(case))
                yield case, sweep.run(case)

        for case, found in cluster.run(cases) if cluster else here():
            print(_table(case, found, sweep.peers), flush=True)
            if runs:
                there = runs.run(case, found[0].case if found else 0)
                print(f"\n{machine_table(there)}", flush=True)
                found = [*found, *there]
            record.write_rows(rows, found)
            records += found
            progress.advance(task)
            if cluster:
                progress.update(task, description=f"{case} was the last to end")


def _table(case: sparsity.Case, found: Sequence[sparsity.Record], peers: Sequence[str]) -> str:
    heads = ["type", "method", "block", "density", "n", "GFLOP/s", "of peak", "x dense", "of ideal",
             *(f"x {peer}" for peer in peers), "rounds", "err/bound"]
    rows = [
        (r.type, r.method, r.block_size, reciprocal(r.density), r.n, r.flop_rate / 1e9, r.of_peak,
         r.x_dense, r.of_ideal, *(_beside(r, found, peer) for peer in peers), r.rounds,
         r.err_over_bound if r.valid else "INVALID")
        for r in found if r.library == OURS
    ]
    return f"\n{case}\n{tables.table(heads, rows)}"


def _beside(record: sparsity.Record, found: Sequence[sparsity.Record], peer: str) -> float | str | None:
    """Times faster than a peer, with the rounds of its fastest route where they are few."""
    ratio: float | None = getattr(record, f"x_{peer}")
    route = fastest_route(found, peer, record.task)
    return f"{ratio:.3g} ({route.few_rounds})" if ratio and route and route.few_rounds else ratio


def _plot(records: Sequence[sparsity.Record]) -> str:
    """The chart that says most in a terminal: speed-up over dense in the first type, by density or a file's blocks."""
    static = [r for r in static_rows(records) if r.x_dense]
    if not static:
        return ""
    if static[0].source:
        return text.draw(charts.file_by_block(static, static[0].type, commonest(r.n for r in static)))
    return text.draw(charts.by_density(static, static[0].type, commonest(r.shape for r in static)))


def _sweep(arguments: argparse.Namespace, types: str) -> sparsity.Sweep:
    peers = [name for name in LIBRARIES if name in installed()]
    if arguments.peer is not None:
        peers = [] if arguments.peer == "none" else _names("--peer", arguments.peer, LIBRARIES)
        missing = [name for name in peers if name not in installed()]
        if missing:
            raise bad_argument("--peer", missing[0], f"one that is installed: {', '.join(installed())}")
    if arguments.seconds is not None and not 0 < arguments.seconds < 86400:
        raise bad_argument("--seconds", arguments.seconds, "more than 0")
    if not 1 <= arguments.threads <= settings.num_threads:
        raise bad_argument("--threads", arguments.threads, f"from 1 to {settings.num_threads}, as many as may be used")
    return sparsity.Sweep(types=_names("--type", arguments.type or types, sparsity.TYPES),
                          methods=_names("--method", arguments.method, sparsity.METHODS), peers=peers,
                          threads=arguments.threads, seconds=arguments.seconds or (1.0 if arguments.quick else 2.0))


def _cases(arguments: argparse.Namespace) -> list[sparsity.Case]:
    if arguments.seed < 0:
        raise bad_argument("--seed", arguments.seed, "0 or more")
    if arguments.matrix and (arguments.size or arguments.density):
        raise bad_argument("--matrix", "--size or --density beside it", "the file's own")
    files = _files(arguments.matrix)
    if arguments.quick:
        return _quick_cases(arguments, files)
    axes = _axes(arguments, sparsity.paper_axes())
    if files:
        return list(itertools.chain.from_iterable(axes.file_cases(file, arguments.seed) for file in files))
    cases = list(axes.cases(arguments.seed))
    if not cases:
        raise bad_argument("--block", arguments.block, "at least one that divides m and k")
    return cases


def _files(paths: Sequence[str]) -> list[sparsity.PatternFile]:
    """Read the files, each once; those that share a name go by their paths."""
    files = {path: sparsity.PatternFile.read(path) for path in dict.fromkeys(paths)}
    names = [file.name for file in files.values()]
    return [file if names.count(file.name) == 1 else replace(file, name=path) for path, file in files.items()]


def _quick_cases(arguments: argparse.Namespace, files: Sequence[sparsity.PatternFile]) -> list[sparsity.Case]:
    """Return those of the quick cases that lie on the axes that were given."""
    cases = sparsity.quick_cases(arguments.seed)
    if files:
        cases = [case for file in files for case in sparsity.quick_file_cases(file, arguments.seed)]
    every = sparsity.axes_of(cases)
    axes = _axes(arguments, every)
    kept = [case for case in cases if axes.meet(case)]
    if not kept:
        raise bad_argument("--quick", "axes that meet none of its cases", f"some of {every}")
    return kept


def _axes(arguments: argparse.Namespace, default: sparsity.Axes) -> sparsity.Axes:
    return sparsity.Axes(
        sizes=_list("--size", arguments.size, _size, "sizes such as 1024 or 512x2048") or default.sizes,
        n=_list("--n", arguments.n, _count, "whole numbers of at least 1") or default.n,
        densities=_list("--density", arguments.density, _density, "densities over 0 and up to 1, such as 1/16")
        or default.densities,
        blocks=_list("--block", arguments.block, _count, "whole numbers of at least 1") or default.blocks,
    )


def _list(option: str, given: str | None, read: Callable[[str], _T], allowed: str) -> list[_T]:
    """Read a list with commas; an item that cannot be read is refused by name."""
    found = []
    for item in (given or "").split(",") if given else []:
        try:
            found.append(read(item.strip()))
        except (ValueError, ZeroDivisionError):
            raise bad_argument(option, item, allowed) from None
    return found


def _count(item: str) -> int:
    value = int(item)
    if not 1 <= value <= 1 << 20:
        raise ValueError
    return value


def _size(item: str) -> tuple[int, int]:
    m, _, k = item.lower().partition("x")
    return _count(m), _count(k or m)


def _density(item: str) -> float:
    value = float(Fraction(item))
    if not 0 < value <= 1:
        raise ValueError
    return value


def _names(option: str, given: str, known: Collection[str]) -> list[str]:
    """Read a list of names, in any case of letters."""
    by_lower = {name.lower(): name for name in known}

    def read(item: str) -> str:
        if item.lower() not in by_lower:
            raise ValueError
        return by_lower[item.lower()]

    return list(dict.fromkeys(_list(option, given, read, ", ".join(known))))


@contextlib.contextmanager
def _created(path: str) -> Iterator[TextIO]:
    """Open a file for writing before any work is done, so that a bad path costs nothing."""
    try:
        stream = Path(path).open("w", encoding="utf-8", newline="")  # noqa: SIM115 -- closed below
    except OSError as error:
        raise bad_argument("file", path, f"a path that can be written ({error.strerror})") from error
    with stream:
        yield stream
