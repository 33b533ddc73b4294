"""What a report says, before any format: its verdict and its parts in the order they are told."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from assay.laws.noise import STAGE as NOISE
from assay.records.schema import CELL_SECONDS, MODELS, Record
from assay.records.verdicts import cases_run
from assay.reports.answers import answers
from assay.reports.bench_table import bench_table
from assay.reports.caveats import caveats
from assay.reports.chart import Chart
from assay.reports.contents import SEVERITY, UNFINISHED, UNREADABLE, Contents, Stage
from assay.reports.kernel_table import kernel_table
from assay.reports.memory_table import memory_table
from assay.reports.models_table import models_table
from assay.reports.noise import noise_table
from assay.reports.paired import paired
from assay.reports.pivot import pivots
from assay.reports.provenance import commit_text, provenance
from assay.reports.replayed import replayed
from assay.reports.run_tables import condensed, outcomes, results, stages
from assay.reports.speed_rows import STAGES as SPEED_STAGES
from assay.reports.speed_rows import Row, speed_rows
from assay.reports.table import Table
from assay.reports.verdicts import SUITE, verdicts

_SHARE = "error_over_budget_"  # how a metric of the check begins
# A stage may call these expected; in a stage that failed they are what failed.
_FAILURES = ("failed", "oom", "timeout")
_NAMED = 4  # of the probes that are incomplete, in the first line


@dataclass(frozen=True, kw_only=True)
class Report:
    """Everything that is told of a run; what went wrong comes before what was measured."""

    title: str
    verdict: str
    tone: str  # failed, unfinished or ok
    answers: tuple[str, ...]  # how subjects compare with the first
    facts: tuple[str, ...]
    problems: tuple[str, ...]
    outcomes: Table
    stages: Table
    charts: tuple[Chart, ...]
    results: tuple[Table, ...]
    paired: tuple[Table, ...]
    provenance: tuple[Table, ...]


def compose(
    contents: Contents, *, charts: Sequence[Chart] = (), problems: Sequence[str] = ()
) -> Report:
    """The report of a run; `problems` are those that came up while drawing."""
    records, names = contents.records, [stage.name for stage in contents.stages]
    tone, verdict = judge(contents.stages)
    speeds = {name: speed_rows(name, records) for name in names if name in SPEED_STAGES}
    doubts = (
        line for rows in speeds.values() for line in caveats(rows, records, contents.run.config)
    )
    return Report(
        title=f"{contents.run.study}, run {contents.run.run}",
        verdict=verdict,
        tone=tone,
        facts=tuple(_facts(contents)),
        answers=(*(a for rows in speeds.values() for a in answers(rows)), *replayed(records)),
        problems=(*contents.problems, *_mixed_hosts(contents), *doubts, *problems),
        outcomes=condensed(outcomes(records)),
        stages=stages(contents.stages),
        charts=tuple(charts),
        results=(*_speeds(speeds, records), *_results(names, records)),
        paired=tuple(table for name in names if (table := paired(name, records))),
        provenance=tuple(provenance(contents.run)),
    )


def _speeds(speeds: Mapping[str, Sequence[Row]], records: Sequence[Record]) -> list[Table]:
    """The tables of stages that measure speed; a table of every metric could not be read."""
    made = [
        table
        for rows in speeds.values()
        for table in (
            bench_table(rows, records),
            *pivots(rows),
            memory_table(rows),
            kernel_table(rows),
        )
    ]
    return [table for table in made if table]


def _results(names: Sequence[str], records: Sequence[Record]) -> list[Table]:
    """A table for each other stage that has results; the suite's are verdicts, of noise it is what
    the samples mean."""
    told = {SUITE: verdicts, NOISE: noise_table, MODELS: models_table}
    others = [name for name in names if name not in SPEED_STAGES]
    made = (told[name](records) if name in told else results(name, records) for name in others)
    return [_thinned(table) for table in made if table]


def _thinned(table: Table) -> Table:
    """A table of checks can spare all but the errors as shares of what is allowed."""
    kept = ("workload", "cell", "subject")
    shares = [name for name in table.columns if name.startswith(_SHARE)]
    others = [n for n in table.columns if n not in kept and n not in shares]
    return replace(table, spare=tuple(others)) if shares else table


def judge(found: Sequence[Stage]) -> tuple[str, str]:
    """The tone and the one line: holds, how many failed, unfinished, or nothing measured."""
    failed = sum(_failures(stage) for stage in found)
    cut_short = _cut_short(found)
    unfinished = [stage.name for stage in found if stage.status == UNFINISHED]
    waiting = f"unfinished: {', '.join(unfinished) or 'no stage has begun'}"
    if failed or cut_short:
        wrong = [f"{failed:,} failed"] if failed else []
        return "failed", "; ".join([*wrong, *cut_short, *([waiting] if unfinished else [])])
    if unfinished or not found:
        return UNFINISHED, waiting
    others = Counter(status for stage in found for status in _statuses(stage))
    told = ", ".join(f"{others[s]:,} {s}" for s in SEVERITY[:-1] if others[s])
    ended = f", with {told}" if told else ""
    if not any(_measured(record) for stage in found for record in stage.records):
        return UNFINISHED, f"nothing was measured{ended}"
    return "ok", f"holds{ended}"


def _cut_short(found: Sequence[Stage]) -> list[str]:
    """The probes that had no time for all their cases, with how many they ran."""
    lacking = [
        f"{record.subject} {record.metric} {counts} cases"
        for stage in found
        for record in stage.records
        if record.metric != CELL_SECONDS and (counts := cases_run(record))
    ]
    more = f" and {len(lacking) - _NAMED} probes more" if len(lacking) > _NAMED else ""
    return [f"incomplete: {', '.join(lacking[:_NAMED])}{more}"] if lacking else []


def _failures(stage: Stage) -> int:
    """How many outcomes of a stage failed: none unless it or one of its records did."""
    complete = tuple(record for record in stage.records if not cases_run(record))
    statuses = _statuses(replace(stage, records=complete))
    if stage.status not in ("failed", UNREADABLE) and "failed" not in statuses:
        return 0
    failures = sum(status in _FAILURES for status in statuses)
    return failures if len(complete) < len(stage.records) else max(1, failures)


def _measured(record: Record) -> bool:
    return record.status == "ok" and record.metric != CELL_SECONDS


def _statuses(stage: Stage) -> list[str]:
    return [row[0].text for row in outcomes(stage.records).entries]


def _facts(contents: Contents) -> list[str]:
    run = contents.run
    starts = len(run.sessions)
    return [
        f"commit {commit_text(run.commit, run.dirty)}",
        f"host {run.host or '—'}",
        f"started {run.sessions[0].started}" if run.sessions else "never started",
        f"{starts:,} session{'' if starts == 1 else 's'}",
        f"{len(contents.records):,} records",
    ]


def _mixed_hosts(contents: Contents) -> list[str]:
    hosts = sorted({record.host for record in contents.records})
    if len(hosts) < 2:
        return []
    return [
        f"the records come from {len(hosts)} hosts, so they may not be compared: {', '.join(hosts)}"
    ]
