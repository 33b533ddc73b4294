"""One row for each subject on each workload, the basis of tables, figures and files of speed.

There is a row for every subject that a stage was given, also where it ended without a number.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from assay.laws.curves import MEASURING
from assay.laws.pairs import PAIRED_METRICS, Ratio
from assay.laws.quantiles import quartiles
from assay.laws.rates import Rate, rates
from assay.records.schema import CELL_METRICS, Record, WorkloadIdentity
from assay.reports.numerals import DASH, number
from assay.reports.ratios import ratio_entry, ratios_to_baseline, subject_order
from assay.reports.table import NO_RECORD, Entry, Table, shorten_workloads, size_entry

FORWARD, BACKWARD, TRAINING = PAIRED_METRICS
NONE_KNOWN = "none known"
# Of a device, not of a subject.
_TELEMETRY = ("sm_clock_mhz", "power_w", "temperature_c", "utilisation")
_STATUS_TEXTS = {"oom": "OOM", "failed": "FAILED"}  # the other statuses are written as they are
# The probe that makes a metric, so that the right ending explains its absence.
_PROBES = {
    FORWARD: "latency",
    BACKWARD: "backward",
    TRAINING: "training",
    "graph_ms": "graph",
    "device_ms": "kernels",
    "compile_ms": "compile",
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
_SORTED_BY = ("dtype", "causal", "heads", "kv_heads", "head_dim", "batch", "key_length")
_LONGEST_KERNEL = 27  # letters


@dataclass(frozen=True, kw_only=True)
class Row:
    """One subject on one workload: its values by metric, and the records of how it ended."""

    stage: str
    workload: WorkloadIdentity
    subject: str
    records: dict[str, Record] = field(default_factory=dict)
    endings: list[Record] = field(default_factory=list)
    rates: dict[str, Rate] = field(default_factory=dict)
    ratios: dict[str, Ratio] = field(default_factory=dict)

    def value(self, metric: str) -> float | None:
        """The measured value; None where there is none, or it did not end well."""
        record = self.records.get(metric)
        return record.value if record and record.status == "ok" else None

    def ending(self, metric: str = FORWARD) -> tuple[str, str]:
        """Status and reason of a metric that has no value."""
        record = self.records.get(metric)
        if record and record.reason:
            return record.status, record.reason
        probe = _probe_of(metric)
        own = [r for r in self.endings if probe in r.metric.split("+")]
        for record in own or filter(_ends_all, self.endings):
            return record.status, record.reason or ""
        return "ok", NO_RECORD

    def absent(self, metric: str = FORWARD) -> Entry:
        """The entry of a metric that has no value."""
        status, reason = self.ending(metric)
        if status == "ok":
            return Entry(text=DASH, hint=reason)
        return Entry(text=_STATUS_TEXTS.get(status, status), hint=reason, tone=status)

    def time(self, metric: str) -> Entry:
        """A median with the quartiles around it."""
        record, value = self.records.get(metric), self.value(metric)
        if record is None or value is None:
            return self.absent(metric)
        detail, hint = "", f"source: {record.source}" if record.source else ""
        if len(record.samples) == 1:
            hint = "one sample, so no spread is known"
        elif record.samples:
            spread = quartiles(record.samples)
            detail = f"{number(spread.low)}–{number(spread.high)}"
        return Entry(text=number(value), detail=detail, value=value, hint=hint)

    def over(self, first: str | None, metric: str) -> Entry:
        """The ratio of a time to that of `first`, the baseline."""
        if self.subject == first:
            return Entry(text="baseline" if self.value(metric) is not None else DASH)
        own = self.ratios.get(metric)
        return self.absent(metric) if own is None else ratio_entry(own)

    def kernel(self) -> Entry:
        """The kernel that took the longest, with all of them as the hint."""
        record = self.records.get("kernels")
        if record is None or not record.source or record.status != "ok":
            return self.absent("kernels")
        text, whole = short_kernel(record.source), whole_kernel(record.source)
        return Entry(text=text, hint=record.source, whole=whole)

    def size(self, metric: str) -> Entry:
        """A number of bytes, with its instrument as the hint."""
        value = self.value(metric)
        if value is None:
            return self.absent(metric)
        source = self.records[metric].source
        return size_entry(value, hint=f"source: {source}" if source else "")

    def count(self, metric: str) -> Entry:
        """A plain number."""
        value = self.value(metric)
        return self.absent(metric) if value is None else Entry(text=number(value), value=value)


def speed_rows(stage: str, records: Sequence[Record]) -> list[Row]:
    """The rows of a stage, by workload and then in the order that the study names subjects."""
    measured = [
        record
        for record in records
        if record.stage == stage
        and record.metric not in CELL_METRICS
        and record.workload
        and record.subject
        and not is_telemetry(record)
    ]
    rows: dict[tuple[str, str, int], Row] = {}
    for record in measured:
        assert record.workload
        name, repeat = record.workload.name, 0
        while (name, record.subject, repeat) in rows and (
            record.metric in rows[name, record.subject, repeat].records
        ):
            repeat += 1
        row = rows.setdefault(
            (name, record.subject, repeat),
            Row(stage=stage, workload=record.workload, subject=record.subject),
        )
        if record.value is None and record.status != "ok":
            row.endings.append(record)
        if record.unit or record.value is not None:  # how a probe ended has neither
            row.records[record.metric] = record
    _add_rates(rows.values(), records)
    _add_ratios(rows.values(), measured, records)
    subjects = subject_order(measured, FORWARD)
    return sorted(rows.values(), key=lambda row: (_sort_key(row), _rank(row.subject, subjects)))


def measuring_stages(records: Sequence[Record]) -> list[str]:
    """The stages among some records that measure speed."""
    return [name for name in dict.fromkeys(r.stage for r in records) if name in MEASURING]


def is_telemetry(record: Record) -> bool:
    """True for metrics of a device; the metric timed meanwhile may stand before the name."""
    return record.metric.rpartition(".")[2] in _TELEMETRY


def row_table(
    name: str,
    rows: Sequence[Row],
    columns: Mapping[str, Callable[[Row], Entry]],
    *,
    note: str,
    spare: tuple[str, ...],
    always: Sequence[str] = (),
) -> Table:
    """A table of some rows of one stage, less the columns of which nothing is known.

    Those in `always` stay. Each reason of an absence is given once in a row.
    """
    stage = rows[0].stage
    lines = [[entry_of(row) for entry_of in columns.values()] for row in rows]
    unknown = [
        column
        for i, column in enumerate(columns)
        if column not in always and not any(_is_known(line[i]) for line in lines)
    ]
    table = Table(
        title=name if stage == MEASURING[0] else f"{name} of {stage}",
        columns=("workload", "subject", *columns),
        rows=tuple(
            (r.workload.name, r.subject, *line) for r, line in zip(rows, lines, strict=True)
        ),
        note=note,
        spare=spare,
    ).without(*unknown)
    whole = _with_single_reasons(table)
    return replace(shorten_workloads(whole), whole=whole)


def short_kernel(source: str) -> str:
    """The first kernel that `source` names, without types, arguments and shares of time."""
    name = source.strip()
    while re.search(r"<[^<>]*>", name):
        name = re.sub(r"<[^<>]*>", "", name)
    name = re.split(r"[(,;<]| \d+(?:\.\d+)? ?%| x\d+\b|: \d", name)[0].strip()
    name = name.removeprefix("void ").split("::")[-1].strip()
    if len(name) <= _LONGEST_KERNEL:
        return name or source[:_LONGEST_KERNEL]
    half = (_LONGEST_KERNEL - 1) // 2
    return f"{name[:half]}…{name[-half:]}"


def whole_kernel(source: str) -> str:
    """The first kernel that `source` names, all of its name, without its share of time."""
    return re.split(r" \d+(?:\.\d+)? ?%", source)[0].strip()


def _is_known(entry: Entry) -> bool:
    return entry.value is not None or (entry.text not in (DASH, NONE_KNOWN) and not entry.tone)


def _with_single_reasons(table: Table) -> Table:
    """The table with each reason of an absence only where it first stands in its row."""
    rows = []
    for row in table.entries:
        seen: set[str] = set()
        kept = []
        for entry in row:
            repeated = entry.needs_reason and entry.hint in seen
            seen |= {entry.hint} if entry.needs_reason else set()
            kept.append(Entry(text=DASH) if repeated else entry)
        rows.append(tuple(kept))
    return replace(table, rows=tuple(rows))


def _add_rates(rows: Iterable[Row], records: Sequence[Record]) -> None:
    by_record = rates(records)
    for row in rows:
        row.rates.update(
            {m: by_record[id(r)] for m, r in row.records.items() if id(r) in by_record}
        )


def _add_ratios(rows: Iterable[Row], records: Sequence[Record], run: Sequence[Record]) -> None:
    for metric in PAIRED_METRICS:
        ratios = ratios_to_baseline(records, metric, run=run)
        for row in rows:
            record = row.records.get(metric)
            if record is not None and id(record) in ratios:
                row.ratios[metric] = ratios[id(record)]


def _probe_of(metric: str) -> str:
    prefixed = (probe for start, probe in _PREFIXES.items() if metric.startswith(start))
    return _PROBES.get(metric) or next(prefixed, "work")


def _ends_all(record: Record) -> bool:
    """True where a subject ended before any probe, or without the forward pass that all need."""
    probes = {*_PROBES.values(), *_PREFIXES.values(), "work"}
    named = probes & set(record.metric.split("+"))
    return record.metric == FORWARD or "latency" in named or not (named or record.unit)


def _sort_key(row: Row) -> tuple[Any, ...]:
    spec = row.workload.spec
    return (*(str(spec.get(n, "")).zfill(12) for n in _SORTED_BY), row.workload.name)


def _rank(subject: str, subjects: list[str]) -> tuple[int, str]:
    return (subjects.index(subject), "") if subject in subjects else (len(subjects), subject)
