"""Draws charts as SVG: no library, no script, light and dark, sized so that its text can be read on a phone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from ..checks import flag, instance
from .chart import LineChart, Series, Slice, StackChart, Timeline

__all__ = ["STYLE", "draw"]

WIDTH, HEIGHT = 440, 330
"""Size of a drawing without its legend, in the units of its text: a character is 12 high."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 14, 34, 46
_LEGEND_LINE = 18
_WIDER = 3.3  # of the line drawn first; the next are ever thinner, so that one right under another shows on both sides
_APART = 14  # between points side by side
_CHARACTER = 6.6  # mean width of the 12-unit sans serif face
_WIDE = 1280  # of a timeline as wide as a page
_LANE = 44  # height of a timeline's lane: its label, and the slices below
_TIPS = 32  # tooltips of a stack
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
    ".chart .slice{stroke:var(--ground);stroke-width:.5}"
    ".chart .in{font-size:11px;fill:var(--ground);pointer-events:none}"
    + "".join(f".chart .c{i} .line{{stroke:var(--line{i})}}.chart .c{i} .mark,.chart .f{i}{{fill:var(--line{i})}}"
              f".chart .p{i} .line,.chart .p{i} .mark{{stroke:var(--pale{i})}}" for i in range(COLOURS))
)
"""The charts' style sheet; a page that shows several may carry it once."""


def draw(chart: LineChart | StackChart | Timeline, *, standalone: bool = True) -> str:
    """Return the chart as an ``<svg>`` element.

    Parameters
    ----------
    chart : LineChart, StackChart or Timeline
        What to draw; every point, step and slice carries its values as a tooltip.
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
    instance("chart", chart, (LineChart, StackChart, Timeline), "a chart")
    height, drawn = _drawn(chart)
    width = _width(chart)
    parts = [f"<svg class='chart' xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' role='img' "
             f"aria-label='{escape(chart.title)}'>"]
    if flag("standalone", standalone):
        parts.append(f"<style>{STYLE}</style>")
    parts.append(f"<rect class='ground' width='{width}' height='{height}' rx='6'/>")
    parts.append(f"<text class='title' x='{_LEFT - 40}' y='20'>{escape(chart.title)}</text>")
    return "".join([*parts, *drawn, "</svg>"])


def _width(chart: LineChart | StackChart | Timeline) -> int:
    return _WIDE if isinstance(chart, Timeline) and chart.wide else WIDTH


def _drawn(chart: LineChart | StackChart | Timeline) -> tuple[int, list[str]]:
    """The height and the parts of a drawing."""
    if chart.is_empty():
        return HEIGHT, [f"<text x='{WIDTH / 2}' y='{HEIGHT / 2}' text-anchor='middle'>nothing was measured</text>"]
    if isinstance(chart, LineChart):
        return _lines(chart)
    return _stack(chart) if isinstance(chart, StackChart) else _lanes(chart)


def _lines(chart: LineChart) -> tuple[int, list[str]]:
    """The height and the parts of a line chart."""
    shown = [series for series in chart.series if chart.points(series)]
    rows = _legend_rows(chart, shown)
    frame = _Frame(chart, len(shown))
    parts = list(_grid(chart, frame))
    for place, series in enumerate(shown):
        parts += _line(chart, series, frame, place)
    return HEIGHT + _LEGEND_LINE * len(rows), parts + list(_legend(chart, rows))


class _Frame:
    """Where values lie in the drawing."""

    def __init__(self, chart: LineChart | StackChart, count: int = 1) -> None:
        self._chart, self.count = chart, count
        self._x = sorted(chart.x.position(v) for v in chart.x_range())
        low, high = sorted(chart.y.position(v) for v in chart.y_range())
        margin = (high - low) * 0.04
        self._side_by_side = isinstance(chart, LineChart) and chart.side_by_side
        self._y = [low - margin * isinstance(chart, LineChart), high + margin]
        self._middle = (count - 1) / 2 if self._side_by_side else 0.0
        self._edge = 8 + _APART * self._middle

    def across(self, value: float, place: int | None = None) -> float:
        """Where an x lies; the point of the series at `place`, where points lie side by side."""
        share = (self._chart.x.position(value) - self._x[0]) / (self._x[1] - self._x[0])
        aside = _APART * (place - self._middle) if place is not None and self._side_by_side else 0.0
        return round(_LEFT + self._edge + aside + share * (WIDTH - _LEFT - _RIGHT - 2 * self._edge), 1)

    def up(self, value: float) -> float:
        share = (self._chart.y.position(value) - self._y[0]) / (self._y[1] - self._y[0])
        return round(HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM), 1)


def _grid(chart: LineChart | StackChart, frame: _Frame) -> Iterator[str]:
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


def _stack(chart: StackChart) -> tuple[int, list[str]]:
    """The height and the parts of a stack: each layer is one path along its steps and back."""
    frame = _Frame(chart)
    across = [frame.across(edge) for edge in chart.edges]
    parts = list(_grid(chart, frame))
    base = [0.0] * (len(across) - 1)
    for layer in chart.layers:
        top = [low + value for low, value in zip(base, layer.values, strict=True)]
        if any(layer.values):
            up = {y: frame.up(y) for y in {*base, *top}}
            there = _along(across, [up[y] for y in top])
            back = _along(across, [up[y] for y in base], back=True)
            parts.append(f"<path class='f{layer.colour % COLOURS}' d='M{there}L{back}z'/>")
        base = top
    parts += _tips(chart, across)
    height, keys = _keys({layer.label: layer.colour for layer in chart.layers if any(layer.values)}, HEIGHT,
                         WIDTH - _RIGHT)
    levels = [f"{label} {chart.y.write(value)} {chart.y.label}" for label, value in chart.levels.items()]
    for number, label in enumerate(levels):
        y = height + _LEGEND_LINE * number
        keys.append(f"<line class='level' x1='{_LEFT}' y1='{y}' x2='{_LEFT + 14}' y2='{y}'/>"
                    f"<text x='{_LEFT + 19}' y='{y + 4}'>{escape(label)}</text>")
    return height + _LEGEND_LINE * len(levels), parts + keys


def _along(across: list[float], up: list[float], *, back: bool = False) -> str:
    """A line of steps, from the first edge to the last or back, equal neighbours as one."""
    steps = list(zip(across[1:], up, strict=True)) if not back else list(zip(across[-2::-1], up[::-1], strict=True))
    path, before = f"{across[-1 if back else 0]:g},{steps[0][1]:g}", steps[0][1]
    for i, (x, y) in enumerate(steps):
        path += f"V{y:g}" * (y != before)
        if i + 1 == len(steps) or steps[i + 1][1] != y:
            path += f"H{x:g}"
        before = y
    return path


def _tips(chart: StackChart, across: list[float]) -> Iterator[str]:
    """Tooltips of a stack: of each step, or of the highest of several neighbours where there are many."""
    tops, count = chart.tops(), len(across) - 1
    names = chart.names or [f"{chart.x.label} {chart.x.write(edge)}" for edge in chart.edges[:-1]]
    parts = min(count, _TIPS)
    for part in range(parts):
        first, end = part * count // parts, (part + 1) * count // parts
        most = max(range(first, end), key=tops.__getitem__)
        held = ", ".join(f"{layer.label} {chart.y.write(layer.values[most])}" for layer in chart.layers)
        said = escape(f"{names[most]}: {held} {chart.y.label}".rstrip())
        yield (f"<rect class='hit' x='{across[first]:g}' y='{_TOP}' width='{max(across[end] - across[first], 1):g}' "
               f"height='{HEIGHT - _TOP - _BOTTOM}'><title>{said}</title></rect>")


def _lanes(chart: Timeline) -> tuple[int, list[str]]:
    """The height and the parts of a timeline."""
    low, high = chart.x_range()
    left, right, tall = 14, _width(chart) - _RIGHT, _LANE * len(chart.lanes)
    scale, bottom = (right - left) / (high - low), _TOP + tall + 4
    parts = []
    for value in chart.x.ticks(low, high, 14 if chart.wide else 6):
        x = left + (value - low) * scale
        anchor = "start" if x < left + 20 else "end" if x > right - 20 else "middle"
        said = escape(chart.x.write(value))
        parts.append(f"<line class='grid' x1='{x:.1f}' y1='{_TOP}' x2='{x:.1f}' y2='{bottom}'/>"
                     f"<text x='{x:.1f}' y='{bottom + 14}' text-anchor='{anchor}'>{said}</text>")
    middle = (left + right) / 2
    parts.append(f"<text x='{middle}' y='{bottom + 32}' text-anchor='middle'>{escape(chart.x.label)}</text>")
    for number, lane in enumerate(chart.lanes):
        y = _TOP + _LANE * number
        parts.append(f"<text x='{left}' y='{y + 13}'>{escape(lane.label)}</text>")
        for s in _merged(lane.slices, 0.5 / scale):
            x, width = left + (s.start - low) * scale, max((s.end - s.start) * scale, 0.5)
            inside = f"<text class='in' x='{x + 3:.1f}' y='{y + 32}'>{escape(s.label)}</text>"
            parts.append(f"<rect class='slice f{s.colour % COLOURS}' x='{x:.1f}' y='{y + 18}' width='{width:.1f}' "
                         f"height='20'><title>{escape(s.label)}: {escape(chart.x.write(s.start))} to "
                         f"{escape(chart.x.write(s.end))}</title></rect>"
                         + inside * (width > _CHARACTER * len(s.label) + 6))
    height, keys = _keys(chart.keys, bottom + 52, right)
    return height if keys else bottom + 40, parts + keys


def _merged(slices: Sequence[Slice], least: float) -> Iterator[Slice]:
    """Slices, those too thin to be seen taken together with what follows until they can be."""
    held: list[Slice] = []
    for s in slices:
        if held and s.end - held[0].start > least:
            yield _together(held)
            held = []
        if held or s.end - s.start < least:
            held.append(s)
        else:
            yield s
    if held:
        yield _together(held)


def _together(held: list[Slice]) -> Slice:
    if len(held) == 1:
        return held[0]
    longest = max(held, key=lambda s: s.end - s.start)
    return Slice(held[0].start, held[-1].end, f"{len(held)} short ones, {longest.label} the longest", longest.colour)


def _keys(entries: dict[str, int], y: int, right: int) -> tuple[int, list[str]]:
    """A legend of colours from a height on, and where it ends."""
    parts, left = [], float(_LEFT)
    for label, colour in entries.items():
        width = 24 + _CHARACTER * len(label)
        if left > _LEFT and left + width > right:
            y, left = y + _LEGEND_LINE, float(_LEFT)
        parts.append(f"<rect class='f{colour % COLOURS}' x='{left:g}' y='{y - 6}' width='12' height='12' rx='2'/>"
                     f"<text x='{left + 17:g}' y='{y + 4}'>{escape(label)}</text>")
        left += width + 10
    return y + _LEGEND_LINE * bool(entries), parts


def _is_dashed(series: Series) -> bool:
    return series.dashed or series.companion


def _kind(chart: LineChart, series: Series) -> str:
    """The classes of what is drawn in the colour of a series."""
    index = series.colour if series.colour is not None else list(chart.series).index(series)
    return f"p{index % COLOURS} hollow" if series.companion else f"c{index % COLOURS}"
