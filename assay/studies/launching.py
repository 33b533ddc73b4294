"""The process that a cell's is forked from: its environment, what it imports, an early start."""

from contextlib import suppress
from dataclasses import replace

from assay import plugins
from assay.errors import BadInput
from assay.instruments import forks
from assay.studies.cell import Cell, frameworks, implementations, parts
from assay.studies.study import Study
from assay.studies.worker_environment import worker_environment

WORKER = "assay.studies.worker"  # answers for a cell
_BACKWARD = "gradients"  # the probe that whatever differentiates needs
_TIMED = "bench"  # the stage whose cells are waited for


def begin_imports(study: Study) -> None:
    """Start the process for the timed cells of a study on a device, which imports what they need
    while we plan them: importing torch takes longer than that. A study that is not understood is
    left to whoever plans it."""
    if _TIMED not in study.stages:
        return
    cell = Cell(
        name="",
        subjects=study.implementations,
        probes=study.probes,
        device=study.device,
        plugin_folders=study.plugin_folders,
    )
    with suppress(BadInput):
        environment = environment_of(replace(cell, probes=()), capture=study.capture)
        forks.begin_imports([WORKER, *imports_of(_TIMED, cell)], environment)


def imports_of(stage: str, cell: Cell) -> list[str]:
    """Modules that a cell needs, for the process that forks: its stage, probes and frameworks and,
    on a GPU, what its implementations import in their first call. Only ours, for a user's file may
    do anything when it is imported."""
    subjects = list(implementations(cell).values())
    before = [plugin for plugin in parts(stage, cell) if plugin not in subjects]
    used = frameworks(stage, cell)
    # What a framework imports later, it imports for a backward pass.
    back = not cell.probes or any(
        _BACKWARD in (p.name, *p.literals.get("NEEDS", ())) for p in before
    )
    before += used
    gpu = [] if cell.device == "cpu" else subjects
    ours = [p for p in (*before, *gpu) if p.path.is_relative_to(plugins.PACKAGE) and not p.missing]
    modules = [plugins.module_name(plugin.path) for plugin in ours if plugin not in gpu]
    later = [plugin for plugin in ours if back or plugin not in used]
    modules += [name for plugin in later for name in plugin.literals.get("IMPORTS_LATER", ())]
    if any("triton" in plugin.requires and not plugin.missing for plugin in gpu):
        modules.append("assay.frameworks.torch.triton_ahead")
    return modules


def makes_cases(cell: Cell) -> bool:
    """True where the cell's probes run on cases of their own, not on a workload."""
    return bool(cell.probes) and cell.workload is None


def environment_of(cell: Cell, *, capture: bool) -> dict[str, str]:
    """The environment of a cell's process. Cases that probes make themselves are small: on them a
    second CPU thread mostly waits, and waits busily where others use the machine too."""
    added = {}
    if makes_cases(cell):
        added = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return {**worker_environment(cell.device, capture=capture), **added}
