"""The books of a recording: what was accepted, kept, dropped and why, and what came twice.

Every call that is offered is counted once: kept, dropped for a reason, or a duplicate.
"""

import threading
from collections import Counter
from dataclasses import dataclass

from assay.captures.manifest import Key

QUEUE_FULL = "queue full"
BYTE_BUDGET = "byte budget"
RECORD_BUDGET = "record budget"
UNREADABLE = "could not be read"
UNWRITABLE = "could not be written"
PREDICATE = "the predicate failed"
DUPLICATE = "duplicate"
_PAGE_STEPS = 1024
_MOST_REASONS = 16  # so that messages which differ each time do not fill memory


@dataclass(frozen=True, kw_only=True)
class RecordingReport:
    """How a recording stands."""

    run: str
    rank: int
    records: int
    bytes: int  # of files
    dropped: dict[str, int]
    duplicates: int
    unlisted: str | None = None  # why the end of the run could not be listed

    def sentence(self) -> str:
        lost = ", ".join(f"{count} ({reason})" for reason, count in self.dropped.items())
        told = f"captured {self.records} records, {self.bytes / 1e6:.1f} MB"
        told += f"; dropped {lost}" if lost else "; dropped none"
        return told + (f"; {self.unlisted}" if self.unlisted else "")


class CallCounts:
    """Counts that the model's threads and the writer's share."""

    def __init__(self, *, max_records: int | None) -> None:
        self._max_records = max_records
        self._lock = threading.Lock()
        self._seen = _Keys()
        self._accepted = 0  # waiting or kept
        self._over_budget = False
        self._dropped: Counter[str] = Counter()
        self.kept = 0
        self.duplicates = 0

    def refusal(self, key: Key, *, otherwise: str | None = None) -> str | None:
        """Why a call is not taken, counted; None, and nothing is counted, where nothing stands
        against it. `otherwise` is a reason that applies where no other does."""
        with self._lock:
            reason = self._refusal(key) or otherwise
            if reason:
                self._seen.add(key)
                self._count(reason)
            return reason

    def accept(self, key: Key) -> str | None:
        """Take a call in; or why not, counted."""
        with self._lock:
            reason = self._refusal(key)
            self._seen.add(key)
            if reason:
                self._count(reason)
            else:
                self._accepted += 1
            return reason

    def keep(self, count: int) -> None:
        """So many accepted calls are in the store."""
        with self._lock:
            self.kept += count

    def lose(self, reason: str) -> None:
        """An accepted call is dropped after all, or turns out to be there already."""
        with self._lock:
            self._accepted -= 1
            self._over_budget = self._over_budget or reason == BYTE_BUDGET
            self._count(reason)

    def fail(self, reason: str) -> None:
        """A call was lost before it was offered."""
        with self._lock:
            self._count(reason)

    def dropped(self) -> dict[str, int]:
        with self._lock:
            return dict(self._dropped)

    def _refusal(self, key: Key) -> str | None:
        if key in self._seen:
            return DUPLICATE
        if self._over_budget:
            return BYTE_BUDGET
        if self._max_records is not None and self._accepted >= self._max_records:
            return RECORD_BUDGET
        return None

    def _count(self, reason: str) -> None:
        if reason == DUPLICATE:
            self.duplicates += 1
            return
        if reason not in self._dropped and len(self._dropped) >= _MOST_REASONS:
            reason = reason.partition(":")[0] + ": for other reasons"
        self._dropped[reason] += 1


class _Keys:
    """Keys of one run and rank: a bit for each step of a site, as a long run has many."""

    def __init__(self) -> None:
        self._pages: dict[tuple[int, str, int], dict[int, int]] = {}

    def add(self, key: Key) -> None:
        page, bit = divmod(key.step, _PAGE_STEPS)
        pages = self._pages.setdefault((key.layer, key.site, key.call), {})
        pages[page] = pages.get(page, 0) | 1 << bit

    def __contains__(self, key: Key) -> bool:
        page, bit = divmod(key.step, _PAGE_STEPS)
        pages = self._pages.get((key.layer, key.site, key.call), {})
        return bool(pages.get(page, 0) >> bit & 1)
