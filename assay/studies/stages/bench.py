"""How fast, how large: implementations side by side, after they were shown to be right."""

from collections.abc import Iterator, Sequence

from assay.bench.loop import Begin
from assay.records.schema import CELL_SECONDS, Measurement, Record
from assay.studies import grid
from assay.studies.cell import Cell, implementations
from assay.studies.probing import run_probes
from assay.studies.study import Study

AFTER = ("host", "suite", "check")
CHECK = "accuracy"


def cells(study: Study) -> list[Cell]:
    """One cell for each workload."""
    return grid.cells(study, "bench")


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """The probes over the implementations of this cell."""
    yield from run_probes(cell)


def refusals(cell: Cell, earlier: Sequence[Record]) -> dict[str, str]:
    """Which subjects are not measured, and why: nothing is timed that was not shown to be right."""
    return {
        subject: reason
        for subject in implementations(cell)
        if (reason := _unproven(cell, subject, earlier))
    }


def _unproven(cell: Cell, subject: str, earlier: Sequence[Record]) -> str | None:
    assert cell.workload
    broken = next(
        (r for r in earlier if r.stage == "suite" and r.subject == subject and _is_wrong(r)), None
    )
    if broken:
        return f"not timed: it fails {broken.metric}: {broken.reason}"
    if CHECK in cell.probes:
        return None  # it is checked in the cell itself, before it is timed
    verdicts = [
        record
        for record in earlier
        if _is_verdict(record)
        and record.subject == subject
        and record.workload
        and record.workload.name == cell.workload.name
    ]
    wrong = next((record for record in verdicts if record.status != "ok"), None)
    if wrong:
        return f"not timed: its check is {wrong.status}: {wrong.reason}"
    if not verdicts:
        return f"not timed: no check of it on this workload; add {CHECK} to PROBES"
    return None


def _is_verdict(record: Record) -> bool:
    """Of the stage check, or of the check within a cell of this stage."""
    own = record.stage == "bench" and record.metric.startswith(("error_over_budget_", CHECK))
    return own or record.stage == "check"


def _is_wrong(record: Record) -> bool:
    return record.status in ("failed", "oom", "timeout") and record.metric != CELL_SECONDS
