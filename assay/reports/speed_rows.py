"""What is known of each implementation on each workload: the rows behind tables, figures and files.

A row is there for every subject that a stage was asked about, also where it ended in nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.laws.pairs import Ratio
from assay.laws.quantiles import quartiles
from assay.laws.rates import Rate, rated
from assay.records.schema import CELL_SECONDS, Record, WorkloadIdentity
from assay.reports.baseline import order
from assay.reports.numerals import DASH, number
from assay.reports.paired import ROUNDS, against_first
from assay.reports.table import Entry

STAGES = ("bench", "layers")  # where speed and memory are measured
FORWARD, BACKWARD, TRAINING = ROUNDS
TELEMETRY = ("sm_clock_mhz", "power_w", "temperature_c")  # of a device, not of a subject
WORDS = {"oom": "OOM", "failed": "FAILED"}  # how an ending is written; the others as they are
# Which probe makes a metric, so that the right ending explains its absence.
_PROBES = {
    FORWARD: "latency",
    BACKWARD: "backward",
    TRAINING: "training",
    "graph_ms": "graph",
    "device_ms": "kernels",
}
_PREFIXES = {
    "kernel": "kernels",
    "input_copy": "kernels",
    "forward_peak": "memory",
    "training_peak": "memory",
    "saved": "memory",
    "reserved": "memory",
    "fragmentation": "memory",
}
_NO_RECORD = "no record of this metric"
_SORTED_BY = ("dtype", "causal", "heads", "kv_heads", "head_dim", "batch", "key_length")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One subject on one workload; `records` are its values by metric, `endings` what ended it."""

    stage: str
    workload: WorkloadIdentity
    subject: str
    records: dict[str, Record] = field(default_factory=dict)
    endings: list[Record] = field(default_factory=list)
    rates: dict[str, Rate] = field(default_factory=dict)
    ratios: dict[str, Ratio] = field(default_factory=dict)

    def value(self, metric: str) -> float | None:
        """What was measured; None where it was not, or did not end well."""
        record = self.records.get(metric)
        return record.value if record and record.status == "ok" else None

    def ending(self, metric: str = FORWARD) -> tuple[str, str]:
        """The status and the reason of a metric that has no value."""
        record = self.records.get(metric)
        if record and record.reason:
            return record.status, record.reason
        probe = _probe_of(metric)
        own = [r for r in self.endings if probe in r.metric.split("+")]
        for record in own or filter(_ends_all, self.endings):
            return record.status, record.reason or ""
        return "ok", _NO_RECORD

    def absent(self, metric: str = FORWARD) -> Entry:
        """What a table shows where a metric has no value."""
        status, reason = self.ending(metric)
        if status == "ok":
            return Entry(text=DASH, hint=reason)
        return Entry(text=WORDS.get(status, status), hint=reason, tone=status)

    def timed(self, metric: str) -> Entry:
        """A median with the quartiles around it."""
        record, value = self.records.get(metric), self.value(metric)
        if record is None or value is None:
            return self.absent(metric)
        detail = ""
        if len(record.samples) > 1:
            spread = quartiles(record.samples)
            detail = f"{number(spread.low)}–{number(spread.high)}"
        hint = "one sample, so no spread is known" if len(record.samples) == 1 else ""
        return Entry(text=number(value), detail=detail, value=value, hint=hint or _told(record))


def speed_rows(stage: str, records: Sequence[Record]) -> list[Row]:
    """The rows of a stage, by workload and then in the order that the study names subjects."""
    mine = [r for r in records if r.stage == stage and r.metric != CELL_SECONDS]
    mine = [r for r in mine if r.workload and r.subject and not is_telemetry(r)]
    rows: dict[tuple[str, str, int], Row] = {}
    for record in mine:
        assert record.workload
        name, repeat = record.workload.name, 0
        while record.metric in rows.get((name, record.subject, repeat), _EMPTY).records:
            repeat += 1
        row = rows.setdefault(
            (name, record.subject, repeat),
            Row(stage=stage, workload=record.workload, subject=record.subject),
        )
        if record.value is None and record.status != "ok":
            row.endings.append(record)
        if record.unit or record.value is not None:  # how a probe ended has neither
            row.records[record.metric] = record
    found = {id(record): rate for record, rate in rated(records)}
    for row in rows.values():
        row.rates.update({m: found[id(r)] for m, r in row.records.items() if id(r) in found})
    _add_ratios(list(rows.values()), mine)
    subjects = order(mine, FORWARD)
    return sorted(rows.values(), key=lambda row: (_place(row), _rank(row.subject, subjects)))


def is_telemetry(record: Record) -> bool:
    """Whether this is about a device; what was timed meanwhile may stand before the metric."""
    return record.metric.rpartition(".")[2] in TELEMETRY


def _add_ratios(rows: Sequence[Row], mine: list[Record]) -> None:
    for metric in ROUNDS:
        found = against_first(mine, metric)
        for row in rows:
            record = row.records.get(metric)
            if record is not None and id(record) in found:
                row.ratios[metric] = found[id(record)]


def _probe_of(metric: str) -> str:
    prefixed = (probe for start, probe in _PREFIXES.items() if metric.startswith(start))
    return _PROBES.get(metric) or next(prefixed, "work")


def _ends_all(record: Record) -> bool:
    """Whether a subject ended before any probe, or without the forward pass that all need."""
    probes = {*_PROBES.values(), *_PREFIXES.values(), "work"}
    named = probes & set(record.metric.split("+"))
    return record.metric == FORWARD or "latency" in named or not (named or record.unit)


def _place(row: Row) -> tuple[Any, ...]:
    spec = row.workload.spec
    return (*(str(spec.get(n, "")).zfill(12) for n in _SORTED_BY), row.workload.name)


def _rank(subject: str, subjects: list[str]) -> tuple[int, str]:
    return (subjects.index(subject), "") if subject in subjects else (len(subjects), subject)


def _told(record: Record) -> str:
    return f"source: {record.source}" if record.source else ""


_EMPTY = Row(stage="", workload=WorkloadIdentity(name="", spec={}, content=None), subject="")
