"""A cell for each benchmark of a stage."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

from assay.code_digests import code_digests
from assay.plugins import PACKAGE
from assay.records.identity import digest
from assay.records.schema import Measurement
from assay.studies.cell import Cell

# Below the folder a study is started in, git-ignored, and on the disk that records are kept on.
SCRATCH = "results"


def cells_of(benchmarks: Mapping[str, ModuleType]) -> list[Cell]:
    """One cell for each benchmark. What is measured is the whole package, so all of it counts."""
    code = digest(code_digests(*PACKAGE.rglob("*.py")))
    return [
        Cell(
            name=name,
            subjects=benchmark.SUBJECTS,
            options={"sizes": benchmark.SIZES, "scratch": SCRATCH, "code": code},
        )
        for name, benchmark in benchmarks.items()
    ]


def measured(cell: Cell, benchmark: ModuleType) -> Iterator[Measurement]:
    """The benchmark of a cell, at the sizes its options give."""
    yield from benchmark.measure(Path(cell.options["scratch"]), **cell.options["sizes"])
