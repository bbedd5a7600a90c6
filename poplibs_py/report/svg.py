"""Draws a `LineChart` as SVG: no library, no script, light and dark, sized so that its text can be read on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from ..errors import flag, instance
from .chart import LineChart, Series

__all__ = ["STYLE", "draw"]

WIDTH, HEIGHT = 440, 330
"""Size of a drawing without its legend, in the units of its text: a character is 12 high."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 14, 34, 46
_LEGEND_LINE = 18
_WIDER = 3.3  # of the line drawn first; the next are ever thinner, so that one right under another shows on both sides
_APART = 14  # between points side by side
_CHARACTER = 6.6  # mean width of the 12-unit sans serif face
COLOURS = 8

_LIGHT = ("#0b62a4", "#c4461a", "#1a7f4b", "#8a4fb0", "#a07400", "#0f8296", "#c2347f", "#555b66")
_DARK = ("#6db3f2", "#ff9166", "#5fd39a", "#c79bf0", "#e8bd4a", "#58cfe3", "#f78cc0", "#b3bac6")


def _mixed(colour: str, ground: str) -> str:
    """Three parts of a colour and two of the ground."""
    parts = zip(bytes.fromhex(colour[1:]), bytes.fromhex(ground[1:]), strict=True)
    return "#" + bytes((3 * over + 2 * under) // 5 for over, under in parts).hex()


def _palette(colours: tuple[str, ...], ink: str, faint: str, ground: str) -> str:
    named = "".join(f"--line{index}:{colour};--pale{index}:{_mixed(colour, ground)};"
                    for index, colour in enumerate(colours))
    return f"{named}--ink:{ink};--faint:{faint};--ground:{ground};"


_DARK_PALETTE = _palette(_DARK, "#e7e9ee", "#3a3f4a", "#15181e")
STYLE = (
    f".chart{{{_palette(_LIGHT, '#1c2128', '#d9dde3', '#ffffff')}"
    "font:12px system-ui,'Segoe UI',Helvetica,Arial,sans-serif;fill:var(--ink);width:100%;height:auto}"
    f"@media (prefers-color-scheme:dark){{.chart{{{_DARK_PALETTE}}}}}"
    ".chart .ground{fill:var(--ground)}.chart .title{font-weight:600;font-size:14px}"
    ".chart .grid{stroke:var(--faint);stroke-width:1}.chart .level{stroke:var(--ink);stroke-dasharray:2 4}"
    ".chart .line{fill:none;stroke-width:2.2;stroke-linejoin:round}.chart .dashed{stroke-dasharray:6 4}"
    ".chart .hit{fill:transparent}.chart .dot:hover .mark{stroke:var(--ink);stroke-width:2}"
    ".chart .hollow .mark{fill:none;stroke-width:1.8}"
    ".chart .key .line,.chart .key .mark{stroke:var(--ink)}"
    + "".join(f".chart .c{i} .line{{stroke:var(--line{i})}}.chart .c{i} .mark{{fill:var(--line{i})}}"
              f".chart .p{i} .line,.chart .p{i} .mark{{stroke:var(--pale{i})}}" for i in range(COLOURS))
)
"""The charts' style sheet; a page that shows several may carry it once."""


def draw(chart: LineChart, *, standalone: bool = True) -> str:
    """Return the chart as an ``<svg>`` element.

    Parameters
    ----------
    chart : LineChart
        What to draw; every point carries its values as a tooltip.
    standalone : bool, optional
        Include the style sheet and the XML namespace, so that the text is a file of its own (default). Without, the
        page around it must hold `STYLE`.

    Examples
    --------
    >>> from poplibs_py.report.chart import Axis, LineChart, Series
    >>> text = draw(LineChart("Squares", Axis("x"), Axis("y"), [Series("squares", [1, 2, 3], [1, 4, 9])]))
    >>> text[:4], text.count("<circle class='mark'")
    ('<svg', 3)
    """
    instance("chart", chart, LineChart, "a LineChart")
    shown = [series for series in chart.series if chart.points(series)]
    rows = _legend_rows(chart, shown)
    height = HEIGHT + _LEGEND_LINE * len(rows)
    frame = _Frame(chart, len(shown))
    parts = [f"<svg class='chart' xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' role='img' "
             f"aria-label='{escape(chart.title)}'>"]
    if flag("standalone", standalone):
        parts.append(f"<style>{STYLE}</style>")
    parts.append(f"<rect class='ground' width='{WIDTH}' height='{height}' rx='6'/>")
    parts.append(f"<text class='title' x='{_LEFT - 40}' y='20'>{escape(chart.title)}</text>")
    if not shown:
        parts.append(f"<text x='{WIDTH / 2}' y='{HEIGHT / 2}' text-anchor='middle'>nothing was measured</text>")
    else:
        parts += _grid(chart, frame)
        for place, series in enumerate(shown):
            parts += _line(chart, series, frame, place)
        parts += _legend(chart, rows)
    parts.append("</svg>")
    return "".join(parts)


class _Frame:
    """Where values lie in the drawing."""

    def __init__(self, chart: LineChart, count: int) -> None:
        self._chart, self.count = chart, count
        self._x = sorted(chart.x.position(v) for v in chart.x_range())
        low, high = sorted(chart.y.position(v) for v in chart.y_range())
        margin = (high - low) * 0.04
        self._y = [low - margin, high + margin]
        self._middle = (count - 1) / 2 if chart.side_by_side else 0.0
        self._edge = 8 + _APART * self._middle

    def across(self, value: float, place: int | None = None) -> float:
        """Where an x lies; the point of the series at `place`, where points lie side by side."""
        share = (self._chart.x.position(value) - self._x[0]) / (self._x[1] - self._x[0])
        aside = _APART * (place - self._middle) if place is not None and self._chart.side_by_side else 0.0
        return round(_LEFT + self._edge + aside + share * (WIDTH - _LEFT - _RIGHT - 2 * self._edge), 1)

    def up(self, value: float) -> float:
        share = (self._chart.y.position(value) - self._y[0]) / (self._y[1] - self._y[0])
        return round(HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM), 1)


def _grid(chart: LineChart, frame: _Frame) -> Iterator[str]:
    bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    for value in chart.x.ticks(*chart.x_range()):
        x = frame.across(value)
        yield f"<line class='grid' x1='{x}' y1='{_TOP}' x2='{x}' y2='{bottom}'/>"
        yield f"<text x='{x}' y='{bottom + 16}' text-anchor='middle'>{escape(chart.x.write(value))}</text>"
    for value in chart.y.ticks(*chart.y_range()):
        y = frame.up(value)
        yield f"<line class='grid' x1='{_LEFT}' y1='{y}' x2='{right}' y2='{y}'/>"
        yield f"<text x='{_LEFT - 6}' y='{y + 4}' text-anchor='end'>{escape(chart.y.write(value))}</text>"
    middle_x, middle_y = (_LEFT + right) / 2, (_TOP + bottom) / 2
    yield f"<text x='{middle_x}' y='{bottom + 34}' text-anchor='middle'>{escape(chart.x.label)}</text>"
    yield (f"<text transform='translate(13 {middle_y}) rotate(-90)' text-anchor='middle'>"
           f"{escape(chart.y.label)}</text>")
    for value in chart.levels.values():
        if chart.y.shows(value):
            y = frame.up(value)
            yield f"<line class='level' x1='{_LEFT}' y1='{y}' x2='{right}' y2='{y}'/>"


def _line(chart: LineChart, series: Series, frame: _Frame, place: int) -> Iterator[str]:
    is_nested = frame.count > 1 and not chart.side_by_side and not any(s.companion for s in chart.series)
    under = 1 - place / (frame.count - 1) if is_nested else 0.0
    yield f"<g class='{_kind(chart, series)}'>"
    for run in chart.points(series):
        path = " ".join(f"{frame.across(x)},{frame.up(y)}" for x, y in run)
        if not chart.side_by_side:
            width = f" style='stroke-width:{2.2 + _WIDER * under:.1f}'" * (under > 0)
            yield f"<polyline class='line{' dashed' * _is_dashed(series)}'{width} points='{path}'/>"
        for x, y in run:
            across, up, is_bound = frame.across(x, place), frame.up(y), x in series.at_least
            label = (f"{series.label}: {chart.x.label} {chart.x.write(x)}, {chart.y.label} {y:.4g}"
                     f"{' or above' if is_bound else ''}")
            mark = (f"<path class='mark' d='M{across} {up - 6}l5.5 9.5h-11z'/>" if is_bound
                    else _mark(across, up, radius=3.2 + _WIDER / 2 * under, is_hollow=series.companion))
            yield (f"<g class='dot'><title>{escape(label)}</title><circle class='hit' cx='{across}' cy='{up}' r='11'/>"
                   f"{mark}</g>")
    yield "</g>"


def _mark(across: float, up: float, kind: str = "mark", *, radius: float = 3.2, is_hollow: bool) -> str:
    if is_hollow:
        return f"<rect class='{kind}' x='{across - 3:.1f}' y='{up - 3:.1f}' width='6' height='6'/>"
    return f"<circle class='{kind}' cx='{across}' cy='{up}' r='{radius:.1f}'/>"


def _legend_rows(chart: LineChart, shown: list[Series]) -> list[list[tuple[str, str, float]]]:
    """The legend's entries broken into rows: what each says, how its sample looks, its left edge."""
    entries = [(s.label, f"{_kind(chart, s)}{' dashed' * _is_dashed(s)}") for s in shown if s.in_legend]
    if chart.companions and any(s.companion for s in shown):
        entries.append((chart.companions, "key hollow dashed"))
    if shown:
        entries += [(label, "level") for label, value in chart.levels.items() if chart.y.shows(value)]
    rows: list[list[tuple[str, str, float]]] = []
    left = float(WIDTH)
    for label, kind in entries:
        width = 34 + _CHARACTER * len(label)
        if left + width > WIDTH - _RIGHT:
            rows.append([])
            left = float(_LEFT)
        rows[-1].append((label, kind, left))
        left += width + 10
    return rows


def _legend(chart: LineChart, rows: list[list[tuple[str, str, float]]]) -> Iterator[str]:
    for number, row in enumerate(rows):
        y = HEIGHT + _LEGEND_LINE * number
        for label, kind, left in row:
            is_level = kind == "level"
            line = "level" if is_level else f"line{' dashed' * kind.endswith('dashed')}"
            yield f"<g class='{kind.removesuffix(' dashed')}'>"
            if is_level or not chart.side_by_side:
                yield f"<line class='{line}' x1='{left}' y1='{y}' x2='{left + 26}' y2='{y}'/>"
            if not is_level:
                yield _mark(left + 13, y, "mark sample", is_hollow="hollow" in kind)
            yield f"</g><text x='{left + 31}' y='{y + 4}'>{escape(label)}</text>"


def _is_dashed(series: Series) -> bool:
    return series.dashed or series.companion


def _kind(chart: LineChart, series: Series) -> str:
    """The classes of what is drawn in the colour of a series."""
    index = series.colour if series.colour is not None else list(chart.series).index(series)
    return f"p{index % COLOURS} hollow" if series.companion else f"c{index % COLOURS}"
