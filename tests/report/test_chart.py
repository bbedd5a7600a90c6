"""Charts: ranges, ticks, and the two ways to draw them."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.errors import InvalidArgumentError
from poplibs_py.report import svg, text
from poplibs_py.report.chart import Axis, LineChart, Series, reciprocal

SVG = "{http://www.w3.org/2000/svg}"
values = st.none() | st.floats(allow_nan=True, allow_infinity=True, width=32)
scales = st.sampled_from(["linear", "log2", "log10"])


def density_chart() -> LineChart:
    densities = [1 / 4, 1 / 16, 1 / 64]
    return LineChart(
        "Speed-up over dense & co",
        Axis("density", "log2", reciprocal, descending=True),
        Axis("speed-up", "log10"),
        [
            Series("block <16>", densities, [1.5, 5.0, 12.0]),
            Series("block 1", densities, [0.3, None, 2.0], dashed=True),
        ],
        {"break-even": 1.0},
    )


@st.composite
def charts(draw: st.DrawFn) -> LineChart:
    lines = draw(st.lists(st.lists(st.tuples(values.filter(lambda v: v is not None), values), max_size=6), max_size=9))
    series = [Series(f"line {i}", [x for x, _ in line], [y for _, y in line]) for i, line in enumerate(lines)]
    axes = [Axis(label, draw(scales), descending=draw(st.booleans())) for label in "xy"]
    title = draw(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20))
    return LineChart(title, *axes, series, {"level": 1.0})


@given(charts())
def test_any_chart_is_well_formed_svg_with_every_point_inside(chart):
    root = ElementTree.fromstring(svg.draw(chart))
    _, _, width, height = map(float, root.get("viewBox").split())
    marks = [c for c in root.iter(f"{SVG}circle") if c.get("class") == "mark"]
    assert len(marks) == sum(len(run) for s in chart.series for run in chart.points(s))
    for mark in marks:
        assert 0 <= float(mark.get("cx")) <= width
        assert 0 <= float(mark.get("cy")) <= height


@given(charts(), st.integers(20, 120), st.integers(3, 30))
def test_any_chart_draws_as_text_within_its_width(chart, width, height):
    lines = text.draw(chart, width=width, height=height).splitlines()
    if not chart.is_empty():
        assert len(lines) >= height + 4
        assert max(len(line) for line in lines[-height - 3:-1]) <= max(width, 24)


def test_svg_carries_titles_legend_and_styles():
    drawn = svg.draw(density_chart())
    root = ElementTree.fromstring(drawn)
    titles = [t.text for t in root.iter(f"{SVG}title")]
    assert "block <16>: density 1/16, speed-up 5" in titles
    assert len(titles) == 5
    texts = {t.text for t in root.iter(f"{SVG}text")}
    assert {"block <16>", "block 1", "break-even", "1/4", "1/64", "density", "speed-up"} <= texts
    assert "prefers-color-scheme:dark" in drawn
    assert "<style>" not in svg.draw(density_chart(), standalone=False)


def test_an_axis_ends_where_it_is_told_and_bounds_are_triangles():
    axis = Axis("break-even", "log2", reciprocal, end=1 / 2)
    chart = LineChart("", Axis("block", "log2"), axis, [Series("FP32", [1, 4], [1 / 8, 1 / 2], at_least=[4.0])])
    assert chart.y_range() == (1 / 8, 1 / 2)
    assert LineChart("", chart.x, axis, [Series("", [1], [1 / 2])]).y_range() == (1 / 4, 1 / 2)
    assert LineChart("", chart.x, axis, [Series("", [1], [1 / 8])]).y_range() == (1 / 8, 1 / 2)
    assert LineChart("", chart.x, axis, [Series("", [1], [3 / 4])]).y_range()[1] == 3 / 4
    root = ElementTree.fromstring(svg.draw(chart))
    assert [mark.tag for mark in root.iter() if mark.get("class") == "mark"] == [f"{SVG}circle", f"{SVG}path"]
    assert [t.text for t in root.iter(f"{SVG}title")][1].endswith("0.5 or above")


def test_a_gap_breaks_the_line():
    chart = density_chart()
    assert [len(run) for run in chart.points(chart.series[1])] == [1, 1]


def test_descending_axis_puts_the_largest_value_first():
    root = ElementTree.fromstring(svg.draw(density_chart()))
    first = next(c for c in root.iter(f"{SVG}circle") if c.get("class") == "mark")
    assert float(first.get("cx")) < 100


@given(scales, st.floats(1e-6, 1e6), st.floats(1.5, 1e6))
def test_ticks_lie_in_the_range_and_ascend(scale, low, ratio):
    high = low * ratio
    ticks = Axis("a", scale).ticks(low, high)
    assert ticks == sorted(ticks)
    assert all(low * (1 - 1e-6) <= tick <= high * (1 + 1e-6) for tick in ticks)
    assert 1 <= len(ticks) <= 12


def test_an_empty_chart_says_so():
    empty = LineChart("Nothing", Axis("x"), Axis("y", "log10"), [Series("none", [1.0, 2.0], [0.0, math.nan])])
    assert empty.is_empty()
    assert "nothing was measured" in svg.draw(empty)
    assert "nothing was measured" in text.draw(empty)


def test_bad_arguments():
    with pytest.raises(InvalidArgumentError, match="scale"):
        Axis("x", "cubic")
    with pytest.raises(InvalidArgumentError, match="y: got 1 values"):
        Series("s", [1.0, 2.0], [1.0])
