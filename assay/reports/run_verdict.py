"""The verdict on a whole run, from how its stages and records ended."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from assay.records.schema import CELL_METRICS, SEVERITY, Record, Run
from assay.records.verdicts import (
    NO_VERDICTS,
    WRONG,
    cases_run,
    is_gap,
    is_unbelievable,
    skipped_cells,
    was_held,
    without_time,
)
from assay.reports.contents import UNFINISHED, UNREADABLE, Stage
from assay.reports.numerals import counted
from assay.reports.run_tables import outcomes

_MOST_NAMED = 4  # of the probes that are incomplete


def is_check(run: Run | None) -> bool:
    """True for a run that `assay check` began: what could not be run for want of memory or time
    does not hold there, whatever its stages make of it elsewhere."""
    return run is not None and bool(run.sessions) and run.sessions[0].command[1:2] == ["check"]


def failures(stages: Sequence[Stage], *, check: bool = False) -> list[str]:
    """Words for outcomes that failed and for numbers that are not believed, which make the exit
    code 1 as well; `check` as `is_check` says. Probes without time for their cases are neither."""
    failed = sum(_failures(stage, check=check) for stage in stages)
    records = (record for stage in stages for record in stage.records)
    doubted = len({(r.stage, r.cell, r.subject) for r in records if is_unbelievable(r)})
    return [
        *([f"{failed:,} failed"] if failed else []),
        *([f"{doubted:,} not believed"] if doubted else []),
    ]


def judge(stages: Sequence[Stage], *, check: bool = False) -> tuple[str, str]:
    """Tone and words: passed, how many failed, incomplete, unfinished, or nothing measured; of
    every stage with cells that were not run, how many of how many."""
    wrong = failures(stages, check=check)
    incomplete = _incomplete(stages)
    unfinished = [stage.name for stage in stages if stage.status == UNFINISHED]
    waiting = f"unfinished: {', '.join(unfinished) or 'no stage has begun'}"
    if wrong or incomplete:
        return "failed", "; ".join([*wrong, *incomplete, *([waiting] if unfinished else [])])
    if unfinished or not stages:
        return UNFINISHED, waiting
    records = [record for stage in stages for record in stage.records]
    if late := without_time(records):
        return "failed", f"ran out of time before anything was measured: {', '.join(late)}"
    others = Counter(status for stage in stages for status in _statuses(stage))
    counts = ", ".join(f"{others[s]:,} {s}" for s in SEVERITY[:-1] if others[s])
    gaps = sum(map(is_gap, records))
    counts = ", ".join(filter(None, [counts, f"{gaps:,} not examined" if gaps else ""]))
    ended, skipped = f", with {counts}" if counts else "", skipped_cells(records)
    reasons = "".join(f"; {each}" for each in sorted(skipped, key=lambda each: not each.is_all))
    if not any(map(_measured, records)):
        return UNFINISHED, f"nothing was measured{ended}{reasons}"
    if held := sum(map(was_held, records)):
        return UNFINISHED, f"{held:,} not examined, because others held the device{reasons}"
    if any(each.is_all for each in skipped):
        return UNFINISHED, reasons.removeprefix("; ")
    return "ok", f"passed{ended}{reasons}"


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


def _failures(stage: Stage, *, check: bool) -> int:
    """Number of outcomes of a stage that failed: none unless it or one of its records did.

    A stage may expect an OOM or a timeout; in a check, or a stage that failed, they are what
    failed.
    """
    complete = tuple(record for record in stage.records if not cases_run(record))
    statuses = _statuses(replace(stage, records=complete))
    count = sum(status in WRONG for status in statuses)
    if stage.status not in ("failed", UNREADABLE) and "failed" not in statuses:
        return count if check else 0
    return count if len(complete) < len(stage.records) else max(1, count)


def _measured(record: Record) -> bool:
    return record.status == "ok" and record.metric not in (*CELL_METRICS, *NO_VERDICTS)


def _statuses(stage: Stage) -> list[str]:
    return [row[0].text for row in outcomes(stage.records).entries]
