"""How fast, how large: implementations side by side, after they were shown to be right."""

from collections.abc import Iterator, Sequence

from assay.bench.loop import Begin
from assay.records.schema import Measurement, Record
from assay.studies.cell import Cell, implementations
from assay.studies.grid import probe_cells
from assay.studies.probing import run_probe
from assay.studies.study import Study

AFTER = ("check",)


def cells(study: Study) -> list[Cell]:
    """One cell for each workload where implementations are paired, else one for each of them."""
    return probe_cells(study, "bench")


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """The probe over the implementations of this cell."""
    yield from run_probe(cell)


def refusals(cell: Cell, earlier: Sequence[Record]) -> dict[str, str]:
    """Which subjects are not measured, and why: nothing is timed that was not shown to be right."""
    return {
        subject: reason
        for subject in implementations(cell)
        if (reason := _unproven(cell, subject, earlier))
    }


def _unproven(cell: Cell, subject: str, earlier: Sequence[Record]) -> str | None:
    assert cell.workload
    verdicts = [
        record
        for record in earlier
        if record.stage == "check"
        and record.subject == subject
        and record.workload
        and record.workload.name == cell.workload.name
    ]
    wrong = next((record for record in verdicts if record.status != "ok"), None)
    if wrong:
        return f"not timed: its check is {wrong.status}: {wrong.reason}"
    if not verdicts:
        return "not timed: no check of it on this workload; add check to STAGES, accuracy to PROBES"
    return None
