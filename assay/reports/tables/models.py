"""Models and their gates: a row for each, with its parts, its size and the gates it fails."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from assay.records.schema import (
    CELL_METRICS,
    MODEL_CACHE_BYTES,
    MODEL_PARAMETERS,
    MODEL_SECONDS,
    NOT_EXAMINED,
    Record,
)
from assay.records.verdicts import is_gap, is_wrong
from assay.reports.numerals import DASH, counted
from assay.reports.table import Entry, Table

if TYPE_CHECKING:
    from assay.reports.report import Report

STAGES = ("models",)
_NAMED = 3  # models that a sentence lists
_SIZES = (MODEL_PARAMETERS, MODEL_CACHE_BYTES, MODEL_SECONDS)
_NOTE = (
    "Parameters and cache bytes per token (bfloat16) are those of the GPT-2 124M size. Gates run "
    "on a small model on the CPU and are counted as passed out of those that apply."
)


def tables(stage: str, records: Sequence[Record]) -> list[Table]:
    """One table of every model that was examined."""
    models: dict[str, list[Record]] = {}
    for record in _of_models(records):
        models.setdefault(record.subject, []).append(record)
    if not models:
        return []
    return [
        Table(
            title="Models",
            columns=("model", "steps", "parts", "parameters", "bytes per token", "gates", "fails"),
            rows=tuple(_row(subject, examined) for subject, examined in models.items()),
            note=" ".join((*_not_examined(models), _NOTE)),
        )
    ]


def _not_examined(models: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    """Sentences on gates that apply and could not look: which, of which models, and why."""
    gates: dict[tuple[str, str], list[str]] = {}
    for subject, records in models.items():
        for record in filter(is_gap, records):
            gates.setdefault((subject, record.reason or ""), []).append(_gate(record))
    subjects: dict[tuple[str, str], list[str]] = {}
    for (subject, reason), names in gates.items():
        subjects.setdefault((" and ".join(names), reason), []).append(subject)
    for (names, reason), alike in subjects.items():
        more = f" and {len(alike) - _NAMED} more" if len(alike) > _NAMED else ""
        why = reason.removeprefix(NOT_EXAMINED).rstrip(".")
        yield f"Not examined: {names} of {', '.join(alike[:_NAMED])}{more}: {why}."


def failures(records: Sequence[Record]) -> Iterator[str]:
    """For each gate that does not hold: how to debug it, and what it saw of which models."""
    by_reason: dict[tuple[str, str], list[Record]] = {}
    for record in _of_models(records):
        if _is_gate(record) and is_wrong(record):
            by_reason.setdefault((record.subject, record.reason or ""), []).append(record)
    groups: dict[tuple[str, ...], list[Record]] = {}
    for failed in by_reason.values():  # one reason may be that of several gates
        groups.setdefault(tuple(map(_gate, failed)), []).append(failed[0])
    for gates, failed in groups.items():
        cause = failed[0].cause if len(gates) == 1 else None
        yield f"{', '.join(gates)}:{f' {cause}' if cause else ''}"
        yield from (f"    {record.subject}: {record.reason}" for record in failed)


def show_models(report: "Report", records: Sequence[Record]) -> None:
    """Print the answer, the table and a line for each gate that fails to the terminal."""
    from assay.reports.terminal import console, show, show_answer

    screen = console()
    show_answer(report.answer, screen)
    for table in tables("models", records):
        show(table, screen)
    for line in failures(records):
        screen.print(line, markup=False, highlight=False, soft_wrap=True)
    for problem in report.problems:
        screen.print(f"! {problem}", markup=False, highlight=False)


def selection_table(models: Iterable[tuple[str, Sequence[str], Sequence[str]]]) -> Table:
    """Name, steps and parts of models that an examination would take."""
    rows = tuple((name, " ".join(steps), " ".join(tags)) for name, steps, tags in models)
    return Table(
        title=f"{counted(len(rows), 'model')} would be examined",
        columns=("model", "steps", "parts"),
        rows=rows,
    )


def _of_models(records: Sequence[Record]) -> Iterator[Record]:
    return (r for r in records if r.stage in STAGES and r.metric not in CELL_METRICS)


def _row(subject: str, records: Sequence[Record]) -> tuple[Entry | str, ...]:
    sizes = {record.metric: record for record in records if record.metric in _SIZES}
    gates = [record for record in records if _is_gate(record)]
    applied = [record for record in gates if record.status != "unsupported" or is_gap(record)]
    passed = [record for record in applied if record.status == "ok"]
    failed = [record for record in applied if is_wrong(record)]
    skipped = next((record for record in applied if record.status == "skipped"), None)
    partly = skipped or any(map(is_gap, applied))
    tone = "failed" if failed else "skipped" if partly else ""
    hint = (skipped.reason or "") if skipped and not failed else ""
    fails = "all" if len(failed) == len(gates) > 1 else " ".join(map(_gate, failed))
    spec = next((record.workload.spec for record in records if record.workload), {})
    return (
        subject,
        " ".join(spec.get("steps", ())),
        " ".join(spec.get("parts", ())) or DASH,
        _count(sizes.get(MODEL_PARAMETERS)),
        _count(sizes.get(MODEL_CACHE_BYTES)),
        Entry(text=f"{len(passed)}/{len(applied)}", tone=tone, hint=hint),
        Entry(text=fails, tone=tone),
    )


def _is_gate(record: Record) -> bool:
    return record.metric not in _SIZES


def _gate(record: Record) -> str:
    """The gate's name; what ends a process by itself is the failure of no gate."""
    return "process" if "+" in record.metric else record.metric


def _count(record: Record | None) -> Entry:
    if record is None or record.value is None:
        return Entry(text=DASH, hint=(record.reason or "") if record else "")
    return Entry(text=f"{record.value:,.0f}", value=record.value)
