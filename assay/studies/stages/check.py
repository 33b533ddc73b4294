"""Correctness of every implementation on every workload of the study.

Those of one workload share a process, and with it the reference; after a crash each is alone.
"""

from assay.studies import workload_cells
from assay.studies.cell import Cell
from assay.studies.study import Study

AFTER = ("host",)
FAILS_ON = ("failed", "oom", "timeout")

run = workload_cells.run


def cells(study: Study) -> list[Cell]:
    """One cell for each workload."""
    return workload_cells.cells(study, "check")
