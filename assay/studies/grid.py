"""The workloads and measuring cells that a study's settings ask for."""

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

from assay import plugins
from assay.captures.inputs import PREFIX, captured_specs, store_path
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
    named = [spec for entry in study.workloads for spec in _named(entry, study, grid[0])]
    if len(set(named)) < len(named):
        raise BadInput(f"WORKLOADS={','.join(study.workloads)} names one workload twice")
    return named


def _named(entry: str, study: Study, defaults: WorkloadSpec) -> list[WorkloadSpec]:
    """The workloads that an entry of WORKLOADS stands for."""
    if not entry.startswith(PREFIX):
        return [parse(entry, defaults=defaults)]
    store = store_path(entry)
    if study.capture_model and store == Path(study.capture_to) and not store.exists():
        return []  # the stage capture makes them, and what follows it is planned anew then
    return captured_specs(entry, seed=study.seed)


def cells(study: Study, stage: str) -> list[Cell]:
    """A cell for each workload, with all implementations side by side and a stage's probes."""
    names = _names(study, stage)
    timed = any(literals(study, name)["PAIRED"] for name in names)
    of_captured = {name for name in names if literals(study, name)["CAPTURED"]}
    return [
        Cell(
            name=workload.name,
            subjects=study.implementations,
            probes=tuple(n for n in names if workload.captured or n not in of_captured),
            workload=workload,
            device=study.device,
            options=sampling(study) if timed else {},
            plugin_folders=study.plugin_folders,
        )
        for workload in (workloads(study) if names else ())
    ]


def sampling(study: Study) -> dict[str, int]:
    """How a cell takes its samples."""
    return {
        "rounds": study.rounds,
        "warmup": study.warmup,
        "budget_s": study.rounds_budget_s,
    }


def _names(study: Study, stage: str) -> tuple[str, ...]:
    """The probes of a stage and, of another stage that the study has not, those that they need;
    of the check's, those that take any workload."""
    found = list(probes_of(study, stage))
    if stage == "check":
        return tuple(name for name in found if literals(study, name)["EVERY_WORKLOAD"])
    needed = [need for name in found for need in literals(study, name)["NEEDS"]]
    elsewhere = set(study.stages) - {stage}
    gates = [need for need in needed if literals(study, need)["STAGE"] not in elsewhere]
    return tuple(dict.fromkeys([*gates, *found]))


def literals(study: Study, probe: str) -> Mapping[str, Any]:
    """What a probe's file says of it."""
    return plugins.find("probes", probe, study.plugin_folders).literals


def probes_of(study: Study, stage: str) -> dict[str, plugins.Plugin]:
    """The study's probes that a stage runs, on the kind of device that it runs on."""
    found = {name: plugins.find("probes", name, study.plugin_folders) for name in study.probes}
    return {
        name: probe
        for name, probe in found.items()
        if probe.literals["STAGE"] == stage
        and not (probe.literals["GPU_ONLY"] and study.device == "cpu")
    }
