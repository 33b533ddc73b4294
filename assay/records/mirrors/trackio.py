"""trackio, on this machine: points in its SQLite file, each under a name of its own.

trackio keeps what the user logs under identifiers and ignores one that it has. A point has the
place of its first record in the log for that, so it may be sent any number of times, by any number
of processes, and is there once. Nothing is sent to another machine: `trackio sync` does that.
"""

import sqlite3
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from assay.errors import CannotRunHere
from assay.records.mirroring import Destination
from assay.records.points import COLUMNS, TrackedPoint, TrackedRun

REQUIRES = ("trackio",)


def connect(destination: Destination) -> "TrackioMirror":
    """A mirror in the folder that trackio uses: TRACKIO_DIR, or the one in the user's cache."""
    return TrackioMirror(destination)


class TrackioMirror:
    """A project of trackio that points are written to."""

    def __init__(self, destination: Destination) -> None:
        from trackio.sqlite_storage import SQLiteStorage

        SQLiteStorage.validate_project_name(destination.project)
        self._project = destination.project
        self._sent: dict[str, int] = {}  # points that are rows of metrics, by run
        self._runs: dict[str, TrackedRun] = {}

    def send(self, points: Sequence[TrackedPoint]) -> None:
        """Store points; they are durable on return."""
        in_order = sorted(points, key=lambda point: point.tracked.identity)
        for _, group in groupby(in_order, key=lambda point: point.tracked.identity):
            try:
                self._store(list(group))
            except (OSError, sqlite3.Error) as error:
                raise CannotRunHere(
                    f"trackio cannot write its project {self._project} ({error}); is the disk "
                    "full? TRACKIO_DIR says where it lies"
                ) from error

    def close(self) -> None:
        """Count what is stored."""
        from trackio.sqlite_storage import SQLiteStorage

        for identity, sent in self._sent.items():
            name = self._runs[identity].name
            stored = SQLiteStorage.get_log_count(self._project, name, run_id=identity)
            if stored != sent:
                raise CannotRunHere(
                    f"{stored} rows of {name} are in trackio's project {self._project}, sent were "
                    f"{sent}"
                )

    def _store(self, points: list[TrackedPoint]) -> None:
        from trackio.sqlite_storage import SQLiteStorage

        tracked = points[0].tracked
        new = tracked.identity not in self._runs
        self._runs[tracked.identity] = tracked
        rows = [point for point in points if point.values or point.remarks or point.rows]
        SQLiteStorage.bulk_log(
            self._project,
            tracked.name,
            [_metrics(point) for point in rows],
            steps=[point.step for point in rows],
            timestamps=[point.time for point in rows],
            config={**tracked.config, "_Group": tracked.group} if new else None,
            log_ids=[point.identity for point in rows],
            run_id=tracked.identity,
        )
        self._sent[tracked.identity] = self._sent.get(tracked.identity, 0) + len(rows)
        readings = [point for point in points if point.readings]
        SQLiteStorage.bulk_log_system(
            self._project,
            tracked.name,
            [point.readings for point in readings],
            timestamps=[point.time for point in readings],
            log_ids=[point.identity for point in readings],
            run_id=tracked.identity,
        )


def _metrics(point: TrackedPoint) -> dict[str, Any]:
    if point.kind != "table":
        return {**point.values, **point.remarks}
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in point.rows]
    return {"records": {"_type": "trackio.table", "_value": rows}}
