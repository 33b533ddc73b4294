"""Noise of this machine: each implementation compared with itself."""

from collections.abc import Iterator
from itertools import product

from assay.performance import noise
from assay.performance.noise import NoiseSettings
from assay.records.schema import Measurement
from assay.studies import workload_cells
from assay.studies.cell import Cell, options_of, settings_of
from assay.studies.study import Study
from assay.subjects.outcome import Begin

AFTER = ("suite", "check", "bench")

_SHARES = {"cpu": 0.15, "cuda": 0.03}


def cells(study: Study) -> list[Cell]:
    """One for each workload, implementation and process."""
    settings = NoiseSettings(
        comparisons=study.noise_comparisons,
        rounds=study.rounds,
        warmup=study.warmup,
        share=study.noise_planted_percent / 100 or _SHARES[study.device.partition(":")[0]],
    )
    return [
        Cell(
            name=f"{workload.name}/{subject}/{number}",
            subjects=(subject,),
            probes=(noise.PROBE,),
            workload=workload,
            device=study.device,
            options=options_of(settings),
            plugin_folders=study.plugin_folders,
        )
        for workload, subject, number in product(
            workload_cells.workloads(study), study.implementations, range(study.noise_processes)
        )
    ]


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """All samples of one process."""
    settings = settings_of(cell, NoiseSettings)
    yield from workload_cells.run_alone(
        cell, "noise", lambda subject, host: noise.measure(subject, host, settings)
    )


refusals = workload_cells.unproven
