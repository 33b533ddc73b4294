"""The threads that write: one reads what was handed over and lists it in batches, two more write
the files of a batch, so that the disk has the next one while it makes the last one durable."""

import contextlib
import threading
from concurrent.futures import Future, ThreadPoolExecutor

from assay.captures.manifest import CaptureRecord, DroppedCalls, ManifestLine
from assay.captures.recording import counts
from assay.captures.recording.call_queue import CallQueue
from assay.captures.recording.captured_call import CapturedCall, LoadedTensors
from assay.captures.recording.counts import CallCounts
from assay.captures.recording.record_files import AlreadyThere, OverBudget, Pending, RecordFiles
from assay.errors import BadInput

# A batch shares one sync of the manifest; a kill loses at most the batch that is being written.
_BATCH_RECORDS = 64
_BATCH_BYTES = 256 << 20
_FILES_AT_ONCE = 2
# Records without files are small and many: they are gathered, and written this often.
_GATHER_S = 0.25
_GATHERED_RECORDS = 4096


class Unreadable(Exception):
    """What a model gave could not be brought to the host."""


class WriterThread:
    """Starts with the first record and ends when the backlog is closed and empty."""

    def __init__(
        self, filing: RecordFiles, backlog: CallQueue, books: CallCounts, *, run: str, rank: int
    ) -> None:
        self._filing = filing
        self._backlog = backlog
        self._tally = books
        self._run, self._rank = run, rank
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._told: dict[str, int] = {}

    @property
    def bytes(self) -> int:
        return self._filing.bytes

    def start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="assay-capture", daemon=True
                )
                self._thread.start()

    def finish(self) -> None:
        """Return when all that was put is written or lost."""
        self._backlog.close()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        with ThreadPoolExecutor(_FILES_AT_ONCE, "assay-capture-file") as pool:
            while (taken := self._backlog.take(wait=True)) is not None:
                if not self._filing.has_files:
                    self._backlog.gather(_GATHER_S)
                most = _BATCH_RECORDS if self._filing.has_files else _GATHERED_RECORDS
                batch: list[tuple[Pending, Future[CaptureRecord]]] = []
                count = size = 0
                while taken is not None:
                    pending = self._prepared(taken)
                    if pending is not None:
                        batch.append((pending, self._submitted(pool, taken, pending)))
                        size += pending.record.bytes
                    count += 1
                    full = count >= most or size >= _BATCH_BYTES
                    taken = None if full else self._backlog.take(wait=False)
                self._list(self._written(batch))
                self._backlog.settle(count)

    def _submitted(
        self, pool: ThreadPoolExecutor, taken: CapturedCall, pending: Pending
    ) -> "Future[CaptureRecord]":
        if pending.path is not None:
            return pool.submit(self._write, taken, pending)
        written: Future[CaptureRecord] = Future()
        written.set_result(self._write(taken, pending))
        return written

    def _prepared(self, taken: CapturedCall) -> Pending | None:
        """Read one; None where it is not to be kept, or could not be, which is counted."""
        try:
            return self._filing.prepare(taken, self._loaded(taken))
        except OverBudget:
            reason = counts.BYTE_BUDGET
        except AlreadyThere:
            reason = counts.DUPLICATE
        except Unreadable as error:
            reason = f"{counts.UNREADABLE}: {_cause(error.__cause__)}"
        except Exception as error:
            reason = f"{counts.UNWRITABLE}: {_cause(error)}"
        self._done(taken)
        self._tally.lose(reason)
        return None

    def _write(self, taken: CapturedCall, pending: Pending) -> CaptureRecord:
        try:
            return self._filing.write(pending)
        finally:
            pending.parts.clear()  # the batch is remembered for longer, its tensors are not
            self._done(taken)

    def _written(self, batch: "list[tuple[Pending, Future[CaptureRecord]]]") -> list[CaptureRecord]:
        """The records whose files are there. One told from a record that is not goes with it."""
        found: list[CaptureRecord] = []
        lost: dict[str, str] = {}
        for pending, future in batch:
            error = future.exception()
            bases = [lost[name] for name in pending.told_from if name in lost]
            if error is None and not bases:
                found.append(future.result())
                continue
            reason = f"{counts.UNWRITABLE}: {_cause(error)}" if error else bases[0]
            lost[pending.record.name] = reason
            self._filing.discard([pending.record])
            self._tally.lose(reason)
        return found

    def _done(self, taken: CapturedCall) -> None:
        release(taken)
        self._backlog.done(taken)

    def _loaded(self, taken: CapturedCall) -> LoadedTensors:
        if taken.load is None or not self._filing.reads:
            return LoadedTensors()
        try:
            return taken.load()
        except Exception as error:
            raise Unreadable from error

    def _list(self, batch: list[CaptureRecord]) -> None:
        lines: list[ManifestLine] = [*batch]
        dropped = self._tally.dropped()
        if dropped != self._told:
            lines.append(DroppedCalls(run=self._run, rank=self._rank, counts=dropped))
        try:
            if lines:
                self._filing.settle(lines)
            self._tally.keep(len(batch))
            self._told = dropped
        except Exception as error:
            self._filing.discard(batch)
            for _ in batch:
                self._tally.lose(f"{counts.UNWRITABLE}: {_cause(error)}")


def release(taken: CapturedCall) -> None:
    """Give its memory back to whom it belongs."""
    if taken.release is not None:
        with contextlib.suppress(Exception):  # a pool's trouble is neither the model's nor ours
            taken.release()


def _cause(error: BaseException | None) -> str:
    """Short, and the same for every file that meets the same trouble."""
    beneath = error.__cause__ if isinstance(error, BadInput) else error
    if isinstance(beneath, OSError) and beneath.strerror:
        return beneath.strerror
    return (str(error) or type(error).__name__)[:200]
