"""Speed and memory of implementations side by side, each shown to be right first."""

from assay.studies import workload_cells
from assay.studies.cell import Cell
from assay.studies.study import Study

AFTER = ("host", "suite", "check")

run = workload_cells.run
refusals = workload_cells.unproven


def cells(study: Study) -> list[Cell]:
    """One cell for each workload."""
    return workload_cells.cells(study, "bench")
