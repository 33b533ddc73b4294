"""Figures that follow from other records of their cell agree with them, and are there once."""

from collections import Counter
from collections.abc import Iterator
from math import isclose

from assay.laws.pairs import PAIRED_METRICS
from assay.records.schema import Record
from assay.verify.compared import FINAL, ComparedRun, RunComparison
from assay.verify.finding import CheckFinding, fails, holds, named

_CLOSE = 1e-3  # of the larger one
_MEAN_RATE = "mean_tokens_per_s"


def look(comparison: RunComparison) -> list[CheckFinding]:
    return [_of(run) for run in comparison.runs if not run.origin]


def _of(run: ComparedRun) -> CheckFinding:
    cells: dict[str, list[Record]] = {}
    for record in run.records:
        cells.setdefault(f"{record.stage} {record.cell}", []).append(record)
    wrong = [words for name, own in cells.items() for words in _of_cell(name, own)]
    wrong += _strangers(run)
    if wrong:
        return fails(f"{run.name}: {named(wrong)}")
    return holds(f"{run.name}: records of {len(cells):,} cells agree with each other")


def _of_cell(name: str, records: list[Record]) -> Iterator[str]:
    yield from _twice(name, records)
    yield from _of_training(name, records)
    yield from _of_times(name, records)


def _twice(name: str, records: list[Record]) -> Iterator[str]:
    places = Counter((r.sequence, r.metric, r.subject) for r in records if r.sequence)
    if twice := [metric for (_, metric, _), count in places.items() if count > 1]:
        yield f"{name}: the same record twice ({twice[0]})"


def _of_training(name: str, records: list[Record]) -> Iterator[str]:
    """The best loss is the least, the last one that of its step, the rate tokens over seconds."""
    losses = {_step(r): r.value for r in records if r.metric == "val_loss"}
    known = [value for value in losses.values() if value is not None]
    for record in records:
        if record.value is None or not known:
            continue
        if record.metric == "best_val_loss" and not _agree(record.value, min(known)):
            yield f"{name}: best_val_loss {record.value:g}, the least val_loss {min(known):g}"
        at_end = losses.get(_step(record))
        if record.metric == FINAL and at_end is not None and not _agree(record.value, at_end):
            yield f"{name}: {FINAL} {record.value:g}, val_loss at its step {at_end:g}"
    for record in records:
        rate = _rate(record) if record.metric == _MEAN_RATE else None
        if rate is not None and record.value is not None and not _agree(record.value, rate):
            yield f"{name}: {_MEAN_RATE} {record.value:g}, by its data {rate:g}"


def _step(record: Record) -> str:
    return str((record.data or {}).get("step"))


def _rate(record: Record) -> float | None:
    tokens, seconds = ((record.data or {}).get(key) for key in ("tokens", "seconds"))
    known = all(isinstance(number, int | float) for number in (tokens, seconds))
    return tokens / seconds if known and seconds else None


def _of_times(name: str, records: list[Record]) -> Iterator[str]:
    """Subjects that were timed side by side have one unit and one workload; a slow one may have
    fewer rounds."""
    for metric in PAIRED_METRICS:
        own = [r for r in records if r.metric == metric and r.value is not None and not r.alone]
        for what, values in (
            ("units", {r.unit for r in own}),
            ("workloads", {str(r.workload.spec) if r.workload else "" for r in own}),
        ):
            if len(values) > 1:
                yield f"{name}: {metric} of its subjects has unlike {what}"


def _strangers(run: ComparedRun) -> Iterator[str]:
    if strange := sorted({record.run for record in run.records} - {run.run.run}):
        yield f"records of another run, {strange[0]}"


def _agree(one: float, other: float) -> bool:
    return isclose(one, other, rel_tol=_CLOSE)
