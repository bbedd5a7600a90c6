"""The sweep's cases, checks, records and charts."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
import time
from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.errors import InvalidArgumentError
from poplibs_py.report import svg
from poplibs_py.report.conditions import Conditions
from poplibs_py.report.peers import installed, limited_threads
from poplibs_py.report.sparsity import (
    COLUMNS,
    METHODS,
    PAPER_COLUMNS,
    TYPES,
    Axes,
    Case,
    PatternFile,
    Record,
    Sweep,
    csv_text,
    paper_axes,
    quick_cases,
    results_page,
    summary,
)
from poplibs_py.report.sparsity import methods as methods_module
from poplibs_py.report.sparsity import sweep as sweep_module
from poplibs_py.report.sparsity.charts import (
    break_even_chart,
    break_even_density,
    by_density,
    file_by_block,
    fill_chart,
    rate_chart,
    short_names,
)
from poplibs_py.report.sparsity.check import dense_check, forward_check, grad_a_check, grad_w_check
from poplibs_py.report.sparsity.methods import method_contestants
from poplibs_py.report.sparsity.record import LEAST_ROUNDS
from poplibs_py.report.sparsity.summary import headline, how_it_was_run, times
from poplibs_py.report.timing import Timing, take_turns

SVG = "{http://www.w3.org/2000/svg}"
SMALL = Case(64, 96, 8, 1 / 4, 8)


@given(st.sampled_from([1, 2, 8]), st.integers(1, 8), st.integers(1, 8), st.floats(0.01, 1), st.integers(0, 1000))
def test_a_case_draws_the_paper_s_number_of_blocks(block, rows, columns, density, seed):
    case = Case(rows * block, columns * block, 3, density, block, seed)
    w = case.weights("FP32")
    assert w.n_blocks == math.ceil(density * rows * columns)
    assert w.shape == (case.m, case.k)
    assert np.abs(w.blocks).max() <= np.float32(math.sqrt(3 / (density * case.k)))
    assert w.equals(case.weights("FP32"))


def test_values_have_the_paper_s_distribution():
    case = Case(512, 512, 64, 1 / 16, 4)
    dense = case.weights("FP32").to_dense(np.float64)
    assert case.inputs.shape == (512, 64)
    assert np.abs(case.inputs).max() <= math.sqrt(3)
    # 32,768 results of unit variance, whose sample variance strays from 1 by five deviations once in a million runs.
    spread = (dense @ case.inputs).var()
    assert abs(spread - 1) < 5 * math.sqrt(2 / 512)  # rows share X: 512 rows count as independent
    assert case.pattern(0) != case.pattern(1)
    assert case.pattern(0).n_blocks == case.pattern(1).n_blocks


def test_fp8_weights_fill_the_format():
    w = SMALL.weights("FP8")
    top = np.abs(w.blocks.astype(np.float32)).max()
    assert TYPES["FP8"].max / 4 < top <= TYPES["FP8"].max


def test_axes():
    assert sum(1 for _ in paper_axes().cases()) == 6 * 5 * 5 * 4
    cases = list(Axes([(24, 32)], [4], [0.5], [1, 8, 16]).cases())
    assert [case.block for case in cases] == [1, 8]  # 16 does not divide 24
    assert {case.n for case in quick_cases()} == {16, 256, 1024}


@pytest.mark.parametrize(("name", "value"), [("m", 0), ("n", -1), ("density", 0.0), ("density", 1.5), ("block", 7)])
def test_bad_cases(name, value):
    with pytest.raises(InvalidArgumentError, match=name):
        Case(**{"m": 64, "k": 96, "n": 8, "density": 0.25, "block": 8} | {name: value})


@pytest.mark.parametrize("type_name", TYPES)
def test_checks_take_the_rounded_truth_and_refuse_a_wrong_answer(type_name):
    w = SMALL.weights(type_name)
    x, dy = (a.astype(TYPES[type_name].dtype) for a in (SMALL.inputs, SMALL.gradients))
    dense, x64, dy64 = w.to_dense(np.float64), x.astype(np.float64), dy.astype(np.float64)
    full = dy64 @ x64.T
    row = np.repeat(np.arange(8), np.diff(w.row_offsets))
    blocks = np.stack([full[r * 8:r * 8 + 8, c * 8:c * 8 + 8] for r, c in zip(row, w.column_indices, strict=True)])
    cases = [
        (forward_check(w, x, flushes=False), dense @ x64),
        (grad_a_check(w, dy, flushes=False), dense.T @ dy64),
        (grad_w_check(w, dy, x, flushes=False), blocks),
        (dense_check(dense.astype(np.float32), x), dense @ x64),
    ]
    for check, exact in cases:
        error, share = check.judge(exact.astype(np.float32))
        assert 0 <= share <= 1
        assert error <= np.abs(check.ball.radius).max()
        for wrong in (exact + 1, np.full_like(exact, np.nan), exact[:-1], exact[:, :-1]):
            assert check.judge(wrong.astype(np.float32))[1] > 1


def test_records_have_the_paper_s_columns_first():
    assert COLUMNS[:11] == PAPER_COLUMNS == (
        "m", "k", "n", "density", "block_size", "type", "device", "method", "valid", "flop_count", "flop_rate")
    record = Record(1024, 1024, 64, 1.0, None, "FP32", "CPU", "dense", True, 2e9, 1e11, plan='a "plan", with commas')
    rows = list(csv.DictReader(io.StringIO(csv_text([record, record]))))
    assert len(rows) == 2
    assert rows[0]["block_size"] == ""
    assert rows[0]["time_s"] == ""
    assert rows[0]["plan"] == 'a "plan", with commas'
    assert float(rows[0]["flop_rate"]) == 1e11


@pytest.fixture(scope="module")
def records() -> list[Record]:
    sweep = Sweep(seconds=0.02)
    with limited_threads(1):
        return [r for block in (1, 8) for density in (1 / 4, 1 / 16)
                for r in sweep.run(Case(64, 64, 16, density, block))]


def test_every_contestant_is_checked_timed_and_right(records):
    assert {r.library for r in records} == {"poplibs_py", *installed()}
    for r in records:
        assert r.valid, r
        assert r.time_s > 0
        assert r.rounds >= LEAST_ROUNDS or r.few_rounds in ("1 round", *(f"{n} rounds" for n in range(2, 7)))
        assert r.rounds >= LEAST_ROUNDS or r.library != "poplibs_py"
        assert r.flop_rate == pytest.approx(r.flop_count / r.time_s)
        assert r.flop_count == 2 * r.m * r.k * r.n * r.density
        assert (r.block_size is None) == (r.method == "dense")
        assert 0 <= r.err_over_bound <= 1


def test_our_rows_carry_ratios_and_peak(records):
    ours = [r for r in records if r.library == "poplibs_py"]
    assert {r.case for r in ours} == {1, 2, 3, 4}
    for r in ours:
        assert r.x_numpy > 0
        assert r.x_scipy > 0
        assert r.of_peak == pytest.approx(r.flop_rate / r.peak_flop_rate)
        rivals = [p.time_s for p in records if p.case == r.case and p.library == "scipy"]
        assert r.x_scipy == pytest.approx(min(rivals) / r.time_s)
        if r.method == "dense":
            assert r.x_dense == 1
            assert r.of_ideal is None
        else:
            assert r.of_ideal == pytest.approx(r.x_dense / (1 / r.density))


def test_the_peak_is_the_fastest_probe_of_the_run(monkeypatch):
    fast, slow = Timing(1e-12, 1e-12, 3), Timing(1.0, 1.0, 3)
    given = iter([fast, slow])
    monkeypatch.setattr(sweep_module, "take_turns", lambda calls, **_: [next(given)] * len(calls))
    sweep = Sweep(types=["FP32"], methods=["static"], peers=())
    first, later = (sweep.run(SMALL)[0] for _ in range(2))
    assert later.peak_flop_rate >= first.peak_flop_rate  # as much again, for each probe counts its operations
    assert later.of_peak < first.of_peak


RUN = Conditions("poplibs-py bench sparsity --size 64", 1, {"float32": 1e11, "bfloat16": 2e11}, 2e10, "abc123", "today")


def section(html: str, heading: str) -> str:
    """What stands below a heading of a page."""
    return html.split(f"<h2>{heading}</h2>")[1].split("<h2>")[0]


def drawings(part: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(found) for found in re.findall("<svg.*?</svg>", part)]


def words(drawing: ElementTree.Element, anchor: str | None = None) -> list[str]:
    """The texts of a drawing: all of them, or those set in one way, as the ticks of y are to the left."""
    return [t.text for t in drawing.iter(f"{SVG}text") if anchor in (None, t.get("text-anchor"))]


def test_page_of_records(records):
    html = results_page(records, RUN)
    assert html.count("<svg") >= 2
    assert f"{len(records)} rows" in html
    assert "Nothing was measured" in results_page([], RUN)
    for what in ("commit abc123", "today", "poplibs-py bench sparsity --size 64", "FP32 FMA 100 GFLOP/s",
                 "BF16 dot 200 GFLOP/s", "memory 20.0 GB/s", "on 1 thread", "rows: medians of 7"):
        assert what in section(html, "How it was run")
    for heading in ("Speed-up over dense, by density", "Share of the ideal speed-up",
                    "Speed-up over dense, by block size"):
        found = drawings(section(html, heading))
        assert [words(drawing)[0].split(",")[0] for drawing in found] == list(TYPES)
        assert len({tuple(words(drawing, "end")) for drawing in found}) == 1  # one scale
        assert all("dynamic pattern" in words(drawing) for drawing in found)
    assert "100%" in words(drawings(section(html, "Share of the ideal speed-up"))[0], "end")


def test_rows_of_few_rounds_say_so(records):
    few, *others = (replace(r, rounds=LEAST_ROUNDS) for r in records)
    few.rounds = 3
    table = section(results_page([few, *others], RUN), "Every measurement").split("<table>")[1]
    assert table.count("<td class=words>3 rounds</td>") == 1
    assert ">3 rounds<" not in section(results_page(others, RUN), "Every measurement")
    told = dict(how_it_was_run([few, *others], RUN))["rounds"]
    assert told.startswith(f"{len(others)} rows: medians of 7 rounds; 1 row, of slow products")
    assert csv_text([few]).splitlines()[1].split(",")[COLUMNS.index("rounds")] == "3"


def test_headline_tells_worst_median_and_best_of_one_block_size_and_beside_what():
    def row(block: int, density: float, x_dense: float, x_scipy: float, kind: str = "FP32", source: str = "") -> Record:
        return Record(64, 64, 8, density, block, kind, "CPU", "static_sparse", True, 1e6, 1e9, time_s=1e-3, rounds=7,
                      source=source, x_dense=x_dense, x_scipy=x_scipy, of_ideal=x_dense * density)

    rows = [row(16, 1 / 2, 1.5, 20), row(16, 1 / 4, 2.5, 30), row(16, 1 / 8, 6.0, 70), row(1, 1 / 2, 0.5, 2),
            row(1, 1 / 8, 3.0, 4), row(16, 1 / 2, 1.25, 9, "BF16")]
    heads, table = headline(rows, ["scipy"])
    assert heads == ["format, block", "cases", "x dense", "of ideal", "x scipy"]
    assert table == [
        ["FP32, 1", 2, "0.50 .. 1.8 .. 3.0", "25% .. 31% .. 38%", "2.0 .. 3.0 .. 4.0"],
        ["FP32, 16", 3, "1.5 .. 2.5 .. 6.0", "62% .. 75% .. 75%", "20 .. 30 .. 70"],
        ["BF16, 16", 1, "1.2", "62%", "9.0"],
    ]
    glance = section(results_page(rows, RUN), "At a glance: static FP32, block 16")
    cards = re.findall("<b>(.*?)</b><span>(.*?)</span>", glance)
    assert [value for value, _ in cards] == ["2.5x", "75%", "30x"]
    assert cards[0][1].startswith("as fast as our own dense product: median of 3 cases. "
                                  "Worst 1.5x (density 1/2, n = 8), best 6.0x (density 1/8, n = 8)")
    assert "of the ideal speed-up" in cards[1][1]
    assert "SciPy&#x27;s fastest route" in cards[2][1]
    heads, table = headline([row(4, 1 / 2, 1, 1, source=name) for name in ("a", "b")], [])
    assert heads[0] == "file"
    assert [cells[:3] for cells in table] == [["a", "FP32, 4", 1], ["b", "FP32, 4", 1]]


def file_rows() -> list[Record]:
    """Two files of one shape, three block sizes each, static and dynamic, in two formats, beside SciPy."""
    rows = []
    for case, (source, block) in enumerate(itertools.product(("first_layer.smtx", "second_layer.smtx"), (1, 4, 16))):
        common = {"source": source, "case": case, "rounds": 7, "time_s": 1e-3 * (case + 1)}
        for kind, method in itertools.product(("FP32", "BF16"), ("static_sparse", "dynamic_sparse")):
            rows.append(Record(64, 64, 8, block / 16, block, kind, "CPU", method, True, 1e6, 1e9, x_dense=1.5 + case,
                               x_scipy=3.0, of_ideal=(1.5 + case) * block / 16, **common))
        rows.append(Record(64, 64, 8, block / 16, block, "FP32", "CPU", "csr_sparse", True, 1e6, 1e9, library="scipy",
                           **common))
    return rows


def test_files_are_told_by_name_and_never_joined():
    rows = file_rows()
    chart = file_by_block(rows, "FP32", 8)
    assert {(s.label, tuple(s.x), s.companion) for s in chart.series} == {
        (label, (1, 4, 16), label.endswith("dynamic"))
        for label in ("first", "first, dynamic", "second", "second, dynamic")}
    assert len({(s.colour, s.companion) for s in chart.series}) == 4
    assert {tuple(s.y) for s in chart.series} == {(1.5, 2.5, 3.5), (4.5, 5.5, 6.5)}
    html = results_page(rows, RUN)
    for heading in ("Files: speed-up over dense, by block size", "Files: share of the ideal speed-up"):
        found = drawings(section(html, heading))
        assert [words(drawing)[0] for drawing in found] == ["FP32, n = 8", "BF16, n = 8"]
        assert len({tuple(words(drawing, "end")) for drawing in found}) == 1
        assert all({"first", "second", "dynamic pattern"} <= set(words(drawing)) for drawing in found)
        assert all(len(list(drawing.iter(f"{SVG}polyline"))) == 4 for drawing in found)
    found = drawings(section(html, "Files beside the other libraries"))
    assert [words(drawing)[0] for drawing in found] == ["first, n = 8", "second, n = 8"]
    assert all({"ours, FP32", "ours, BF16", "scipy"} <= set(words(drawing)) for drawing in found)
    assert [s.label for s in fill_chart(rows).series] == ["first", "second"]
    assert "<h2>Speed-up over dense, by density</h2>" not in html
    assert "<h2>Break-even</h2>" not in html
    for name in ("first_layer.smtx", "second_layer.smtx"):
        assert html.count(f"<td class=words>{name}</td>") == 6 + 15  # the headline's rows and the measurements
    assert COLUMNS.index("source") == len(PAPER_COLUMNS) + 1
    rates, ratios = summary(rows, ["scipy"]).split("\n\n")
    assert rates.startswith("Static products of files, n = 8")
    assert rates.splitlines()[1].split() == ["file", "format", "block", "1", "block", "4", "block", "16"]
    assert rates.splitlines()[3].split() == ["first_layer.smtx", "density", "stored", "1/16", "1/4", "1"]
    assert [line.split()[0] for line in ratios.splitlines()[4:]] == ["first_layer.smtx"] * 6 + ["second_layer.smtx"] * 6


def test_files_by_n():
    rows = [Record(64, 64, n, 1 / 4, block, "FP32", "CPU", "static_sparse", True, 1e6, 1e9, time_s=1e-3, rounds=7,
                   source="w.smtx", x_dense=2.0) for n, block in ((4, 1), (8, 1), (8, 4), (16, 1))]
    (drawing,) = drawings(section(results_page(rows, RUN), "Files: speed-up over dense, by n"))
    assert words(drawing)[0] == "w, block 1, static"
    assert len([mark for mark in drawing.iter() if mark.get("class") == "mark"]) == 3


@given(st.lists(st.text("ab._-", min_size=1, max_size=30), unique=True), st.integers(9, 40))
def test_short_names_differ_and_fit(names, most):
    short = short_names(names, most)
    assert list(short) == names
    assert len(set(short.values())) == len(names)
    assert all(len(text) <= most + len(" (30)") for text in short.values())
    assert all(short.values())


def test_chart_leaves_invalid_rows_out(records):
    chart = by_density(records, "FP32", (64, 64, 16))
    assert not chart.is_empty()
    for r in records:
        r.valid = False
    assert by_density(records, "FP32", (64, 64, 16)).is_empty()
    for r in records:
        r.valid = True


def test_summary_of_records(records):
    rates, ratios = summary(records, ["scipy"]).split("\n\n")
    assert rates.startswith("Static products, m = k = 64, n = 16")
    assert [line.split("  ")[0] for line in rates.splitlines()[3:]] == [
        f"{kind}, {block}" for kind in TYPES for block in (1, 8)]
    assert rates.splitlines()[1].split() == ["format,", "block", "density", "1/4", "1/16"]
    row = next(r for r in records if (r.method, r.type, r.block_size, r.density) == ("static_sparse", "BF16", 8, 1 / 4))
    assert f"{row.flop_rate / 1e9:.0f} ({times(row.x_dense)})" in rates
    of_scipy = [r.x_scipy for r in records if (r.method, r.type, r.block_size) == ("static_sparse", "FP32", 8)]
    line = next(line for line in ratios.splitlines() if line.startswith("FP32, 8"))
    assert [float(value) for value in line.split("  ")[-1].split(" .. ")] == pytest.approx(
        [min(of_scipy), np.median(of_scipy), max(of_scipy)], rel=0.06)  # two digits are shown
    assert "x scipy" not in summary(records, [])
    assert summary([], ["scipy"]) == ""


def test_shapes_that_are_not_square_are_named_and_kept_apart():
    def row(m: int, k: int, n: int) -> Record:
        return Record(m, k, n, 0.275, 8, "FP32", "CPU", "static_sparse", True, 1e6, 1e9, time_s=1e-3, x_dense=2.0)

    rows = [row(128, 256, 8), row(128, 128, 8), row(128, 256, 16)]
    html = results_page(rows, RUN)
    assert "m = 128, k = 256, block 8, density 0.275" in html
    assert "FP32, m = k = 128, n = 8" in html
    chart = by_density(rows, "FP32", (128, 256, 16))
    assert [len(s.x) for s in chart.series] == [1]
    assert "density 0.275" in str(Case(128, 256, 8, 0.275, 8))


def test_break_even():
    assert break_even_density([(1 / 16, 2.0), (1 / 4, 0.5)]) == pytest.approx(1 / 8)
    assert break_even_density([(1 / 16, 0.5), (1 / 4, 0.2)]) is None
    assert break_even_density([]) is None


def test_break_even_chart_marks_what_was_faster_everywhere():
    rows = [Record(64, 64, 8, density, block, "FP32", "CPU", "static_sparse", True, 1e6, 1e9, x_dense=x_dense)
            for block, density, x_dense in [(1, 1 / 2, 0.5), (1, 1 / 8, 2.0), (8, 1 / 2, 1.5), (8, 1 / 8, 6.0)]]
    chart = break_even_chart(rows, (64, 64, 8))
    assert chart.series[0].y == pytest.approx([1 / 4, 1 / 2])
    assert list(chart.series[0].at_least) == [8.0]
    assert chart.y_range()[1] == 1 / 2


def test_break_even_hides_no_format():
    rows = [Record(64, 64, 8, density, block, kind, "CPU", "static_sparse", True, 1e6, 1e9, x_dense=2.0)
            for kind in TYPES for block in (1, 4) for density in (1 / 2, 1 / 8)]
    drawing = ElementTree.fromstring(svg.draw(break_even_chart(rows, (64, 64, 8))))
    points = [(float(hit.get("cx")), float(hit.get("cy"))) for hit in drawing.iter() if hit.get("class") == "hit"]
    assert len(points) == 2 * len(TYPES)
    assert min(math.dist(a, b) for i, a in enumerate(points) for b in points[:i]) > 11


def test_chart_of_peers_takes_each_one_s_fastest_route(records):
    series = {s.label: s for s in rate_chart(records, (64, 64, 16), 8).series}
    assert "numpy (dense)" in series
    for name, line in series.items():
        if not name.startswith("ours"):
            for density, rate in zip(line.x, line.y, strict=True):
                ours = next(r for r in records if (r.method, r.type, r.block_size, r.density)
                            == ("static_sparse", "FP32", 8, density))
                assert rate == pytest.approx(ours.flop_rate / 1e9 / getattr(ours, f"x_{name.split()[0]}"))


def test_a_slow_call_runs_once_alone():
    calls = []

    def slow() -> None:
        calls.append(time.sleep(0.002))

    fast, once = take_turns([lambda: None, slow], seconds=0.01)
    assert len(calls) == once.rounds == 1
    assert once.seconds >= 0.002
    assert fast.rounds >= 3


def test_slow_calls_and_losers_take_part_in_fewer_rounds():
    order: list[str] = []
    clock = [0.0]

    def call(name: str, seconds: float) -> Callable[[], None]:
        def run() -> None:
            order.append(name)
            clock[0] += seconds
        return run

    spent = {"fast": 0.06, "wins": 0.06, "loses": 0.1, "slow": 0.3, "slowest": 0.7, "near": 0.08, "short": 0.001,
             "also short": 0.002}
    groups = [None, "peer", "peer", None, None, "peer", "other", "other"]
    timings = take_turns([call(name, seconds) for name, seconds in spent.items()], seconds=0.1, least_rounds=7,
                         longest=1.0, rivals=groups, clock=lambda: clock[0])
    assert [t.rounds for t in timings] == [7, 7, 3, 3, 1, 7, 7, 7]
    assert [t.seconds for t in timings] == pytest.approx(list(spent.values()))
    turns = "".join(order[len(spent):]).split("fast")  # the first call of each is before the rounds
    assert order.count("slowest") == 1
    assert [sum("slow" in turn for turn in turns[i:i + 4]) for i in (0, 4)] in ([1, 2], [2, 1])  # spread over all
    with pytest.raises(InvalidArgumentError, match="rivals"):
        take_turns([print], rivals=[1, 2])
    with pytest.raises(InvalidArgumentError, match="longest"):
        take_turns([print], longest=-1)


def test_hopeless_routes_are_left_out_of_larger_cases_alone(monkeypatch):
    def contestants(case, libraries, tasks, types):
        for kind in ("FP32", "FP16"):
            yield methods_module.Contestant("torch", "dense", kind, lambda: None, lambda: (0.0, 0.0), 1)

    monkeypatch.setattr(sweep_module, "peer_contestants", contestants)
    monkeypatch.setattr(sweep_module, "peak_probes", lambda threads: {})
    monkeypatch.setattr(sweep_module, "take_turns",
                        lambda calls, **_: [Timing(s, s, 7) for s in (1e-3, 2e-2)][:len(calls)])
    sweep = Sweep(methods=[], peers=["torch"])
    sizes = [(64, 8), (64, 16), (64, 4), (64, 4), (64, 8)]
    seen = [[r.type for r in sweep.run(Case(m, 64, n, 1 / 2, 8)) if r.method == "dense"] for m, n in sizes]
    assert seen == [["FP32", "FP16"], ["FP32"], ["FP32", "FP16"], ["FP32"], ["FP32"]]


def test_turns_are_taken_in_rounds():
    counts = [0, 0]

    def count(index: int) -> None:
        counts[index] += 1

    timings = take_turns([lambda: count(0), lambda: count(1)], seconds=0.01, most_rounds=5)
    assert all(3 <= t.rounds <= 5 for t in timings)
    assert all(0 < t.least <= t.seconds for t in timings)
    assert min(counts) > 5


@pytest.mark.parametrize("task", ["forward", "grad_a", "grad_w"])
def test_every_pattern_that_is_timed_is_judged(monkeypatch, task):
    product = methods_module._OPS["dynamic"][task]

    def wrong_after_the_first(w, *right, out):
        met.append(w)
        result = product(w, *right, out=out)
        result[...] += w is not met[0]
        return result

    met: list[object] = []
    monkeypatch.setitem(methods_module._OPS["dynamic"], task, wrong_after_the_first)
    (contestant,) = method_contestants(SMALL, "FP32", ["dynamic" if task == "forward" else f"dynamic_{task}"])
    assert contestant.judge()[1] > 1
    assert len(met) == 2


@pytest.mark.parametrize("block", [1, 8])
def test_real_matrices_are_right_in_every_type_and_pass(shared_data, block):
    files = sorted((shared_data / "dlmc").glob("*.smtx"))
    assert len(files) == 8
    for path in files:
        source = PatternFile.read(path)
        case = Case.from_file(source, n=12, block=block)
        assert case.pattern().n_blocks <= source.matrix.nnz
        for type_name in TYPES:
            for contestant in method_contestants(case, type_name, METHODS):
                error, share = contestant.judge()
                assert share <= 1, f"{path.name} {type_name} {contestant.method}: error {error}, {share} of the bound"
