"""trackio's stores: a project's SQLite file, or a folder of them; only ever read."""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from assay.errors import BadInput, CannotRunHere
from assay.trackers.opening import SourceRequest
from assay.trackers.run import TrackerRun, device_name, history, plain_config, row

_WAIT_S = 5.0  # for a writer
# The tables that are read, and columns that each must have.
_TABLES = {
    "metrics": {"id", "run_name", "timestamp", "step", "metrics"},
    "configs": {"id", "run_name", "config"},
    "system_metrics": {"id", "run_name", "timestamp", "metrics"},
}
_MAGIC = b"SQLite format 3\0"


def recognises(request: SourceRequest) -> bool:
    """True for an SQLite file, and for a folder that holds some, as TRACKIO_DIR does."""
    return request.path is not None and bool(_files(request.path))


def read(request: SourceRequest) -> list[TrackerRun]:
    """All runs of all projects at a path."""
    assert request.path is not None
    return [run for file in _files(request.path) for run in _runs(file)]


def default_folder() -> Path:
    """The folder that trackio keeps its stores in."""
    return Path(os.environ.get("TRACKIO_DIR") or "~/.cache/huggingface/trackio").expanduser()


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return [file for file in sorted(path.glob("*.db")) if _is_sqlite(file)]
    return [path] if path.suffix == ".db" or _is_sqlite(path) else []


def _is_sqlite(path: Path) -> bool:
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _runs(file: Path) -> list[TrackerRun]:
    try:
        with closing(
            sqlite3.connect(f"file:{quote(str(file.resolve()))}?mode=ro", uri=True, timeout=_WAIT_S)
        ) as database:
            rows = {table: _rows(database, table) for table in _TABLES}
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise CannotRunHere(
                f"{file} is locked by a process that writes to it; try again when it has ended"
            ) from error
        raise BadInput(f"{file} cannot be read as a store of trackio: {error}") from error
    except sqlite3.DatabaseError as error:
        raise BadInput(f"{file} is no store of trackio: {error}") from error
    identities = {
        (entry["run_id"], entry["run_name"]): None for table in _TABLES for entry in rows[table]
    }
    return [_run(file, identity, name, rows) for identity, name in identities]


def _rows(database: sqlite3.Connection, table: str) -> list[dict[str, Any]]:
    """The rows of a table; stores of older versions have no run_id, where names are identities."""
    columns = [name for _, name, *_ in database.execute(f"PRAGMA table_info({table})")]
    if not columns and table == "metrics":
        raise sqlite3.DatabaseError("it has no table of metrics")
    if absent := _TABLES[table] - set(columns) if columns else set():
        raise sqlite3.DatabaseError(f"its table {table} has no column {', '.join(sorted(absent))}")
    rows = database.execute(f"SELECT * FROM {table} ORDER BY id") if columns else ()
    entries = [dict(zip(columns, entry, strict=True)) for entry in rows]
    return [{"run_id": None, **entry} for entry in entries]


def _run(
    file: Path, identity: str | None, name: str, rows: dict[str, list[dict[str, Any]]]
) -> TrackerRun:
    own = {
        table: [e for e in entries if (e["run_id"], e["run_name"]) == (identity, name)]
        for table, entries in rows.items()
    }
    logged = [
        {
            **_decoded(file, entry["metrics"]),
            "_step": entry["step"],
            "_timestamp": entry["timestamp"],
        }
        for entry in own["metrics"]
    ]
    tables = [each for entry in logged for each in _table(entry.pop("records", None))]
    words = {name: v for entry in logged for name, v in entry.items() if _is_word(name, v)}
    made = history(logged)
    config = _decoded(file, own["configs"][-1]["config"]) if own["configs"] else {}
    return TrackerRun(
        source="trackio_store",
        place=str(file),
        identity=identity,
        name=name,
        project=file.stem,
        group=config.get("_Group"),
        host=config.get("host"),
        config=plain_config(config),
        history=made["history"],
        system=(*made["system"], *(_system(file, entry) for entry in own["system_metrics"])),
        summary=words,
        tables=tuple(tables),
        step_column=made["step_column"],
        remarks=made["remarks"],
    )


def _is_word(name: str, value: Any) -> bool:
    """True for what assay's mirrors write beside a number that is unknown or wrong."""
    return isinstance(value, str) and name.endswith((".status", ".reason"))


def _system(file: Path, entry: dict[str, Any]) -> Any:
    values = {device_name(n): v for n, v in _decoded(file, entry["metrics"]).items()}
    return row(values, at=entry["timestamp"])


def _table(value: Any) -> Iterator[dict[str, Any]]:
    rows = value.get("_value") if isinstance(value, dict) else None
    yield from (entry for entry in rows or () if isinstance(entry, dict))


def _decoded(file: Path, text: str | bytes) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise BadInput(f"{file}: a row is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise BadInput(f"{file}: a row holds {type(content).__name__}, wanted values by name")
    return content
