"""Recording of one run: the model hands its calls over and goes on, a thread writes them.

What does not fit is dropped, counted by reason and reported. No error of the disk, and none in
reading what was captured, ever reaches the model.
"""

import os
import sys
from collections.abc import Mapping
from types import TracebackType

from assay import host
from assay.captures.manifest import CaptureRun, Key, RunSummary, Scalar
from assay.captures.recording import counts
from assay.captures.recording.captured_call import CallQueue, CapturedCall
from assay.captures.recording.counts import CallCounts
from assay.captures.recording.options import CaptureOptions
from assay.captures.recording.record_files import RecordFiles
from assay.captures.recording.writer_thread import WriterThread, release
from assay.captures.store import Store, new_run_name
from assay.errors import BadInput
from assay.records.run import now


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
        self._queue = CallQueue(
            max_bytes=self.options.queue_bytes, max_records=self.options.queue_records
        )
        self._counts = CallCounts(max_records=self.options.max_records)
        self._files: RecordFiles | None = None
        self._thread: WriterThread | None = None
        self._pid = os.getpid()
        self._open = False
        self._fork_reported = False
        self.unlisted: str | None = None  # why the end of the run could not be listed

    def __enter__(self) -> "Recording":
        folder = self.store.claim(self.run, self.rank)
        self._files = RecordFiles(self.store, folder, self.options)
        self._thread = WriterThread(
            self._files, self._queue, self._counts, run=self.run, rank=self.rank
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
        """Return the key of one call in this run."""
        return Key(run=self.run, rank=self.rank, step=step, layer=layer, site=site, call=call)

    def wants(self, *, step: int, layer: int, site: str) -> bool:
        """Tell whether a call is to be captured; cheap, so ask before touching any tensor."""
        if os.getpid() != self._pid:
            self._report_fork()
            return False
        try:
            return self.options.wants(step, layer, site)
        except Exception as error:
            self._counts.drop(f"{counts.PREDICATE}: {error!r:.200}")
            return False

    def turned_away(self, key: Key, nbytes: int) -> bool:
        """Tell whether `put` would drop a call now, counted if so: ask before copying from a
        device."""
        full = self.options.wait_s == 0 and not self._queue.fits(nbytes)
        return self._counts.refuse(key, otherwise=counts.QUEUE_FULL if full else None)

    def put(self, call: CapturedCall) -> bool:
        """Hand over one call; False where it was dropped or is a duplicate, which is counted."""
        self._check_may_put(call)
        assert self._thread
        if self._counts.accept(call.key):
            self._thread.start()
            if self._queue.put(call, wait_s=self.options.wait_s):
                return True
            self._counts.drop_accepted(counts.QUEUE_FULL)
        release(call)
        return False

    def lost(self, reason: str) -> None:
        """Count a call that was wanted and never came to be put."""
        self._counts.drop(reason)

    def report(self) -> RunSummary:
        """Return the counts so far: exact once closed."""
        return RunSummary(
            run=self.run,
            rank=self.rank,
            records=self._counts.kept,
            bytes=self._files.bytes if self._files else 0,
            dropped=self._counts.dropped(),
            duplicates=self._counts.duplicates,
        )

    def flush(self) -> None:
        """Return when all that was put so far is written and listed, or dropped."""
        if os.getpid() == self._pid:
            self._queue.wait_until_settled()

    def close(self) -> None:
        """Write what was accepted, list how it ended, and say on stderr what was dropped."""
        if not self._open or os.getpid() != self._pid:
            return
        self._open = False
        assert self._thread
        self._thread.finish()
        summary = self.report()
        try:
            self.store.append([summary])
        except (BadInput, OSError) as error:
            self.unlisted = f"the end of the run is not listed: {error}"
        if summary.dropped or self.unlisted:
            text = "; ".join(filter(None, (summary.sentence(), self.unlisted)))
            print(f"assay: {self.store.path}: {text}", file=sys.stderr)

    def _check_may_put(self, call: CapturedCall) -> None:
        if os.getpid() != self._pid:
            raise BadInput(f"{self._owner()}; open a recording in this process")
        if not self._open:
            raise BadInput(f"run {self.run} is not open; put inside `with Recording(store):`")
        if (call.key.run, call.key.rank) != (self.run, self.rank):
            raise BadInput(
                f"a record of run {call.key.run}, rank {call.key.rank} was put into run "
                f"{self.run}, rank {self.rank}; make its key with recording.key()"
            )

    def _report_fork(self) -> None:
        if not self._fork_reported:
            self._fork_reported = True
            print(f"assay: {self._owner()}; this one captures nothing", file=sys.stderr)

    def _owner(self) -> str:
        return f"run {self.run} belongs to process {self._pid}, {os.getpid()} was forked from it"
