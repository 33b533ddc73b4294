"""The report of a run before any format: its verdict and its parts in reading order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay.errors import CannotRunHere
from assay.laws.fitted import fit_all
from assay.records.check_answer import Answer
from assay.records.foreign_text import visible
from assay.records.schema import REUSED, Record
from assay.records.verdicts import SUITES
from assay.reports.answer import answer
from assay.reports.chart import Chart
from assay.reports.contents import Contents
from assay.reports.extensions import make_tables
from assay.reports.headlines import busy_machine, shared_state, warnings
from assay.reports.law_tables import tables_of
from assay.reports.numerals import counted
from assay.reports.ratios import ratio_table
from assay.reports.run_tables import commit_text, condensed, outcomes, provenance, stage_endings
from assay.reports.run_verdict import is_check, judge
from assay.reports.speed_rows import measuring_stages, speed_rows
from assay.reports.table import Table


@dataclass(frozen=True, kw_only=True)
class Report:
    """All parts of a report; what went wrong comes before what was measured."""

    title: str
    verdict: str
    tone: str  # failed, unfinished or ok
    answer: Answer
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
        for name in ("facts", "problems"):
            object.__setattr__(self, name, tuple(map(visible, getattr(self, name))))

    @property
    def headlines(self) -> tuple[str, ...]:
        """All lines of the answer."""
        return self.answer.lines

    @property
    def not_ok(self) -> Table:
        """The outcomes that no verdict stands for: those of suites are below their verdicts."""
        rows = zip(self.outcomes.rows, self.outcomes.entries, strict=True)
        others = tuple(row for row, entries in rows if entries[1].text not in SUITES)
        return replace(self.outcomes, rows=others)


def compose(
    contents: Contents,
    *,
    charts: Sequence[Chart] = (),
    problems: Sequence[str] = (),
    plugin_folders: Sequence[Path] = (),
) -> Report:
    """The report of a run; `problems` are those that came up while drawing."""
    records, names = contents.records, [stage.name for stage in contents.stages]
    tone, verdict = judge(contents.stages, check=is_check(contents.run))
    speeds = [speed_rows(stage, records) for stage in measuring_stages(records)]
    doubts = [line for rows in speeds for line in warnings(rows, records, contents.run.config)]
    tables, failures = make_tables(names, records, plugin_folders)
    return Report(
        title=f"{contents.run.study}, run {contents.run.run}",
        verdict=verdict,
        tone=tone,
        facts=tuple(_facts(contents)),
        answer=answer(records, run=contents.run, stages=contents.stages),
        problems=(
            *contents.problems,
            *_mixed_hosts(records),
            *shared_state(records),
            *busy_machine(records),
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
        laws = tables_of(fit_all(contents.records, [contents.run]))
        return [replace(table, detail=True) for table in laws]
    except CannotRunHere:
        return []


def _facts(contents: Contents) -> list[str]:
    run = contents.run
    starts = len(run.sessions)
    return [
        f"commit {commit_text(run.commit, run.dirty)}",
        f"host {run.host or '—'}",
        f"started {run.sessions[0].started}" if run.sessions else "never started",
        counted(starts, "session"),
        f"{len(contents.records):,} records",
        *(f"{r.cell}: {r.reason}" for r in contents.records if r.metric == REUSED),
    ]


def _mixed_hosts(records: Sequence[Record]) -> list[str]:
    hosts = sorted({record.host for record in records})
    if len(hosts) < 2:
        return []
    return [f"records come from {len(hosts)} hosts and must not be compared: {', '.join(hosts)}"]
