"""Samples of what trackers write: CSV, JSON, a folder of W&B, a store of trackio."""

import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from campaign.mutators import BYTES, token

_HEADER = b":W&B" + bytes(3)
_START = 1_794_900_000
_ROWS = [
    {"_step": n, "_timestamp": _START + n, "loss": 3.0 / (n + 1), "lr": 1e-3} for n in range(6)
]


def read(folder: Path) -> None:
    """Open whatever lies there as `assay` would, and look at its GPUs, numbers and settings."""
    from assay.trackers import aliases, metric_points
    from assay.trackers.gpu_use import gpu_use
    from assay.trackers.opening import SourceRequest, open_runs

    entry = next(path for path in sorted(folder.iterdir()) if not path.name.startswith("."))
    for run in open_runs(SourceRequest(path=entry)):
        metric_points.points(run, "loss")
        aliases.read_config(run)
        gpu_use(run)


def make_csv(folder: Path) -> None:
    names = list(_ROWS[0])
    lines = [",".join(names), *(",".join(str(row[n]) for n in names) for row in _ROWS)]
    (folder / "history.csv").write_text("\n".join(lines) + "\n")


def make_panel(folder: Path) -> None:
    lines = ['"Step","a - loss","a - loss__MIN","a - loss__MAX"', '"1","2.5","2.5","2.5"']
    (folder / "panel.csv").write_text("\n".join([*lines, '"2","2.25","2","2.5"']) + "\n")


def make_json(folder: Path) -> None:
    system = [{"_timestamp": _START + n, "gpu.0.gpu": 50.0 + n} for n in range(3)]
    run = {
        "id": "r1", "name": "first", "project": "p", "entity": "e", "state": "finished",
        "config": {"learning_rate": {"value": 1e-3}, "batch_size": 8, "dtype": "bfloat16"},
        "history": _ROWS, "events": system, "summary": {"loss": 0.5},
        "metadata": {"gpu": "H200", "gpu_count": 1, "gpuNvidia": [{"name": "H200"}], "os": "L"},
    }  # fmt: skip
    (folder / "runs.json").write_text(json.dumps([run, {**run, "id": "r2"}]))


def make_jsonl(folder: Path) -> None:
    (folder / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in _ROWS))


def make_trackio(folder: Path) -> None:
    with sqlite3.connect(folder / "p.db") as database:
        for table, columns in (
            ("metrics", "id, run_id, run_name, timestamp, step, metrics"),
            ("configs", "id, run_id, run_name, config, created_at"),
            ("system_metrics", "id, run_id, run_name, timestamp, metrics"),
        ):
            database.execute(f"CREATE TABLE {table} ({columns})")
        for n, row in enumerate(_ROWS):
            cells = (n, "r1", "first", f"2026-01-01T00:00:{n:02}+00:00", n, json.dumps(row))
            database.execute("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", cells)
        config = json.dumps({"_Group": "g", "host": "h", "lr": 1e-3})
        database.execute("INSERT INTO configs VALUES (0, 'r1', 'first', ?, 't')", (config,))
        readings = json.dumps({"gpu/0/utilization": 50.0})
        cells = (0, "r1", "first", "2026-01-01T00:00:09+00:00", readings)
        database.execute("INSERT INTO system_metrics VALUES (?, ?, ?, ?, ?)", cells)


def make_wandb(folder: Path) -> None:
    """A folder as W&B leaves it offline, its messages made with W&B's own classes."""
    from tracked_runs import append
    from wandb.proto import wandb_internal_pb2 as protocol

    run = folder / "offline-run-20260101_000000-r1"
    (run / "files").mkdir(parents=True)
    config = "lr:\n  value: 0.001\nnames:\n  value: [a, b]\n"
    (run / "files/config.yaml").write_text(config)
    table = {"columns": ["metric", "value"], "data": [["loss", 1.0]]}
    (run / "files/table.json").write_text(json.dumps(table))
    (run / "files/wandb-metadata.json").write_text(json.dumps({"os": "L", "gpuCount": 1}))
    (run / "files/wandb-summary.json").write_text(json.dumps({"loss": 0.5}))
    (run / "files/requirements.txt").write_text("torch==2.11.0\n")
    file = run / "run-r1.wandb"
    file.write_bytes(_HEADER)
    records = [protocol.Record() for _ in range(4)]
    records[0].run.run_id, records[0].run.display_name = "r1", "first"
    records[0].run.config.update.add(key="batch_size", value_json="8")
    for record, row in zip(records[1:3], _ROWS, strict=False):
        for key, value in row.items():
            record.history.item.add(key=key, value_json=json.dumps(value))
    records[3].summary.update.add(key="records", value_json='{"path": "table.json"}')
    for record in records:
        append(file, record.SerializeToString())


def reseal_wandb(folder: Path, draw: random.Random) -> None:
    """One message of the run's file altered behind checksums that are right."""
    from tracked_runs import append

    from assay.errors import BadInput
    from assay.records.wandb_files import messages

    (file,) = folder.glob("*/*.wandb")
    whole: list[bytes] = []
    with suppress(BadInput):
        whole = list(messages(file))
    if whole:
        place = draw.randrange(len(whole))
        whole[place] = draw.choice((token, token, *BYTES))(whole[place], draw)
        file.write_bytes(_HEADER)
        for message in whole:
            append(file, message)


def formats(kind: Callable[..., Any]) -> list[Any]:
    """A row for each way in which a tracker's runs arrive."""
    return [
        kind(name="tracker_csv", make=make_csv, read=read),
        kind(name="tracker_panel", make=make_panel, read=read),
        kind(name="tracker_json", make=make_json, read=read),
        kind(name="tracker_jsonl", make=make_jsonl, read=read),
        kind(name="tracker_trackio", make=make_trackio, read=read),
        kind(name="tracker_wandb", make=make_wandb, read=read, reseal=reseal_wandb),
    ]
