"""Records as trackers show them: in which of a tracker's runs, at which step, with what values.

A cell whose records have a step in their data, as one that trains a model, is a run of the tracker:
its curves, and a summary of what has no step. The cells of any other stage are rows of a table, in
one run for the stage. All of it follows from the log in its order, so whoever reads a log again
makes the same points with the same names and numbers: that is what a mirror goes on by.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal

from assay.records.identity import digest
from assay.records.schema import CELL_PROGRESS, CELL_SECONDS, DEVICE_READINGS, Record, Run

COLUMNS = (
    "cell", "attempt", "subject", "workload", "metric", "value", "unit", "status", "reason",
)  # fmt: skip
_MOST_STEPS = 1 << 53  # what JSON carries as a number without loss


@dataclass(frozen=True, kw_only=True)
class TrackedRun:
    """A run of a tracker."""

    identity: str  # letters and digits; the same for the same cell and attempt of the same run
    name: str
    group: str  # the run that it belongs to
    stage: str
    config: dict[str, Any] = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class TrackedPoint:
    """Values that appear together: one point of a run's curves, its summary, or a table."""

    tracked: TrackedRun
    kind: Literal["curve", "summary", "table"]
    number: int  # among those of its kind in its run, from 0
    identity: str  # unlike that of any other point of any run
    step: int  # of a summary, the last before it
    time: str  # UTC, ISO 8601, of its first record
    values: dict[str, float] = field(default_factory=dict)
    readings: dict[str, float] = field(default_factory=dict)  # of the device
    remarks: dict[str, str] = field(default_factory=dict)  # status and reason, where there is more
    rows: tuple[tuple[Any, ...], ...] = ()  # of a table, by COLUMNS
    ends: bool = False  # the cell is done


class TrackedPoints:
    """The points of one run, made from its records as they come."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._runs: dict[tuple[str, str, int], TrackedRun] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._steps: dict[str, int] = {}

    def of(self, records: Iterable[Record]) -> list[TrackedPoint]:
        """Points of the whole batches that come next in the log of a stage."""
        points: list[TrackedPoint] = []
        batch: list[Record] = []
        for record in records:
            batch.append(record)
            if record.closes:
                for _, part in groupby(batch, key=lambda r: (r.stage, r.cell, r.attempt)):
                    points += self._points([r for r in part if r.metric != CELL_PROGRESS])
                batch = []
        return points

    def _points(self, records: Sequence[Record]) -> Iterator[TrackedPoint]:
        """Points of the records that a batch has of one cell."""
        if not records:
            return
        place = (records[0].stage, records[0].cell, records[0].attempt)
        if place not in self._runs and any(_step(record) is not None for record in records):
            self._runs[place] = self._cell_run(records)
        tracked = self._runs.get(place)
        if tracked is None:
            yield self._table(records)
            return
        for step, row in _rows(records):
            self._steps[tracked.identity] = step
            yield self._point(tracked, "curve", step, row)
        rest = [record for record in records if _step(record) is None]
        if rest:
            yield self._point(tracked, "summary", self._steps[tracked.identity], rest)

    def _point(
        self,
        tracked: TrackedRun,
        kind: Literal["curve", "summary"],
        step: int,
        records: Sequence[Record],
    ) -> TrackedPoint:
        known = {r.metric: r.value for r in records if r.value is not None}
        return TrackedPoint(
            values={m: v for m, v in known.items() if m not in DEVICE_READINGS},
            readings={m: v for m, v in known.items() if m in DEVICE_READINGS},
            remarks={name: text for r in records for name, text in _remarks(r)},
            ends=any(record.metric == CELL_SECONDS for record in records),
            **self._place(tracked, kind, step, records[0]),
        )

    def _table(self, records: Sequence[Record]) -> TrackedPoint:
        first = records[0]
        stage = (first.stage, "", 0)
        if stage not in self._runs:
            self._runs[stage] = self._tracked(first, name=first.stage, cell=None, attempt=0)
        tracked = self._runs[stage]
        rows = tuple(_row(record) for record in records)
        number = self._counts.get((tracked.identity, "table"), 0)
        return TrackedPoint(rows=rows, **self._place(tracked, "table", number, first))

    def _place(self, tracked: TrackedRun, kind: str, step: int, first: Record) -> dict[str, Any]:
        number = self._counts.get((tracked.identity, kind), 0)
        self._counts[tracked.identity, kind] = number + 1
        return {
            "tracked": tracked,
            "kind": kind,
            "number": number,
            "identity": f"{self._run.run}/{first.stage}/{first.sequence}",
            "step": step,
            "time": first.time,
        }

    def _cell_run(self, records: Sequence[Record]) -> TrackedRun:
        first = records[0]
        name = first.cell + (f" (attempt {first.attempt})" if first.attempt > 1 else "")
        seeds = (r.data["seed"] for r in records if r.data and "seed" in r.data)
        own = {"subject": first.subject, "seed": next(seeds, None)}
        return self._tracked(first, name=name, cell=first.cell, attempt=first.attempt, **own)

    def _tracked(
        self, first: Record, *, name: str, cell: str | None, attempt: int, **own: Any
    ) -> TrackedRun:
        run = self._run
        about = {
            "run": run.run, "study": run.study, "stage": first.stage, "cell": cell,
            "attempt": attempt or None,
            "commit": run.commit, "dirty": run.dirty, "host": run.host, "versions": run.versions,
        }  # fmt: skip
        symbols = {name: typed(text) for name, text in run.config.items()}
        return TrackedRun(
            identity=digest([run.run, first.stage, cell, attempt]),
            name=f"{name} {run.run}",  # runs of one project are told apart by it
            group=run.run,
            stage=first.stage,
            config=symbols | about | own,
        )


def _rows(records: Sequence[Record]) -> Iterator[tuple[int, list[Record]]]:
    """Records of one step together, a metric that comes twice in a row of its own."""
    rows: dict[tuple[int, int], list[Record]] = {}
    times: dict[tuple[int, str], int] = {}
    for record in records:
        step = _step(record)
        if step is not None:
            turn = times.get((step, record.metric), 0)
            times[step, record.metric] = turn + 1
            rows.setdefault((step, turn), []).append(record)
    for (step, _), row in rows.items():
        yield step, row


def _step(record: Record) -> int | None:
    """The step of a record; None where it has none that a tracker could take."""
    step = (record.data or {}).get("step")
    usable = isinstance(step, int) and not isinstance(step, bool) and 0 <= step < _MOST_STEPS
    return step if usable else None


def _remarks(record: Record) -> Iterator[tuple[str, str]]:
    """Words that a number alone does not say: that it is unknown or wrong, and why."""
    if record.status != "ok":
        yield f"{record.metric}.status", record.status
    if record.reason:
        yield f"{record.metric}.reason", record.reason


def _row(record: Record) -> tuple[Any, ...]:
    workload = record.workload.name if record.workload else None
    return (
        record.cell, record.attempt, record.subject, workload, record.metric, record.value,
        record.unit, record.status, record.reason,
    )  # fmt: skip


def typed(text: str) -> str | int | bool:
    """The value of a symbol, which `run.json` has as a .config writes it."""
    if text in ("y", "n"):
        return text == "y"
    if text.removeprefix("-").isdecimal() and len(text) < 16:
        return int(text)
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
