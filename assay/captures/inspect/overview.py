"""Overview of all layers: maps of layers by heads, a panel for each phase."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from assay.captures.inspect.drawing import HeatMap, heat_map
from assay.captures.inspect.sites import SiteSummary
from assay.reports.numerals import DASH, tick

_PerHead = Sequence[float | None]


@dataclass(frozen=True, kw_only=True)
class FigurePanel:
    """One drawing of a figure as SVG, and the notes below it."""

    name: str  # of its layer or phase
    svg: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Panels of one kind, of which one is shown at a time."""

    title: str
    panels_of: str
    panels: tuple[FigurePanel, ...]
    shown: str | None = None  # name of the panel shown at first, else the first


class _Map(NamedTuple):
    """Values of the heads of a site, their scale from 0 to `high`, and how both are written."""

    title: str
    values: Callable[[SiteSummary], _PerHead]
    hint: Callable[[float], str]
    high: Callable[[Sequence[SiteSummary], Sequence[float]], float]
    high_text: Callable[[float], str]
    low_text: str = "0"
    head: str = "head"


def overview(sites: Sequence[SiteSummary]) -> tuple[Figure, ...]:
    """A figure for each of the maps, with a panel for each phase."""
    by_phase: dict[str, list[SiteSummary]] = {}
    for site in sites:
        by_phase.setdefault(site.phase or "all", []).append(site)
    figures = []
    for kind in _MAPS:
        panels = (
            FigurePanel(name=phase, svg=heat_map(drawn, label=f"{kind.title}, {phase}"))
            for phase, several in by_phase.items()
            if (drawn := _layers_by_heads(kind, several))
        )
        figures.append(Figure(title=kind.title, panels_of="phases", panels=tuple(panels)))
    return tuple(figures)


def _layers_by_heads(kind: _Map, sites: Sequence[SiteSummary]) -> HeatMap | None:
    """Map with a row for each site; None where nothing is known."""
    rows = [tuple(kind.values(site)) for site in sites]
    known = [value for row in rows for value in row if value is not None]
    if not known:
        return None
    widest, high = max(map(len, rows)), kind.high(sites, known)
    cells = tuple(row + (None,) * (widest - len(row)) for row in rows)
    hints = tuple(
        tuple(
            f"{site.label}, {kind.head} {i}: {DASH if value is None else kind.hint(value)}"
            for i, value in enumerate(row)
        )
        for site, row in zip(sites, cells, strict=True)
    )
    numbers = (i if s.layer is None or s.layer < 0 else s.layer for i, s in enumerate(sites))
    return HeatMap(
        cells=cells,
        low=0.0,
        high=high,
        low_text=kind.low_text,
        high_text=kind.high_text(high),
        row_label="layer",
        column_label=kind.head,
        row_names=tuple(map(str, numbers)),
        hints=hints,
    )


def _largest_key_channels(site: SiteSummary) -> _PerHead:
    """log2 of the largest channel of k over the median, for each kv head."""
    channels = site.channels("k")
    if channels is None or channels.why:
        return ()
    return [None if math.isnan(t) else math.log2(t) for t in channels.times_HD.max(axis=1)]


def _scale_end(value: float) -> str:
    return tick(float(f"{value:.3g}"))


_MAPS = (
    _Map(
        "Entropy of attention",
        lambda site: site.entropy,
        lambda nats: f"{nats:.2f} nats, as {math.exp(nats):.3g} equal keys",
        lambda sites, _: max(site.uniform_entropy or 0.0 for site in sites),
        lambda nats: f"{nats:.2f} nats, equal weights",
    ),
    _Map(
        "Weight on the first key",
        lambda site: site.sink,
        lambda share: f"{share:.1%}",
        lambda *_: 1.0,
        lambda _: "100 %",
    ),
    _Map(
        "Largest channel of k over the median of its head",
        _largest_key_channels,
        lambda power: f"{2**power:.3g} times",
        lambda _, powers: max(3.0, *powers),
        lambda power: f"{_scale_end(2**power)}×",
        low_text="1×",
        head="kv head",
    ),
    _Map(
        "Largest score",
        lambda site: site.score_absmax,
        lambda size: f"{size:.3g} in size",
        lambda _, sizes: max(sizes),
        lambda size: f"{_scale_end(size)} in size, after scaling",
    ),
)
