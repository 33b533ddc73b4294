"""The workloads and measuring cells that a study's settings ask for."""

from itertools import product

from assay import plugins
from assay.errors import BadInput
from assay.studies.cell import Cell
from assay.studies.study import Study
from assay.workloads.spec import MASKS, WorkloadSpec, parse


def workloads(study: Study) -> list[WorkloadSpec]:
    """The workloads that WORKLOADS names, or else every combination of the grid's lists."""
    shapes = [
        (heads, kv_heads, head_dim)
        for heads, kv_heads, own in study.heads
        for head_dim in ((own,) if own else study.head_dims)
    ]
    grid = [
        WorkloadSpec(
            batch=batch,
            heads=heads,
            kv_heads=kv_heads,
            query_length=query_length,
            key_length=key_length,
            head_dim=head_dim,
            dtype=dtype,
            causal=mask == MASKS[0],
            seed=study.seed,
        )
        for dtype, mask, batch, (heads, kv_heads, head_dim), (query_length, key_length) in product(
            study.dtypes, study.masks, study.batches, shapes, study.lengths
        )
    ]
    if not study.workloads:
        return grid
    named = [parse(name, defaults=grid[0]) for name in study.workloads]
    if len(set(named)) < len(named):
        raise BadInput(f"WORKLOADS={','.join(study.workloads)} names one workload twice")
    return named


def cells(study: Study, stage: str) -> list[Cell]:
    """A cell for each workload, with all implementations side by side and a stage's probes, but
    for those of the check that take only cases of their own."""
    probes = probes_of(study, stage)
    names = tuple(
        name for name, p in probes.items() if stage != "check" or p.literals["EVERY_WORKLOAD"]
    )
    timed = any(probes[name].literals["PAIRED"] for name in names)
    return [
        Cell(
            name=workload.name,
            subjects=study.implementations,
            probes=names,
            workload=workload,
            device=study.device,
            options={"rounds": study.rounds, "warmup": study.warmup} if timed else {},
            plugin_folders=study.plugin_folders,
        )
        for workload in (workloads(study) if names else ())
    ]


def probes_of(study: Study, stage: str) -> dict[str, plugins.Plugin]:
    """The study's probes that a stage runs, on the kind of device that it runs on."""
    found = {name: plugins.find("probes", name, study.plugin_folders) for name in study.probes}
    return {
        name: probe
        for name, probe in found.items()
        if probe.literals["STAGE"] == stage
        and not (probe.literals["GPU_ONLY"] and study.device == "cpu")
    }
