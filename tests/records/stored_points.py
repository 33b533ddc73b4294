"""Points that trackers stored, read from their own files, beside what the records say.

Neither is made by the code that mirrors: curves are (cell, step, metric, value) counted, so a point
that is lost or there twice is a difference.
"""

import json
import sqlite3
from collections import Counter
from pathlib import Path

from assay.records import run as runs
from assay.records.run import RunFolder
from assay.records.schema import CELL_PROGRESS, DEVICE_READINGS, Record
from assay.records.wandb_files import stored_run

Curves = Counter[tuple[str, int, str, float]]


def records_of(folder: RunFolder, stage: str = "train") -> list[Record]:
    return [r for r in runs.stage_records(folder, stage) if r.metric != CELL_PROGRESS]


def recorded_curves(folder: RunFolder) -> Curves:
    return Counter(
        (r.cell, r.data["step"], r.metric, r.value)
        for r in records_of(folder)
        if "step" in r.data and r.value is not None
    )


def recorded_rest(folder: RunFolder) -> dict[str, dict[str, object]]:
    """Values without a step, and what is said of any value, by cell."""
    rest: dict[str, dict[str, object]] = {}
    for r in records_of(folder):
        values = rest.setdefault(r.cell, {})
        if "step" not in r.data and r.value is not None:
            values[f"device/{r.metric}" if r.metric in DEVICE_READINGS else r.metric] = r.value
        if r.status != "ok":
            values[f"{r.metric}.status"] = r.status
        if r.reason:
            values[f"{r.metric}.reason"] = r.reason
    return rest


def wandb_runs(folder: Path) -> dict[str, object]:
    """Each run of W&B below a folder, by its identity."""
    names = {path.name.rpartition("-")[2] for path in (folder / "wandb").glob("offline-run-*")}
    return {name: stored_run(folder, name) for name in names}


def wandb_curves(folder: Path) -> Curves:
    return Counter(
        (stored.config["cell"], row["step"], name, value)
        for stored in wandb_runs(folder).values()
        for row in stored.history
        for name, value in row.items()
        if not name.startswith("_") and name != "step"
    )


def wandb_rest(folder: Path) -> dict[str, dict[str, object]]:
    return {
        stored.config["cell"]: {n: v for n, v in stored.summary.items() if not n.startswith("_")}
        for stored in wandb_runs(folder).values()
    }


def trackio_rows(folder: Path, project: str = "small", table: str = "metrics") -> list[tuple]:
    """(run, step, values) of every row; of the device's readings the step is None."""
    step = "step" if table == "metrics" else "NULL"
    with sqlite3.connect(folder / f"{project}.db") as database:
        rows = database.execute(f"SELECT run_name, {step}, metrics FROM {table}").fetchall()
    return [(name.partition(" ")[0], step, json.loads(values)) for name, step, values in rows]


def trackio_curves(folder: Path) -> Curves:
    """All but tables, and the row that holds the end of a cell, which has no step of its own."""
    return Counter(
        (cell, step, name, value)
        for cell, step, values in trackio_rows(folder)
        if "cell_seconds" not in values
        for name, value in values.items()
        if isinstance(value, float | int)
    )


def trackio_rest(folder: Path) -> dict[str, dict[str, object]]:
    """The ends of cells, readings of the device, and all words, by cell."""
    rest: dict[str, dict[str, object]] = {}
    for cell, _, values in trackio_rows(folder):
        words = {name: value for name, value in values.items() if isinstance(value, str)}
        if "records" not in values:
            rest.setdefault(cell, {}).update(values if "cell_seconds" in values else words)
    for cell, _, values in trackio_rows(folder, table="system_metrics"):
        rest[cell].update({f"device/{name}": value for name, value in values.items()})
    return rest
