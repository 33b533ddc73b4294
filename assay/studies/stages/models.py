"""The models of MODELS through every gate, small and on the CPU."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from assay import plugins
from assay.correctness.models.examination import GATES, examine_models, gate_names
from assay.correctness.models.selection import ModelSelection, SelectedModel, select
from assay.records.schema import Measurement
from assay.studies.cell import Cell, outcome
from assay.studies.study import Study
from assay.subjects.outcome import Begin

AFTER = ("host",)
FAILS_ON = ("failed", "oom", "timeout")
REQUIRES = ("torch",)
USES = ("torch",)
FAMILY = "family"  # the cell of all models without user code
_LAYOUTS = "layouts"


def cells(study: Study) -> list[Cell]:
    """One cell for the whole family, and one for each model with user code: what that does to its
    process harms no other model."""
    models = selected(study).models
    family = [model for model in models if not model.has_user_code]
    others = [model for model in models if model.has_user_code]
    shared = [_cell(FAMILY, family, study)] if family else []
    return shared + [_cell(model.name, [model], study) for model in others]


def selected(study: Study) -> ModelSelection:
    """The models of MODELS, with the options that the study sets for them."""
    options: dict[str, Any] = {}
    if study.models_latent_width:
        options["d_latent"] = study.models_latent_width
    if study.models_splice_ratio is not None:
        options["splice_ratio"] = study.models_splice_ratio
    return select(study.models, study.plugin_folders, options)


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """Yield a measurement for each model and gate, and the size of each model."""
    if not plugins.installed("torch"):
        reason = "not installed here: torch (pip install torch)"
        yield from (outcome(cell, subject, "skipped", reason) for subject in cell.subjects)
        return
    steps = cell.options["steps"]
    again = select([_entry(name, cell) for name in cell.subjects], cell.plugin_folders).models
    models = [replace(model, steps=tuple(steps.get(model.name, ()))) for model in again]
    yield from examine_models(models, cell.probes, cell.plugin_folders)


def _entry(name: str, cell: Cell) -> str:
    """Entry that selects a model of the cell again; a user's file is the first of its files."""
    return f"{cell.files[0]}:{name.rpartition(':')[2]}" if ".py:" in name else name


def _cell(name: str, models: Sequence[SelectedModel], study: Study) -> Cell:
    files = [model.file for model in models if model.file]
    parts = {p.path for m in models if m.variant for p in m.variant.parts.values()}
    layouts = {plugin.path for plugin in plugins.listing(_LAYOUTS).values()}
    return Cell(
        name=name,
        subjects=tuple(model.name for model in models),
        probes=gate_names(study.plugin_folders),
        probe_kind=GATES,
        kind="",
        options={"steps": {model.name: list(model.steps) for model in models if model.steps}},
        files=(*files, *sorted(parts | layouts)),
    )
