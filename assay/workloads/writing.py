"""The thread that writes: it reads what was handed over, files it and lists it in batches."""

import contextlib
import threading
from collections.abc import Iterator

from assay.errors import BadInput
from assay.workloads import tally
from assay.workloads.backlog import Backlog
from assay.workloads.filing import AlreadyThere, Filing, OverBudget
from assay.workloads.manifest import CaptureRecord, Drops, Line
from assay.workloads.taken import Loaded, Taken
from assay.workloads.tally import Tally

# A batch shares one sync of the manifest; a kill loses at most the batch that is being written.
_BATCH_RECORDS = 64
_BATCH_BYTES = 256 << 20


class Unreadable(Exception):
    """What a model gave could not be brought to the host."""


class Writing:
    """Starts with the first record and ends when the backlog is closed and empty."""

    def __init__(
        self, filing: Filing, backlog: Backlog, books: Tally, *, run: str, rank: int
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
        self._filing.close()

    def _work(self) -> None:
        while (taken := self._backlog.take(wait=True)) is not None:
            batch: list[CaptureRecord] = []
            count = size = 0
            while taken is not None:
                record = self._filed(taken)
                if record is not None:
                    batch.append(record)
                    size += record.bytes
                count += 1
                full = count >= _BATCH_RECORDS or size >= _BATCH_BYTES
                taken = None if full else self._backlog.take(wait=False)
            self._list(batch)
            self._backlog.settle(count)

    def _filed(self, taken: Taken) -> CaptureRecord | None:
        """Read and write one; None where that failed, which is counted."""
        try:
            with _until_done(taken, self._backlog):
                return self._filing.file(taken, self._loaded(taken))
        except OverBudget:
            self._tally.lose(tally.BYTE_BUDGET)
        except AlreadyThere:
            self._tally.lose(tally.DUPLICATE)
        except Unreadable as error:
            self._tally.lose(f"{tally.UNREADABLE}: {_cause(error.__cause__)}")
        except Exception as error:
            self._tally.lose(f"{tally.UNWRITABLE}: {_cause(error)}")
        return None

    def _loaded(self, taken: Taken) -> Loaded:
        if taken.load is None or not self._filing.reads:
            return Loaded()
        try:
            return taken.load()
        except Exception as error:
            raise Unreadable from error

    def _list(self, batch: list[CaptureRecord]) -> None:
        lines: list[Line] = [*batch]
        dropped = self._tally.dropped()
        if dropped != self._told:
            lines.append(Drops(run=self._run, rank=self._rank, counts=dropped))
        try:
            if lines:
                self._filing.settle(lines)
            self._tally.keep(len(batch))
            self._told = dropped
        except Exception as error:
            self._filing.discard(batch)
            for _ in batch:
                self._tally.lose(f"{tally.UNWRITABLE}: {_cause(error)}")


def release(taken: Taken) -> None:
    """Give its memory back to whom it belongs."""
    if taken.release is not None:
        with contextlib.suppress(Exception):  # a pool's trouble is neither the model's nor ours
            taken.release()


@contextlib.contextmanager
def _until_done(taken: Taken, backlog: Backlog) -> Iterator[None]:
    try:
        yield
    finally:
        release(taken)
        backlog.done(taken)


def _cause(error: BaseException | None) -> str:
    """Short, and the same for every file that meets the same trouble."""
    beneath = error.__cause__ if isinstance(error, BadInput) else error
    if isinstance(beneath, OSError) and beneath.strerror:
        return beneath.strerror
    return (str(error) or type(error).__name__)[:200]
