"""Replay of a run's records to trackers, live or later.

The log is read from its start each time, and every point that it makes is given to every mirror: a
mirror knows what its tracker has. A tracker that fails is left out from there on and is named in
the end; neither the records nor the other trackers notice.
"""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from assay import plugins
from assay.errors import BadInput, CannotRunHere, unknown_name
from assay.records.durable import only_process
from assay.records.points import TrackedPoint, TrackedPoints
from assay.records.run import RunFolder, archived_records
from assay.records.schema import Record, Run
from assay.records.tail import LogTail

KIND = "mirrors"
POLL_S = 0.2
_PATIENCE_S = 15.0  # for a mirror of the same run that is about to end
_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, kw_only=True)
class Destination:
    """Where a mirror writes to."""

    folder: Path  # of the run
    project: str
    entity: str | None  # a user or team of W&B; None for the default


class Mirror(Protocol):
    """A connection to a tracker."""

    def send(self, points: Sequence[TrackedPoint]) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """Outcome of a replay: how many points the run has, and trackers that failed, with why."""

    points: int
    failures: dict[str, str]


def chosen(names: str) -> tuple[str, ...]:
    """The trackers that a list names, comma between; BadInput where there is no such tracker."""
    if not names:
        return ()
    known = plugins.listing(KIND)
    entries = tuple(dict.fromkeys(names.split(",")))
    for entry in entries:
        if entry not in known:
            raise BadInput(unknown_name("tracker", entry, known))
    return entries


def project_name(text: str) -> str:
    """`text`, where it can name a project of every tracker."""
    if not _PROJECT.fullmatch(text):
        raise BadInput(
            f"{text!r} cannot name a tracker's project; wanted at most 128 letters, digits, dots, "
            "dashes and underscores, a letter or digit first: give it with --project"
        )
    return text


def missing(tracker: str) -> str | None:
    """The way to install a tracker that is not installed; None where it is."""
    absent = plugins.find(KIND, tracker).missing
    how = f"{', '.join(absent)} is not installed; {plugins.how_to_install(absent)}"
    return how if absent else None


def replay(
    folder: RunFolder, run: Run, trackers: Sequence[str], *, destination: Destination, follow: bool
) -> Replayed:
    """Send all points of a run; where `follow`, go on until nothing runs the run any more."""
    points = 0
    with ExitStack() as locks:
        mirrors = _Mirrors()
        for tracker in trackers:
            with mirrors.failing_alone(tracker):
                mirrors.live[tracker] = _connected(tracker, folder, destination, follow, locks)
        for fresh in _batches_of_points(folder, run, follow=follow):
            points += len(fresh)
            for tracker, mirror in list(mirrors.live.items()):
                with mirrors.failing_alone(tracker):
                    mirror.send(fresh)
            if not mirrors.live:
                break
        for tracker, mirror in list(mirrors.live.items()):
            with mirrors.failing_alone(tracker):
                mirror.close()
    return Replayed(points=points, failures=mirrors.failures)


class _Mirrors:
    """The trackers that answer, and why the others do not."""

    def __init__(self) -> None:
        self.live: dict[str, Mirror] = {}
        self.failures: dict[str, str] = {}

    @contextmanager
    def failing_alone(self, tracker: str) -> Iterator[None]:
        """Leave a tracker out when it raises, which may be anything."""
        try:
            yield
        except Exception as error:
            self.failures[tracker] = " ".join(f"{_kind(error)}{error}".split())
            self.live.pop(tracker, None)


def _kind(error: Exception) -> str:
    ours = isinstance(error, BadInput | CannotRunHere)
    return "" if ours else f"{type(error).__name__}: "


def _connected(
    tracker: str, folder: RunFolder, destination: Destination, follow: bool, locks: ExitStack
) -> Mirror:
    if hint := missing(tracker):
        raise CannotRunHere(hint)
    locks.enter_context(_only_mirror(tracker, folder, follow))
    return plugins.load(plugins.find(KIND, tracker)).connect(destination)


@contextmanager
def _only_mirror(tracker: str, folder: RunFolder, follow: bool) -> Iterator[None]:
    """Keep other processes from mirroring this run to this tracker.

    One that follows takes over from one of an earlier start of the run, once that has ended.
    """
    path = folder.path / f"mirror-{tracker}.lock"
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        with only_process(path) as mine:
            if mine:
                yield
                return
        if time.monotonic() > deadline and not (follow and folder.is_held()):
            holder = path.read_text().strip() or "unknown"
            raise CannotRunHere(
                f"process {holder} mirrors {folder.path} to {tracker} already; wait for it, or end "
                "it"
            )


def _batches_of_points(
    folder: RunFolder, run: Run, *, follow: bool
) -> Iterator[list[TrackedPoint]]:
    """Points as they come; once, or until the run is left by its process."""
    points = TrackedPoints(run)
    if folder.archive.is_file():
        yield points.of(archived_records(folder))
        return
    tails: dict[Path, LogTail] = {}
    while True:
        ended = not follow or not folder.is_held()  # before reading, so what came first is read
        fresh: list[Record] = []
        for path in folder.logs():
            fresh += tails.setdefault(path, LogTail(path=path)).new_records()
        if fresh or ended:
            yield points.of(fresh)
        if ended:
            return
        time.sleep(POLL_S)
