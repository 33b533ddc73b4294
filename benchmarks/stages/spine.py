"""Cost of assay itself: start-up, appending, querying, the first study a user runs.

One cell for each file in `_spine`; its docstring says the target. On a shared machine single times
mean little: the figure is the median of ratios that were taken in the same round.
"""

from collections.abc import Iterator

from _spine import append, command_line, importing, query, quickstart
from _spine.cells import cells_of, measured

from assay.records.schema import Measurement
from assay.studies.cell import Cell
from assay.studies.study import Study

AFTER = ()
BENCHMARKS = {
    "import": importing,
    "command_line": command_line,
    "append": append,
    "query": query,
    "quickstart": quickstart,
}


def cells(study: Study) -> list[Cell]:
    return cells_of(BENCHMARKS)


def run(cell: Cell) -> Iterator[Measurement]:
    yield from measured(cell, BENCHMARKS[cell.name])
