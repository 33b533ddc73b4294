"""Growth of the verbs that read a run: cells to ten thousand, records to hundreds of thousands."""

from collections.abc import Iterator

from _spine import growth
from _spine.cells import cells_of, measured

from assay.records.schema import Measurement
from assay.studies.cell import Cell
from assay.studies.study import Study

AFTER = ()


def cells(study: Study) -> list[Cell]:
    return cells_of({"growth": growth})


def run(cell: Cell) -> Iterator[Measurement]:
    yield from measured(cell, growth)
