"""Ceilings of this machine, with which speeds are compared later."""

from collections.abc import Iterator

from assay import peaks
from assay.records.schema import Measurement
from assay.studies.cell import Cell
from assay.studies.study import Study

USES = ("torch",)


def cells(study: Study) -> list[Cell]:
    """One cell for the device that the study runs on."""
    return [Cell(name=f"peaks/{study.device}", subjects=(study.device,), device=study.device)]


def run(cell: Cell) -> Iterator[Measurement]:
    """Copy bandwidth, read-only bandwidth and matmul rate."""
    yield from peaks.measure(cell.device)
