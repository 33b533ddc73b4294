"""How fast, how large: implementations side by side, after they were shown to be right."""

from collections.abc import Iterator, Sequence

from assay.records.schema import Measurement, Record
from assay.studies import grid
from assay.studies.cell import Cell
from assay.studies.probing import run_probes
from assay.studies.proof import unproven
from assay.studies.study import Study
from assay.subjects.outcome import Begin

AFTER = ("host", "suite", "check")


def cells(study: Study) -> list[Cell]:
    """One cell for each workload."""
    return grid.cells(study, "bench")


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """The probes over the implementations of this cell."""
    yield from run_probes(cell)


def refusals(cell: Cell, earlier: Sequence[Record]) -> dict[str, str]:
    """Which subjects are not measured, and why: nothing is timed that was not shown to be right."""
    return unproven(cell, earlier)
