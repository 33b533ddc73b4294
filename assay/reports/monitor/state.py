"""State of each arm and seed of a run that trains, folded from its records one by one.

A record is looked at once and only what is shown is kept, so a run may be watched while it grows.
"""

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from statistics import fmean

from assay.records.schema import CELL_METRICS, CELL_SECONDS, Record

_CELL = re.compile(r"(?P<arm>.+)/s(?P<seed>[0-9]{1,18})", re.DOTALL)
_CURVES = ("train_loss", "val_loss")
_RATED_REPORTS = 20  # that a rate is measured over, at most


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A report: the step it was made at, and when it was in the log."""

    step: int
    time: datetime
    session: int


@dataclass(kw_only=True)
class CellState:
    """The latest attempt at one arm with one seed."""

    arm: str
    seed: int
    attempt: int = 0  # 0: it has not begun
    session: int = 0  # that of its last record
    step: int | None = None
    trained_s: float | None = None
    last: dict[str, Record] = field(default_factory=dict)  # of each metric
    curves: dict[str, dict[int, float]] = field(default_factory=lambda: {m: {} for m in _CURVES})
    marks: deque[Mark] = field(default_factory=lambda: deque(maxlen=_RATED_REPORTS + 1))
    end: Record | None = None
    troubles: list[Record] = field(default_factory=list)  # records that are not ok

    def value(self, metric: str) -> float | None:
        record = self.last.get(metric)
        return record.value if record and record.status == "ok" else None

    @property
    def evaluated(self) -> tuple[int, float] | None:
        """The last step that was evaluated, and its validation loss."""
        return max(self.curves["val_loss"].items(), default=None)

    def add(self, record: Record) -> None:
        """Take in a record of this attempt."""
        self.session = record.session
        if record.metric == CELL_SECONDS:
            self.end = record
        if record.status != "ok":
            self.troubles.append(record)
        if record.metric not in CELL_METRICS:
            self.last[record.metric] = record
            self._place(record)

    def _place(self, record: Record) -> None:
        step, seconds = whole(record, "step"), (record.data or {}).get("seconds")
        if record.metric not in _CURVES or step is None:
            return
        if record.value is not None:
            self.curves[record.metric][step] = record.value
        if record.metric == "train_loss":
            self.step = step
            self.trained_s = float(seconds) if isinstance(seconds, int | float) else None
            if moment := time_of(record.time):
                self.marks.append(Mark(step=step, time=moment, session=record.session))

    def seconds_per_step(self, started: Mapping[int, datetime]) -> tuple[float, int] | None:
        """Seconds of the wall clock for a step, evaluation and writing included, and the number of
        reports they are measured over; None of fewer than two reports of the last session.

        `started` is when each session began: reports that were copied from an earlier attempt have
        an earlier time.
        """
        since = started.get(self.session)
        own = [m for m in self.marks if m.session == self.session and since and m.time >= since]
        rising = all(a.step < b.step and a.time <= b.time for a, b in pairwise(own))
        if len(own) < 2 or not rising:
            return None
        seconds = (own[-1].time - own[0].time).total_seconds()
        return seconds / (own[-1].step - own[0].step), len(own) - 1


@dataclass(frozen=True, kw_only=True)
class LossCurve:
    """A loss in nats for each token, over steps."""

    name: str
    points: list[tuple[int, float]]


def validation_curves(states: Sequence[CellState]) -> list[LossCurve]:
    """A curve for each arm, the mean over the seeds that came as far as its furthest; of a single
    arm, one for each seed."""
    evaluated = [state for state in states if state.evaluated]
    arms = dict.fromkeys(state.arm for state in evaluated)
    if len(arms) == 1:
        return [_curve(f"{s.arm} seed {s.seed}", [s], "val_loss") for s in evaluated]
    curves = []
    for arm in arms:
        own = [state for state in evaluated if state.arm == arm]
        furthest = max(max(state.curves["val_loss"]) for state in own)
        whole_ones = [state for state in own if furthest in state.curves["val_loss"]]
        of_seeds = f"mean of {len(whole_ones)} seeds" if len(whole_ones) > 1 else "1 seed"
        curves.append(_curve(f"{arm}, {of_seeds}", whole_ones, "val_loss"))
    return curves


def training_curve(state: CellState) -> LossCurve | None:
    """The loss at each report of one cell; None before the first."""
    if not state.curves["train_loss"]:
        return None
    return _curve(f"{state.arm} seed {state.seed}", [state], "train_loss")


def _curve(name: str, states: Sequence[CellState], metric: str) -> LossCurve:
    """The mean over states at the steps that all of them have."""
    own = [state.curves[metric] for state in states]
    if len(own) == 1:  # thousands of reports, looked at every second
        return LossCurve(name=name, points=sorted(own[0].items()))
    shared = set(own[0]).intersection(*own[1:])
    points = [(step, fmean(values[step] for values in own)) for step in sorted(shared)]
    return LossCurve(name=name, points=points)


def fold(cells: dict[str, CellState], records: Iterable[Record]) -> None:
    """Take records of the stage train into the states of their cells.

    A higher attempt begins anew, a lower one no longer counts.
    """
    for record in records:
        state = cells.get(record.cell)
        if state is None or record.attempt > state.attempt:
            match = _CELL.fullmatch(record.cell)
            if not match:
                continue
            state = CellState(arm=match["arm"], seed=int(match["seed"]), attempt=record.attempt)
            cells[record.cell] = state
        if record.attempt == state.attempt:
            state.add(record)


def whole(record: Record, name: str) -> int | None:
    """An entry of a record's data that is a whole number from 0 on."""
    value = (record.data or {}).get(name)
    sound = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63
    return value if sound else None


def time_of(text: str) -> datetime | None:
    """The time that a record or run.json says; None where it is none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
