"""What the gates say of models: a row for each, with what it is made of and what it costs."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from assay.records.schema import (
    CELL_SECONDS,
    MODEL_CACHE_BYTES,
    MODEL_PARAMETERS,
    MODEL_SECONDS,
    MODELS,
    Record,
)
from assay.records.verdicts import is_wrong
from assay.reports.numerals import DASH
from assay.reports.table import Entry, Table

if TYPE_CHECKING:
    from assay.reports.report import Report

_FACTS = (MODEL_PARAMETERS, MODEL_CACHE_BYTES, MODEL_SECONDS)
_NOTE = (
    "Parameters, and bytes of cache for each token in bfloat16, are those of GPT-2 124M size; the "
    "gates are passed, of those that apply, by a small model on the CPU."
)


def models_table(records: Sequence[Record]) -> Table | None:
    """Parts, size and gates of every model; None where none was examined."""
    found: dict[str, list[Record]] = {}
    for record in records:
        if record.stage == MODELS and record.metric != CELL_SECONDS:
            found.setdefault(record.subject, []).append(record)
    if not found:
        return None
    return Table(
        title="Models",
        columns=("model", "steps", "parts", "parameters", "bytes per token", "gates", "fails"),
        rows=tuple(_row(subject, of_it) for subject, of_it in found.items()),
        note=" ".join((_NOTE, *_wanting(records))),
    )


def failures(records: Sequence[Record]) -> Iterator[str]:
    """For each gate that does not hold: how to find out why, and what was seen of which models."""
    seen: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record.stage == MODELS and _is_gate(record) and is_wrong(record):
            seen.setdefault((record.subject, record.reason or ""), []).append(record)
    groups: dict[tuple[str, ...], list[Record]] = {}
    for found in seen.values():  # one reason may be that of several gates
        groups.setdefault(tuple(map(_gate, found)), []).append(found[0])
    for gates, found in groups.items():
        cause = found[0].cause if len(gates) == 1 else None
        yield f"{', '.join(gates)}:{f' {cause}' if cause else ''}"
        yield from (f"    {record.subject}: {record.reason}" for record in found)


def show_models(report: "Report", records: Sequence[Record]) -> None:
    """Print the table, a line for each gate that fails, and the verdict to the terminal."""
    from assay.reports.terminal import console, show

    screen = console()
    if table := models_table(records):
        show(table, screen)
    for line in failures(records):
        screen.print(line, markup=False, highlight=False, soft_wrap=True)
    for problem in report.problems:
        screen.print(f"! {problem}", markup=False, highlight=False)
    screen.print(f"{report.title}: {report.verdict}", style="bold", highlight=False)


def selection_table(models: Iterable[tuple[str, Sequence[str], Sequence[str]]]) -> Table:
    """Name, steps and parts of models that an examination would take."""
    rows = tuple((name, " ".join(steps), " ".join(tags)) for name, steps, tags in models)
    return Table(
        title=f"{len(rows)} model{'' if len(rows) == 1 else 's'} would be examined",
        columns=("model", "steps", "parts"),
        rows=rows,
    )


def _row(subject: str, records: Sequence[Record]) -> tuple[Entry | str, ...]:
    facts = {record.metric: record for record in records if record.metric in _FACTS}
    gates = [record for record in records if _is_gate(record)]
    applied = [record for record in gates if record.status != "unsupported"]
    passed = [record for record in applied if record.status == "ok"]
    failed = [record for record in applied if is_wrong(record)]
    waiting = next((record for record in applied if record.status == "skipped"), None)
    tone = "failed" if failed else "skipped" if waiting else ""
    made_of = next((record.workload.spec for record in records if record.workload), {})
    return (
        subject,
        " ".join(made_of.get("steps", ())),
        " ".join(made_of.get("parts", ())) or DASH,
        _count(facts.get(MODEL_PARAMETERS)),
        _count(facts.get(MODEL_CACHE_BYTES)),
        Entry(
            text=f"{len(passed)}/{len(applied)}",
            tone=tone,
            hint=(waiting.reason or "") if waiting and not failed else "",
        ),
        Entry(text=_together(failed, of=gates), tone=tone),
    )


def _together(failed: Sequence[Record], *, of: Sequence[Record]) -> str:
    return "all" if len(failed) == len(of) > 1 else " ".join(map(_gate, failed))


def _wanting(records: Sequence[Record]) -> list[str]:
    """What steps mean beyond what was built."""
    specs = [r.workload.spec for r in records if r.stage == MODELS and r.workload]
    return list(dict.fromkeys(text for spec in specs for text in spec.get("wanting", ())))


def _is_gate(record: Record) -> bool:
    return record.metric not in (*_FACTS, CELL_SECONDS)


def _gate(record: Record) -> str:
    """Its name; what ends a process by itself is the failure of no gate."""
    return "process" if "+" in record.metric else record.metric


def _count(record: Record | None) -> Entry:
    if record is None or record.value is None:
        return Entry(text=DASH, hint=(record.reason or "") if record else "")
    return Entry(text=f"{record.value:,.0f}", value=record.value)
