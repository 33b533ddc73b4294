"""Figures of each layer: sizes, values against normal ones, channels of k, attention."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from assay.captures.inspect.drawing import (
    HeatMap,
    HistogramPlot,
    heat_map,
    histogram_plot,
    superscript,
)
from assay.captures.inspect.overview import Figure, FigurePanel
from assay.captures.inspect.sites import SiteSummary

MOST_CELLS = 300_000  # in the maps of all layers; more would make the page larger than 5 MB
_TENSORS = ("q", "k", "v")
_FAINTEST = -10.0  # log2 of the weight that an attention map no longer shows
_CHANNEL_SPAN = (-2.0, 5.0)  # log2 of a channel over the median of its head, from faint to full
_SHARE_FLOOR = 1e-7


def by_layer(sites: Sequence[SiteSummary]) -> tuple[Figure, ...]:
    """Four drawings of each layer, from the phase of its largest call."""
    layers = _layers(sites)
    shown = max(layers, key=lambda name: _largest_outlier(layers[name]), default=None)
    drawn = {name: layers[name] for name in _affordable(layers, shown)}
    left_out = f"{len(drawn)} of {len(layers)} layers are drawn."
    draw: dict[str, Callable[[SiteSummary], FigurePanel | None]] = {
        "Sizes of q, k and v": _sizes,
        "Values, in standard deviations": _deviations,
        "Channels of k, over the median of their head": _channels,
        "Attention of one head": _attention,
    }
    figures = []
    for title, make in draw.items():
        panels = [replace(p, name=name) for name, site in drawn.items() if (p := make(site))]
        if len(drawn) < len(layers):
            panels = [replace(panel, notes=(*panel.notes, left_out)) for panel in panels]
        first = shown if any(panel.name == shown for panel in panels) else None
        figures.append(Figure(title=title, panels_of="layers", panels=tuple(panels), shown=first))
    return tuple(figures)


def _layers(sites: Sequence[SiteSummary]) -> dict[str, SiteSummary]:
    """The site with the largest call of each module, by a name that no two share."""
    largest: dict[tuple, SiteSummary] = {}
    for site in sites:
        kept = largest.setdefault(site.module, site)
        if site.largest_call.pairs > kept.largest_call.pairs:
            largest[site.module] = site
    runs = list(dict.fromkeys((site.run, site.rank) for site in largest.values()))
    labels = Counter((site.run, site.rank, site.label) for site in largest.values())
    layers = {}
    for site in largest.values():
        shared = labels[site.run, site.rank, site.label] > 1
        name = f"{site.label} {site.site}" if shared else site.label
        run = f", run {runs.index((site.run, site.rank)) + 1}" if len(runs) > 1 else ""
        layers[name + run] = site
    return layers


def _largest_outlier(site: SiteSummary) -> float:
    channels = site.channels("k")
    return channels.outliers[0].times if channels and channels.outliers else 0.0


def _affordable(layers: dict[str, SiteSummary], shown: str | None) -> list[str]:
    """Evenly spaced layers, as many as a page can hold, and the one shown first."""
    cells = 0
    for site in layers.values():
        channels, attention = site.channels("k"), site.largest_call.map
        cells += channels.absmax_HD.size if channels else 0
        cells += attention.weights.size if attention else 0
    every = max(1, math.ceil(cells / MOST_CELLS))
    return [name for i, name in enumerate(layers) if i % every == 0 or name == shown]


def _sizes(site: SiteSummary) -> FigurePanel | None:
    histograms = {n: h for n in _TENSORS if (h := site.magnitudes(n)) and h.total}
    if not histograms:
        return None
    bins = next(iter(histograms.values()))
    filled = [i for h in histograms.values() for i, count in enumerate(h.counts) if count] or [0]
    first, last = max(min(filled) - 1, 0), min(max(filled) + 2, len(bins.counts))
    low, high = round(bins.low) + first, round(bins.low) + last
    every = 2 if last - first <= 20 else 4 if last - first <= 40 else 8
    powers = [power for power in range(low, high + 1) if power % every == 0]
    plot = HistogramPlot(
        low=low,
        width=bins.width,
        shares={name: h.shares[first:last] for name, h in histograms.items()},
        ticks=tuple((power, f"2{superscript(power)}") for power in powers),
        x_label="size",
    )
    return _panel(histogram_plot(plot, label=f"sizes of q, k and v in {site.label}"))


def _deviations(site: SiteSummary) -> FigurePanel | None:
    tensors = site.largest_call.tensors
    named = {name: tensors[name].deviations_in_std for name in _TENSORS if name in tensors}
    histograms = {name: histogram for name, histogram in named.items() if histogram}
    if not histograms:
        return None
    bins = next(iter(histograms.values()))
    edges = [bins.low + i * bins.width for i in range(len(bins.counts) + 1)]
    normal = (_normal_below(b) - _normal_below(a) for a, b in pairwise(edges))
    plot = HistogramPlot(
        low=bins.low,
        width=bins.width,
        shares={name: h.shares for name, h in histograms.items()},
        reference=("normal", tuple(share if share > _SHARE_FLOOR else 0 for share in normal)),
        ticks=tuple((t, f"{t:+d}" if t else "0") for t in range(-10, 11, 2)),
        x_label="standard deviations from the mean",
        log_floor=_SHARE_FLOOR,
    )
    beyond = {name: (h.below + h.above) / h.total for name, h in histograms.items()}
    outside = ", ".join(f"{share:.2g} of {name}" for name, share in beyond.items() if share)
    svg = histogram_plot(plot, label=f"values of q, k and v in {site.label}")
    return _panel(svg, *([f"Beyond the frame: {outside}."] if outside else []))


def _normal_below(value: float) -> float:
    """Share of normal numbers below `value` standard deviations."""
    return 0.5 * math.erfc(-value / math.sqrt(2))


def _channels(site: SiteSummary) -> FigurePanel | None:
    channels = site.channels("k")
    if channels is None:
        return None
    low, high = _CHANNEL_SPAN
    cells = (
        tuple(None if math.isnan(t) else math.log2(t) if t else low for t in row)
        for row in channels.times_HD
    )
    drawn = HeatMap(
        cells=tuple(cells),
        low=low,
        high=high,
        low_text="¼×",
        high_text="32×, logarithmic",
        row_label="kv head",
        column_label="channel",
        highest_cell=26.0,
    )
    named = [f"head {o.head} channel {o.channel}: {o.times:.3g}×" for o in channels.outliers]
    more = f" and {len(named) - 6} more" if len(named) > 6 else ""
    outliers = f"Outliers: {', '.join(named[:6])}{more}."
    note = outliers if named else channels.why or "No channel is an outlier."
    return _panel(heat_map(drawn, label=f"channels of k in {site.label}"), note)


def _attention(site: SiteSummary) -> FigurePanel | None:
    call = site.largest_call
    if call.map is None or call.attention is None:
        return None
    cells = (
        tuple(math.log2(weight) if weight > 0 else _FAINTEST for weight in row)
        for row in call.map.weights
    )
    drawn = HeatMap(
        cells=tuple(cells),
        low=_FAINTEST,
        high=0.0,
        low_text="0.001",
        high_text="1, logarithmic",
        row_label="query",
        column_label="key",
        row_places=call.map.queries,
        column_places=call.map.keys,
        square=True,
    )
    head, statistics = call.map.head, call.attention
    note = (
        f"Head {head} of {call.name}: the one named with --head, else that of median entropy. A "
        "cell is the sum of the weights of its keys, averaged over its queries."
    )
    if statistics.sampled:
        note += f" Entropies are of {statistics.queries:,} of {statistics.of_queries:,} queries."
    return _panel(heat_map(drawn, label=f"attention of head {head} in {site.label}"), note)


def _panel(svg: str, *notes: str) -> FigurePanel:
    return FigurePanel(name="", svg=svg, notes=notes)
