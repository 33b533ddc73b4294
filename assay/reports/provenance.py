"""Where the numbers of a run come from: code, machine, versions, starts and configuration."""

from collections.abc import Iterator
from typing import Any

import msgspec

from assay.records.schema import KEYS, Run, Session
from assay.reports.numerals import DASH, plain
from assay.reports.table import Entry, Table

_NO_REASON = "run.json gives no reason"
_SHORT_COMMIT = 12


def provenance(run: Run) -> list[Table]:
    """The tables that trace a run; a fixed key that is null shows why."""
    return [
        _origin(run),
        _sessions(run),
        *_hosts(run),
        Table(
            title="Fixed keys",
            columns=("key", "value"),
            rows=tuple((key, _known(run, key)) for key in KEYS),
            note="What two runs must share before their values are compared.",
        ),
        Table(
            title="Resolved configuration",
            columns=("symbol", "value"),
            rows=tuple(sorted(run.config.items())),
        ),
    ]


def commit_text(commit: str | None, dirty: bool | None) -> str:
    """A commit, and whether the checkout differed from it."""
    if commit is None:
        return DASH
    state = {True: " with uncommitted changes", False: "", None: ", cleanliness unknown"}[dirty]
    return commit[:_SHORT_COMMIT] + state


def _origin(run: Run) -> Table:
    commit = Entry(text=DASH, hint=run.reasons.get("commit", _NO_REASON))
    if run.commit is not None:
        commit = Entry(text=commit_text(run.commit, run.dirty), hint=run.commit)
    rows = (
        ("run", run.run),
        ("study", run.study),
        ("commit", commit),
        ("host fingerprint", _known(run, "host")),
        ("devices", _known(run, "devices")),
        ("plugin folders", ", ".join(run.plugins) or "none"),
    )
    return Table(title="Origin", columns=("what", "value"), rows=rows)


def _sessions(run: Run) -> Table:
    return Table(
        title="Sessions",
        columns=("session", "started", "commit", "command"),
        rows=tuple(_session_row(session) for session in run.sessions),
        note="Each start of the run; resuming adds one and replaces none.",
    )


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
    sessions: dict[bytes, list[Session]] = {}
    for session in run.sessions:
        key = msgspec.json.encode(session.host, order="deterministic")
        sessions.setdefault(key, []).append(session)
    for found in sessions.values():
        numbers = ", ".join(str(session.number) for session in found)
        title = f"Machine and versions of session{'s' if len(found) > 1 else ''} {numbers}"
        rows = tuple(_host_rows(found[0].host))
        yield Table(title=title, columns=("what", "value"), rows=rows)


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


def _known(run: Run, key: str) -> Entry:
    value = getattr(run, key)
    if value is None:
        return Entry(text=DASH, hint=run.reasons.get(key, _NO_REASON))
    return Entry(text=plain(value, name=key))
