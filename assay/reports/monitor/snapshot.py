"""Snapshot of a run that trains: plain data, from which the terminal and JSON are made.

Unknown is null. Losses are in nats for each token, times in seconds of the wall clock unless a
name says otherwise.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from assay.records.schema import CELL_METRICS, Run
from assay.reports.monitor.cells import (
    ENDED,
    INTERRUPTED,
    RUNNING,
    STARTING,
    TRIED_AGAIN,
    WAITING,
    CellRow,
    RunFacts,
    labels_of,
    row_of,
)
from assay.reports.monitor.eta import Remaining, rest_of_run
from assay.reports.monitor.plan import TrainingPlan
from assay.reports.monitor.state import (
    CellState,
    LossCurve,
    time_of,
    training_curve,
    validation_curves,
)

_READINGS = {
    "peak_bytes": "B",
    "utilisation": "%",
    "power_w": "W",
    "temperature_c": "°C",
    "sm_clock_mhz": "MHz",
}


@dataclass(frozen=True, kw_only=True)
class DeviceReading:
    """A reading of the device, the last one or the median of a cell that ended."""

    name: str
    value: float | None
    unit: str
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class FailedRecord:
    """A record of training that is not ok."""

    arm: str
    seed: int
    metric: str
    status: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """All that is shown of a run at one moment."""

    study: str
    run: str
    folder: str
    time: str
    state: str
    state_reason: str
    device: str | None
    elapsed_s: float | None  # of the last session
    remaining: Remaining
    baseline: str | None
    cells: list[CellRow]
    at_work: list[str]
    next_cells: list[str]
    shown: str | None  # the cell of the readings and the training curve
    readings: list[DeviceReading]
    failures: list[FailedRecord]
    validation: list[LossCurve]
    training: LossCurve | None


def take(facts: RunFacts, plan: TrainingPlan, states: Mapping[str, CellState]) -> Snapshot:
    """The snapshot of a run at `facts.now`."""
    planned = {f"{arm}/s{seed}": CellState(arm=arm, seed=seed) for arm, seed in plan.cells}
    everything = {**planned, **states}
    started = session_starts(facts.run)
    labels = labels_of(facts, everything)
    rows = {
        name: row_of(state, labels[name], facts, plan, everything, started)
        for name, state in everything.items()
    }
    active = [name for name in rows if labels[name] in (RUNNING, STARTING)]
    shown = _latest([everything[n] for n in active]) or _latest(list(everything.values()))
    at_work = [(everything[name], rows[name].remaining) for name in active]
    waiting = [state for name, state in everything.items() if labels[name] == WAITING]
    ended = [state for name, state in everything.items() if labels[name] == ENDED]
    state, reason = _state(facts, rows.values())
    return Snapshot(
        study=facts.run.study,
        run=facts.run.run,
        folder=facts.folder,
        time=facts.now.isoformat(timespec="seconds"),
        state=state,
        state_reason=reason,
        device=facts.run.devices[0] if facts.run.devices else None,
        elapsed_s=_elapsed(facts, everything.values(), started),
        remaining=rest_of_run(at_work, waiting, ended, plan, started),
        baseline=plan.baseline,
        cells=list(rows.values()),
        at_work=active,
        next_cells=[name for name in rows if labels[name] == WAITING] if facts.held else [],
        readings=_readings(shown, facts.run) if shown else [],
        shown=f"{shown.arm}/s{shown.seed}" if shown else None,
        failures=[failure for state in everything.values() for failure in _failures(state)],
        validation=validation_curves(list(everything.values())),
        training=training_curve(shown) if shown else None,
    )


def session_starts(run: Run) -> dict[int, datetime]:
    """Starts of a run's sessions, by number."""
    starts = {session.number: time_of(session.started) for session in run.sessions}
    return {number: moment for number, moment in starts.items() if moment}


def _latest(states: Iterable[CellState]) -> CellState | None:
    """The cell that reported last."""
    reported = [state for state in states if state.marks]
    return max(reported, key=lambda state: state.marks[-1].time, default=None)


def _failures(state: CellState) -> list[FailedRecord]:
    """Outcomes that are not ok; the end of a cell only says again what its records do."""
    own = [record for record in state.troubles if record.metric not in CELL_METRICS]
    return [
        FailedRecord(
            arm=state.arm,
            seed=state.seed,
            metric=record.metric,
            status=record.status,
            reason=record.reason or "",
        )
        for record in own or state.troubles
    ]


def _state(facts: RunFacts, rows: Iterable[CellRow]) -> tuple[str, str]:
    """The state of the run in a word, and what is to be said of it."""
    if facts.held:
        ended = "training has ended, and the run goes on" if facts.done else ""
        return RUNNING, facts.others or ended
    if facts.done:
        return ENDED if facts.done.status == "ok" else facts.done.status, facts.done.reason or ""
    states = [row.state for row in rows]
    if {WAITING, INTERRUPTED}.isdisjoint(states):
        return ("failed", "") if set(states) & set(TRIED_AGAIN) else (ENDED, "")
    return INTERRUPTED, f"go on with: assay study resume {facts.folder}"


def _elapsed(
    facts: RunFacts, states: Iterable[CellState], started: Mapping[int, datetime]
) -> float | None:
    """Seconds of the last session: until now, or until its last record of training."""
    if not started:
        return None
    begun = started[max(started)]
    own = [state for state in states if state.session == max(started)]
    ends = [time_of(state.end.time) for state in own if state.end]
    ends += [state.marks[-1].time for state in own if state.marks]
    last = facts.now if facts.held else max(filter(None, ends), default=begun)
    return max((last - begun).total_seconds(), 0.0)


def _readings(state: CellState, run: Run) -> list[DeviceReading]:
    """Readings of a cell's device, each with its unit, or the reason why there is none."""
    on_cpu = (run.devices or [""])[0] == "cpu"
    readings = []
    for name, unit in _READINGS.items():
        record = state.last.get(name)
        absent = "not recorded on a CPU" if on_cpu else "not recorded"
        value = record.value if record else None
        reason = (record.reason if record and not on_cpu else None) or absent
        readings.append(
            DeviceReading(
                name=name, value=value, unit=unit, reason=None if value is not None else reason
            )
        )
    return readings
