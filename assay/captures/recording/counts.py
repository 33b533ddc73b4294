"""Counts of a recording: calls accepted, kept and dropped by reason, and duplicates.

Every call that is offered is counted once: kept, dropped for a reason, or a duplicate.
"""

import threading
from collections import Counter

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


class CallCounts:
    """Counts that the threads of the model and the writer thread share."""

    def __init__(self, *, max_records: int | None) -> None:
        self._max_records = max_records
        self._lock = threading.Lock()
        self._seen = _Keys()
        self._accepted = 0  # waiting or kept
        self._over_budget = False
        self._dropped: Counter[str] = Counter()
        self.kept = 0
        self.duplicates = 0

    def refuse(self, key: Key, *, otherwise: str | None = None) -> bool:
        """Refuse and count a call that `accept` would refuse now, or for the reason `otherwise`;
        count nothing where neither applies."""
        with self._lock:
            reason = self._refusal(key) or otherwise
            if reason:
                self._seen.add(key)
                self._count(reason)
            return reason is not None

    def accept(self, key: Key) -> bool:
        """Accept a call, or refuse and count it: a duplicate, or one beyond a budget."""
        with self._lock:
            reason = self._refusal(key)
            self._seen.add(key)
            if reason:
                self._count(reason)
            else:
                self._accepted += 1
            return reason is None

    def keep(self, count: int) -> None:
        """Count accepted calls that are in the store now."""
        with self._lock:
            self.kept += count

    def drop_accepted(self, reason: str) -> None:
        """Count an accepted call that is dropped after all, or turns out to be a duplicate."""
        with self._lock:
            self._accepted -= 1
            self._over_budget = self._over_budget or reason == BYTE_BUDGET
            self._count(reason)

    def drop(self, reason: str) -> None:
        """Count a call that was lost before it was offered."""
        with self._lock:
            self._count(reason)

    def dropped(self) -> dict[str, int]:
        """Return how many calls were dropped, by reason."""
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
