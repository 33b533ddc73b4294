"""Those benchmarks of `spine` that take seconds, for `make verify` to measure them again."""

from collections.abc import Iterator

from _spine import append, command_line, importing
from _spine.cells import cells_of, measured

from assay.records.schema import Measurement
from assay.studies.cell import Cell
from assay.studies.study import Study

AFTER = ()
BENCHMARKS = {"import": importing, "command_line": command_line, "append": append}


def cells(study: Study) -> list[Cell]:
    return cells_of(BENCHMARKS)


def run(cell: Cell) -> Iterator[Measurement]:
    yield from measured(cell, BENCHMARKS[cell.name])
