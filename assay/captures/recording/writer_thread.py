"""The writer thread: takes calls from the queue in batches, has their files written, lists them.

Two more threads write the files of a batch, so that the disk has the next one while it makes the
last one durable.
"""

import contextlib
import threading
from concurrent.futures import Future, ThreadPoolExecutor

from assay.captures.manifest import CaptureRecord, DroppedCalls, ManifestLine
from assay.captures.recording import counts
from assay.captures.recording.captured_call import CallQueue, CapturedCall, LoadedTensors
from assay.captures.recording.counts import CallCounts
from assay.captures.recording.record_files import (
    AlreadyWritten,
    OverBudget,
    PendingRecord,
    RecordFiles,
)
from assay.errors import BadInput
from assay.records.foreign_text import message

# A batch shares one sync of the manifest; a kill loses at most the batch that is being written.
_BATCH_RECORDS = 64
_BATCH_BYTES = 256 << 20
_FILES_AT_ONCE = 2
# Records without files are small and many: they are gathered, and written this often.
_GATHER_S = 0.25
_GATHERED_RECORDS = 4096

Batch = list[tuple[PendingRecord, "Future[CaptureRecord]"]]


class WriterThread:
    """Starts with the first call and ends when the queue is closed and empty."""

    def __init__(
        self, files: RecordFiles, queue: CallQueue, call_counts: CallCounts, *, run: str, rank: int
    ) -> None:
        self._files = files
        self._queue = queue
        self._counts = call_counts
        self._run, self._rank = run, rank
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._listed_drops: dict[str, int] = {}

    def start(self) -> None:
        """Start the thread where it does not run yet."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="assay-capture", daemon=True
                )
                self._thread.start()

    def finish(self) -> None:
        """Return when every call that was put is written or dropped."""
        self._queue.close()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        has_files = self._files.options.mode == "full"
        most = _BATCH_RECORDS if has_files else _GATHERED_RECORDS
        with ThreadPoolExecutor(_FILES_AT_ONCE, "assay-capture-file") as pool:
            while (call := self._queue.take(wait=True)) is not None:
                if not has_files:
                    self._queue.gather(_GATHER_S)
                batch: Batch = []
                count = size = 0
                while call is not None:
                    pending = self._prepared(call)
                    if pending is not None:
                        batch.append((pending, self._submitted(pool, call, pending)))
                        size += pending.record.bytes
                    count += 1
                    full = count >= most or size >= _BATCH_BYTES
                    call = None if full else self._queue.take(wait=False)
                self._list(self._written(batch))
                self._queue.settle(count)

    def _prepared(self, call: CapturedCall) -> PendingRecord | None:
        """Load one call; None where it is not to be kept, or could not be, which is counted."""
        needed = call.load is not None and self._files.options.mode != "shapes"
        reason = counts.UNREADABLE
        try:
            loaded = call.load() if needed else LoadedTensors()
            reason = counts.UNWRITABLE
            return self._files.prepare(call, loaded)
        except OverBudget:
            reason = counts.BYTE_BUDGET
        except AlreadyWritten:
            reason = counts.DUPLICATE
        except Exception as error:
            reason = f"{reason}: {_cause(error)}"
        self._free(call)
        self._counts.drop_accepted(reason)
        return None

    def _submitted(
        self, pool: ThreadPoolExecutor, call: CapturedCall, pending: PendingRecord
    ) -> "Future[CaptureRecord]":
        if pending.path is not None:
            return pool.submit(self._write, call, pending)
        written: Future[CaptureRecord] = Future()
        written.set_result(self._write(call, pending))
        return written

    def _write(self, call: CapturedCall, pending: PendingRecord) -> CaptureRecord:
        try:
            return self._files.write(pending)
        finally:
            pending.parts.clear()  # the batch is remembered for longer, its tensors are not
            self._free(call)

    def _written(self, batch: Batch) -> list[CaptureRecord]:
        """Return the records whose files are written. A delta of one that failed fails with it."""
        records: list[CaptureRecord] = []
        failed: dict[str, str] = {}  # name of a record -> why
        for pending, future in batch:
            error = future.exception()
            reasons = [failed[name] for name in pending.bases if name in failed]
            if error is None and not reasons:
                records.append(future.result())
                continue
            reason = f"{counts.UNWRITABLE}: {_cause(error)}" if error else reasons[0]
            failed[pending.record.name] = reason
            self._files.discard([pending.record])
            self._counts.drop_accepted(reason)
        return records

    def _list(self, records: list[CaptureRecord]) -> None:
        """Append records, and what was dropped where that changed, to the manifest."""
        lines: list[ManifestLine] = [*records]
        dropped = self._counts.dropped()
        if dropped != self._listed_drops:
            lines.append(DroppedCalls(run=self._run, rank=self._rank, counts=dropped))
        try:
            if lines:
                self._files.append(lines)
            self._counts.keep(len(records))
            self._listed_drops = dropped
        except Exception as error:
            self._files.discard(records)
            for _ in records:
                self._counts.drop_accepted(f"{counts.UNWRITABLE}: {_cause(error)}")

    def _free(self, call: CapturedCall) -> None:
        release(call)
        self._queue.free(call)


def release(call: CapturedCall) -> None:
    """Give the memory of a call back to its owner."""
    if call.release is not None:
        with contextlib.suppress(Exception):  # trouble of a pool is neither the model's nor ours
            call.release()


def _cause(error: BaseException | None) -> str:
    """Return a short text, the same for every file that meets the same trouble."""
    beneath = error.__cause__ if isinstance(error, BadInput) else error
    if isinstance(beneath, OSError) and beneath.strerror:
        return beneath.strerror
    return message(str(error) or type(error).__name__)[:200]
