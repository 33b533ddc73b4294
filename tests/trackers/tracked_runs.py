"""Runs written by the real trackers in a process of their own, for tests to read back.

    tracked_runs.py wandb|trackio       with a list of runs as JSON on standard input

A run is {"name", "id", "config", "rows", "system", ...}; a row of `rows` is [step, values], that of
`system` [seconds, values]. No GPU is here to be sampled, so readings of one are appended to W&B's
own file as W&B writes them.
"""

import json
import subprocess
import sys
import zlib
from pathlib import Path

from new_process import environment

START = 1_794_900_000


def write(tracker: str, folder: Path, *runs: dict) -> Path:
    """Write runs into a folder and return where they lie."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [sys.executable, __file__, tracker],
        input=json.dumps(runs),
        cwd=folder,
        env=environment(
            Path(__file__).parent.parent,
            WANDB_MODE="offline",
            WANDB_SILENT="true",
            WANDB_ERROR_REPORTING="false",
            WANDB_DIR=str(folder),
            TRACKIO_DIR=str(folder),
            HF_HUB_OFFLINE="1",
        ),
        text=True,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    if tracker == "trackio":
        return folder / "p.db"
    for run in runs:
        (file,) = folder.glob(f"wandb/offline-run-*/run-{run['id']}.wandb")
        for record in _records(run):
            append(file, record)
    return folder / "wandb"


def _records(run: dict) -> list[bytes]:
    """Messages of what W&B reads from a machine with GPUs."""
    from wandb.proto import wandb_internal_pb2 as protocol

    records = []
    if gpu := run.get("gpu"):
        record = protocol.Record()
        record.environment.gpu_type = gpu["name"]
        record.environment.gpu_count = gpu["count"]
        for _ in range(gpu["count"]):
            record.environment.gpu_nvidia.add(
                name=gpu["name"], memory_total=gpu.get("memory", 80 << 30)
            )
        records.append(record)
    for second, values in run.get("system", ()):
        record = protocol.Record()
        record.stats.timestamp.seconds = START + second
        for key, value in values.items():
            record.stats.item.add(key=key, value_json=json.dumps(value))
        records.append(record)
    return [record.SerializeToString() for record in records]


def append(file: Path, message: bytes) -> None:
    """Add a message to a .wandb file, cut into chunks where a block of it ends."""
    block, header = 1 << 15, 7
    with open(file, "ab") as target:
        first = True
        while first or message:
            room = block - target.tell() % block
            if room < header:
                target.write(bytes(room))
                continue
            part, message = message[: room - header], message[room - header :]
            kind = (1 if not message else 2) if first else (4 if not message else 3)
            checksum = zlib.crc32(part, zlib.crc32(bytes([kind])))
            target.write(checksum.to_bytes(4, "little") + len(part).to_bytes(2, "little"))
            target.write(bytes([kind]) + part)
            first = False


def _write_wandb(runs: list[dict]) -> None:
    import wandb

    settings = wandb.Settings(
        console="off", x_disable_stats=True, x_disable_machine_info=True, x_disable_meta=True,
        disable_git=True, x_save_requirements=False,
    )  # fmt: skip
    for run in runs:
        opened = wandb.init(
            project="p", entity="e", name=run["name"], id=run["id"], config=run.get("config", {}),
            settings=settings, reinit="create_new",
        )  # fmt: skip
        for step, values in run.get("rows", ()):
            opened.log({**values, "_timestamp": START + step}, step=step)
        opened.summary.update(run.get("summary", {}))
        opened.finish(exit_code=run.get("exit_code", 0))


def _write_trackio(runs: list[dict]) -> None:
    from trackio.sqlite_storage import SQLiteStorage

    for run in runs:
        place = {"project": run.get("project", "p"), "run": run["name"], "run_id": run["id"]}
        rows, system = run.get("rows", ()), run.get("system", ())
        SQLiteStorage.bulk_log(
            **place,
            metrics_list=[values for _, values in rows],
            steps=[step for step, _ in rows],
            timestamps=[_moment(step) for step, _ in rows],
            config=run.get("config", {}),
        )
        SQLiteStorage.bulk_log_system(
            **place,
            metrics_list=[values for _, values in system],
            timestamps=[_moment(second) for second, _ in system],
        )


def _moment(second: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(START + second, UTC).isoformat()


if __name__ == "__main__":
    {"wandb": _write_wandb, "trackio": _write_trackio}[sys.argv[1]](json.load(sys.stdin))
