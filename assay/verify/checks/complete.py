"""All stages of the study left records, and every arm was trained with every seed."""

from assay.verify.compared import ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, fails, holds, named

_BEGUN_BY_NEED = {"layers", "limits", "noise"}  # stages that have cells only where asked for


def look(comparison: RunComparison) -> list[CheckFinding]:
    return [_of(run) for run in comparison.runs if run.symbol("STAGES")]


def _of(run: ComparedRun) -> CheckFinding:
    asked = {name for name in run.symbol("STAGES").split(",") if name} - _BEGUN_BY_NEED
    begun = {record.stage for record in run.records}
    if absent := sorted(asked - begun):
        return fails(f"{run.name}: no record of the stages {named(absent)}; resume the run")
    if "train" in asked and (absent := _untrained(run)):
        return fails(f"{run.name}: never trained: {named(absent)}")
    return holds(f"{run.name}: records of all {len(asked)} stages")


def _untrained(run: ComparedRun) -> list[str]:
    trained = {record.cell for record in run.of("final_val_loss")}
    seeds = [seed.strip() for seed in (run.symbol("TRAIN_SEEDS") or "").split(",") if seed.strip()]
    models = [name.strip() for name in (run.symbol("MODELS") or "").split(",") if name.strip()]
    cells = [f"{model}/s{seed}" for seed in seeds for model in models]
    return [cell for cell in cells if cell not in trained]
