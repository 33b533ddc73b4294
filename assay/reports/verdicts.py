"""What the suite says of implementations: one word for each probe, and the reasons below it."""

from collections.abc import Sequence

from assay.records.schema import CELL_SECONDS, Record
from assay.records.verdicts import cases_run
from assay.reports.numerals import DASH, number
from assay.reports.table import Entry, Table

SUITE = "suite"  # the stage whose records are verdicts
_WORDS = {"ok": "ok", "failed": "FAILS", "oom": "OOM", "timeout": "HANGS"}


def verdicts(records: Sequence[Record]) -> Table | None:
    """A row for each probe and a column for each implementation; None where there is no suite."""
    shown = [r for r in records if r.stage == SUITE and r.metric != CELL_SECONDS]
    if not shown:
        return None
    subjects = list(dict.fromkeys(record.subject for record in shown))
    probes = list(dict.fromkeys(record.metric for record in shown))
    found = {(record.metric, record.subject): record for record in shown}
    return Table(
        title="Verdicts",
        columns=("probe", *subjects),
        rows=tuple(
            (probe, *(_entry(found.get((probe, subject))) for subject in subjects))
            for probe in probes
        ),
        note=(
            "After a verdict stand the number of cases and the worst error as a share of its "
            "budget; a failing probe's number is that of its smallest failing case."
        ),
    )


def _entry(record: Record | None) -> Entry:
    if record is None:
        return Entry(text=DASH, hint="this probe does not apply to it here")
    if counts := cases_run(record):
        hint = record.reason or ""
        return Entry(text="incomplete", detail=f"{counts} cases", hint=hint, tone=record.status)
    if record.status not in _WORDS:
        return Entry(text=DASH, hint=record.reason or "", tone=record.status)
    tone = "" if record.status == "ok" else record.status
    worst = "" if record.value is None else f", {number(record.value)}"
    detail = f"{len(record.samples)} cases{worst}" if record.samples else ""
    return Entry(text=_WORDS[record.status], detail=detail, hint=record.reason or "", tone=tone)
