"""Charts: ranges, ticks, and the two ways to draw them."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.errors import InvalidArgumentError
from poplibs_py.report import svg, text
from poplibs_py.report.chart import Axis, LineChart, Series, reciprocal, same_scale

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


def test_a_long_legend_of_a_text_takes_several_lines():
    lines = [Series(f"a file of layer {i}", [1, 2], [3, 4]) for i in range(5)]
    drawn = text.draw(LineChart("", Axis("x"), Axis("y"), lines, {"level": 3.5}), width=60).splitlines()
    legend = drawn[drawn.index(next(line for line in drawn if line.lstrip().startswith("x    y: y"))):]
    assert len(legend) == 3
    assert max(map(len, drawn)) <= 60
    assert all(any(s.label in line for line in legend) for s in lines)
    assert legend[-1].endswith("··· level")


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


def centres(drawn: str) -> dict[str, list[tuple[float, float]]]:
    """Where the points of each group of a drawing lie, by the group's class."""
    return {
        group.get("class"): [(float(hit.get("cx")), float(hit.get("cy"))) for hit in group.iter()
                             if hit.get("class") == "hit"]
        for group in ElementTree.fromstring(drawn) if group.tag == f"{SVG}g" and group.find(f"{SVG}g") is not None
    }


def test_points_side_by_side_do_not_cover_each_other():
    lines = [Series(name, [1, 4, 16], [1 / 2] * 3, at_least=[4]) for name in ("FP32", "BF16", "FP16", "FP8")]
    axes = Axis("block", "log2"), Axis("break-even", "log2", reciprocal)
    drawn = svg.draw(LineChart("", *axes, lines, side_by_side=True))
    points = [point for group in centres(drawn).values() for point in group]
    assert len(points) == 12
    assert min(math.dist(a, b) for i, a in enumerate(points) for b in points[:i]) > 11  # triangles are 11 wide
    assert "polyline" not in drawn
    assert len({at for group in centres(svg.draw(LineChart("", *axes, lines))).values() for at in group}) == 3


def test_lines_right_under_others_are_wider():
    lines = [Series(name, [1, 2], [3, 4]) for name in "abc"]
    root = ElementTree.fromstring(svg.draw(LineChart("", Axis("x"), Axis("y"), lines)))
    widths = [float(line.get("style", "stroke-width:2.2").partition(":")[2]) for line in root.iter(f"{SVG}polyline")]
    radii = [float(mark.get("r")) for mark in root.iter() if mark.get("class") == "mark"][::2]
    assert widths == sorted(widths, reverse=True)
    assert radii == sorted(radii, reverse=True)
    assert len(set(widths)) == len(set(radii)) == 3
    assert "stroke-width" not in svg.draw(LineChart("", Axis("x"), Axis("y"), lines[:1]), standalone=False)


def test_a_companion_has_another_shade_and_shape_and_one_legend():
    lines = [Series("FP32", [1, 2], [3, 4], colour=0), Series("FP16", [1, 2], [3, 5], colour=1),
             *(Series(f"FP{bits}, dynamic", [1, 2], [3, 4], companion=True, colour=i, in_legend=False)
               for i, bits in enumerate((32, 16)))]
    drawn = svg.draw(LineChart("", Axis("x"), Axis("y"), lines, companions="dynamic"))
    root = ElementTree.fromstring(drawn)
    shapes = {group.get("class"): {mark.tag for mark in group.iter() if mark.get("class") == "mark"}
              for group in root if group.get("class") in ("c0", "c1", "p0 hollow", "p1 hollow") and len(group) > 2}
    assert shapes == {"c0": {f"{SVG}circle"}, "c1": {f"{SVG}circle"}, "p0 hollow": {f"{SVG}rect"},
                      "p1 hollow": {f"{SVG}rect"}}
    palettes = [dict(part.split(":") for part in rule.split(";") if part.startswith("--"))
                for rule in drawn.replace("}", "{").split("{") if "--line0" in rule and "--pale0" in rule]
    assert len(palettes) == 2  # light and dark
    for colours in palettes:
        shades = [colours[f"--{name}{i}"] for name in ("line", "pale") for i in range(svg.COLOURS)]
        assert len(set(shades)) == 2 * svg.COLOURS
    texts = [t.text for t in root.iter(f"{SVG}text")]
    assert texts.count("dynamic") == 1
    assert "FP32, dynamic" not in texts


def test_charts_that_are_compared_show_one_range():
    axes = Axis("x"), Axis("y", "log10")
    empty = LineChart("", *axes, [])
    full = [LineChart("", *axes, [Series("s", x, y)]) for x, y in (([1, 2], [5, 7]), ([3], [90]))]
    drawn = same_scale([empty, *full])
    assert len(drawn) == 2
    assert {chart.x_range() for chart in drawn} == {(1.0, 4.0)}
    assert {chart.y_range() for chart in drawn} == {(5.0, 180.0)}
    labels = [[t.text for t in ElementTree.fromstring(svg.draw(chart)).iter(f"{SVG}text")] for chart in drawn]
    assert labels[0] == labels[1]
    assert text.draw(drawn[0]).splitlines()[1:-4] != text.draw(drawn[1]).splitlines()[1:-4]
    assert same_scale([]) == []


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
