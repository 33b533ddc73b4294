"""Is it right here? Every implementation on every workload of the study, each in its process."""

from collections.abc import Iterator

from assay.bench.loop import Begin
from assay.records.schema import Measurement
from assay.studies.cell import Cell
from assay.studies.grid import single_cells
from assay.studies.probing import run_probes
from assay.studies.study import Study

AFTER = ("host",)
FAILS_ON = ("failed", "oom", "timeout")


def cells(study: Study) -> list[Cell]:
    """One cell for each workload and implementation."""
    return single_cells(study, "check")


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """What the probes say of the one implementation of this cell."""
    yield from run_probes(cell)
