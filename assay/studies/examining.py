"""How models are held against the gates, in the process of their cell or in several beside it."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from assay import plugins
from assay.correctness.models.selection import Candidate, select
from assay.errors import BadInput
from assay.instruments.parallel import map_forked
from assay.models.gpt2.option_text import spelled
from assay.models.gpt2.steps import find
from assay.records.schema import (
    MODEL_CACHE_BYTES,
    MODEL_PARAMETERS,
    MODEL_SECONDS,
    Measurement,
    WorkloadIdentity,
)
from assay.studies.cell import Cell, outcome
from assay.subjects.outcome import Begin

if TYPE_CHECKING:
    from assay.correctness.models.examined_model import ExaminedModel
    from assay.correctness.models.finding import Finding

GATES = "gates"
_FULL_SIZE = "counted at GPT-2 124M size, built on the meta device"


def gates_in_order(folders: Sequence[Path]) -> tuple[str, ...]:
    """Names of the gates as tables have them, without loading any."""
    there = plugins.listing(GATES, folders).values()
    ordered = sorted(there, key=lambda plugin: (plugin.literals["ORDER"], plugin.name))
    return tuple(plugin.name for plugin in ordered)


def run_gates(cell: Cell) -> Iterator[Begin | Measurement]:
    """What each gate says of each model, and what the model takes."""
    if not plugins.installed("torch"):
        reason = "not installed here: torch (pip install torch)"
        yield from (outcome(cell, subject, "skipped", reason) for subject in cell.subjects)
        return
    import torch

    from assay.correctness.models import examination

    torch.set_num_threads(1)  # models are small: a second thread would only wait
    candidates = select(_entries(cell), cell.plugin_folders).candidates
    try:
        examination.load_gates(tuple(cell.plugin_folders))
    except BadInput as error:
        for candidate in candidates:
            yield _measurement(candidate, cell, "load", status="failed", reason=str(error))
        return
    if len(candidates) == 1:
        yield from _alone(candidates[0], cell)
    else:
        yield from _together(candidates, cell)


def _entries(cell: Cell) -> list[str]:
    """What selects the cell's models again; a user's file is the first of its files."""
    return [
        f"{cell.files[0]}:{name.rpartition(':')[2]}" if ".py:" in name else name
        for name in cell.subjects
    ]


def _alone(candidate: Candidate, cell: Cell) -> Iterator[Begin | Measurement]:
    """One model, gate by gate, so that a crash or a hang has the name of a gate."""
    from assay.correctness.models import examination

    yield Begin(candidate.name)
    try:
        subject = _subject(candidate)
    except BadInput as error:
        yield _measurement(candidate, cell, "load", status="failed", reason=str(error))
        return
    gates = examination.load_gates(tuple(cell.plugin_folders))
    start = time.perf_counter()
    for gate in cell.probes:
        yield Begin(candidate.name, gate)
        found = examination.run_gates(subject, [gate], folders=cell.plugin_folders)[gate]
        yield _said(candidate, cell, gate, found, gates[gate].DEBUG)
    elapsed_s = time.perf_counter() - start
    yield Begin(candidate.name, MODEL_PARAMETERS)
    yield from _facts(candidate, cell, subject, elapsed_s)


def _together(candidates: Sequence[Candidate], cell: Cell) -> Iterator[Begin | Measurement]:
    """Many models of ours, in as many processes as there are cores."""
    import torch._dynamo  # noqa: F401  an optimizer imports it; here once, for all processes

    def examined(candidate: Candidate) -> Any:
        found = [item for item in _alone(candidate, cell) if isinstance(item, Measurement)]
        return msgspec.to_builtins(found)

    for candidate, (found, ended) in map_forked(examined, candidates):
        yield Begin(candidate.name)
        if found is None:
            yield _measurement(candidate, cell, "process", status="failed", reason=ended)
        else:
            yield from msgspec.convert(found, list[Measurement])


def _subject(candidate: Candidate) -> "ExaminedModel":
    from assay.correctness.models import user_models
    from assay.correctness.models.examined_model import variant_model

    if candidate.file is not None:
        return user_models.subject(candidate.file, candidate.class_name)
    return variant_model(candidate.variant, candidate.options, name=candidate.name)


def _said(candidate: Candidate, cell: Cell, gate: str, found: "Finding", debug: str) -> Measurement:
    return _measurement(
        candidate,
        cell,
        gate,
        found.value,
        found.unit,
        status=found.status,
        reason=found.reason,
        cause=debug if found.status == "failed" else None,
    )


def _facts(
    candidate: Candidate, cell: Cell, subject: "ExaminedModel", elapsed_s: float
) -> Iterator[Measurement]:
    from assay.correctness.models.full_size import full_size

    size = full_size(subject, candidate.options)
    for metric, value, unit in (
        (MODEL_PARAMETERS, size.parameters, "count"),
        (MODEL_CACHE_BYTES, size.cache_bytes_per_token, "B"),
    ):
        reason = None if value is not None else size.reason
        yield _measurement(candidate, cell, metric, value, unit, source=_FULL_SIZE, reason=reason)
    yield _measurement(candidate, cell, MODEL_SECONDS, elapsed_s, "s")


def _measurement(
    candidate: Candidate,
    cell: Cell,
    metric: str,
    value: float | None = None,
    unit: str = "",
    **outcome: Any,
) -> Measurement:
    asked = cell.options["steps"].get(candidate.name, [])
    made_of = {
        "steps": asked,
        "wanting": [f"Step {id}: {step.wanting}." for id in asked if (step := find(id)[0]).wanting],
        "parts": list(candidate.tags),
        "options": spelled(candidate.options),
    }
    return Measurement(
        subject=candidate.name,
        metric=metric,
        value=value,
        unit=unit,
        level="model",
        workload=WorkloadIdentity(name=candidate.name, spec=made_of, content=None),
        **outcome,
    )
