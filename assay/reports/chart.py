"""Charts before any library draws them; the page and print draw the same ones."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_MOST_TICKS = 9
_CLOSEST_TICKS = 0.07  # as a share of the axis


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points of one subject; `variant` tells apart several series of the same subject.

    `low` and `high` bound each y, or are empty. x is all numbers or all text.
    """

    subject: str
    x: tuple[float, ...] | tuple[str, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    variant: str = ""
    note: str = ""
    hints: tuple[str, ...] = ()  # more about each point, shown where it is hovered
    labels: tuple[str, ...] = ()  # written at the end of each bar in print; its number by default

    def __post_init__(self) -> None:
        lengths = {len(self.x), len(self.y)} | {len(b) for b in (self.low, self.high) if b}
        if len(lengths) > 1 or bool(self.low) != bool(self.high):
            raise ValueError(
                f"series {self.name!r} has {len(self.x)} x, {len(self.y)} y, {len(self.low)} low "
                f"and {len(self.high)} high; give as many of each, or no low and high"
            )

    @property
    def name(self) -> str:
        return f"{self.subject}, {self.variant}" if self.variant else self.subject

    @property
    def errors(self) -> tuple[list[float], list[float]] | None:
        """Distances from each y down to its lower and up to its upper bound; None without any."""
        if not self.low:
            return None
        below = [y - low for low, y in zip(self.low, self.y, strict=True)]
        return below, [high - y for high, y in zip(self.high, self.y, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A line to compare series with, such as a ceiling; its name stands at its end."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart; labels carry their unit in brackets, as in "latency (ms)".

    Where x is text, the texts are listed down the side and y runs across. `limit` is a value of y
    that is drawn as a line and called `limit_name`. Charts of one `group` are panels of one figure.
    """

    name: str  # also the name of its file; letters, digits, dots, dashes and underscores are kept
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    limit: float | None = None
    limit_name: str = ""
    note: str = ""
    curves: tuple[Curve, ...] = ()
    round_ticks: bool = False  # ticks of a logarithmic x at round numbers, not at its values
    group: str = ""  # the name of its figure; the chart's own where it is empty
    group_title: str = ""
    panel: str = ""  # what tells it from the other charts of its group
    bars: bool = False  # from zero instead of points; only where x is text
    dots: tuple[Series, ...] = ()  # in print, single values over the bars of the same texts

    def __post_init__(self) -> None:
        if self.bars and (self.log_y or not self.listed):
            raise ValueError(
                f"chart {self.name!r} has bars, which need texts for x and a zero of y"
            )
        if self.log_y and min(self.y_values, default=1) <= 0:
            raise ValueError(f"chart {self.name!r} has a y of zero or less on a logarithmic axis")

    @property
    def file_stem(self) -> str:
        return _stem(self.name)

    @property
    def listed(self) -> bool:
        """True where x is text."""
        return any(isinstance(x, str) for series in self.series for x in series.x)

    @property
    def x_values(self) -> list:
        """The distinct x: numbers in order, texts as they came."""
        values = dict.fromkeys(x for series in self.series for x in series.x)
        return list(values) if self.listed else sorted(values)

    @property
    def y_values(self) -> list[float]:
        """Every y and bound, and the limit."""
        values = [v for s in (*self.series, *self.dots) for v in (*s.y, *s.low, *s.high)]
        values += [y for curve in self.curves for y in curve.y]
        return values if self.limit is None else [*values, self.limit]

    @property
    def x_ticks(self) -> list[float]:
        """Places of the labels on a logarithmic x axis."""
        if not self.round_ticks:
            return spaced_ticks(self.x_values)
        return log_ticks([*self.x_values, *(x for curve in self.curves for x in curve.x)])

    @property
    def names_itself(self) -> bool:
        """True where the listed texts are the subjects, so that a legend would repeat them."""
        return self.listed and all(set(series.x) == {series.subject} for series in self.series)

    @property
    def notes(self) -> list[str]:
        """Its own note and those of its series."""
        notes = (self.note, *(f"{s.name}: {s.note}" for s in self.series if s.note))
        return [note for note in notes if note]


@dataclass(frozen=True, kw_only=True)
class ChartGroup:
    """Charts of one figure: one at a time on the page, side by side in print."""

    charts: tuple[Chart, ...]

    @property
    def name(self) -> str:
        return self.charts[0].group or self.charts[0].name

    @property
    def file_stem(self) -> str:
        return _stem(self.name)

    @property
    def title(self) -> str:
        return self.charts[0].group_title or self.charts[0].title


def grouped(charts: Sequence[Chart]) -> list[ChartGroup]:
    """The charts by group, in their order; one without a group is a group of its own."""
    groups: dict[tuple[str, str], list[Chart]] = {}
    for chart in charts:
        groups.setdefault((chart.group, "" if chart.group else chart.name), []).append(chart)
    return [ChartGroup(charts=tuple(members)) for members in groups.values()]


def _stem(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._") or "chart"


def log_ticks(values: Iterable[float]) -> list[float]:
    """Round numbers (1, 2, 5 in each decade) that enclose positive `values`; decades if many."""
    values = list(values)
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    steps = [float(f"{m}e{e}") for e in range(first, last + 1) for m in (1, 2, 5)]
    below = max(step for step in steps if step <= min(values))
    above = min(step for step in steps if step >= max(values))
    ticks = [step for step in steps if below <= step <= above]
    if len(ticks) <= _MOST_TICKS:
        return ticks
    stride = math.ceil((last - first + 1) / _MOST_TICKS)
    return [float(f"1e{e}") for e in range(first, last + stride, stride)]


def spaced_ticks(values: Sequence[float]) -> list[float]:
    """Those of some rising, positive values whose labels do not run into the one before."""
    kept: list[float] = []
    apart = math.log(values[-1] / values[0]) * _CLOSEST_TICKS if values else 0.0
    for value in values:
        if not kept or math.log(value / kept[-1]) >= apart:
            kept.append(value)
    return kept
