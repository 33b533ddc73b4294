"""The stream of a cell: batches that its process appends to the stage's log while it runs.

A killed study may leave such a process behind for an instant. It cannot append once a later start
has entered its session in run.json, and that start's processes wait for it before they use the
cell's folder.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from assay.performance import audit
from assay.records.durable import waiting_for_others
from assay.records.log import Log
from assay.records.run import RunFolder, last_session, stage_records, stamped
from assay.records.schema import CELL_PROGRESS, Measurement
from assay.studies.auditor import HOST
from assay.studies.cell import Batch, WorkerRequest

_PATIENCE_S = 60.0  # for a process that dies with its study


class BatchStream:
    """The batches of one attempt at a cell."""

    def __init__(self, request: WorkerRequest) -> None:
        assert request.run_folder and request.stamp
        self._folder = RunFolder(path=request.run_folder)
        self._stamp, self._host = request.stamp, request.host
        self._durable = request.cell.durable_batches
        self._ceilings = stage_records(self._folder, HOST)
        self._log: Log | None = None

    def append(self, batch: Batch) -> None:
        """Make a batch durable, without the numbers that cannot be true; one that is already is
        dropped."""
        if batch.number <= self._durable:
            return
        if batch.number > self._durable + 1:
            raise ValueError(
                f"batch {batch.number} comes after {self._durable} that are in the log: number "
                "them without gaps, and save the state of a batch after yielding it"
            )
        broken = audit.violations(batch.measurements, self._ceilings)
        believed = audit.refused(batch.measurements, broken)
        progress = Measurement(metric=CELL_PROGRESS, value=float(batch.number), unit="batch")
        records = stamped((*believed, progress), self._stamp, host=self._host)
        records[-1] = msgspec.structs.replace(records[-1], total=batch.total)
        if self._log is None:
            self._log = Log(self._folder.log(self._stamp.stage))
        self._log.append(records, guard=self.end_if_superseded)
        self._durable = batch.number

    def end_if_superseded(self) -> None:
        """End this process where the run has been started again."""
        if last_session(self._folder) != self._stamp.session:
            raise SystemExit("this run has been started again: its old process ends")


@contextmanager
def opened(request: WorkerRequest) -> Iterator[BatchStream | None]:
    """The stream of a cell, whose folder is this process's alone meanwhile; None without one."""
    if request.cell.folder is None:
        yield None
        return
    with alone_in(request.cell.folder):
        stream = BatchStream(request)
        stream.end_if_superseded()
        yield stream


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep other processes out of a cell's folder, and wait for one that is at its end."""
    with waiting_for_others(folder.with_suffix(".lock"), _PATIENCE_S):
        yield
