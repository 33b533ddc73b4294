"""Is it right anywhere? Every probe of correctness on cases of its own, for each implementation."""

from collections.abc import Iterator

from assay.correctness.cases import QUICK_CASES
from assay.correctness.suite import takes_part
from assay.records.schema import Measurement
from assay.studies.cell import Cell
from assay.studies.grid import probes_of
from assay.studies.probing import run_suite
from assay.studies.study import Study
from assay.subjects.outcome import Begin

AFTER = ("host",)
FAILS_ON = ("failed", "oom", "timeout")


def cells(study: Study) -> list[Cell]:
    """One cell for each implementation."""
    probes = probes_of(study, "check")
    quick = study.suite_quick
    names = tuple(name for name, probe in probes.items() if takes_part(probe))
    return [
        Cell(
            name=f"suite/{subject}",
            subjects=(subject,),
            probes=names,
            device=study.device,
            options={
                "seed": study.seed,
                "dtypes": list(study.dtypes),
                "cases": min(study.suite_cases, QUICK_CASES) if quick else study.suite_cases,
                "budget_s": study.suite_budget_s,
                "quick": quick,
            },
        )
        for subject in (study.implementations if names else ())
    ]


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """A verdict for each probe."""
    yield from run_suite(cell)
