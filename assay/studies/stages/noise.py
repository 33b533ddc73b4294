"""What a comparison says where there is nothing to find: each implementation against itself."""

from collections.abc import Iterator, Sequence
from itertools import product

from assay.performance import noise
from assay.records.schema import Measurement, Record
from assay.studies import grid
from assay.studies.cell import Cell
from assay.studies.probing import run_alone
from assay.studies.proof import unproven
from assay.studies.study import Study
from assay.subjects.outcome import Begin

AFTER = ("suite", "check", "bench")

_SHARES = {"cpu": 0.15, "cuda": 0.03}


def cells(study: Study) -> list[Cell]:
    """One for each workload, implementation and process."""
    share = study.noise_planted_percent / 100 or _SHARES[study.device.partition(":")[0]]
    return [
        Cell(
            name=f"{workload.name}/{subject}/{number}",
            subjects=(subject,),
            probes=(noise.PROBE,),
            workload=workload,
            device=study.device,
            options={
                "comparisons": study.noise_comparisons,
                "rounds": study.rounds,
                "warmup": study.warmup,
                "share": share,
            },
            plugin_folders=study.plugin_folders,
        )
        for workload, subject, number in product(
            grid.workloads(study), study.implementations, range(study.noise_processes)
        )
    ]


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """All samples of one process."""
    plan = noise.Plan(**cell.options)
    yield from run_alone(cell, "noise", lambda call, host: noise.measure(call, host, plan))


def refusals(cell: Cell, earlier: Sequence[Record]) -> dict[str, str]:
    """Who is not measured, and why; as in bench."""
    return unproven(cell, earlier)
