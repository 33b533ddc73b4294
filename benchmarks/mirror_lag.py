"""Seconds from a record in the log to its point in a tracker, live, with all trackers at once.

    python benchmarks/mirror_lag.py [POINTS] [PAUSE_S]

A run appends a record every PAUSE_S, durably, while the mirrors follow it as they follow a study.
The time of a point in a tracker is when the tracker's own file first shows it, read every 20 ms.
W&B is offline, trackio local.
"""

import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

from assay.records import run as runs
from assay.records.log import Log
from assay.records.run import RunFolder
from assay.records.schema import SCHEMA, Record, Run, Session
from assay.records.wandb_files import stored_run

TRACKERS = ("wandb", "trackio")
POLL_S = 0.02
PATIENCE_S = 60.0
WARM_UP = 5  # points while a mirror opens its run
PROJECT = "lag"


def main(points: int = 60, pause_s: float = 0.25) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        os.environ.update(WANDB_MODE="offline", TRACKIO_DIR=str(place / "trackio"))
        folder = _new_run(place)
        appended: dict[int, float] = {}
        with folder.held():
            mirrors = [_start(folder, tracker) for tracker in TRACKERS]
            writer = threading.Thread(
                target=_write, args=(folder, points + WARM_UP, pause_s, appended)
            )
            writer.start()
            seen = _watch(folder, place / "trackio", points + WARM_UP)
            writer.join()
        codes = [mirror.wait(timeout=PATIENCE_S) for mirror in mirrors]
    for tracker, moments in seen.items():
        lags = [moments[step] - appended[step] for step in range(WARM_UP, points + WARM_UP)]
        print(
            f"{tracker}: {len(lags)} points, median {median(lags):.2f} s, worst {max(lags):.2f} s"
        )
    if any(codes):
        sys.exit(f"a mirror ended with an error: exit codes {codes}")


def _new_run(place: Path) -> RunFolder:
    folder = runs.create(place / "results", PROJECT)
    start = Session(
        number=1, started=runs.now(), commit=None, dirty=None, host={}, command=sys.argv
    )
    run = Run(
        schema=SCHEMA, run=folder.path.name, study=PROJECT, config={}, sessions=[start], plugins=[],
        reasons={},
    )  # fmt: skip
    runs.save(folder, run)
    folder.stage("train").mkdir(parents=True)
    return folder


def _start(folder: RunFolder, tracker: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "assay", "mirror", str(folder.path), "--to", tracker]
    return subprocess.Popen([*command, "--follow"], stdout=subprocess.DEVNULL)


def _write(folder: RunFolder, count: int, pause_s: float, appended: dict[int, float]) -> None:
    with Log(folder.log("train")) as log:
        for step in range(count):
            log.append([_record(folder, step)])
            appended[step] = time.monotonic()
            time.sleep(PATIENCE_S / 4 if step == 0 else pause_s)  # at first the mirrors start


def _record(folder: RunFolder, step: int) -> Record:
    return Record(
        schema=SCHEMA, run=folder.path.name, session=1, stage="train", cell="GPT2/s0",
        fingerprint="f0", host="h0", time=runs.now(), metric="train_loss", value=1 / (step + 1),
        unit="nats", subject="GPT2", data={"seed": 0, "step": step},
    )  # fmt: skip


def _watch(folder: RunFolder, trackio: Path, count: int) -> dict[str, dict[int, float]]:
    """When each step was first seen in each tracker."""
    seen: dict[str, dict[int, float]] = {tracker: {} for tracker in TRACKERS}
    readers = {"wandb": lambda: _in_wandb(folder), "trackio": lambda: _in_trackio(trackio)}
    fresh = time.monotonic()
    while any(len(moments) < count for moments in seen.values()):
        for tracker, read in readers.items():
            for step in read() - set(seen[tracker]):
                seen[tracker][step] = fresh = time.monotonic()
        if time.monotonic() - fresh > PATIENCE_S:
            sys.exit(f"no point came for {PATIENCE_S:g} s; there are {seen}")
        time.sleep(POLL_S)
    return seen


def _in_wandb(folder: RunFolder) -> set[int]:
    names = {path.name.rpartition("-")[2] for path in folder.path.glob("wandb/offline-run-*")}
    return {row["step"] for name in names for row in stored_run(folder.path, name).history}


def _in_trackio(folder: Path) -> set[int]:
    file = folder / f"{PROJECT}.db"
    if not file.exists():
        return set()
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=PATIENCE_S) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        rows = database.execute("SELECT step FROM metrics") if "metrics" in tables else ()
        return {step for (step,) in rows}


if __name__ == "__main__":
    main(*(kind(text) for kind, text in zip((int, float), sys.argv[1:], strict=False)))
