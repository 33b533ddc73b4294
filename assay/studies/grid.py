"""The workloads and measuring cells that a study's settings ask for."""

from itertools import product

from assay import plugins
from assay.errors import BadInput
from assay.studies.cell import Cell
from assay.studies.study import Study
from assay.workloads.spec import MASKS, WorkloadSpec, parse


def workloads(study: Study) -> list[WorkloadSpec]:
    """The workloads that WORKLOADS names, or else every combination of the grid's lists."""
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
        for dtype, mask, batch, (heads, kv_heads), head_dim, (query_length, key_length) in product(
            study.dtypes, study.masks, study.batches, study.heads, study.head_dims, study.lengths
        )
    ]
    if not study.workloads:
        return grid
    named = [parse(name, defaults=grid[0]) for name in study.workloads]
    if len(set(named)) < len(named):
        raise BadInput(f"WORKLOADS={','.join(study.workloads)} names one workload twice")
    return named


def paired_cells(study: Study, stage: str) -> list[Cell]:
    """A cell for each workload and probe of a stage: all implementations in it where the probe is
    paired, one in each otherwise."""
    found = []
    for name, probe in probes_of(study, stage).items():
        together = probe.literals["PAIRED"]
        groups = [study.implementations] if together else [(s,) for s in study.implementations]
        for workload, subjects in product(workloads(study), groups):
            found.append(
                Cell(
                    name="/".join((name, workload.name, *(() if together else subjects))),
                    subjects=subjects,
                    probes=(name,),
                    workload=workload,
                    device=study.device,
                    options={"rounds": study.rounds, "warmup": study.warmup} if together else {},
                    plugin_folders=study.plugin_folders,
                )
            )
    return found


def single_cells(study: Study, stage: str) -> list[Cell]:
    """A cell for each workload and implementation, with those probes of a stage that take any."""
    probes = probes_of(study, stage)
    names = tuple(name for name, probe in probes.items() if probe.literals["EVERY_WORKLOAD"])
    return [
        Cell(
            name="/".join(("+".join(names), workload.name, subject)),
            subjects=(subject,),
            probes=names,
            workload=workload,
            device=study.device,
            plugin_folders=study.plugin_folders,
        )
        for workload, subject in product(workloads(study) if names else (), study.implementations)
    ]


def probes_of(study: Study, stage: str) -> dict[str, plugins.Plugin]:
    """The study's probes that a stage runs."""
    found = {name: plugins.find("probes", name, study.plugin_folders) for name in study.probes}
    return {name: probe for name, probe in found.items() if probe.literals["STAGE"] == stage}
