"""Two runs of one real record: GPT-2 and GPT2_MLA of evidence/train-ablation-h200, told apart, and
what can be changed in one of them; and a bundle whose manifest is made to fit."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from assay.records.run import load_records, open_run
from assay.records.schema import Record
from assay.verify.compared import ComparedRun
from assay.verify.evidence import FOLDER
from assay.verify.publish.manifest import MANIFEST, mark

SOURCE = FOLDER / "train-ablation-h200"


@cache
def arm(model: str, name: str) -> ComparedRun:
    """The run as it would be with one model in MODELS."""
    _, run = open_run(SOURCE)
    records = [r for r in load_records(SOURCE) if r.stage != "train" or r.subject in ("", model)]
    kept = [r for r in records if r.stage != "train" or r.cell.partition("/")[0] == model]
    config = {**run.config, "MODELS": f'"{model}"'}
    return ComparedRun(
        name=name, run=msgspec.structs.replace(run, config=config), records=tuple(kept)
    )


def altered(run: ComparedRun, config: dict[str, str] | None = None, **keys: Any) -> ComparedRun:
    """With other symbols, and other fixed keys of run.json."""
    changed = {**run.run.config, **(config or {})}
    return ComparedRun(
        name=run.name,
        run=msgspec.structs.replace(run.run, config=changed, **keys),
        records=run.records,
    )


def on_host(run: ComparedRun, change: Callable[[dict[str, Any]], None]) -> ComparedRun:
    """On another machine: `change` is given a copy of what is known of the host."""
    session = run.run.sessions[-1]
    host = msgspec.json.decode(msgspec.json.encode(session.host))
    change(host)
    sessions = [*run.run.sessions[:-1], msgspec.structs.replace(session, host=host)]
    return altered(run, sessions=sessions, versions=host["versions"])


def recorded(
    run: ComparedRun, metric: str, change: Callable[[Record], Record | None]
) -> ComparedRun:
    """With every record of a metric replaced, or left out."""
    made = (change(r) if r.metric == metric else r for r in run.records)
    return ComparedRun(name=run.name, run=run.run, records=tuple(r for r in made if r is not None))


def with_data(run: ComparedRun, metric: str, **entries: Any) -> ComparedRun:
    """With other entries in the data of a metric."""
    replace = msgspec.structs.replace
    return recorded(run, metric, lambda r: replace(r, data={**(r.data or {}), **entries}))


def fit(folder: Path) -> None:
    """Make the manifest fit what lies in the folder, as someone who edits files would."""
    manifest = json.loads((folder / MANIFEST).read_text())
    for name in manifest["files"]:
        manifest["files"][name] = msgspec.to_builtins(mark(folder / name))
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1))
