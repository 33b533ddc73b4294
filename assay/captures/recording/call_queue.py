"""What waits for the writer, bounded in bytes and records: whoever adds to it never waits long."""

import threading
import time
from collections import deque

from assay.captures.recording.captured_call import CapturedCall


class CallQueue:
    """A queue between threads. A record counts until the writer is through with it."""

    def __init__(self, *, max_bytes: int, max_records: int) -> None:
        self._max_bytes = max_bytes
        self._max_records = max_records
        self._waiting: deque[CapturedCall] = deque()
        self._bytes = 0
        self._records = 0
        self._unsettled = 0
        self._closed = False
        self._changed = threading.Condition()
        self._hurry = threading.Event()  # someone waits for what is here

    def put(self, taken: CapturedCall, *, wait_s: float) -> bool:
        """Add it; False where there was no room within `wait_s`."""
        deadline = time.monotonic() + wait_s
        with self._changed:
            while not self._fits(taken.nbytes):
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
            self._waiting.append(taken)
            self._bytes += taken.nbytes
            self._records += 1
            self._unsettled += 1
            if self._records > self._max_records // 2:
                self._hurry.set()
            self._changed.notify_all()
            return True

    def fits(self, nbytes: int) -> bool:
        with self._changed:
            return self._fits(nbytes)

    def take(self, *, wait: bool) -> CapturedCall | None:
        """The oldest; None where there is none: now, or with `wait`, ever again."""
        with self._changed:
            while wait and not self._waiting and not self._closed:
                self._changed.wait()
            return self._waiting.popleft() if self._waiting else None

    def gather(self, seconds: float) -> None:
        """Let more come in, unless someone waits. A thread that works a little at every moment
        costs a model far more than one that works more, seldom: each time, both want the
        interpreter."""
        self._hurry.wait(seconds)

    def done(self, taken: CapturedCall) -> None:
        """Its memory is free again."""
        with self._changed:
            self._bytes -= taken.nbytes
            self._records -= 1
            self._changed.notify_all()

    def settle(self, count: int) -> None:
        """So many more are listed or lost."""
        with self._changed:
            self._unsettled -= count
            if not self._closed:
                self._hurry.clear()
            self._changed.notify_all()

    def wait_until_settled(self) -> None:
        """Return when all that was put is listed or lost."""
        with self._changed:
            while self._unsettled:
                self._hurry.set()
                self._changed.wait()

    def close(self) -> None:
        """Nothing more will be put."""
        with self._changed:
            self._closed = True
            self._hurry.set()
            self._changed.notify_all()

    def _fits(self, nbytes: int) -> bool:
        return self._records < self._max_records and self._bytes + nbytes <= self._max_bytes
