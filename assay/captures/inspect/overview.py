"""Maps of all layers and heads: where attention is even, where it sinks, where keys stand out."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from assay.captures.inspect import heat_map
from assay.captures.inspect.heat_map import HeatMap, scale_text
from assay.captures.inspect.page import Drawing, Figure

if TYPE_CHECKING:
    from assay.captures.inspect.sites import SiteSummary

PerHead = Sequence[float | None]


def overview(found: Sequence["SiteSummary"]) -> tuple[Figure, ...]:
    """Layers by heads, one drawing for each phase."""
    by_phase: dict[str, list[SiteSummary]] = {}
    for site in found:
        by_phase.setdefault(site.phase or "all", []).append(site)
    titles = {
        "Entropy of attention": _entropy_map,
        "Weight on the first key": _sink_map,
        "Largest channel of k over the median of its head": _channel_map,
        "Largest score": _score_map,
    }
    return tuple(
        Figure(
            title=title,
            panels_are="phases",
            drawings=tuple(
                Drawing(panel=phase, svg=heat_map.draw(drawn, label=f"{title}, {phase}"))
                for phase, several in by_phase.items()
                if (drawn := make(several))
            ),
        )
        for title, make in titles.items()
    )


def _layers_by_heads(
    found: Sequence["SiteSummary"],
    per_head: Callable[["SiteSummary"], PerHead],
    tell: Callable[[float], str],
    *,
    heads_are: str = "head",
    **scale: float | str,
) -> HeatMap | None:
    rows = [tuple(per_head(site)) for site in found]
    widest = max(map(len, rows), default=0)
    if not any(value is not None for row in rows for value in row):
        return None
    cells = tuple(row + (None,) * (widest - len(row)) for row in rows)
    hints = tuple(
        tuple(
            f"{site.label}, {heads_are} {head}: {'—' if value is None else tell(value)}"
            for head, value in enumerate(row)
        )
        for site, row in zip(found, cells, strict=True)
    )
    names = tuple(
        str(i) if site.layer is None or site.layer < 0 else str(site.layer)
        for i, site in enumerate(found)
    )
    return HeatMap(
        cells=cells, hints=hints, row_names=names, rows_are="layer", columns_are=heads_are, **scale
    )


def _entropy_map(found: Sequence["SiteSummary"]) -> HeatMap | None:
    most = max((site.uniform_entropy or 0.0 for site in found), default=0.0)
    return _layers_by_heads(
        found,
        lambda site: site.entropy,
        lambda nats: f"{nats:.2f} nats, as {math.exp(nats):.3g} equal keys",
        low=0.0,
        high=most,
        low_text="0",
        high_text=f"{most:.2f} nats, equal weights",
    )


def _sink_map(found: Sequence["SiteSummary"]) -> HeatMap | None:
    return _layers_by_heads(
        found,
        lambda site: site.sink,
        lambda share: f"{share:.1%}",
        low=0.0,
        high=1.0,
        low_text="0",
        high_text="100 %",
    )


def _score_map(found: Sequence["SiteSummary"]) -> HeatMap | None:
    known = [size for site in found for size in site.score_absmax if size is not None]
    most = max(known, default=0.0)
    return _layers_by_heads(
        found,
        lambda site: site.score_absmax,
        lambda size: f"{size:.3g} in size",
        low=0.0,
        high=most,
        low_text="0",
        high_text=f"{scale_text(most)} in size, after scaling",
    )


def _channel_map(found: Sequence["SiteSummary"]) -> HeatMap | None:
    def farthest(site: "SiteSummary") -> PerHead:
        channels = site.channels("k")
        if channels is None or channels.why:
            return ()
        return [None if math.isnan(t) else math.log2(t) for t in channels.times_HD.max(axis=1)]

    known = [value for site in found for value in farthest(site) if value is not None]
    most = max([3.0, *known])
    return _layers_by_heads(
        found,
        farthest,
        lambda power: f"{2**power:.3g} times",
        heads_are="kv head",
        low=0.0,
        high=most,
        low_text="1×",
        high_text=f"{scale_text(2**most)}×",
    )
