"""A bounded background writer: the model hands over what it has and goes on.

What does not fit is dropped, counted by reason and told. No error of the disk, and none in reading
what was taken, ever reaches the model.
"""

import os
import sys
from collections.abc import Mapping
from types import TracebackType

from assay import host
from assay.captures.manifest import CaptureRun, Key, RunEnd, Scalar
from assay.captures.recording import counts
from assay.captures.recording.call_queue import CallQueue
from assay.captures.recording.captured_call import CapturedCall
from assay.captures.recording.counts import CallCounts, RecordingReport
from assay.captures.recording.options import CaptureOptions
from assay.captures.recording.record_files import RecordFiles, now
from assay.captures.recording.writer_thread import WriterThread, release
from assay.captures.store import Store, new_run_name
from assay.errors import BadInput


class Recording:
    """One run of a model, as one process of it captures. Use it with `with`.

    `put` may be called from any thread. Leaving the `with` waits until all that was accepted is
    written, also after an error of the model, which passes on.
    """

    def __init__(
        self,
        store: Store,
        *,
        run: str | None = None,
        rank: int = 0,
        model: Mapping[str, Scalar] | None = None,
        config: Mapping[str, Scalar] | None = None,
        options: CaptureOptions | None = None,
    ) -> None:
        self.store = store
        self.run = run or new_run_name()
        self.rank = rank
        self.options = options or CaptureOptions()
        self._model = dict(model or {})
        self._config = dict(config or {})
        self._backlog = CallQueue(
            max_bytes=self.options.queue_bytes, max_records=self.options.queue_records
        )
        self._tally = CallCounts(max_records=self.options.max_records)
        self._writing: WriterThread | None = None
        self._pid = os.getpid()
        self._open = False
        self._told_fork = False
        self._unlisted: str | None = None

    def __enter__(self) -> "Recording":
        filing = RecordFiles(self.store, self.store.claim(self.run, self.rank), self.options)
        self._writing = WriterThread(
            filing, self._backlog, self._tally, run=self.run, rank=self.rank
        )
        here = host.inspect()
        begun = CaptureRun(
            run=self.run,
            rank=self.rank,
            time=now(),
            model=self._model,
            config=self._config,
            versions=here.versions | ({"assay": here.commit} if here.commit else {}),
            host=here.fingerprint,
            options=self.options.described(),
            pid=self._pid,
        )
        self.store.append([begun])
        self._open = True
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def key(self, *, step: int, layer: int, site: str, call: int = 0) -> Key:
        """The key of one call in this run."""
        return Key(run=self.run, rank=self.rank, step=step, layer=layer, site=site, call=call)

    def wants(self, *, step: int, layer: int, site: str) -> bool:
        """Whether a call is to be captured; cheap, so ask before touching any tensor."""
        if os.getpid() != self._pid:
            self._tell_fork()
            return False
        try:
            return self.options.wants(step, layer, site)
        except Exception as error:
            self._tally.fail(f"{counts.PREDICATE}: {error!r:.200}")
            return False

    def turned_away(self, key: Key, nbytes: int) -> bool:
        """Whether `put` would drop this now, counted if so: ask before copying from a device."""
        full = self.options.wait_s == 0 and not self._backlog.fits(nbytes)
        return self._tally.refusal(key, otherwise=counts.QUEUE_FULL if full else None) is not None

    def put(self, taken: CapturedCall) -> bool:
        """Hand over one call; False where it was dropped or is a duplicate, which is counted."""
        self._check_may_put(taken)
        assert self._writing
        accepted = self._tally.accept(taken.key) is None
        if accepted:
            self._writing.start()
            if self._backlog.put(taken, wait_s=self.options.wait_s):
                return True
            self._tally.lose(counts.QUEUE_FULL)
        release(taken)
        return False

    def lost(self, reason: str) -> None:
        """Count a call that was wanted and never came to be put."""
        self._tally.fail(reason)

    def report(self) -> RecordingReport:
        """How it stands: exact once closed."""
        return RecordingReport(
            run=self.run,
            rank=self.rank,
            records=self._tally.kept,
            bytes=self._writing.bytes if self._writing else 0,
            dropped=self._tally.dropped(),
            duplicates=self._tally.duplicates,
            unlisted=self._unlisted,
        )

    def flush(self) -> None:
        """Return when all that was put so far is written and listed, or lost."""
        if os.getpid() == self._pid:
            self._backlog.wait_until_settled()

    def close(self) -> None:
        """Write what was accepted, list how it ended, and say on stderr what was lost."""
        if not self._open or os.getpid() != self._pid:
            return
        self._open = False
        assert self._writing
        self._writing.finish()
        report = self.report()
        ended = RunEnd(
            run=self.run,
            rank=self.rank,
            records=report.records,
            bytes=report.bytes,
            dropped=report.dropped,
            duplicates=report.duplicates,
        )
        try:
            self.store.append([ended])
        except (BadInput, OSError) as error:
            self._unlisted = f"the end of the run is not listed: {error}"
        report = self.report()
        if report.dropped or report.unlisted:
            print(f"assay: {self.store.path}: {report.sentence()}", file=sys.stderr)

    def _check_may_put(self, taken: CapturedCall) -> None:
        if os.getpid() != self._pid:
            raise BadInput(f"{self._whose()}; open a recording in this process")
        if not self._open:
            raise BadInput(f"run {self.run} is not open; put inside `with Recording(store):`")
        if (taken.key.run, taken.key.rank) != (self.run, self.rank):
            raise BadInput(
                f"a record of run {taken.key.run}, rank {taken.key.rank} was put into run "
                f"{self.run}, rank {self.rank}; make its key with recording.key()"
            )

    def _tell_fork(self) -> None:
        if not self._told_fork:
            self._told_fork = True
            print(f"assay: {self._whose()}; this one captures nothing", file=sys.stderr)

    def _whose(self) -> str:
        return f"run {self.run} belongs to process {self._pid}, {os.getpid()} was forked from it"
