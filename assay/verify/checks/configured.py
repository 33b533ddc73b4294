"""A training run did what its configuration says: steps, tokens of a step, rate, data, dtype."""

from collections.abc import Iterator

from assay.records.schema import Record
from assay.verify.compared import FINAL, ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, fails, holds, named

_SLACK = 1 + 1e-6


def look(comparison: RunComparison) -> list[CheckFinding]:
    # What a tracker's run did is read from the same place as its configuration.
    return [_of(run) for run in comparison.runs if run.of(FINAL) and not run.origin]


def _of(run: ComparedRun) -> CheckFinding:
    wrong = [words for record in run.of(FINAL) for words in _contradictions(run, record)]
    wrong += [*_facts(run), *_rates(run)]
    if wrong:
        return fails(f"{run.name}: recorded otherwise than set: {named(wrong)}")
    return holds(f"{run.name}: steps, batch, rate, data and dtype are recorded as set")


def _contradictions(run: ComparedRun, record: Record) -> Iterator[str]:
    data = record.data or {}
    steps, step = _number(run, "TRAIN_STEPS"), data.get("step")
    if steps and data.get("stopped_by") == "steps" and step != steps:
        yield f"TRAIN_STEPS is {steps:g}, {record.cell} ended at step {step}"
    of_step = (_number(run, "TRAIN_BATCH") or 0) * (_number(run, "TRAIN_LENGTH") or 0)
    tokens = data.get("tokens")
    if of_step and isinstance(step, int) and isinstance(tokens, int) and tokens != step * of_step:
        yield f"a step of {record.cell} has {tokens / max(step, 1):g} tokens, set are {of_step:g}"
    dataset = run.symbol("TRAIN_DATASET")
    if dataset and data.get("dataset") not in (None, dataset):
        yield f"TRAIN_DATASET is {dataset}, {record.cell} read {data['dataset']}"


def _facts(run: ComparedRun) -> Iterator[str]:
    """Contradictions between the configuration and the other entries of run.json."""
    dtype, compiled = run.symbol("TRAIN_DTYPE"), run.symbol("TRAIN_COMPILED")
    if dtype and run.run.dtype and dtype not in run.run.dtype:
        yield f"TRAIN_DTYPE is {dtype}, the run's dtype {', '.join(run.run.dtype)}"
    if compiled and run.run.compiled is not None and (compiled == "y") != run.run.compiled:
        yield f"TRAIN_COMPILED is {compiled}, the run's compiled {run.run.compiled}"


def _rates(run: ComparedRun) -> Iterator[str]:
    """Rates above the one that is set, of arms whose entry has no rate of its own."""
    most = _number(run, "TRAIN_LEARNING_RATE")
    own = [r for r in run.of("learning_rate") if "rate=" not in r.subject and r.value is not None]
    highest = max((record.value for record in own), default=0.0)
    if most and own and not most / 10 <= highest <= most * _SLACK:
        yield f"TRAIN_LEARNING_RATE is {most:g}, the highest rate recorded {highest:g}"


def _number(run: ComparedRun, symbol: str) -> float | None:
    try:
        return float(run.symbol(symbol) or "")
    except ValueError:
        return None
