"""Is a mechanism what it says? The models of MODELS through every gate, small and on the CPU."""

from collections.abc import Iterator, Sequence

from assay import plugins
from assay.correctness.models import selection
from assay.correctness.models.selection import Candidate
from assay.records.schema import Measurement
from assay.studies.cell import Cell
from assay.studies.examining import GATES, gates_in_order, run_gates
from assay.studies.study import Study
from assay.subjects.outcome import Begin

AFTER = ("host",)
FAILS_ON = ("failed", "oom", "timeout")
REQUIRES = ("torch",)
FAMILY = "family"  # the cell of all models that are made of our parts
_LAYOUTS = "layouts"


def cells(study: Study) -> list[Cell]:
    """One for the whole family, and one for each model with code of the user's: what that does to
    its process hurts nobody else."""
    found = selection.select(study.models, study.plugin_folders).candidates
    ours = [candidate for candidate in found if _is_ours(candidate)]
    theirs = [candidate for candidate in found if not _is_ours(candidate)]
    shared = [_cell(FAMILY, ours, study)] if ours else []
    return shared + [_cell(candidate.name, [candidate], study) for candidate in theirs]


def run(cell: Cell) -> Iterator[Begin | Measurement]:
    """A record for each model and gate, and what the model takes."""
    yield from run_gates(cell)


def _is_ours(candidate: Candidate) -> bool:
    parts = candidate.variant.parts.values() if candidate.variant else ()
    return candidate.file is None and all(p.path.is_relative_to(plugins.PACKAGE) for p in parts)


def _cell(name: str, candidates: Sequence[Candidate], study: Study) -> Cell:
    own = [candidate.file for candidate in candidates if candidate.file]
    parts = {p.path for c in candidates if c.variant for p in c.variant.parts.values()}
    layouts = {plugin.path for plugin in plugins.listing(_LAYOUTS).values()}
    return Cell(
        name=name,
        subjects=tuple(candidate.name for candidate in candidates),
        probes=gates_in_order(study.plugin_folders),
        probe_kind=GATES,
        kind="",
        options={"steps": {c.name: list(c.steps) for c in candidates if c.steps}},
        files=(*own, *sorted(parts | layouts)),
    )
