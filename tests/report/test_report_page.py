"""A report's page in a real browser: nothing is loaded or overflows, charts and entries are there, light and dark.

Skipped where Python's playwright or a Chromium is missing; it never installs one.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
import warnings
from collections.abc import Iterator
from html.parser import HTMLParser

import numpy as np
import pytest

import poplibs_py
from poplibs_py import poplin, popops, popsparse
from poplibs_py.ops import catalogue
from poplibs_py.planner.facts import TileMemory
from poplibs_py.report.chart import Axis, Lane, Layer, Slice, StackChart, Timeline
from poplibs_py.report.page import Entry, Page
from poplibs_py.report.records import Report
from poplibs_py.report.sheet import page_of
from poplibs_py.report.svg import draw
from poplibs_py.testing.cases import cases

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--disable-quic", "--no-first-run"]
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}

HALF = np.ones((128, 192), np.float16)


def products() -> None:
    poplin.matmul(HALF, HALF.T)


def convolutions() -> None:
    x, w = np.ones((2, 16, 14, 14), np.float16), np.ones((1, 32, 16, 3, 3), np.float16)
    y = poplin.convolution(x, w)
    poplin.convolution_input_gradient(y, w)
    poplin.calculate_weight_deltas(y, x)


def sparse_products() -> None:
    w = popsparse.random_matrix(popsparse.random_pattern(256, 256, 16, 0.2, 1), "float16", 2)
    popsparse.dynamic.sparse_dense_matmul(w, np.ones((256, 64), np.float16))
    popops.tanh(HALF)


def run(work, target: str | None) -> poplibs_py.Profile:
    with poplibs_py.profile(target=target) as report:
        work()
    return report


def many(report: Report, count: int) -> Report:
    """A report of so many operations, each of its own name, memory and figures."""
    rng = np.random.default_rng(5)
    made = []
    for i in range(count):
        op = report.operations[i % len(report.operations)]
        plan = dataclasses.replace(op.plan, problem=f"{op.plan.problem} {i}", cycles=op.plan.cycles + i)
        if plan.memory is not None:
            kinds = {kind: plan.memory.on_tiles(kind) * int(rng.integers(1, 9)) for kind in plan.memory.kinds}
            plan = dataclasses.replace(plan, memory=TileMemory.of(**kinds))
        made.append(dataclasses.replace(op, what=f"{op.what} number {i}", plan=plan))
    calls = [dataclasses.replace(report.calls[i % len(report.calls)], operation=i, start=i * 1e-3, end=i * 1e-3 + 5e-4)
             for i in range(count)]
    return dataclasses.replace(report, operations=tuple(made), calls=tuple(calls))


# Without a browser ---------------------------------------------------------------------------------


class Checker(HTMLParser):
    """Refuses anything that would load, and tags that do not close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        assert tag not in {"link", "img", "iframe", "object"}
        assert not any(name in ("src", "href") and not (value or "").startswith("data:") for name, value in attrs)
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("target", [None, "gc200"])
@pytest.mark.parametrize("work", [products, convolutions, sparse_products])
def test_a_page_is_whole_and_loads_nothing(work, target):
    html = page_of(run(work, target).data)
    checker = Checker()
    checker.feed(html)
    assert checker.open == []
    assert "http:" not in html.replace("http://www.w3.org/2000/svg", "")
    assert ("Code and the state of vertices are not counted" in html) == (target is not None)


@pytest.mark.parametrize("target", [None, "gc200"])
@pytest.mark.parametrize("name", sorted(catalogue))
def test_every_op_has_its_place_in_every_form(name, target, tmp_path):
    with poplibs_py.profile(target=target) as report:
        for case in cases(name):
            with warnings.catch_warnings(action="ignore"):
                catalogue[name].face(*case.operands, **case.keywords)
    for ending in (".html", ".json", ".perfetto.json"):
        report.save(tmp_path / f"r{ending}")
    checker = Checker()
    checker.feed((tmp_path / "r.html").read_text())
    assert checker.open == []
    assert poplibs_py.Profile.load(tmp_path / "r.json").data == report.data
    assert json.loads((tmp_path / "r.perfetto.json").read_text())["traceEvents"]
    summary = report.summary(details=True)
    assert all(op.name in summary for op in report.data.operations)
    assert report.compare(report).summary().count("only in") == 0


def test_empty_operations_have_a_page_too():
    with poplibs_py.profile(target="gc200") as report:
        poplin.matmul(np.ones((0, 4), np.float16), np.ones((4, 3), np.float16))
        popops.tanh(np.ones((0, 4), np.float16))
        popops.tanh(np.ones((0, 4), np.float16), target="host")
    assert page_of(report.data).count("<details class=entry") == len(report.data.operations) == 3
    assert report.summary()


def test_what_a_report_says_is_escaped():
    report = run(products, None).data
    op = dataclasses.replace(report.operations[0], what="<script>alert(1)</script>")
    html = page_of(dataclasses.replace(report, title="</script><b>", operations=(op,)))
    assert "<script>alert" not in html
    assert "</script><b>" not in html


def test_entries_are_one_list_whose_keys_are_named():
    page = Page("p")
    entry = Entry("one", ("a", "b", "c"), 0.5, (1.0, 2.0), Page(""))
    with pytest.raises(ValueError, match="entries"):
        page.entries([entry], ["time"])
    page.entries([entry], ["time", "rate"])
    with pytest.raises(ValueError, match="entries"):
        page.entries([entry], ["time", "rate"])


def test_a_stack_draws_each_layer_once_and_its_levels():
    layers = [Layer("a", [1, 1, 2], 0), Layer("b", [0, 0, 0], 1), Layer("c", [3, 3, 0], 2)]
    chart = StackChart("m", Axis("tile"), Axis("KiB"), [0, 1, 2, 3], layers, levels={"room": 9.0})
    text = draw(chart)
    assert text.count("<path class='f") == 2
    assert text.count("<rect class='hit'") == 3
    assert "tile 2: a 2, b 0, c 0 KiB" in text
    assert "room 9 KiB" in text
    with pytest.raises(ValueError, match="layers: got 2 values; allowed: 3"):
        StackChart("m", Axis("x"), Axis("y"), [0, 1, 2, 3], [Layer("a", [1, 2], 0)])
    with pytest.raises(ValueError, match="names"):
        StackChart("m", Axis("x"), Axis("y"), [0, 1], [Layer("a", [1], 0)], names=["p", "q"])


def test_slices_too_thin_to_be_seen_are_drawn_together():
    slices = [Slice(i * 1e-3, i * 1e-3 + 5e-4, f"op {i}", i) for i in range(10_000)]
    text = draw(Timeline("t", Axis("s"), [Lane("thread", slices)], wide=True))
    assert text.count("<rect class='slice") < 3000
    assert "short ones, op" in text
    assert len(text) < 600_000
    assert "nothing was measured" in draw(Timeline("t", Axis("s"), []))


def test_five_hundred_operations_fit_in_two_megabytes():
    report = run(lambda: (products(), convolutions(), sparse_products()), "gc200").data
    html = page_of(many(report, 500))
    assert html.count("<details class=entry") == 500
    assert len(html.encode()) <= 2 << 20


# In a browser --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(params=[(size, scheme) for size in SIZES for scheme in ("light", "dark")], ids="-".join)
def tab(browser, request) -> Iterator[object]:
    """A tab, which in the end has asked for nothing but files and told of no error."""
    size, scheme = request.param
    width, height = SIZES[size]
    context = browser.new_context(offline=True, color_scheme=scheme, viewport={"width": width, "height": height})
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: wrong.append(request.url) if not request.url.startswith("file:") else None)
    page.scheme = scheme
    yield page
    context.close()
    assert wrong == []


def luminance(colour: str) -> float:
    red, green, blue = (int(part) / 255 for part in colour[colour.index("(") + 1: -1].split(",")[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("compared", [False, True], ids=["host", "gc200 against bow"])
@pytest.mark.parametrize("work", [products, convolutions, sparse_products])
def test_a_page_shows_its_charts_and_opens_its_entries(tab, work, compared, tmp_path):
    report = run(work, "gc200" if compared else None)
    report.save(tmp_path / "r.html", against=run(work, "bow") if compared else None)
    tab.goto((tmp_path / "r.html").as_uri())
    tab.wait_for_selector("details.entry[open] svg")  # the first entry is open
    wide = tab.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1]
    ground, ink = (tab.evaluate(f"getComputedStyle(document.body).{what}") for what in ("backgroundColor", "color"))
    assert (luminance(ground) < luminance(ink)) == (tab.scheme == "dark")
    assert tab.locator("h2").all_inner_texts() == [*["Compared: A before, B this report"] * compared, "Memory",
                                                   "Execution trace", "Operations"]
    entries = tab.locator("details.entry")
    assert entries.count() == len(report.data.operations)
    for i in range(entries.count()):
        if i:
            entries.nth(i).locator("summary").first.click()
        entries.nth(i).locator("svg").first.wait_for()
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    told = tab.locator("summary", has_text="Plans that were considered").count()
    assert told == (sum(own.title.startswith("Plans that were") for op in report.data.operations
                        for own in op.plan.tables) if compared else 0)
    assert (told > 0) == compared
    texts = tab.evaluate("[...document.querySelectorAll('svg text')].filter(t => !t.textContent.trim()).length")
    assert texts < 40  # ticks between whole numbers


def test_entries_are_sorted_by_what_is_pressed(tab, tmp_path):
    report = run(lambda: (products(), convolutions()), "gc200")
    report.save(tmp_path / "r.html")
    tab.goto((tmp_path / "r.html").as_uri())
    names = report.data.names
    by_time = [names[i] for i in report.data.subjects()]
    assert tab.locator("details.entry > summary b").all_inner_texts() == by_time
    tab.get_by_role("button", name="first call").click()
    assert tab.locator("details.entry > summary b").all_inner_texts() == list(names)
    tab.get_by_role("button", name="time", exact=True).click()
    assert tab.locator("details.entry > summary b").all_inner_texts() == by_time


def test_five_hundred_operations_open_within_a_second(tab, tmp_path):
    report = run(lambda: (products(), convolutions()), "gc200").data
    (tmp_path / "r.html").write_text(page_of(many(report, 500)))
    tab.goto("about:blank")
    fastest = float("inf")
    for _ in range(10):  # what disturbs a machine can only slow it down
        began = time.perf_counter()
        tab.goto((tmp_path / "r.html").as_uri())
        tab.wait_for_selector("details.entry[open] svg")
        fastest = min(fastest, time.perf_counter() - began)
        if fastest < 1.0:
            break
    assert fastest < 1.0
