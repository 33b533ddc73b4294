"""Whole attention layers side by side, each checked first: LAYERS on the workloads that suit them.

Layers are called as in training: no cache, a causal mask, positions from 0.
"""

from assay.errors import BadInput
from assay.models import layer
from assay.studies import workload_cells
from assay.studies.cell import Cell, options_of
from assay.studies.study import Study

AFTER = ("host", "check")
CHECKS = ("accuracy", "gradients", "cached", "determinism", "stability")
ALWAYS = ("accuracy", "gradients")  # nothing is timed that is not right
PROBES = (*CHECKS, "latency", "backward", "training", "memory", "work", "compile")

run = workload_cells.run


def cells(study: Study) -> list[Cell]:
    """One cell for each workload of the study that suits at least one of its layers."""
    if not study.layers:
        return []
    folders = study.plugin_folders
    suited = [
        workload
        for workload in workload_cells.workloads(study)
        if any(layer.suits(name, workload, folders) for name in study.layers)
    ]
    if not suited:
        raise BadInput(
            f"LAYERS={','.join(study.layers)}: no workload of this study suits one of them; add "
            "causal ones with as many queries as keys and the heads of the layer, such as "
            "b1_h8_kv1_s512_d256_causal_bfloat16 for Gemma"
        )
    return [
        Cell(
            name=workload.name,
            subjects=study.layers,
            probes=tuple(p for p in PROBES if p in ALWAYS or p in study.probes),
            workload=workload,
            device=study.device,
            options=options_of(study.round_settings),
            plugin_folders=folders,
            kind=layer.KIND,
        )
        for workload in suited
    ]
