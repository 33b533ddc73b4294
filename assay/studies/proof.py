"""Nothing is timed that was not shown to be right: who is refused, by what earlier stages said."""

from collections.abc import Sequence

from assay.records.schema import Record
from assay.records.verdicts import cases_run, is_verdict, is_wrong
from assay.studies.cell import Cell, implementations

CHECK = "accuracy"  # the probe that says so of one workload


def unproven(cell: Cell, earlier: Sequence[Record]) -> dict[str, str]:
    """Which subjects of a cell are not timed, and why."""
    return {
        subject: reason
        for subject in implementations(cell)
        if (reason := _why(cell, subject, earlier))
    }


def _why(cell: Cell, subject: str, earlier: Sequence[Record]) -> str | None:
    assert cell.workload
    mine = [record for record in earlier if record.subject == subject]
    broken = next((record for record in mine if record.stage == "suite" and is_wrong(record)), None)
    if broken:
        fails = "its" if cases_run(broken) else "it fails"
        return f"not timed: {fails} {broken.metric}: {broken.reason}"
    if CHECK in cell.probes:
        return None  # it is checked in the cell itself, before it is timed
    here = [r for r in mine if r.workload and r.workload.name == cell.workload.name]
    verdicts = [record for record in here if is_verdict(record)]
    wrong = next((record for record in verdicts if record.status != "ok"), None)
    if wrong:
        return f"not timed: its check is {wrong.status}: {wrong.reason}"
    if not verdicts:
        return f"not timed: no check of it on this workload; add {CHECK} to PROBES"
    return None
