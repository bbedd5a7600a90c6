"""Charts as data: lines, stacked steps, timelines. `report.svg` draws them, `report.text` lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from numbers import Real
from typing import Literal

from ..checks import all_of, finite, instance, one_of, real, whole
from ..errors import bad_argument

__all__ = ["Axis", "Lane", "Layer", "LineChart", "Series", "Slice", "StackChart", "Timeline", "number", "reciprocal",
           "same_scale"]

Scale = Literal["linear", "log2", "log10"]


def number(value: float) -> str:
    """Write a tick's value with as few characters as it needs.

    Examples
    --------
    >>> [number(v) for v in (0.05, 1.0, 2500.0, 3e6, 2e9)]
    ['0.05', '1', '2500', '3M', '2G']
    """
    value = real("value", value)
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if limit <= abs(value) < 1e15:
            return f"{value / limit:.4g}{unit}"
    return f"{value:.4g}"


def reciprocal(value: float) -> str:
    """Write a density as one over a whole number where it is one.

    Examples
    --------
    >>> reciprocal(0.0625), reciprocal(1.0), reciprocal(0.3)
    ('1/16', '1', '0.3')
    """
    value = real("value", value)
    if not math.isfinite(value):
        return f"{value:.3g}"
    fraction = Fraction(value).limit_denominator(100000)
    if fraction.numerator == 1 and math.isclose(value, fraction):
        return str(fraction)
    return f"{value:.3g}"


@dataclass(frozen=True)
class Axis:
    """One axis of a chart.

    Parameters
    ----------
    label : str
        What it shows, with its unit.
    scale : {"linear", "log2", "log10"}, optional
        How values are spread. Values that are not positive have no place on a logarithmic axis and are left out.
    write : callable, optional
        Turns a tick's value into its text.
    descending : bool, optional
        Whether values fall along the axis, as densities do where sparsity rises to the right.
    end : float, optional
        A value that the axis reaches, and that it goes beyond for a point alone.
    ends : (float, float), optional
        The least and the greatest value that it shows, in place of the range of what is drawn; see `same_scale`.
    """

    label: str
    scale: Scale = "linear"
    write: Callable[[float], str] = number
    descending: bool = False
    end: float | None = None
    ends: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        instance("label", self.label, str, "text")
        one_of("scale", self.scale, ("linear", "log2", "log10"))

    def position(self, value: float) -> float:
        """Return the value on the axis' own scale, before it is fitted to a drawing."""
        along = value if self.scale == "linear" else math.log2(value) if self.scale == "log2" else math.log10(value)
        return -along if self.descending else along

    def shows(self, value: float | None) -> bool:
        """Whether the value has a place on the axis."""
        if value is None:
            return False
        return math.isfinite(real("value", value)) and (self.scale == "linear" or value > 0)

    def ticks(self, low: float, high: float, count: int = 7) -> list[float]:
        """Return about `count` round values within [low, high]."""
        low, high = finite("low", low), finite("high", high)
        count = whole("count", count, 1, 1000)
        if not low < high or (self.scale != "linear" and low <= 0):
            raise bad_argument("low", low, f"less than high, {high:g}, and above 0 on a logarithmic axis")
        if self.scale == "log2":
            return _powers_of_two(low, high, count)
        if self.scale == "log10":
            return _decades(low, high, count)
        least = (high - low) / max(1, count - 1)
        power = 10.0 ** math.floor(math.log10(least))
        step = next(lead * power for lead in (1, 2, 5, 10) if lead * power >= least * (1 - 1e-9))
        first = math.ceil(low / step - 1e-9)
        last = math.floor(high / step + 1e-9)
        return [index * step for index in range(first, last + 1)]


@dataclass(frozen=True)
class Series:
    """One line of a chart.

    Parameters
    ----------
    label : str
        Its name in the legend and the tooltips.
    x, y : sequence of float
        The points, joined in the given order; a NaN or None breaks the line.
    dashed : bool, optional
        Draw the line dashed.
    companion : bool, optional
        Tell it from the line of its colour: dashed, in a paler shade, with hollow squares for points.
    colour : int, optional
        Number of its colour; by default its place among the series. Series that belong together can share one.
    in_legend : bool, optional
        Whether the legend names it; the companion of a line that it names needs no entry of its own.
    at_least : collection of float, optional
        The x of points whose y is a lower bound: they are drawn as triangles that point up.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float | None]
    dashed: bool = False
    companion: bool = False
    colour: int | None = None
    in_legend: bool = True
    at_least: Collection[float] = ()

    def __post_init__(self) -> None:
        instance("label", self.label, str, "text")
        for name, values in (("x", self.x), ("y", self.y)):
            all_of(name, values, (Real, type(None)), "numbers")
        if len(self.x) != len(self.y):
            raise bad_argument("y", f"{len(self.y)} values", f"{len(self.x)}, one for each of x")


@dataclass(frozen=True)
class LineChart:
    """Lines over two axes.

    Parameters
    ----------
    title : str
        What the chart tells.
    x, y : Axis
        The axes.
    series : sequence of Series
        The lines; those without a point to show are left out of the drawing.
    levels : dict, optional
        Reference values of y, each with its label, drawn as thin lines across.
    companions : str, optional
        What all companions are; the legend says it once.
    side_by_side : bool, optional
        Draw the points that share an x beside each other and leave the lines out, so that none covers another.

    Examples
    --------
    >>> chart = LineChart("Squares", Axis("x"), Axis("y"), [Series("x squared", [1, 2, 3], [1, 4, 9])])
    >>> chart.y_range()
    (1.0, 9.0)
    """

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    levels: dict[str, float] = field(default_factory=dict)
    companions: str = ""
    side_by_side: bool = False

    def __post_init__(self) -> None:
        instance("title", self.title, str, "text")
        for name, axis in (("x", self.x), ("y", self.y)):
            instance(name, axis, Axis, "an Axis")
        all_of("series", self.series, Series, "series")
        instance("levels", self.levels, dict, "a dict of labels to values")
        instance("companions", self.companions, str, "text")

    def points(self, series: Series) -> list[list[tuple[float, float]]]:
        """Return the unbroken runs of a series' points that both axes can show."""
        instance("series", series, Series, "a Series")
        runs: list[list[tuple[float, float]]] = [[]]
        for x, y in zip(series.x, series.y, strict=True):
            if y is not None and self.x.shows(x) and self.y.shows(y):
                runs[-1].append((float(x), float(y)))
            elif runs[-1]:
                runs.append([])
        return [run for run in runs if run]

    def x_range(self) -> tuple[float, float]:
        """Return the least and greatest x that is shown."""
        return self.x.ends or _spread([x for s in self.series for run in self.points(s) for x, _ in run], self.x)

    def y_range(self) -> tuple[float, float]:
        """Return the least and greatest y that is shown, reference lines included."""
        if self.y.ends:
            return self.y.ends
        values = [y for s in self.series for run in self.points(s) for _, y in run]
        return _spread(values + [v for v in self.levels.values() if values and self.y.shows(v)], self.y)

    def is_empty(self) -> bool:
        """Whether there is no point to draw."""
        return not any(self.points(s) for s in self.series)


@dataclass(frozen=True)
class Layer:
    """One layer of a stack.

    Parameters
    ----------
    label : str
        Its name in the legend and the tooltips.
    values : sequence of float
        Its height in each step.
    colour : int
        Number of its colour.
    """

    label: str
    values: Sequence[float]
    colour: int


@dataclass(frozen=True)
class StackChart:
    """Layers on top of each other, each of one height from an edge to the next.

    Parameters
    ----------
    title : str
        What the chart tells.
    x, y : Axis
        The axes.
    edges : sequence of float
        Where steps begin, and where the last one ends.
    layers : sequence of Layer
        The lowest first.
    names : sequence of str, optional
        Of the steps, for tooltips; by default where they begin.
    levels : dict, optional
        Reference values of y, each with its label, drawn as thin lines across.

    Examples
    --------
    >>> layers = [Layer("a", [1, 2], 0), Layer("b", [1, 1], 1)]
    >>> chart = StackChart("Memory", Axis("tile"), Axis("bytes"), [0, 1, 2], layers)
    >>> chart.tops(), chart.y_range()
    ([2, 3], (0.0, 3.0))
    """

    title: str
    x: Axis
    y: Axis
    edges: Sequence[float]
    layers: Sequence[Layer]
    names: Sequence[str] = ()
    levels: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        instance("title", self.title, str, "text")
        for name, axis in (("x", self.x), ("y", self.y)):
            instance(name, axis, Axis, "an Axis")
        steps = len(all_of("edges", self.edges, Real, "numbers")) - 1
        for layer in all_of("layers", self.layers, Layer, "layers"):
            if len(layer.values) != steps:
                raise bad_argument("layers", f"{len(layer.values)} values", f"{steps}, one for each step")
        if self.names and len(self.names) != steps:
            raise bad_argument("names", f"{len(self.names)} names", f"{steps}, one for each step")

    def tops(self) -> list[float]:
        """Return the height of all layers together in each step."""
        return [sum(values) for values in zip(*(layer.values for layer in self.layers), strict=True)]

    def x_range(self) -> tuple[float, float]:
        """Return the first and the last edge."""
        return _spread([float(self.edges[0]), float(self.edges[-1])], self.x)

    def y_range(self) -> tuple[float, float]:
        """Return zero and the greatest height, reference lines included."""
        return 0.0, float(max([*self.tops(), *self.levels.values(), 0.0])) or 1.0

    def is_empty(self) -> bool:
        """Whether there is no step to draw."""
        return len(self.edges) < 2 or self.edges[0] == self.edges[-1]


@dataclass(frozen=True)
class Slice:
    """What happens on a lane from one moment to another.

    Parameters
    ----------
    start, end : float
    label : str
        What it is; drawn in it where it fits, and its tooltip.
    colour : int
        Number of its colour.
    """

    start: float
    end: float
    label: str
    colour: int


@dataclass(frozen=True)
class Lane:
    """A lane of a timeline.

    Parameters
    ----------
    label : str
    slices : sequence of Slice
        In order; they do not overlap.
    """

    label: str
    slices: Sequence[Slice]


@dataclass(frozen=True)
class Timeline:
    """Lanes of slices along one axis.

    Parameters
    ----------
    title : str
    x : Axis
    lanes : sequence of Lane
    keys : dict of str to int, optional
        What the legend says of the colours.
    wide : bool, optional
        Draw it as wide as a page; a narrow window shows a part of it, and the rest by scrolling.
    """

    title: str
    x: Axis
    lanes: Sequence[Lane]
    keys: dict[str, int] = field(default_factory=dict)
    wide: bool = False

    def __post_init__(self) -> None:
        instance("title", self.title, str, "text")
        instance("x", self.x, Axis, "an Axis")
        all_of("lanes", self.lanes, Lane, "lanes")

    def x_range(self) -> tuple[float, float]:
        """Return when the first slice begins and the last one ends."""
        ends = [end for lane in self.lanes for s in lane.slices for end in (s.start, s.end)]
        low, high = min(ends, default=0.0), max(ends, default=1.0)
        return (low, high) if high > low else (low, low + 1.0)

    def is_empty(self) -> bool:
        """Whether there is no slice to draw."""
        return not any(lane.slices for lane in self.lanes)


def same_scale(charts: Sequence[LineChart]) -> list[LineChart]:
    """Return charts that are to be compared with axes that show the same range in each; empty ones are left out.

    Examples
    --------
    >>> axes = Axis("x"), Axis("y")
    >>> charts = [LineChart("", *axes, [Series("s", [1, 2], y)]) for y in ([3, 4], [5, 9])]
    >>> [chart.y_range() for chart in same_scale(charts)]
    [(3.0, 9.0), (3.0, 9.0)]
    """
    shown = [chart for chart in all_of("charts", charts, LineChart, "charts") if not chart.is_empty()]
    across, up = [chart.x_range() for chart in shown], [chart.y_range() for chart in shown]
    return [replace(chart, x=replace(chart.x, ends=_widest(across)), y=replace(chart.y, ends=_widest(up)))
            for chart in shown]


def _widest(ranges: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _spread(values: list[float], axis: Axis) -> tuple[float, float]:
    """The range of the values, widened where they are as good as one."""
    if not values:
        return (1.0, 2.0)
    if axis.end is not None:
        low, _ = _spread([*values, axis.end], replace(axis, end=None))
        return low, float(max(*values, axis.end))
    low, high = float(min(values)), float(max(values))
    size = max(abs(low), abs(high))
    is_range = high - low > 1e-6 * size
    if axis.scale == "log2" and (not is_range or high < 2 * low):
        return 2.0 ** (math.ceil(math.log2(low) - 1e-6) - 1), 2.0 ** (math.floor(math.log2(high) + 1e-6) + 1)
    if is_range:
        return low, high
    if axis.scale == "log10":
        return low / 2, high * 2
    return low - max(1.0, size / 8), high + max(1.0, size / 8)


def _powers_of_two(low: float, high: float, count: int) -> list[float]:
    first, last = math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9)
    step = max(1, math.ceil((last - first + 1) / count))
    powers = [2.0**power for power in range(first, last + 1, step)]
    return powers if len(powers) > 1 else _decades(low, high, count)


def _decades(low: float, high: float, count: int) -> list[float]:
    """1, 10, 100; with 2 and 5 where the range is short."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    for leads in ((1, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        found = [lead * 10.0**power for power in range(first, last + 1) for lead in leads]
        found = [value for value in found if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
        if len(found) <= count:
            break
    if len(found) > 1:
        return found
    return Axis("", "linear").ticks(low, high, count)
