"""Tables of a whole run: outcomes that are not ok, its stages, and where the numbers come from."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from assay.records.explanation import explained
from assay.records.schema import KEYS, MODELS, SEVERITY, Record, Run, Session
from assay.records.verdicts import (
    CHECKING,
    SUITES,
    WRONG,
    cases_unsupported,
    is_expected,
    is_verdict,
)
from assay.reports.contents import Stage
from assay.reports.numerals import DASH, number, plain
from assay.reports.table import Entry, Table

_MOST_LISTED = 2  # cells that are named one by one
_NO_REASON = "run.json gives no reason"
_SHORT_COMMIT = 12


def outcomes(records: Sequence[Record]) -> Table:
    """Every (stage, cell, subject) that is not ok, the worst first."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        if not is_expected(record.stage, record.status):
            groups.setdefault((record.stage, record.cell, record.subject), []).append(record)
    rows = [
        (min((r.status for r in group), key=SEVERITY.index), *key, _reasons(group))
        for key, group in groups.items()
    ]
    rows = [row for row in rows if not _is_repeated(row, rows)]
    rows.sort(key=lambda row: SEVERITY.index(row[0]))
    return Table(
        title="Outcomes that are not ok",
        columns=("status", "stage", "cell", "subject", "reason"),
        rows=tuple((Entry(text=row[0], tone=row[0]), *row[1:]) for row in rows),
    )


def condensed(table: Table) -> Table:
    """Outcomes with one row where a subject ends alike in many cells."""
    groups: dict[tuple[str, ...], list[list[Entry]]] = {}
    for row in table.entries:
        status, stage, _, subject, reason = (entry.text for entry in row)
        groups.setdefault((status, stage, subject, reason), []).append(row)
    rows: list[tuple[Entry | str, ...]] = []
    for group in groups.values():
        if len(group) <= _MOST_LISTED:
            rows += [tuple(row) for row in group]
            continue
        cells = [row[2].text for row in group]
        named = Entry(text=f"{cells[0]} and {len(cells) - 1:,} more", hint=", ".join(cells))
        rows.append((*group[0][:2], named, *group[0][3:]))
    return replace(table, rows=tuple(rows))


def stage_endings(stages: Sequence[Stage]) -> Table:
    """The status of each stage and the time that its cells took."""
    return Table(
        title="Stages",
        columns=("stage", "status", "cells", "cell time (s)", "reason"),
        rows=tuple(_stage_row(stage) for stage in stages),
    )


def provenance(run: Run) -> list[Table]:
    """Code, machine, versions, starts and configuration; an unknown key shows its reason."""
    commit = Entry(text=DASH, hint=run.reasons.get("commit", _NO_REASON))
    if run.commit is not None:
        commit = Entry(text=commit_text(run.commit, run.dirty), hint=run.commit)
    origin = (
        ("run", run.run),
        ("study", run.study),
        ("commit", commit),
        ("host fingerprint", _key_entry(run, "host")),
        ("devices", _key_entry(run, "devices")),
        ("plugin folders", ", ".join(run.plugins) or "none"),
    )
    return [
        Table(title="Origin", columns=("property", "value"), rows=origin),
        Table(
            title="Sessions",
            columns=("session", "started", "commit", "command"),
            rows=tuple(_session_row(session) for session in run.sessions),
            note="One row for each start of the run; resuming adds a row.",
        ),
        *_hosts(run),
        Table(
            title="Fixed keys",
            columns=("key", "value"),
            rows=tuple((key, _key_entry(run, key)) for key in KEYS),
            note="Two runs are comparable only where these agree.",
        ),
        Table(
            title="Resolved configuration",
            columns=("symbol", "value"),
            rows=tuple(sorted(run.config.items())),
        ),
    ]


def commit_text(commit: str | None, dirty: bool | None) -> str:
    """A commit, and a word where the checkout differed from it or may have."""
    if commit is None:
        return DASH
    unknown = ", uncommitted changes unknown"
    changes = {True: " with uncommitted changes", False: "", None: unknown}
    return commit[:_SHORT_COMMIT] + changes[dirty]


def _reasons(records: Sequence[Record]) -> str:
    """The reason of a group; where there are several, each after the metrics that give it. Of
    probes that fail, the first explanation: the others stand below the verdicts."""
    failing = [r for r in records if r.status in WRONG and (r.stage in CHECKING or is_verdict(r))]
    if explanations := explained(failing):
        others = len(explanations) - 1 if records[0].stage in SUITES else 0
        more = f"; {others} more below the verdicts" if others else ""
        return f"{explanations[0]}{more}"
    metrics: dict[str, list[str]] = {}
    for record in records:
        metrics.setdefault(_with_cause(record), []).append(record.metric)
    if len(metrics) == 1:
        return next(iter(metrics))
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in metrics.items())


def _with_cause(record: Record) -> str:
    word = "to debug" if record.stage == MODELS else "likely cause"  # a gate knows no more
    cause = f"; {word}: {record.cause}" if record.cause else ""
    refused = cases_unsupported(record)
    return f"{refused[1] if refused else record.reason or ''}{cause}"


def _is_repeated(row: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> bool:
    """True for a row about a whole cell that repeats a row about one of its subjects."""
    status, stage, cell, subject, reason = row
    return not subject and any(
        other[:3] == (status, stage, cell)
        and (stage in CHECKING or reason.removeprefix(f"{other[3]}: ") in other[4])
        for other in rows
        if other[3]
    )


def _stage_row(stage: Stage) -> tuple[Entry | str, ...]:
    counts = ", ".join(f"{count:,} {status}" for status, count in stage.cells.items())
    time = Entry(text=DASH, hint="no cell has ended")
    if stage.seconds is not None:
        time = Entry(text=number(stage.seconds), value=stage.seconds)
    reason = stage.done.reason or "" if stage.done else ""
    if not stage.readable:
        reason = "its files cannot be read; see above"
    return (stage.name, Entry(text=stage.status, tone=stage.status), counts or "none", time, reason)


def _session_row(session: Session) -> tuple[Entry | str, ...]:
    unknown = session.host.get("unknown")
    why = unknown.get("commit") if isinstance(unknown, dict) else None
    hint = session.commit or why or "the commit was not recorded"
    return (
        Entry(text=str(session.number), value=session.number),
        session.started,
        Entry(text=commit_text(session.commit, session.dirty), hint=hint),
        " ".join(session.command),
    )


def _hosts(run: Run) -> Iterator[Table]:
    """One table for each distinct description of the machine, naming its sessions."""
    by_host: dict[bytes, list[Session]] = {}
    for session in run.sessions:
        key = msgspec.json.encode(session.host, order="deterministic")
        by_host.setdefault(key, []).append(session)
    for sessions in by_host.values():
        numbers = ", ".join(str(session.number) for session in sessions)
        title = f"Machine and versions of session{'s' if len(sessions) > 1 else ''} {numbers}"
        rows = tuple(_host_rows(sessions[0].host))
        yield Table(title=title, columns=("property", "value"), rows=rows)


def _host_rows(host: dict[str, Any]) -> Iterator[tuple[Entry | str, ...]]:
    """One row for each fact, one level of nesting opened; `unknown` holds reasons, not values."""
    for name, value in host.items():
        if name == "unknown" and isinstance(value, dict):
            yield from ((key, Entry(text=DASH, hint=plain(why))) for key, why in value.items())
        elif isinstance(value, dict):
            yield from ((f"{name}: {key}", plain(v, name=key)) for key, v in value.items())
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            yield from ((f"{name}: {i}", plain(item)) for i, item in enumerate(value))
        elif value is not None or name not in (host.get("unknown") or {}):
            yield name, plain(value, name=name)


def _key_entry(run: Run, key: str) -> Entry:
    value = getattr(run, key)
    if value is None:
        return Entry(text=DASH, hint=run.reasons.get(key, _NO_REASON))
    return Entry(text=plain(value, name=key))
