"""Cells of a run that trains, as rows: the state of each, its losses, its rate and what is due.

Losses are in nats for each token. Unknown is None.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from assay.records.run import Done
from assay.records.schema import SEVERITY, Run
from assay.reports.monitor.eta import Remaining, rest_of_cell
from assay.reports.monitor.plan import TrainingPlan
from assay.reports.monitor.state import CellState

RUNNING, STARTING, WAITING, ENDED, INTERRUPTED = (
    "running", "starting", "waiting", "ended", "interrupted",
)  # fmt: skip
TRIED_AGAIN = ("failed", "oom", "timeout")  # cells that a resumed run tries once more


@dataclass(frozen=True, kw_only=True)
class CellRow:
    """One arm with one seed."""

    arm: str
    seed: int
    state: str
    reason: str | None  # of a state that is a failure, a refusal or a skip
    step: int | None
    steps: int | None
    train_loss: float | None
    val_loss: float | None
    val_step: int | None
    difference: float | None  # of val_loss to the baseline's with this seed at `difference_step`
    difference_step: int | None
    tokens_per_s: float | None
    share_of_matmul: float | None
    peak_bytes: float | None
    trained_s: float | None  # neither evaluation nor writing
    remaining: Remaining
    next_evaluation: int | None  # step
    next_save: int | None  # step
    seconds_per_step: float | None


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """Facts of a run's folder beside its records of training."""

    folder: str
    run: Run
    held: bool
    done: Done | None  # of the stage train
    others: str  # the stage before training that is not done, in words
    ceilings: Mapping[str, float]  # TFLOP/s of large products, by device
    now: datetime


def labels_of(facts: RunFacts, states: Mapping[str, CellState]) -> dict[str, str]:
    """The state of each cell in a word; the first that waits in a run at work is starting."""
    session = facts.run.sessions[-1].number if facts.run.sessions else 0
    training = facts.held and not facts.done and not facts.others
    labels = {name: _label(state, session, training) for name, state in states.items()}
    if training and RUNNING not in labels.values():
        first = next((name for name, label in labels.items() if label == WAITING), None)
        labels |= {first: STARTING} if first else {}
    return labels


def _label(state: CellState, session: int, training: bool) -> str:
    if state.end:
        tried_again = training and state.end.status in TRIED_AGAIN and state.session < session
        worst = min([r.status for r in state.troubles] or ["ok"], key=SEVERITY.index)
        return WAITING if tried_again else ENDED if worst == "ok" else worst
    if state.attempt and (not training or state.session < session):
        return WAITING if training else INTERRUPTED
    return RUNNING if state.attempt else WAITING


def row_of(
    state: CellState,
    label: str,
    facts: RunFacts,
    plan: TrainingPlan,
    states: Mapping[str, CellState],
    started: Mapping[int, datetime],
) -> CellRow:
    step, loss = state.evaluated or (None, None)
    difference = _difference(state, plan, states)
    flops, device = state.value("model_tflop_per_s"), (facts.run.devices or [None])[0]
    ceiling = facts.ceilings.get(device) if device else None
    rate = state.seconds_per_step(started)
    at_work = label == RUNNING and state.step is not None
    return CellRow(
        arm=state.arm,
        seed=state.seed,
        state=label,
        reason=state.troubles[0].reason if state.troubles else None,
        step=state.step,
        steps=plan.steps,
        train_loss=state.value("train_loss"),
        val_loss=loss,
        val_step=step,
        difference=difference[1] if difference else None,
        difference_step=difference[0] if difference else None,
        tokens_per_s=state.value("tokens_per_s"),
        share_of_matmul=flops / ceiling if flops is not None and ceiling else None,
        peak_bytes=state.value("peak_bytes"),
        trained_s=state.trained_s,
        remaining=(
            rest_of_cell(state, plan, started, facts.now)
            if label == RUNNING
            else Remaining(seconds=None, basis="" if label == ENDED else "it is not running")
        ),
        next_evaluation=plan.next_multiple(state.step, plan.evaluate_every) if at_work else None,
        next_save=plan.next_multiple(state.step, plan.save_every) if at_work else None,
        seconds_per_step=rate[0] if rate else None,
    )


def _difference(
    state: CellState, plan: TrainingPlan, states: Mapping[str, CellState]
) -> tuple[int, float] | None:
    """The last step that this cell and the baseline of its seed were both evaluated at, and the
    difference of their losses; None for the baseline itself."""
    other = states.get(f"{plan.baseline}/s{state.seed}")
    if other is None or other is state:
        return None
    ours, theirs = state.curves["val_loss"], other.curves["val_loss"]
    shared = max(ours.keys() & theirs.keys(), default=None)
    return None if shared is None else (shared, ours[shared] - theirs[shared])
