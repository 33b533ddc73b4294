"""Calls of attention on their way from a model to the writer thread, and the queue they wait in."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from assay.captures.manifest import Key, Phase, Scalar, Statistics, TensorEntry
from assay.captures.tensor import Tensor


@dataclass(frozen=True, kw_only=True)
class LoadedTensors:
    """Tensors that reached the host, or statistics that were computed where they lay."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    stats: Mapping[str, Statistics] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CapturedCall:
    """One call. `load` runs later, in the writer thread, and may wait for a copy.

    What `load` gives must not change until `release` is called, which happens once for every
    CapturedCall that was put: written, dropped or refused as a duplicate.
    """

    key: Key
    phase: Phase
    framework: str
    device: str
    implementation: str | None
    scalars: Mapping[str, Scalar]
    shapes: Mapping[str, TensorEntry]  # of what `load` will give, and of what is left out and why
    nbytes: int  # what it holds in memory until it is written
    load: Callable[[], LoadedTensors] | None = None  # not called where only shapes are kept
    release: Callable[[], None] | None = None
    layouts: Mapping[str, str] = field(default_factory=dict)  # where not those of manifest.LAYOUTS
    cut: Mapping[str, str] = field(default_factory=dict)  # what was left out on purpose
    time: str | None = None  # of day, in UTC; when it is written where not given


class CallQueue:
    """Queue between threads, bounded in bytes and records: `put` never waits long.

    A call counts until the writer thread is through with it.
    """

    def __init__(self, *, max_bytes: int, max_records: int) -> None:
        self._max_bytes = max_bytes
        self._max_records = max_records
        self._waiting: deque[CapturedCall] = deque()
        self._bytes = 0
        self._records = 0
        self._unsettled = 0
        self._closed = False
        self._changed = threading.Condition()
        self._hurry = threading.Event()  # someone waits for what is queued

    def put(self, call: CapturedCall, *, wait_s: float) -> bool:
        """Add a call; False where there was no room within `wait_s`."""
        deadline = time.monotonic() + wait_s
        with self._changed:
            while not self._fits(call.nbytes):
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
            self._waiting.append(call)
            self._bytes += call.nbytes
            self._records += 1
            self._unsettled += 1
            if self._records > self._max_records // 2:
                self._hurry.set()
            self._changed.notify_all()
            return True

    def fits(self, nbytes: int) -> bool:
        """Tell whether there is room now."""
        with self._changed:
            return self._fits(nbytes)

    def take(self, *, wait: bool) -> CapturedCall | None:
        """Return the oldest call; None where there is none: now, or with `wait`, ever again."""
        with self._changed:
            while wait and not self._waiting and not self._closed:
                self._changed.wait()
            return self._waiting.popleft() if self._waiting else None

    def gather(self, seconds: float) -> None:
        """Let more calls come in, unless someone waits. A thread that works a little at every
        moment costs a model far more than one that works more, seldom: each time, both want the
        interpreter."""
        self._hurry.wait(seconds)

    def free(self, call: CapturedCall) -> None:
        """Give back the room of a call whose memory is free again."""
        with self._changed:
            self._bytes -= call.nbytes
            self._records -= 1
            self._changed.notify_all()

    def settle(self, count: int) -> None:
        """Note that so many more calls are listed or dropped."""
        with self._changed:
            self._unsettled -= count
            if not self._closed:
                self._hurry.clear()
            self._changed.notify_all()

    def wait_until_settled(self) -> None:
        """Return when every call that was put is listed or dropped."""
        with self._changed:
            while self._unsettled:
                self._hurry.set()
                self._changed.wait()

    def close(self) -> None:
        """Note that nothing more will be put."""
        with self._changed:
            self._closed = True
            self._hurry.set()
            self._changed.notify_all()

    def _fits(self, nbytes: int) -> bool:
        return self._records < self._max_records and self._bytes + nbytes <= self._max_bytes
