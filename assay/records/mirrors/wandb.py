"""Weights & Biases, offline or online: curves, a summary, and tables of the other stages.

The number that W&B gives to a row is the point's own number, and the training step is the axis. So
what is stored says by itself where to go on: offline the files of the run, which are in its folder
or in WANDB_DIR; online the number at which W&B resumes. Summaries are set by key and may be set
again.
"""

import fcntl
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from assay.errors import CannotRunHere
from assay.records.durable import make_folder
from assay.records.mirroring import Destination
from assay.records.points import COLUMNS, TrackedPoint, TrackedRun
from assay.records.schema import CELL_SECONDS
from assay.records.wandb_files import StoredRun, stored_run

REQUIRES = ("wandb",)
_FLUSH_S = 0.2  # W&B's own is 15 s
_TABLE_S = 5.0  # between two versions of a growing table
_TABLE = "records"  # its name
_PATIENCE_S = 15.0  # for the writer of a mirror that was killed
_POLL_S = 0.05
# W&B writes down no more than what it is sent.
_SETTINGS = {
    "console": "off",
    "disable_git": True,
    "disable_job_creation": True,
    "save_code": False,
    "x_disable_machine_info": True,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
    "x_transaction_log_flush_interval": _FLUSH_S,
}


def connect(destination: Destination) -> "WandbMirror":
    """A mirror to the W&B that WANDB_MODE, WANDB_API_KEY and WANDB_BASE_URL say."""
    os.environ.setdefault("WANDB_SILENT", "true")
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    return WandbMirror(destination)


@dataclass(kw_only=True)
class _OpenRun:
    """A run of W&B as far as this process knows it."""

    tracked: TrackedRun
    numbers: set[int]  # of the rows that were stored before, or are sent
    known: dict[str, Any]  # likewise the summary
    points: int = 0  # of its curves, until now
    summary: dict[str, Any] = field(default_factory=dict)
    rows: list[tuple[Any, ...]] = field(default_factory=list)  # of its table
    tabled_at: float = 0.0  # when it was sent last
    remote: Any = None  # W&B's own object, once there is something to send


class WandbMirror:
    """A project of W&B that points are sent to."""

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        self._folder = Path(os.environ.get("WANDB_DIR") or destination.folder)
        self._offline = True
        self._runs: dict[str, _OpenRun] = {}
        lock = f"writer-{destination.folder.name}.lock"  # WANDB_DIR may be that of several runs
        _hold_writer(make_folder(self._folder / "wandb") / lock)

    def send(self, points: Sequence[TrackedPoint]) -> None:
        """Hand over points that are not stored; W&B writes them within `_FLUSH_S`."""
        try:
            self._send(points)
        except ConnectionError as error:
            raise CannotRunHere(f"the process in which W&B writes has ended: {error}") from error

    def _send(self, points: Sequence[TrackedPoint]) -> None:
        for point in points:
            run = self._run(point.tracked)
            if point.kind == "curve":
                self._send_row(run, point)
            run.rows += point.rows
            self._set(run, _summary(point))
            if point.ends and run.remote is not None:
                run.remote.finish(exit_code=int(f"{CELL_SECONDS}.status" in point.remarks))
                run.remote = None
        for run in self._runs.values():
            if run.rows and time.monotonic() - run.tabled_at > _TABLE_S:
                self._set_table(run)

    def close(self) -> None:
        """End all runs, then compare what is stored with what was sent."""
        import wandb

        for run in self._runs.values():
            self._set_table(run)
        for run in self._runs.values():
            if run.remote is not None:
                run.remote.finish()
        if self._offline:
            wandb.teardown()  # waits for W&B's own process, which closes the files
            for run in self._runs.values():
                self._verify(run)

    def _run(self, tracked: TrackedRun) -> _OpenRun:
        if tracked.identity not in self._runs:
            stored = stored_run(self._folder, tracked.identity)
            self._runs[tracked.identity] = _OpenRun(
                tracked=tracked, numbers=stored.numbers, known=stored.summary
            )
        return self._runs[tracked.identity]

    def _opened(self, run: _OpenRun) -> Any:
        if run.remote is None:
            run.remote = self._init(run.tracked)
            run.remote.define_metric("*", step_metric="step")
            self._offline = run.remote.offline
            if not self._offline:
                run.numbers.update(range(run.remote.starting_step))
            run.remote.summary.update(run.summary)
        return run.remote

    def _init(self, tracked: TrackedRun) -> Any:
        import wandb

        try:
            return wandb.init(
                id=tracked.identity,
                resume="allow",
                reinit="create_new",
                project=self._destination.project,
                entity=self._destination.entity,
                name=tracked.name,
                group=tracked.group,
                job_type=tracked.stage,
                config=tracked.config,
                dir=str(self._folder),
                settings=wandb.Settings(**_SETTINGS),
            )
        except wandb.errors.Error as error:
            raise CannotRunHere(
                f"W&B: {error} Without a server, set WANDB_MODE=offline and send the files later "
                "with wandb sync"
            ) from error

    def _send_row(self, run: _OpenRun, point: TrackedPoint) -> None:
        run.points = point.number + 1
        remote = None if point.number in run.numbers else self._opened(run)
        if point.number in run.numbers:  # which online is known once the run is open
            return
        readings = {f"device/{name}": value for name, value in point.readings.items()}
        moment = datetime.fromisoformat(point.time).timestamp()
        row = {"step": point.step, "_timestamp": moment, **point.values, **readings}
        remote.log(row, step=point.number, commit=True)
        run.numbers.add(point.number)

    def _set(self, run: _OpenRun, values: dict[str, Any]) -> None:
        run.summary |= values
        changed = {n: v for n, v in values.items() if n not in run.known or run.known[n] != v}
        if changed:
            self._opened(run).summary.update(changed)
            run.known |= changed

    def _set_table(self, run: _OpenRun) -> None:
        """Replace the table by one of all rows, unless that one is there."""
        if len(run.rows) == _table_rows(run.known):
            return
        import wandb

        table = wandb.Table(columns=list(COLUMNS), data=[list(row) for row in run.rows])
        self._opened(run).summary[_TABLE] = table
        run.known[_TABLE] = {"nrows": len(run.rows)}
        run.tabled_at = time.monotonic()

    def _verify(self, run: _OpenRun) -> None:
        stored = stored_run(self._folder, run.tracked.identity)
        lost = set(range(run.points)) - stored.numbers
        unset = [name for name, value in run.summary.items() if stored.summary.get(name) != value]
        if lost or unset or len(run.rows) != _table_rows(stored.summary) or _doubled(stored):
            raise CannotRunHere(
                f"W&B did not store all of {run.tracked.name} in {self._folder / 'wandb'} "
                f"({len(lost)} of {run.points} points and {len(unset)} of {len(run.summary)} other "
                f"values are missing); is the disk full? W&B's own messages are in debug-core.log"
            )


def _summary(point: TrackedPoint) -> dict[str, Any]:
    """The part of a point for the summary of its run: for a curve, only what no row has."""
    if point.kind == "curve":
        return dict(point.remarks)
    readings = {f"device/{name}": value for name, value in point.readings.items()}
    return {**point.values, **readings, **point.remarks}


def _table_rows(summary: dict[str, Any]) -> int:
    return summary.get(_TABLE, {}).get("nrows", 0)


def _doubled(stored: StoredRun) -> bool:
    return len(stored.history) != len(stored.numbers)


def _hold_writer(path: Path) -> None:
    """Wait until no writer of an earlier mirror of the run is left, and keep others out.

    W&B writes in a process of its own, which lives on for a moment when the mirror is killed. It
    inherits standard input, so the lock lies there: it is held until the last of both has ended.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise CannotRunHere(
                    f"another process of W&B writes to {path.parent}; wait for it, or end it"
                ) from None
            time.sleep(_POLL_S)
    os.dup2(descriptor, 0)
    os.close(descriptor)
