"""Is it right here? Every implementation on every workload of the study.

Those of one workload share a process, and with it the reference; after a crash each is alone.
"""

from collections.abc import Iterator

from assay.records.schema import Measurement
from assay.studies import grid
from assay.studies.cell import Cell
from assay.studies.probing import run_probes
from assay.studies.study import Study
from assay.subjects.outcome import Begin

AFTER = ("host",)
FAILS_ON = ("failed", "oom", "timeout")


def cells(study: Study) -> list[Cell]:
    """One cell for each workload."""
    return grid.cells(study, "check")


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """What the probes say of each implementation."""
    yield from run_probes(cell)
