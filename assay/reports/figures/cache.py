"""Loss above the dense cache against the bytes of a layout, as shares of the dense cache's."""

from collections.abc import Sequence

from assay.records.schema import Record
from assay.reports.cache_rows import CacheRow, rows_by_cell, workload_name
from assay.reports.chart import Chart, Series

PLACE = 55


def draw(records: list[Record]) -> list[Chart]:
    """A chart for each model that was read through several layouts."""
    charts = []
    for cell, rows in rows_by_cell(records, ("cache_quality",)).items():
        if series := _series(rows):
            name = workload_name(rows, "cache_nll") or cell
            charts.append(
                Chart(
                    name=f"cache_quality_{cell}",
                    title=f"Loss above the dense cache: {name}",
                    x_label="bytes of the cache (share of dense)",
                    y_label="loss above dense (nats)",
                    series=series,
                    limit=0.0,
                    limit_name="dense",
                    note="95 % intervals over windows",
                )
            )
    return charts


def _series(rows: Sequence[CacheRow]) -> tuple[Series, ...]:
    drawn = []
    for row in rows:
        share, pair = row.share("cache_bytes_per_token"), row.difference("cache_nll")
        if share is not None and pair is not None:
            mean, half = pair
            bounds = {"low": (mean - half,), "high": (mean + half,)}
            drawn.append(Series(subject=row.layout, x=(share,), y=(mean,), **bounds))
    return tuple(drawn)
