"""Decode kernels side by side, each checked first: DECODERS on workloads of few new tokens.

A kernel reads a cache as its layout keeps it; what it must give back is attention over what the
layout gives back.
"""

from dataclasses import replace

from assay.errors import BadInput
from assay.studies import workload_cells
from assay.studies.cell import Cell, options_of
from assay.studies.study import Study
from assay.subjects.decode import names
from assay.workloads.spec import WorkloadSpec

AFTER = ("host", "decode_suite")
MOST_NEW_TOKENS = 16  # as attention/decoders.py, which imports torch
CHECKS = ("accuracy", "determinism", "unwritten")
ALWAYS = ("accuracy",)  # nothing is timed that is not right
PROBES = (*CHECKS, "latency", "graph", "memory", "work", "kernels")

run = workload_cells.run
refusals = workload_cells.unproven


def cells(study: Study) -> list[Cell]:
    """One cell for each workload of the study with few new tokens, with all kernels."""
    if not study.decoders:
        return []
    gpu_only = {n for n in PROBES if workload_cells.literals(study, n)["GPU_ONLY"]}
    left_out = gpu_only if study.device == "cpu" else set()
    chosen = tuple(p for p in PROBES if p in ALWAYS or (p in study.probes and p not in left_out))
    return [
        with_layouts(
            Cell(
                name=workload.name,
                subjects=study.decoders,
                probes=chosen,
                workload=workload,
                device=study.device,
                options=options_of(study.round_settings),
                plugin_folders=study.plugin_folders,
                kind=names.KIND,
            )
        )
        for workload in suited(study)
    ]


def suited(study: Study) -> list[WorkloadSpec]:
    """The workloads of a study that are steps of decoding; refused where there are none."""
    steps = [
        workload
        for workload in workload_cells.workloads(study)
        if workload.query_length <= min(MOST_NEW_TOKENS, workload.key_length)
    ]
    if not steps:
        raise BadInput(
            f"DECODERS={','.join(study.decoders)}: no workload of this study is a step of "
            f"decoding; add some with 1 to {MOST_NEW_TOKENS} queries and as many keys or more, "
            "such as b16_h32_kv8_q1_k4096_d128_causal_bfloat16, or LENGTHS=1/4096"
        )
    return steps


def with_layouts(cell: Cell) -> Cell:
    """The cell with the files of the layouts that its subjects read: its results depend on them."""
    return replace(cell, files=names.layout_files(cell.subjects, cell.plugin_folders))
