"""What a comparison says where there is nothing to find: each implementation against itself."""

from collections.abc import Iterator, Sequence
from itertools import product

import msgspec

from assay import host
from assay.bench import noise
from assay.bench.call import bind
from assay.bench.loop import Begin, outcome_of
from assay.records.schema import Measurement, Record
from assay.studies import grid
from assay.studies.cell import Cell
from assay.studies.stages import bench
from assay.studies.study import Study
from assay.workloads.synthetic import make

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
    (subject,) = cell.subjects
    assert cell.workload
    yield Begin(subject)
    workload, here = make(cell.workload), host.inspect()
    try:
        call = bind(subject, workload, host=here, device=cell.device, folders=cell.plugin_folders)
        for measurement in noise.measure(call, here, noise.Plan(**cell.options)):
            yield msgspec.structs.replace(measurement, subject=subject, workload=workload.identity)
    except Exception as error:
        yield outcome_of(error, subject=subject, metric="noise", workload=cell.workload)


def refusals(cell: Cell, earlier: Sequence[Record]) -> dict[str, str]:
    """Who is not measured, and why; as in bench."""
    return bench.refusals(cell, earlier)
