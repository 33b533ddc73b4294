"""Latency against key length, with the quartiles of its samples.

One chart for each stage, dtype and mask. What has no latency (out of memory, refused) is named
below the chart, so that a curve that ends early is not read as one that was not tried.
"""

from assay.records.schema import Record
from assay.reports.chart import Chart, Series
from assay.reports.facets import Facet, facets
from assay.reports.summary import summarise

METRIC = "latency_ms"


def draw(records: list[Record]) -> list[Chart]:
    """A log-log chart for each facet that has a latency."""
    timed = {record.stage for record in records if record.metric == METRIC}
    found = facets([r for r in records if r.metric == METRIC or (r.stage in timed and _lost(r))])
    return [_chart(facet) for facet in found if any(map(_drawable, facet.records))]


def _chart(facet: Facet) -> Chart:
    series: dict[tuple[str, str], list[Record]] = {}
    for record in filter(_drawable, facet.records):
        series.setdefault((record.subject, facet.variant(record)), []).append(record)
    absent = _absent(facet)
    notes = ["Medians, with bars from the lower to the upper quartile", facet.shared]
    notes += [f"not drawn: {', '.join(absent)}" if absent else ""]
    return Chart(
        name=f"latency_{facet.name}",
        title=f"Latency: {facet.title}",
        x_label="key length (tokens)",
        y_label="latency (ms)",
        log_x=True,
        log_y=True,
        series=tuple(_series(*key, found) for key, found in sorted(series.items())),
        note="; ".join(note for note in notes if note),
    )


def _series(subject: str, variant: str, records: list[Record]) -> Series:
    ordered = sorted(records, key=_key_length)
    spreads = [summarise(record.samples or [record.value]) for record in ordered]
    return Series(
        subject=subject,
        variant=variant,
        x=tuple(_key_length(record) for record in ordered),
        y=tuple(spread.median for spread in spreads),
        low=tuple(spread.low for spread in spreads),
        high=tuple(spread.high for spread in spreads),
    )


def _absent(facet: Facet) -> list[str]:
    """Each subject and workload that has no point, with how it ended."""
    drawn = {_place(record) for record in facet.records if _drawable(record)}
    ends = {_place(record): record.status for record in facet.records}
    return [f"{place} ({status})" for place, status in ends.items() if place not in drawn]


def _place(record: Record) -> str:
    return f"{record.subject} at {record.workload.name if record.workload else record.cell}"


def _lost(record: Record) -> bool:
    """Whether this is how a subject ended; a crash is recorded under the name of its probe."""
    return bool(record.subject) and record.status != "ok" and record.value is None


def _drawable(record: Record) -> bool:
    """Whether a record is a latency with its place on two logarithmic axes."""
    ok = record.metric == METRIC and record.status == "ok" and record.value is not None
    return ok and min(record.samples or [record.value]) > 0 and _key_length(record) > 0


def _key_length(record: Record) -> int:
    assert record.workload is not None
    return record.workload.spec.get("key_length", 0)
