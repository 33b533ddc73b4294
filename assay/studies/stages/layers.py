"""Whole attention layers side by side, each checked first: LAYERS on the workloads that suit them.

Layers are called as in training: no cache, a causal mask, positions from 0.
"""

from collections.abc import Iterator

from assay import host
from assay.errors import BadInput
from assay.models import layer
from assay.performance import layer_loop
from assay.performance.loop import Request
from assay.records.schema import Measurement
from assay.studies import grid
from assay.studies.cell import Cell
from assay.studies.study import Study
from assay.subjects.outcome import Begin

AFTER = ("host", "check")


def cells(study: Study) -> list[Cell]:
    """One cell for each workload of the study that suits at least one of its layers."""
    if not study.layers:
        return []
    folders = study.plugin_folders
    found = [
        Cell(
            name=workload.name,
            subjects=study.layers,
            probes=layer_loop.PROBES,
            workload=workload,
            device=study.device,
            options=grid.sampling(study),
            plugin_folders=folders,
            kind=layer.KIND,
        )
        for workload in grid.workloads(study)
        if any(layer.suits(name, workload, folders) for name in study.layers)
    ]
    if not found:
        raise BadInput(
            f"LAYERS={','.join(study.layers)}: no workload of this study suits one of them; add "
            "causal ones with as many queries as keys and the heads of the layer, such as "
            "b1_h8_kv1_s512_d256_causal_bfloat16 for Gemma"
        )
    return found


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """What is asked of each layer, whether it is right, and how long it takes."""
    assert cell.workload
    request = Request(
        probes=cell.probes,
        workload=cell.workload,
        subjects=cell.subjects,
        device=cell.device,
        **cell.options,
        folders=cell.plugin_folders,
    )
    yield from layer_loop.run(request, host.inspect())
