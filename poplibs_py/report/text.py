"""Draws line charts with plain characters, for a terminal."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ..checks import instance, whole
from .chart import Axis, LineChart, Series

__all__ = ["draw"]

_MARKS = "●▲■◆○△□◇"


def draw(chart: LineChart, *, width: int = 72, height: int = 16) -> str:
    """Return the chart as lines of text, with a legend below.

    Parameters
    ----------
    chart : LineChart
        What to draw.
    width, height : int, optional
        Characters and lines of the plotting area with its labels.

    Examples
    --------
    >>> print(draw(LineChart("Squares", Axis("x"), Axis("y"), [Series("s", [0, 1, 2], [0, 1, 4])]), width=24, height=5))
    Squares
    4 ┤                  ●
      │
    2 ┤
      │         ●
    0 ┤●
      └───────────────────
       0  0.5   1   1.5  2
       x    y: y    ● s
    """
    instance("chart", chart, LineChart, "a LineChart")
    width, height = whole("width", width, 1, 1 << 12), whole("height", height, 1, 1 << 12)
    if chart.is_empty():
        return f"{chart.title}\n(nothing was measured)"
    ends = chart.y_range()
    ticks = chart.y.ticks(*ends, max(3, height // 2))
    labels = {_place(chart.y, value, ends, height): chart.y.write(value) for value in ticks}
    margin = max(len(text) for text in labels.values()) + 1
    columns = max(8, width - margin - 3)
    shown = [s for s in chart.series if chart.points(s)]
    canvas = _canvas(chart, shown, columns, height)
    lines = [chart.title]
    for row in range(height - 1, -1, -1):
        axis = "┤" if row in labels else "│"
        lines.append(f"{labels.get(row, '').rjust(margin - 1)} {axis}{''.join(canvas[row])}".rstrip())
    lines.append(" " * margin + "└" + "─" * columns)
    lines.append(" " * (margin + 1) + _x_labels(chart, columns))
    return "\n".join([*lines, *(" " * (margin + 1) + line for line in _legend(chart, shown, columns))])


def _legend(chart: LineChart, shown: Sequence[Series], columns: int) -> list[str]:
    """The axes' labels and the marks' names in as many lines as they need."""
    entries = [f"{_MARKS[i % len(_MARKS)]} {s.label}" for i, s in enumerate(shown)]
    entries += [f"··· {label}" for label, value in chart.levels.items() if chart.y.shows(value)]
    lines, gap = [f"{chart.x.label}    y: {chart.y.label}"], "    "
    for entry in entries:
        if len(lines[-1]) + len(gap) + len(entry) <= columns:
            lines[-1] += gap + entry
        else:
            lines.append(entry)
        gap = "   "
    return lines


def _canvas(chart: LineChart, shown: Sequence[Series], columns: int, height: int) -> list[list[str]]:
    canvas = [[" "] * columns for _ in range(height)]
    across, up = chart.x_range(), chart.y_range()
    for value in chart.levels.values():
        if chart.y.shows(value):
            canvas[_place(chart.y, value, up, height)] = ["·"] * columns
    for index, series in enumerate(shown):
        for x, y in itertools.chain(*chart.points(series)):
            row = canvas[_place(chart.y, y, up, height)]
            row[_place(chart.x, x, across, columns)] = _MARKS[index % len(_MARKS)]
    return canvas


def _place(axis: Axis, value: float, ends: tuple[float, float], count: int) -> int:
    """Which of so many rows or columns a value lies in."""
    low, high = sorted(axis.position(end) for end in ends)
    return round((axis.position(value) - low) / (high - low) * (count - 1))


def _x_labels(chart: LineChart, columns: int) -> str:
    line, ends = [" "] * columns, chart.x_range()
    for value in chart.x.ticks(*ends):
        text = chart.x.write(value)
        start = min(max(0, _place(chart.x, value, ends, columns) - len(text) // 2), columns - len(text))
        if start >= 0 and all(character == " " for character in line[max(0, start - 1): start + len(text) + 1]):
            line[start: start + len(text)] = text
    return "".join(line).rstrip()
