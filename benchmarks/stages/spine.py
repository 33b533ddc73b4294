"""Cost of assay itself: start-up, appending, querying, the first study a user runs.

One cell for each file in `_spine`; its docstring says the target. On a shared machine single times
mean little: the figure is the median of ratios that were taken in the same round.
"""

from collections.abc import Iterator
from pathlib import Path

from _spine import append, command_line, importing, query, quickstart

from assay.code_digests import code_digests
from assay.plugins import PACKAGE
from assay.records.identity import digest
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
# Below the folder a study is started in, git-ignored, and on the disk that records are kept on.
SCRATCH = "results"


def cells(study: Study) -> list[Cell]:
    """One cell for each benchmark. What is measured is the whole package, so all of it counts."""
    code = digest(code_digests(*PACKAGE.rglob("*.py")))
    return [
        Cell(
            name=name,
            subjects=benchmark.SUBJECTS,
            options={"sizes": benchmark.SIZES, "scratch": SCRATCH, "code": code},
        )
        for name, benchmark in BENCHMARKS.items()
    ]


def run(cell: Cell) -> Iterator[Measurement]:
    """The benchmark of this cell, at the sizes its options give."""
    benchmark = BENCHMARKS[cell.name]
    yield from benchmark.measure(Path(cell.options["scratch"]), **cell.options["sizes"])
