"""Four drawings of each layer: sizes, values against normal ones, channels of k, attention."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from assay.captures.inspect import heat_map, histogram_plot
from assay.captures.inspect.heat_map import HeatMap
from assay.captures.inspect.histogram_plot import HistogramPlot, StepLine, superscript
from assay.captures.inspect.page import Drawing, Figure

if TYPE_CHECKING:
    from assay.captures.inspect.sites import SiteSummary

MOST_CELLS = 300_000  # of maps of layers; more would make the page heavier than five megabytes
_TENSORS = ("q", "k", "v")
_FAINTEST = -10  # log2 of the weight that an attention map no longer shows
_CHANNEL_SPAN = (-2.0, 5.0)  # log2 of a channel over the median of its head, from faint to full
_SHARE_FLOOR = 1e-7


def by_layer(found: Sequence["SiteSummary"]) -> tuple[Figure, ...]:
    """What each attention's largest call looks like, one drawing for each attention."""
    every = _largest_phase(found)
    named = dict(zip(_panel_names(every), every, strict=True))
    shown = _most_telling(named)
    named = {name: named[name] for name in _affordable(named, shown)}
    fewer = f"{len(named)} of {len(every)} layers are drawn." if len(named) < len(every) else ""
    makes: dict[str, Callable[[SiteSummary], tuple[str, tuple[str, ...]] | None]] = {
        "Sizes of q, k and v": _sizes,
        "Values, in standard deviations": _deviations,
        "Channels of k, over the median of their head": _channels,
        "Attention of one head": _attention,
    }
    figures = []
    for title, make in makes.items():
        drawings = []
        for name, site in named.items():
            if made := make(site):
                svg, notes = made
                told = (*notes, fewer) if fewer else notes
                drawings.append(Drawing(panel=name, svg=svg, notes=told))
        first = shown if any(d.panel == shown for d in drawings) else None
        figures.append(
            Figure(title=title, panels_are="layers", drawings=tuple(drawings), shown=first)
        )
    return tuple(figures)


def _affordable(named: dict[str, "SiteSummary"], shown: str | None) -> list[str]:
    """Layers evenly spaced, as many as a page can hold, and the one shown first."""
    cells = 0
    for site in named.values():
        channels, picture = site.channels("k"), site.largest_call.map
        cells += channels.absmax_HD.size if channels else 0
        cells += picture.weights.size if picture else 0
    every = max(1, math.ceil(cells / MOST_CELLS))
    return [name for i, name in enumerate(named) if i % every == 0 or name == shown]


def _largest_phase(found: Sequence["SiteSummary"]) -> list["SiteSummary"]:
    """Of each attention the phase that has its largest call."""
    best: dict[tuple, SiteSummary] = {}
    for site in found:
        place = (site.run, site.rank, site.layer, site.site)
        if place not in best or site.largest_call.pairs > best[place].largest_call.pairs:
            best[place] = site
    return list(best.values())


def _panel_names(found: Sequence["SiteSummary"]) -> list[str]:
    several = len({(site.run, site.rank) for site in found}) > 1
    order = list(dict.fromkeys((site.run, site.rank) for site in found))
    return [
        f"{site.label}, run {order.index((site.run, site.rank)) + 1}" if several else site.label
        for site in found
    ]


def _most_telling(named: dict[str, "SiteSummary"]) -> str | None:
    """The layer whose keys have the farthest channel."""

    def farthest(site: "SiteSummary") -> float:
        channels = site.channels("k")
        return channels.outliers[0].times if channels and channels.outliers else 0.0

    return max(named, key=lambda name: farthest(named[name]), default=None)


def _sizes(site: "SiteSummary") -> tuple[str, tuple[str, ...]] | None:
    found = {name: h for name in _TENSORS if (h := site.magnitudes(name)) and h.total}
    if not found:
        return None
    bins = len(next(iter(found.values())).counts)
    filled = [i for h in found.values() for i, count in enumerate(h.counts) if count]
    first, last = max(min(filled, default=0) - 1, 0), min(max(filled, default=0) + 2, bins)
    low = next(iter(found.values())).low
    drawn = HistogramPlot(
        low=low + first,
        width=1.0,
        outlines=tuple(
            StepLine(name=name, shares=tuple(n / h.total for n in h.counts[first:last]))
            for name, h in found.items()
        ),
        ticks=tuple(
            (float(p), f"2{superscript(p)}")
            for p in range(math.ceil(low + first), math.floor(low + last) + 1)
            if p % _every(last - first) == 0
        ),
        x_label="size",
    )
    return histogram_plot.draw(drawn, label=f"sizes of q, k and v in {site.label}"), ()


def _every(bins: int) -> int:
    return 2 if bins <= 20 else 4 if bins <= 40 else 8


def _deviations(site: "SiteSummary") -> tuple[str, tuple[str, ...]] | None:
    tensors = site.largest_call.tensors
    found = {name: h for name in _TENSORS if name in tensors and (h := tensors[name].deviations)}
    if not found:
        return None
    any_one = next(iter(found.values()))
    edges = [any_one.low + i * any_one.width for i in range(len(any_one.counts) + 1)]
    normal = tuple(_below(b) - _below(a) for a, b in pairwise(edges))
    drawn = HistogramPlot(
        low=any_one.low,
        width=any_one.width,
        outlines=tuple(
            StepLine(name=name, shares=tuple(n / h.total for n in h.counts))
            for name, h in found.items()
        ),
        reference=StepLine(
            name="normal", shares=tuple(s if s > _SHARE_FLOOR else 0 for s in normal)
        ),
        ticks=tuple((float(t), f"{t:+d}" if t else "0") for t in range(-10, 11, 2)),
        x_label="standard deviations from the mean",
        log_floor=_SHARE_FLOOR,
    )
    beyond = [
        f"{(h.below + h.above) / h.total:.2g} of {name}"
        for name, h in found.items()
        if h.below + h.above
    ]
    note = (f"Beyond the frame: {', '.join(beyond)}.",) if beyond else ()
    return histogram_plot.draw(drawn, label=f"values of q, k and v in {site.label}"), note


def _below(place: float) -> float:
    """The share of normal numbers below `place` standard deviations."""
    return 0.5 * math.erfc(-place / math.sqrt(2))


def _channels(site: "SiteSummary") -> tuple[str, tuple[str, ...]] | None:
    channels = site.channels("k")
    if channels is None:
        return None
    cells = tuple(
        tuple(None if math.isnan(t) else math.log2(t) if t else _CHANNEL_SPAN[0] for t in row)
        for row in channels.times_HD
    )
    drawn = HeatMap(
        cells=cells,
        low=_CHANNEL_SPAN[0],
        high=_CHANNEL_SPAN[1],
        low_text="¼×",
        high_text="32×, the scale is logarithmic",
        rows_are="kv head",
        columns_are="channel",
        highest_cell=26.0,
    )
    found = [f"head {o.head} channel {o.channel}: {o.times:.3g}×" for o in channels.outliers[:6]]
    more = f" and {len(channels.outliers) - 6} more" if len(channels.outliers) > 6 else ""
    told = (
        f"Standing out: {', '.join(found)}{more}." if found else channels.why or "None stands out."
    )
    return heat_map.draw(drawn, label=f"channels of k in {site.label}"), (told,)


def _attention(site: "SiteSummary") -> tuple[str, tuple[str, ...]] | None:
    found = site.largest_call.map
    if found is None or site.largest_call.attention is None:
        return None
    cells = tuple(
        tuple(math.log2(w) if w > 0 else float(_FAINTEST) for w in row) for row in found.weights
    )
    drawn = HeatMap(
        cells=cells,
        low=float(_FAINTEST),
        high=0.0,
        low_text="0.001",
        high_text="1, the scale is logarithmic",
        rows_are="query",
        columns_are="key",
        row_places=found.queries,
        column_places=found.keys,
        square=True,
    )
    sampled = site.largest_call.attention
    note = (
        f"Head {found.head} of {site.largest_call.name}, chosen with --head, else that of median "
        "entropy. A cell is the weight of its keys together, the mean over its queries."
    )
    if sampled.sampled:
        note += f" Entropies are of {sampled.queries:,} of {sampled.of_queries:,} queries."
    return heat_map.draw(drawn, label=f"attention of head {found.head} in {site.label}"), (note,)
