"""Records of caches by model and layout: what the tables and the figure of caches are made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from assay.laws.quantiles import student_975
from assay.records.schema import Record
from assay.reports.numerals import DASH
from assay.reports.table import NO_RECORD, Entry

DENSE = "dense"


@dataclass(frozen=True, kw_only=True)
class CacheRow:
    """Records of one layout by metric, and those of the dense cache that it is held against."""

    model: str
    layout: str
    own: dict[str, Record]
    dense: dict[str, Record]

    def value(self, metric: str) -> float | None:
        record = self.own.get(metric)
        return None if record is None else record.value

    def entry(self, metric: str, form: str = "{:.4f}", factor: float = 1.0) -> Entry:
        """The value, or a dash with the reason why there is none."""
        value = self.value(metric)
        if value is None:
            return Entry(text=DASH, hint=self.reason(metric))
        return Entry(text=form.format(value * factor), value=value * factor)

    def share(self, metric: str) -> float | None:
        """The value as a share of the dense cache's."""
        own, dense = self.value(metric), self.dense.get(metric)
        return None if own is None or dense is None or not dense.value else own / dense.value

    def reason(self, metric: str) -> str:
        """The reason why there is no value: the metric's own, or the proof that failed."""
        for name in (metric, "cache_read_bytes", "cache_proof"):
            if (record := self.own.get(name)) and record.reason:
                return record.reason
        return NO_RECORD

    @property
    def band(self) -> str | None:
        """The band that the figures fell into when they were measured; None where they have none,
        because an interval does not lie in one."""
        record = self.own.get("cache_nll")
        return (record.data or {}).get("band") if record else None

    @property
    def why_no_band(self) -> str:
        """The reason why a cache with a loss has no band, and how many tokens would give it one."""
        record = self.own.get("cache_nll")
        more = (record.data or {}).get("more_tokens") if record else None
        if record and len(record.samples) < 2:
            return "cannot tell from one window"
        return f"cannot tell, {more:,} more tokens would" if more else "cannot tell"

    @property
    def dtype(self) -> str:
        """The dtype of the model, which is that of its dense cache; empty where none is known."""
        works = (record.workload for record in self.own.values() if record.workload)
        return next((str(work.spec.get("dtype", "")) for work in works), "")

    def difference(self, metric: str) -> tuple[float, float] | None:
        """Mean difference to the dense cache over paired samples, and half of its 95 % interval
        (Student's t); None where there are fewer than two."""
        own, dense = self.own.get(metric), self.dense.get(metric)
        if own is None or dense is None or len(own.samples) < 2 or self.layout == DENSE:
            return None
        pairs = [ours - plain for ours, plain in zip(own.samples, dense.samples, strict=True)]
        half = student_975(len(pairs) - 1) * stdev(pairs) / sqrt(len(pairs))
        return fmean(pairs), half


def rows_by_cell(records: Sequence[Record], stages: Sequence[str]) -> dict[str, list[CacheRow]]:
    """Return the layouts of each cell of some stages."""
    cells: dict[str, dict[str, dict[str, Record]]] = {}
    for record in records:
        if record.stage in stages and record.subject and record.metric.startswith("cache_"):
            layouts = cells.setdefault(record.cell, {})
            layouts.setdefault(record.subject, {})[record.metric] = record
    return {
        cell: [
            CacheRow(model=cell, layout=name, own=own, dense=layouts.get(DENSE, {}))
            for name, own in layouts.items()
        ]
        for cell, layouts in cells.items()
    }


def workload_name(rows: Sequence[CacheRow], metric: str) -> str:
    """The name of the workload that a metric of the rows is of; empty where it is of none."""
    records = (row.own[metric] for row in rows if metric in row.own)
    return next((record.workload.name for record in records if record.workload), "")
