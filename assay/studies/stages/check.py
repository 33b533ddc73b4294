"""Is it right? Every implementation on every workload, each in a process of its own."""

from collections.abc import Iterator

from assay.bench.loop import Begin
from assay.records.schema import Measurement
from assay.studies.cell import Cell
from assay.studies.grid import probe_cells
from assay.studies.probing import run_probe
from assay.studies.study import Study

AFTER = ("host",)
FAILS_ON = ("failed", "oom", "timeout")


def cells(study: Study) -> list[Cell]:
    """One cell for each workload and implementation."""
    return probe_cells(study, "check")


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """The probe's verdict on the one implementation of this cell."""
    yield from run_probe(cell)
