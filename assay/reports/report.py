"""The report of a run before any format: its verdict and its parts in reading order."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay.errors import CannotRunHere
from assay.laws.fitted import fit_all
from assay.records.foreign_text import visible
from assay.records.schema import CELL_METRICS, SEVERITY, Record
from assay.records.verdicts import NO_VERDICTS, WRONG, cases_run, is_gap, without_time
from assay.reports.chart import Chart
from assay.reports.contents import UNFINISHED, UNREADABLE, Contents, Stage
from assay.reports.extensions import make_tables
from assay.reports.headlines import comparisons, replays, shared_state, trainings, warnings
from assay.reports.law_tables import tables_of
from assay.reports.numerals import counted
from assay.reports.ratios import ratio_table
from assay.reports.run_tables import commit_text, condensed, outcomes, provenance, stage_endings
from assay.reports.speed_rows import measuring_stages, speed_rows
from assay.reports.table import Table

_MOST_NAMED = 4  # of the probes that are incomplete, in the first line


@dataclass(frozen=True, kw_only=True)
class Report:
    """All parts of a report; what went wrong comes before what was measured."""

    title: str
    verdict: str
    tone: str  # failed, unfinished or ok
    headlines: tuple[str, ...]  # how subjects compare with the first
    facts: tuple[str, ...]
    problems: tuple[str, ...]
    outcomes: Table
    stages: Table
    charts: tuple[Chart, ...]
    results: tuple[Table, ...]
    ratios: tuple[Table, ...]
    provenance: tuple[Table, ...]

    def __post_init__(self) -> None:
        for name in ("title", "verdict"):
            object.__setattr__(self, name, visible(getattr(self, name)))
        for name in ("headlines", "facts", "problems"):
            object.__setattr__(self, name, tuple(map(visible, getattr(self, name))))


def compose(
    contents: Contents,
    *,
    charts: Sequence[Chart] = (),
    problems: Sequence[str] = (),
    plugin_folders: Sequence[Path] = (),
) -> Report:
    """The report of a run; `problems` are those that came up while drawing."""
    records, names = contents.records, [stage.name for stage in contents.stages]
    tone, verdict = judge(contents.stages)
    speeds = [speed_rows(stage, records) for stage in measuring_stages(records)]
    doubts = [line for rows in speeds for line in warnings(rows, records, contents.run.config)]
    tables, failures = make_tables(names, records, plugin_folders)
    return Report(
        title=f"{contents.run.study}, run {contents.run.run}",
        verdict=verdict,
        tone=tone,
        facts=tuple(_facts(contents)),
        headlines=(
            *(line for rows in speeds for line in comparisons(rows)),
            *replays(records),
            *trainings(records),
        ),
        problems=(
            *contents.problems,
            *_mixed_hosts(records),
            *shared_state(records),
            *doubts,
            *failures,
            *problems,
        ),
        outcomes=condensed(outcomes(records)),
        stages=stage_endings(contents.stages),
        charts=tuple(charts),
        results=(*tables, *_laws(contents)),
        ratios=tuple(table for name in names if (table := ratio_table(name, records))),
        provenance=tuple(provenance(contents.run)),
    )


def _laws(contents: Contents) -> list[Table]:
    """Tables of the laws that the records hold; none where they hold too few lengths."""
    try:
        return tables_of(fit_all(contents.records, [contents.run]))
    except CannotRunHere:
        return []


def judge(stages: Sequence[Stage]) -> tuple[str, str]:
    """Tone and first line: holds, how many failed, incomplete, unfinished, or nothing measured."""
    failed = sum(_failures(stage) for stage in stages)
    incomplete = _incomplete(stages)
    unfinished = [stage.name for stage in stages if stage.status == UNFINISHED]
    waiting = f"unfinished: {', '.join(unfinished) or 'no stage has begun'}"
    if failed or incomplete:
        wrong = [f"{failed:,} failed"] if failed else []
        return "failed", "; ".join([*wrong, *incomplete, *([waiting] if unfinished else [])])
    if unfinished or not stages:
        return UNFINISHED, waiting
    if late := without_time(record for stage in stages for record in stage.records):
        return "failed", f"ran out of time before anything was measured: {', '.join(late)}"
    others = Counter(status for stage in stages for status in _statuses(stage))
    counts = ", ".join(f"{others[s]:,} {s}" for s in SEVERITY[:-1] if others[s])
    gaps = sum(is_gap(record) for stage in stages for record in stage.records)
    counts = ", ".join(filter(None, [counts, f"{gaps:,} not examined" if gaps else ""]))
    ended = f", with {counts}" if counts else ""
    if not any(_measured(record) for stage in stages for record in stage.records):
        return UNFINISHED, f"nothing was measured{ended}"
    return "ok", f"holds{ended}"


def _incomplete(stages: Sequence[Stage]) -> list[str]:
    """The probes that had no time for all their cases, with how many they ran."""
    lacking = [
        f"{record.subject} {record.metric} {counts} cases"
        for stage in stages
        for record in stage.records
        if record.metric not in CELL_METRICS and (counts := cases_run(record))
    ]
    beyond = len(lacking) - _MOST_NAMED
    more = f" and {counted(beyond, 'more probe')}" if beyond > 0 else ""
    return [f"incomplete: {', '.join(lacking[:_MOST_NAMED])}{more}"] if lacking else []


def _failures(stage: Stage) -> int:
    """Number of outcomes of a stage that failed: none unless it or one of its records did.

    A stage may expect an OOM or a timeout; in a stage that failed they are what failed.
    """
    complete = tuple(record for record in stage.records if not cases_run(record))
    statuses = _statuses(replace(stage, records=complete))
    if stage.status not in ("failed", UNREADABLE) and "failed" not in statuses:
        return 0
    failures = sum(status in WRONG for status in statuses)
    return failures if len(complete) < len(stage.records) else max(1, failures)


def _measured(record: Record) -> bool:
    return record.status == "ok" and record.metric not in (*CELL_METRICS, *NO_VERDICTS)


def _statuses(stage: Stage) -> list[str]:
    return [row[0].text for row in outcomes(stage.records).entries]


def _facts(contents: Contents) -> list[str]:
    run = contents.run
    starts = len(run.sessions)
    return [
        f"commit {commit_text(run.commit, run.dirty)}",
        f"host {run.host or '—'}",
        f"started {run.sessions[0].started}" if run.sessions else "never started",
        counted(starts, "session"),
        f"{len(contents.records):,} records",
    ]


def _mixed_hosts(records: Sequence[Record]) -> list[str]:
    hosts = sorted({record.host for record in records})
    if len(hosts) < 2:
        return []
    return [f"records come from {len(hosts)} hosts and must not be compared: {', '.join(hosts)}"]
