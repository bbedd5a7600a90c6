"""Reports: figures that agree with the plans, JSON that comes back the same, traces, comparisons, words."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import math
import os
import re
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

import poplibs_py
from poplibs_py import Profile, cast, cli, poplin, popops, poprand, popsparse
from poplibs_py.config import read_settings
from poplibs_py.errors import InvalidArgumentError, InvalidOptionError, InvalidTypeError, MemoryLimitWarning
from poplibs_py.planner.facts import Load, TileMemory, facts_of
from poplibs_py.report.comparison import Comparison
from poplibs_py.report.records import KINDS
from poplibs_py.report.sheet import page_of
from poplibs_py.report.trace import trace_of
from poplibs_py.report.verdict import amount, duration, fullest, headline, traded, trades

A = np.ones((96, 160), np.float16)
B = np.ones((160, 64), np.float16)
IMAGES, KERNELS = np.ones((2, 16, 12, 12), np.float16), np.ones((1, 32, 16, 3, 3), np.float16)


def run_all(target: str | None = None, proportion: float = 0.6) -> Profile:
    """A product twice, a convolution, an elementwise operation, a sparse product and random numbers."""
    w = popsparse.random_matrix(popsparse.random_pattern(64, 64, 8, 0.3, 1), "float32", 2)
    with poplibs_py.profile(target=target) as report:
        for _ in range(2):
            poplin.matmul(A, B, available_memory_proportion=proportion)
        poplin.convolution(IMAGES, KERNELS)
        popops.tanh(A)
        w @ np.ones((64, 16), np.float32)
        poprand.normal((3, 5), seed=1)
    return report


@pytest.fixture(scope="module", params=[None, "gc200"], ids=["host", "gc200"])
def report(request) -> Profile:
    return run_all(request.param)


@pytest.fixture(scope="module")
def modelled() -> Profile:
    return run_all("gc200")


# Figures -------------------------------------------------------------------------------------------


def test_calls_that_do_the_same_are_one_operation(report):
    data = report.data
    assert data.counts == (2, 1, 1, 1, 1)
    assert [op.op for op in data.operations] == [
        "poplin.matmul", "poplin.convolution", "popops.tanh", "popsparse.static.sparse_dense_matmul", "poprand.normal"]
    assert sum(data.wall_seconds) == pytest.approx(report.seconds)
    assert all(0 <= call.start <= call.end for call in data.calls)


def test_facts_are_the_plans_own(modelled):
    run, op = modelled.runs[2], modelled.data.operations[1]
    assert op.plan.cycles == run.plan.cycles == sum(p.cycles * p.times for p in op.plan.phases)
    assert (op.plan.temporary_bytes, op.plan.limit) == (run.plan.temp_bytes, run.plan.limit)
    assert op.plan.decisions["method"] == str(run.plan.method)
    assert op.loads["multiply-accumulates of a tile"].total == run.tile_macs.sum()
    assert op.flops == run.plan.problem.params.flops()


@pytest.mark.parametrize("proportion", [0.6, 0.02])
@pytest.mark.parametrize("target", ["gc200", "bow", "gc2"])
def test_what_lies_on_tiles_is_what_operands_and_results_are(target, proportion):
    for shapes in (((96, 160), (160, 64)), ((1000, 30), (30, 7)), ((512, 512), (512, 512))):
        plan = poplin.plan_matmul(*shapes, dtype="half", target=target, available_memory_proportion=proportion)
        facts = facts_of(plan)
        (rows, depth), (_, columns) = shapes
        tiles = poplibs_py.target.resolve_target(target).tiles
        for kind, size in (("operands", 2 * (rows * depth + depth * columns)), ("results", 2 * rows * columns)):
            held = facts.memory.on_tiles(kind)
            assert size <= held.sum() <= size + 2 * 2 * tiles  # a tile's share is rounded up to a whole element
            assert held.size == tiles
        temporaries = facts.memory.on_tiles("temporaries")
        assert temporaries.max() == plan.temp_bytes
        assert np.count_nonzero(facts.memory.in_all()) == plan.tiles_used
        assert facts.fits == (plan.fits and facts.memory.in_all().max() <= facts.tile_bytes)


def test_the_most_that_lives_in_a_phase_is_what_the_plan_counts():
    met = 0
    for shapes in (((96, 160), (160, 64)), ((2048, 512), (512, 1024)), ((64, 4096), (4096, 64))):
        for proportion in (0.6, 0.1, 0.03, 0.02):
            plan = poplin.plan_matmul(*shapes, dtype="half", target="gc200", available_memory_proportion=proportion)
            facts = facts_of(plan)
            assert len(facts.live) == len(facts.phases)
            assert max(facts.live) == plan.temp_bytes
            met += plan.serial_splits > 1
    assert met >= 3


def test_an_elementwise_operation_shows_its_vertices_and_where_it_lies(modelled):
    plan = modelled.runs[3].plan
    facts = modelled.data.operations[2].plan
    np.testing.assert_array_equal(facts.memory.in_all(), plan.tile_bytes())
    assert facts.tables[0].title == "Vertices"
    assert [row[2] for row in facts.tables[0].rows] == [str(c.vertices[0]) for c in plan.classes]
    in_place = facts_of(popops.plan_elementwise("tanh", (64, 64), dtype="half", target="gc200", in_place=True))
    assert not in_place.memory.on_tiles("results").any()


def test_plans_that_lost_are_told_with_what_they_cost(modelled):
    for i in (0, 1):  # the product and the convolution
        plan = modelled.runs[2 * i].plan
        costed = sorted(c.cycles for c in plan.explain() if c.cycles is not None)
        [told] = [own for own in modelled.data.operations[i].plan.tables if own.title.startswith("Plans that were")]
        assert told.title.split(": ")[1].startswith(f"{min(10, len(costed))} of {len(plan.explain())}, ")
        assert told.rows[0][1:] == (f"{plan.cycles:,}", f"{plan.temp_bytes:,}", "chosen")
        others = [c for c in costed if c != plan.cycles]
        assert [row[1] for row in told.rows if row[1] != f"{plan.cycles:,}"] == [
            f"{c:,}" for c in others[:len(told.rows) - costed.count(plan.cycles)]]
        assert all(row[0] in modelled.summary(details=True) for row in told.rows)


def test_only_operations_that_take_most_time_tell_the_plans_that_lost():
    with poplibs_py.profile(target="gc200") as report:
        for rows in range(8, 8 + 15):
            poplin.matmul(A[:rows], B)
    data = report.data
    told = {i for i, op in enumerate(data.operations) if any("considered" in own.title for own in op.plan.tables)}
    assert told == set(data.subjects()[:12])


@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_a_sparse_product_shows_its_plan_its_tiles_and_its_patterns_balance(kind):
    w = popsparse.random_matrix(popsparse.random_pattern(256, 512, 16, 0.1, 3), "float16", 1)
    with poplibs_py.profile(target="gc200") as report:
        getattr(popsparse, kind).sparse_dense_matmul(w, np.ones((512, 64), np.float16))
    [run], [op] = report.runs, report.data.operations
    assert op.plan.cycles == run.plan.cycles == sum(p.cycles * p.times for p in op.plan.phases)
    assert max(op.plan.live) == op.plan.temporary_bytes == op.plan.memory.on_tiles("temporaries").max()
    assert op.flops == 2 * w.n_blocks * 16 * 16 * 64
    assert op.loads["multiply-accumulates of a tile"].total == run.tile_macs.sum()
    blocks = op.loads["stored blocks of a block row"]
    assert (blocks.parts, blocks.total) == (16, w.n_blocks)


def test_the_fullest_tile_holds_most(modelled):
    held = fullest(modelled.data)
    assert held.bytes == max(op.plan.memory.in_all().max() for op in modelled.data.operations if op.plan.memory)
    memory = modelled.data.operations[held.operation].plan.memory
    assert held.kinds == {kind: memory.on_tiles(kind)[held.tile] for kind in KINDS}
    assert fullest(run_all().data) is None


def test_host_temporaries_are_those_that_are_allocated():
    poplin.matmul(A, B)
    poplibs_py.program.memory_peak(reset=True)
    with poplibs_py.profile() as report:
        poplin.matmul(A, B)
    assert report.data.operations[0].temporary_bytes == poplibs_py.program.memory_peak()


def test_a_limit_that_is_not_kept_is_told():
    with poplibs_py.profile() as report, pytest.warns(MemoryLimitWarning):
        poplin.matmul(A, B, available_memory_proportion=1e-6)
    op = report.data.operations[0]
    assert op.plan.limit < op.temporary_use
    assert not op.fits
    assert f"no: {op.name} takes {op.temporary_use:,} temporary bytes of {op.plan.limit:,}" in report.summary()
    [packed] = re.findall(r"id=pack0>([^<]*)<", page_of(report.data))
    bodies = gzip.decompress(base64.b64decode(packed)).decode()
    assert f"bytes of all threads, limit {op.plan.limit:,}, which was {op.plan.temporaries.became}" in bodies


def test_loads_and_tile_memory_of_no_parts():
    assert Load.of(np.zeros(0, np.int64)) == Load(0, 0, 0, 0, 0, ())
    assert Load.of(np.zeros(0, np.int64)).balance == 1.0
    work = np.random.default_rng(3).integers(0, 50, 1472)
    load = Load.of(work)
    assert max(load.bins) == load.most == work.max()
    held = np.repeat([5, 0, 5], [700, 3, 769])
    np.testing.assert_array_equal(TileMemory.of(operands=held).on_tiles("operands"), held)


# JSON ----------------------------------------------------------------------------------------------


def test_a_report_comes_back_from_json_the_same(report, tmp_path):
    report.save(tmp_path / "r.json")
    again = Profile.load(tmp_path / "r.json")
    assert again.data == report.data
    assert again.data.to_json() == report.data.to_json()
    assert again.summary(details=True) == report.summary(details=True)
    assert again.runs == []


def test_plans_are_written_once(modelled):
    fields = json.loads(modelled.data.to_json())
    assert len(fields["plans"]) == 5  # one for the two calls of the product, and none of random numbers' own
    assert len(fields["calls"]) == 6


@pytest.mark.parametrize("damage", [
    lambda f: f.pop("poplibs_report"), lambda f: f.update(poplibs_report=99), lambda f: f.pop("plans"),
    lambda f: f["calls"][0].__setitem__(0, 77), lambda f: f["calls"][0].__setitem__(2, "early"),
    lambda f: f["operations"][0].update(plan=12), lambda f: f["operations"][0].update(flops="many"),
    lambda f: f["operations"][0].pop("what"), lambda f: f["operations"][0].update(more=1),
    lambda f: f["plans"][0].update(phases=[3]), lambda f: f.update(threads=None), lambda f: f.update(operations=7),
])
def test_a_damaged_report_is_refused(modelled, damage, tmp_path):
    fields = json.loads(modelled.data.to_json())
    damage(fields)
    path = tmp_path / "r.json"
    path.write_text(json.dumps(fields))
    with pytest.raises(InvalidArgumentError, match=r"path: got .*r\.json.*; allowed: a report saved as \.json"):
        Profile.load(path)


def test_what_is_no_report_is_refused(tmp_path):
    for text in (b"", b"[]", b"{}", b"\xff\xfe", b"[" * 100_000):
        (tmp_path / "r.json").write_bytes(text)
        with pytest.raises(InvalidArgumentError, match="path"):
            Profile.load(tmp_path / "r.json")
    (tmp_path / "r.json").write_text("{}")
    with pytest.raises(InvalidArgumentError, match=r"saved as \.json \(its poplibs_report is None, not 1\)$"):
        Profile.load(tmp_path / "r.json")
    with pytest.raises(FileNotFoundError):
        Profile.load(tmp_path / "none.json")


def test_files_that_have_no_form_are_refused(report, tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"path: got .*; allowed: a name that ends in \.perfetto\.json"):
        report.save(tmp_path / "r.txt")
    with pytest.raises(InvalidTypeError, match="against"):
        report.save(tmp_path / "r.html", against=report.data)
    with pytest.raises(InvalidTypeError, match="before"):
        report.compare(3)
    assert list(tmp_path.iterdir()) == []


# The trace -----------------------------------------------------------------------------------------

_FIELDS = {"X": {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"},
           "C": {"name", "ph", "ts", "pid", "tid", "args"}}
"""Of the Trace Event Format, for the kinds of events that are written beside metadata."""

_METADATA = {"process_name": "name", "thread_name": "name", "process_sort_index": "sort_index",
             "thread_sort_index": "sort_index"}


def check_trace(trace) -> None:
    """What the Trace Event Format asks of an object with complete events, counters and metadata."""
    assert trace.keys() == {"traceEvents", "displayTimeUnit", "otherData"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    assert all(isinstance(value, str) for value in trace["otherData"].values())
    tracks: dict[tuple[int, int], list[tuple[int, int]]] = {}
    named: set[tuple[str, int, int | None]] = set()
    for event in trace["traceEvents"]:
        assert isinstance(event["name"], str)
        assert type(event["pid"]) is int
        assert isinstance(event["args"], dict)
        if event["ph"] == "M":
            assert event.keys() - {"tid"} == {"name", "ph", "pid", "args"}
            assert ("tid" in event) == event["name"].startswith("thread")
            [(key, value)] = event["args"].items()
            assert key == _METADATA[event["name"]]
            assert type(value) is (int if key == "sort_index" else str)
            place = event["name"], event["pid"], event.get("tid")
            assert place not in named
            named.add(place)
            continue
        assert event.keys() == _FIELDS[event["ph"]]
        assert type(event["tid"]) is int
        assert type(event["ts"]) in (int, float)
        assert 0 <= event["ts"] < math.inf
        assert ("process_name", event["pid"], None) in named
        if event["ph"] == "C":
            assert event["args"]
            assert all(type(value) is int for value in event["args"].values())
            continue
        assert 0 <= event["dur"] < math.inf
        assert ("thread_name", event["pid"], event["tid"]) in named
        assert isinstance(event["cat"], str)
        assert event["cat"]
        first = round(event["ts"] * 1e3)
        tracks.setdefault((event["pid"], event["tid"]), []).append((first, first + round(event["dur"] * 1e3)))
    assert tracks
    for slices in tracks.values():
        open_ends: list[int] = []
        for first, end in sorted(slices, key=lambda s: (s[0], -s[1])):
            while open_ends and open_ends[-1] <= first:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1]  # slices of a track nest
            open_ends.append(end)


def test_a_trace_is_what_its_format_asks_for(report, tmp_path):
    report.save(tmp_path / "r.perfetto.json")
    trace = json.loads((tmp_path / "r.perfetto.json").read_text(), parse_constant=pytest.fail)  # NaN is no JSON
    assert trace == json.loads(json.dumps(trace_of(report.data)))
    check_trace(trace)
    named = [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"]
    assert named[0].startswith("This CPU: ")
    assert named[1:] == ["gc200, modelled"] * (report.target is not None)
    ops = [e for e in trace["traceEvents"] if e.get("cat") == "op" and e["pid"] == 1]
    assert [e["name"] for e in ops] == [run.op for run in report.runs]


def test_a_modelled_operation_takes_its_cycles_in_the_trace(modelled):
    events = [e for e in trace_of(modelled.data)["traceEvents"] if e["pid"] == 2 and e["ph"] == "X"]
    ops = [e for e in events if e["cat"] == "op"]
    expected = [run.plan.cycles for run in modelled.runs if not run.lacking]
    assert len(expected) == 5
    assert [e["args"]["cycles"] for e in ops] == expected
    assert sum(e["dur"] for e in ops) == pytest.approx(sum(expected) / 1.33e3, abs=0.01)
    assert all(before["ts"] + before["dur"] <= after["ts"] + 1e-9 for before, after in pairwise(ops))
    phases = [e for e in events if e["cat"] == "phase" and e["tid"] == 0]
    assert sum(e["args"]["cycles"] * e["args"]["times"] for e in phases) == sum(expected)


# Words and comparisons -----------------------------------------------------------------------------


def test_the_headline_answers_what_is_asked_first(modelled):
    said = dict(headline(modelled.data))
    first = max(modelled.data.subjects(), key=lambda i: modelled.data.seconds[i])
    assert said["Most time"].startswith(modelled.data.names[first])
    assert "compute" in said["Why"]
    assert said["Fullest tile"].startswith(f"tile {fullest(modelled.data).tile} in ")
    assert said["Does it fit?"].startswith("yes: ")
    assert "1 of 5 operations ran on this CPU" in said["Not on gc200"]


def test_a_cpus_report_tells_the_kernel_and_what_bounds_it():
    with poplibs_py.profile() as report:
        poplin.matmul(A, B)
    said, [op] = dict(headline(report.data)), report.data.operations
    assert said["Why"].endswith(f"; kernel {op.kernel}")
    assert {"peak", "copies"} <= set(said["Why"].replace(";", " ").split())
    assert op.plan.considered[0] == (op.kernel, "chosen")
    assert all(verdict in report.summary(details=True) for _, verdict in op.plan.considered)


def test_an_elementwise_operation_tells_the_kernels_considered_for_each_of_its_own():
    codes = cast(np.ones(8, np.float32), "f143")
    with poplibs_py.profile() as report:
        popops.add(codes, np.ones(8, np.float16))
        cast(np.ones(8, np.float32), "float32")
    mixed, copied = report.data.operations
    assert mixed.kernel.count("), ") >= 2  # the codes are decoded, then added to
    assert ", ".join(name for name, verdict in mixed.plan.considered if verdict == "chosen") == mixed.kernel
    assert (copied.kernel, copied.plan.considered) == ("a copy", ())


def test_what_a_larger_proportion_bought_is_told():
    operands = np.ones((512, 256), np.float16), np.ones((256, 512), np.float16)
    reports = []
    for proportion in (0.01, 0.6):
        with poplibs_py.profile(target="gc200") as report:
            poplin.matmul(*operands, available_memory_proportion=proportion)
        reports.append(report)
    small, large = reports
    comparison = large.compare(small)
    said = dict(comparison.headline())
    a, b = small.runs[0].plan, large.runs[0].plan
    assert b.cycles < a.cycles
    assert f"{1 - b.cycles / a.cycles:.1%} fewer cycles ({a.cycles:,} to {b.cycles:,})" in said["What memory bought"]
    row = next(row for row in comparison.rows() if row[0].startswith("poplin.matmul"))
    assert "proportion 0.01 to 0.6" in row[-1]
    assert str(comparison) == comparison.summary()
    with poplibs_py.profile(target="gc200") as both:
        for proportion in (0.6, 0.01):
            poplin.matmul(*operands, available_memory_proportion=proportion)
    assert trades(both.data) == [[1, 0]]
    assert [name.partition("(")[2] for name in both.data.names] == ["proportion 0.6)", "proportion 0.01)"]
    assert dict(headline(both.data))["What memory bought"] == traded(both.data, [1, 0])


def test_what_a_larger_limit_bought_on_this_cpu_is_told():
    a = np.ones((256, 256), np.float16)
    with poplibs_py.profile() as report:
        for proportion in (0.01, None, 0.3):
            poplin.matmul(a, a, available_memory_proportion=proportion)
    data = report.data
    assert trades(data) == [[0, 2, 1]]
    told = dict(headline(data))["What memory bought"]
    first, last = (data.operations[i] for i in (0, 1))
    assert f"from limit {amount(first.plan.limit)} to no limit, " in told
    assert f"{duration(data.seconds[0])} to {duration(data.seconds[1])}" in told
    assert told.endswith(f"for {amount(last.temporary_use)} of temporaries of all threads in place of "
                         f"{amount(first.temporary_use)}")
    assert "several limits on temporary memory" in page_of(data)
    alone = [dataclasses.replace(data, operations=(data.operations[i],), calls=(dataclasses.replace(
        next(call for call in data.calls if call.operation == i), operation=0),)) for i in (0, 1)]
    assert dict(Comparison(*alone).headline())["What memory bought"] == told
    alone[1] = dataclasses.replace(alone[1], machine="another")
    assert "What memory bought" not in dict(Comparison(*alone).headline())


def test_machines_are_compared_operation_by_operation(modelled):
    bow = run_all("bow")
    rows = {row[0]: row for row in bow.compare(modelled).rows()}
    assert len(rows) == len(bow.data.operations)
    name = modelled.data.names[0]
    assert float(rows[name][3]) == pytest.approx(1.33 / 1.85, abs=0.005)  # the same cycles at another clock
    assert rows[name][-1] == "gc200 to bow"
    alone = Profile()
    alone._data = dataclasses.replace(bow.data, operations=bow.data.operations[:1], calls=bow.data.calls[:2])
    lacking = [row[-1] for row in alone.compare(modelled).rows()]
    assert lacking.count("only in A") == len(modelled.data.operations) - 1


def test_an_empty_report_says_so(tmp_path):
    with poplibs_py.profile() as report:
        pass
    assert report.summary() == "nothing ran"
    for ending in (".json", ".html", ".perfetto.json"):
        report.save(tmp_path / f"r{ending}")
    assert "Nothing ran." in (tmp_path / "r.html").read_text()
    assert Profile.load(tmp_path / "r.json").data == report.data
    assert "nothing" not in report.compare(report).summary()


# At the end of a program, on the command line ------------------------------------------------------


def test_engine_options_are_read_once_and_checked():
    def read(text):
        return read_settings({"POPLIBS_ENGINE_OPTIONS": text}).report_dir

    assert read('{"autoReport.all":"true","autoReport.directory":"./report"}') == "./report"
    assert read('{"autoReport.all":true}') == "."
    assert read('{"autoReport.all":"false","autoReport.directory":"x"}') is None
    assert read("{}") is read("") is None
    for wrong in ("[]", "autoReport", '{"autoReport.all":"yes"}', '{"autoReport.all":"true","autoReport.directory":3}'):
        with pytest.raises(InvalidArgumentError, match="allowed"):
            read(wrong)
    with pytest.raises(InvalidOptionError, match=r"autoReport\.al'.*did you mean 'autoReport\.all'"):
        read('{"autoReport.al":"true"}')


_PROGRAM = """
import numpy as np
from poplibs_py import poplin
if {runs}:
    for target in (None, "gc200"):
        poplin.matmul(np.ones((8, 8), np.float16), np.ones((8, 8), np.float16), target=target)
"""


@pytest.mark.parametrize("runs", [True, False])
def test_any_program_writes_a_report_at_its_end(runs, tmp_path):
    options = json.dumps({"autoReport.all": "true", "autoReport.directory": str(tmp_path / "a" / "b")})
    done = subprocess.run([sys.executable, "-c", _PROGRAM.format(runs=runs)], capture_output=True, text=True,
                          env=os.environ | {"POPLIBS_ENGINE_OPTIONS": options}, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    written = sorted(path.name for path in (tmp_path / "a" / "b").iterdir())
    assert written == ["report.html", "report.json", "report.perfetto.json"] * runs
    if runs:
        data = Profile.load(tmp_path / "a" / "b" / "report.json").data
        assert [op.plan.machine for op in data.operations] == ["host", "gc200"]


_FORKING = """
import os, sys
import numpy as np
from poplibs_py import poplin
x = np.ones((8, 8), np.float32)
poplin.matmul(x, x)
child = os.fork()
if child == 0:
    poplin.matmul(x, x)
    sys.exit()
os.waitpid(child, 0)
print(child)
"""


def test_a_process_that_was_forked_writes_a_report_of_its_own(tmp_path):
    options = json.dumps({"autoReport.all": "true", "autoReport.directory": str(tmp_path)})
    done = subprocess.run([sys.executable, "-c", _FORKING], capture_output=True, text=True,
                          env=os.environ | {"POPLIBS_ENGINE_OPTIONS": options}, check=True)
    child = int(done.stdout)
    calls = {name: len(Profile.load(tmp_path / f"{name}.json").data.calls) for name in ("report", f"report-{child}")}
    assert calls == {"report": 1, f"report-{child}": 2}


def test_a_folder_that_cannot_be_made_is_refused_at_import(tmp_path):
    (tmp_path / "file").write_text("")
    options = json.dumps({"autoReport.all": "true", "autoReport.directory": str(tmp_path / "file" / "sub")})
    done = subprocess.run([sys.executable, "-c", "import poplibs_py"], capture_output=True, text=True,
                          env=os.environ | {"POPLIBS_ENGINE_OPTIONS": options}, check=False)
    assert done.returncode != 0
    assert "autoReport.directory: got" in done.stderr


def test_the_command_line_shows_and_compares(modelled, tmp_path, capsys):
    bow = run_all("bow")
    modelled.save(tmp_path / "a.json")
    bow.save(tmp_path / "b.json")
    a, b = (str(tmp_path / name) for name in ("a.json", "b.json"))
    assert cli.main(["report", "show", a, "--details", "--html", a + ".html", "--trace", a + ".perfetto.json"]) == 0
    assert capsys.readouterr().out == modelled.summary(details=True) + "\n"
    check_trace(json.loads((tmp_path / "a.json.perfetto.json").read_text()))
    assert cli.main(["report", "compare", a, b, "--html", str(tmp_path / "c.html")]) == 0
    assert capsys.readouterr().out == bow.compare(modelled).summary() + "\n"
    assert "Compared: A before, B this report" in (tmp_path / "c.html").read_text()
    assert cli.main(["report", "compare", a, str(tmp_path / "c.html")]) == 2
    assert "allowed: a report saved as .json" in capsys.readouterr().err
