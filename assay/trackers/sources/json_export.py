"""JSON and JSONL files of a history, or of whole runs with configuration, summary and events."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.errors import BadInput
from assay.trackers.opening import SourceRequest
from assay.trackers.run import DEVICE, TrackerRun, history, plain_config, row
from assay.trackers.sources.wandb_folder import metadata_of

_SUFFIXES = (".json", ".jsonl", ".ndjson")
_EVENTS = ("events", "system", "system_metrics")
WANTED = (
    "wanted rows with `_step` (as scan_history gives them), columns of a data frame, or an object "
    "with `history` and, where known, config, summary, events and metadata"
)


def recognises(request: SourceRequest) -> bool:
    path = request.path
    return path is not None and path.suffix.lower() in _SUFFIXES and path.is_file()


def read(request: SourceRequest) -> list[TrackerRun]:
    """The runs of a file: one history, one run, or a list of runs."""
    path = request.path
    assert path is not None
    content = _content(path)
    if isinstance(content, Mapping):
        entries = [content] if "history" in content else [{"history": _from_columns(path, content)}]
    elif all(isinstance(entry, Mapping) for entry in content) and content:
        whole = all("history" in entry for entry in content)
        entries = list(content) if whole else [{"history": content}]
    else:
        kinds = sorted({type(entry).__name__ for entry in content}) or ["nothing"]
        raise BadInput(f"{path} is a list of {', '.join(kinds)}; {WANTED}")
    return [_run(path, entry, number) for number, entry in enumerate(entries, start=1)]


def _content(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix.lower() != ".json":
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(content, Mapping | list):
        raise BadInput(f"{path} is a {type(content).__name__}; {WANTED}")
    return content


def _from_columns(path: Path, content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of a data frame that was written column by column, each with values by row."""
    columns = [column for column in content.values() if isinstance(column, Mapping)]
    if not content or len(columns) < len(content) or "_step" not in content:
        raise BadInput(f"{path} is an object with {_some(content)}; {WANTED}")
    indices = dict.fromkeys(index for column in columns for index in column)
    return [
        {name: column[index] for name, column in content.items() if index in column}
        for index in indices
    ]


def _run(path: Path, entry: Mapping[str, Any], number: int) -> TrackerRun:
    rows = entry["history"]
    if isinstance(rows, Mapping):
        rows = _from_columns(path, rows)
    if not isinstance(rows, list) or not all(isinstance(each, Mapping) for each in rows):
        raise BadInput(f"{path}: `history` holds no rows; {WANTED}")
    made = history(rows)
    if made["history"] and all(point.step is None for point in made["history"]):
        raise BadInput(f"{path}: no row has a step; {WANTED}")
    config = _mapping(entry, "config")
    unwrapped = {
        k: (
            v["value"]
            if isinstance(v, Mapping) and set(v) <= {"value", "desc"} and "value" in v
            else v
        )
        for k, v in config.items()
    }
    return TrackerRun(
        source="json_export",
        place=str(path),
        identity=_text(entry, "id", "identity", "run_id"),
        name=_text(entry, "name", "display_name", "displayName") or _numbered(path, number),
        project=_text(entry, "project"),
        entity=_text(entry, "entity"),
        group=_text(entry, "group"),
        host=_text(entry, "host") or _text(_mapping(entry, "metadata"), "host"),
        state=_text(entry, "state"),
        config=plain_config(unwrapped),
        history=made["history"],
        system=(*made["system"], *(_event(each) for each in _events(entry))),
        summary=dict(_mapping(entry, "summary")),
        metadata=metadata_of(dict(_mapping(entry, "metadata")), {}),
        step_column=made["step_column"],
        remarks=(*made["remarks"], *(() if config else ("an export without a configuration",))),
    )


def _events(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    events = next((entry[name] for name in _EVENTS if isinstance(entry.get(name), list)), [])
    return [event for event in events if isinstance(event, Mapping)]


def _event(values: Mapping[str, Any]) -> Any:
    """Readings of the machine; `system.` begins their names on W&B's server."""
    named = {
        n if n.startswith(("system.", "_", DEVICE, "gpu/")) else f"system.{n}": v
        for n, v in values.items()
    }
    return row(named, at=values.get("_timestamp", values.get("timestamp", values.get("_runtime"))))


def _mapping(entry: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = entry.get(name)
    return value if isinstance(value, Mapping) else {}


def _text(entry: Mapping[str, Any], *names: str) -> str | None:
    return next((str(entry[name]) for name in names if entry.get(name)), None)


def _numbered(path: Path, number: int) -> str:
    return path.stem if number == 1 else f"{path.stem} {number}"


def _some(content: Mapping[str, Any]) -> str:
    return ", ".join(repr(name) for name in list(content)[:3]) or "nothing"
