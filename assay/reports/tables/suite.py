"""Verdicts of the suite: a word for each probe and implementation, and the reasons below."""

from collections.abc import Iterator, Sequence

from assay.records.explanation import explained
from assay.records.schema import CELL_METRICS, Record
from assay.records.verdicts import (
    BESIDE,
    LIMITS,
    NO_VERDICTS,
    cases_failing,
    cases_of_all,
    cases_run,
    cases_unsupported,
    is_undeclared,
)
from assay.reports.numerals import DASH, number
from assay.reports.table import Entry, Table

STAGES = ("suite", "decode_suite")
_WORDS = {"ok": "ok", "failed": "FAILS", "oom": "OOM", "timeout": "HANGS"}
_NOTE = (
    "Beside ok stand the cases, and the worst error as a share of its budget; beside FAILS the "
    "failing cases out of those that ran."
)


def tables(stage: str, records: Sequence[Record]) -> list[Table]:
    """One table with a row for each probe and a column for each implementation."""
    results = [r for r in records if r.stage == stage and r.metric not in CELL_METRICS]
    notes = [r for r in results if r.metric in BESIDE and r.status == "ok"]
    verdicts = [r for r in results if r not in notes and r.metric not in NO_VERDICTS]
    if not verdicts:
        return []
    within = [
        (f"All cases of {r.subject} are inside its limits" if r.metric == LIMITS else r.subject)
        + f": {r.reason}"
        for r in notes
    ]
    subjects = list(dict.fromkeys(record.subject for record in verdicts))
    probes = list(dict.fromkeys(record.metric for record in verdicts))
    by_probe = {(record.metric, record.subject): record for record in verdicts}
    hints = {key: text for subject in subjects for key, text in _hints(subject, verdicts)}
    return [
        Table(
            title="Verdicts",
            columns=("probe", *subjects),
            rows=tuple(
                (
                    probe,
                    *(_entry(by_probe.get((probe, s)), hints.get((probe, s))) for s in subjects),
                )
                for probe in probes
            ),
            note=" ".join((_NOTE, *within)),
        )
    ]


def _hints(
    subject: str | None, verdicts: Sequence[Record]
) -> Iterator[tuple[tuple[str, str | None], str]]:
    """One text for all probes that fail for the same reason, by probe and implementation."""
    failing = [
        r for r in verdicts if r.subject == subject and r.status in _WORDS and r.status != "ok"
    ]
    for explanation in explained([record for record in failing if not cases_run(record)]):
        for probe in (explanation.shown_by.metric, *explanation.also):
            yield (probe, subject), str(explanation)


def _entry(record: Record | None, hint: str | None) -> Entry:
    if record is None:
        return Entry(text=DASH, hint="this probe does not apply to it here")
    if counts := cases_run(record):
        hint = record.reason or ""
        return Entry(text="incomplete", detail=_cases(counts), hint=hint, tone=record.status)
    if is_undeclared(record):
        return Entry(text="undeclared", hint=hint or record.reason or "", tone=record.status)
    if refused := cases_unsupported(record):
        count, reason = refused
        hint = f"unsupported: {reason}"
        return Entry(text=DASH, detail=_cases(count), hint=hint, tone=record.status)
    if record.status not in _WORDS:
        return Entry(text=DASH, hint=record.reason or "", tone=record.status)
    tone = "" if record.status == "ok" else record.status
    worst = (
        f", {number(record.value)}" if record.status == "ok" and record.value is not None else ""
    )
    counts = cases_failing(record) or cases_of_all(record)
    counts = counts or (str(len(record.samples)) if record.samples else "")
    detail = f"{_cases(counts)}{worst}" if counts else ""
    text = hint or record.reason or ""
    return Entry(text=_WORDS[record.status], detail=detail, hint=text, tone=tone)


def _cases(counts: str) -> str:
    return "1 case" if counts == "1" else f"{counts} cases"
