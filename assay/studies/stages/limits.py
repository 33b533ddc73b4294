"""The longest sequence that fits in memory, for each implementation that SEARCH_OOM names."""

from collections.abc import Iterator
from itertools import product

from assay.performance import limits
from assay.records.schema import Measurement
from assay.studies import workload_cells
from assay.studies.cell import Cell
from assay.studies.study import Study
from assay.subjects.outcome import Begin

AFTER = ("suite", "check", "bench")


def cells(study: Study) -> list[Cell]:
    """One for each implementation that is searched and each kind of workload, by its shortest."""
    shortest = {}
    for spec in sorted(workload_cells.workloads(study), key=lambda spec: spec.key_length):
        if spec.query_length == spec.key_length:
            kind = (spec.batch, spec.heads, spec.kv_heads, spec.head_dim, spec.dtype, spec.causal)
            shortest.setdefault(kind, spec)
    return [
        Cell(
            name=f"{spec.name}/{subject}",
            subjects=(subject,),
            probes=("memory",),
            workload=spec,
            device=study.device,
            plugin_folders=study.plugin_folders,
        )
        for spec, subject in product(shortest.values(), study.search_oom)
    ]


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """The search in a process of its own."""
    yield from workload_cells.run_alone(cell, "limits", lambda call, host: limits.measure(call))
