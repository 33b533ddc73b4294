"""All stages of the study left records, and every arm was trained with every seed."""

from itertools import product

from assay.records.verdicts import NEVER_TRAINED, TRAIN
from assay.verify.compared import FINAL, ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, fails, holds, named

_DEFAULT = "adamw"  # whose arms are called by their model alone
_BEGUN_BY_NEED = {"layers", "limits", "noise"}  # stages that have cells only where asked for


def look(comparison: RunComparison) -> list[CheckFinding]:
    return [_of(run) for run in comparison.runs if run.symbol("STAGES")]


def _of(run: ComparedRun) -> CheckFinding:
    asked = {name for name in run.symbol("STAGES").split(",") if name} - _BEGUN_BY_NEED
    begun = {record.stage for record in run.records}
    if absent := sorted(asked - begun):
        return fails(f"{run.name}: no record of the stages {named(absent)}; resume the run")
    if TRAIN in asked and (absent := _untrained(run)):
        return fails(f"{run.name}: {NEVER_TRAINED}: {named(absent)}")
    return holds(f"{run.name}: records of all {len(asked)} stages")


def _untrained(run: ComparedRun) -> list[str]:
    """Arms that were named or begun, by seed, without a last loss. Words that stand for several
    models, which are in lower case, are known by what was begun."""
    ended = {record.cell for record in run.of(FINAL)}
    models = [name for name in _entries(run, "MODELS") if not name.islower()]
    arms = {r.subject for r in run.records if r.stage == TRAIN and r.subject}
    for model, optimizer in product(models, _entries(run, "TRAIN_OPTIMIZERS") or [_DEFAULT]):
        arms.add(model if optimizer == _DEFAULT else f"{model}/{optimizer}")
    cells = [f"{arm}/s{seed}" for seed in _entries(run, "TRAIN_SEEDS") for arm in sorted(arms)]
    return [cell for cell in cells if cell not in ended]


def _entries(run: ComparedRun, symbol: str) -> list[str]:
    return [entry.strip() for entry in (run.symbol(symbol) or "").split(",") if entry.strip()]
