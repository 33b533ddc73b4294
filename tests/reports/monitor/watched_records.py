"""Runs that train, written record by record with the real schema and log, for tests to watch."""

from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from build_run import begin
from laws.law_records import HOST, RUN
from msgspec.structs import replace

from assay.records.log import Log
from assay.records.run import Done, RunFolder, open_run, save, write_done
from assay.records.schema import CELL_PROGRESS, CELL_SECONDS, SCHEMA, Record

START = datetime(2025, 1, 2, tzinfo=UTC)  # of the second session, which `begin` writes
CONFIG = {
    "STAGES": '"host,models,train"', "MODELS": '"GPT2,GPT2_MLA"', "TRAIN_SEEDS": '"0,1"',
    "TRAIN_OPTIMIZERS": '"adamw"', "TRAIN_STEPS": "100", "TRAIN_BATCH": "4", "TRAIN_LENGTH": "16",
    "TRAIN_MOST_TOKENS": "0", "TRAIN_MOST_SECONDS": "0", "TRAIN_EVALUATE_EVERY": "20",
    "TRAIN_SAVE_EVERY": "50",
}  # fmt: skip


def at(seconds: float) -> str:
    """A time so many seconds after the run's last start, as records have it."""
    moment = START + timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(kw_only=True)
class WrittenRun:
    """A run folder to which a test appends what a study would."""

    folder: RunFolder
    stack: ExitStack = field(default_factory=ExitStack)

    def hold(self) -> None:
        """Be the process that runs it."""
        self.stack.enter_context(self.folder.held())

    def append(self, stage: str, *records: Record) -> None:
        self.folder.stage(stage).mkdir(parents=True, exist_ok=True)
        with Log(self.folder.log(stage)) as log:
            log.append([replace(record, stage=stage) for record in records])

    def report(self, cell: str, step: int, seconds: float, **values: float) -> None:
        """A report at a step, so many seconds after the start; train_loss is always in it."""
        values = {"train_loss": 5.0 - step / 100, "tokens_per_s": 640.0, **values}
        data = {"seed": 0, "step": step, "tokens": step * 64, "seconds": seconds / 2}
        made = [record(cell, m, v, seconds, data=data) for m, v in values.items()]
        self.append("train", *made, record(cell, CELL_PROGRESS, step / 10, seconds))

    def end(self, cell: str, seconds: float, took_s: float = 8.0, **changes) -> None:
        self.append("train", record(cell, CELL_SECONDS, took_s, seconds, unit="s", **changes))

    def done(self, stage: str, status: str = "ok", reason: str | None = None) -> None:
        self.folder.stage(stage).mkdir(parents=True, exist_ok=True)
        done = Done(status=status, reason=reason, cells={}, counts={}, session=2, time=at(99))
        write_done(self.folder, stage, done)

    def configure(self, **changes: str) -> None:
        run = open_run(self.folder.path)[1]
        save(self.folder, replace(run, config={**run.config, **changes}))


def record(cell: str, metric: str, value: float | None, seconds: float = 0.0, **changes) -> Record:
    fields = {"unit": "1", "session": 2, "subject": cell.rpartition("/s")[0], **changes}
    return Record(
        schema=SCHEMA, run=RUN, stage="train", cell=cell, fingerprint="f" * 16, host=HOST,
        time=at(seconds), metric=metric, value=value, **fields,
    )  # fmt: skip


def write_run(folder: Path, **changes) -> WrittenRun:
    """A run of two models and two seeds that has not begun."""
    return WrittenRun(folder=begin(folder, **{"config": CONFIG, "study": "tiny", **changes}))
