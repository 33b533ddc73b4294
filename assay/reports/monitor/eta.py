"""Time that is left of a cell and of a whole run, from measured rates, with what they rest on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from assay.reports.monitor.plan import TrainingPlan
from assay.reports.monitor.state import CellState
from assay.reports.numerals import counted, number

Starts = Mapping[int, datetime]  # of sessions, by number


@dataclass(frozen=True, kw_only=True)
class Remaining:
    """Seconds that are left, and their basis; where they are unknown, the reason is the basis."""

    seconds: float | None
    basis: str


def rest_of_cell(state: CellState, plan: TrainingPlan, starts: Starts, now: datetime) -> Remaining:
    """Time that is left of a cell that runs, by its reports since the session began."""
    if state.step is None or not state.marks:
        return Remaining(seconds=None, basis="it has not reported yet")
    if plan.steps is None:
        return Remaining(seconds=None, basis="run.json does not tell the number of steps")
    each_s, basis = _seconds_per_step(state, plan, starts)
    if each_s is None:
        return Remaining(seconds=None, basis=basis)
    left_s = each_s * max(plan.steps - state.step, 0)
    if plan.most_seconds and state.trained_s is not None:
        left_s = min(left_s, max(plan.most_seconds - state.trained_s, 0.0))
    since_s = max((now - state.marks[-1].time).total_seconds(), 0.0)
    return Remaining(seconds=max(left_s - since_s, 0.0), basis=basis)


def rest_of_run(
    at_work: Sequence[tuple[CellState, Remaining]],
    waiting: Sequence[CellState],
    ended: Sequence[CellState],
    plan: TrainingPlan,
    starts: Starts,
) -> Remaining:
    """Time that is left of all cells; those that wait take as long as others took or will take."""
    if not at_work:
        return Remaining(seconds=None, basis="nothing is at work")
    whole_s, basis = _whole_cell(at_work, ended, plan, starts)
    left, by_cells = [], bool(waiting)
    for _, remaining in at_work:
        by_cells |= remaining.seconds is None
        left.append(whole_s if remaining.seconds is None else remaining.seconds)
    left += [_scaled(whole_s, state, plan) for state in waiting]
    known = [seconds for seconds in left if seconds is not None]
    if len(known) < len(left):
        return Remaining(seconds=None, basis=basis)
    own = [r.basis for _, r in at_work if r.seconds is not None][:1]
    return Remaining(
        seconds=sum(known) / len(at_work), basis="; ".join([*own, *([basis] if by_cells else [])])
    )


def _whole_cell(
    at_work: Sequence[tuple[CellState, Remaining]],
    ended: Sequence[CellState],
    plan: TrainingPlan,
    starts: Starts,
) -> tuple[float | None, str]:
    """Seconds of a cell from its first step to its last, and their basis."""
    took_s = [state.end.value for state in ended if state.end and state.end.value]
    if took_s:
        each_s = fmean(took_s)
        return each_s, f"{counted(len(took_s), 'cell')} done, {number(each_s)} s each"
    for state, _ in at_work:
        each_s, _ = _seconds_per_step(state, plan, starts)
        if each_s is not None and plan.steps is not None:
            return each_s * plan.steps, "those that wait as fast as the one at work"
    return None, "no rate is known yet"


def _scaled(whole_s: float | None, state: CellState, plan: TrainingPlan) -> float | None:
    """The share of a whole cell that one begun earlier still has before it."""
    if whole_s is None or not plan.steps or state.end:
        return whole_s
    return whole_s * max(plan.steps - (state.step or 0), 0) / plan.steps


def _seconds_per_step(
    state: CellState, plan: TrainingPlan, starts: Starts
) -> tuple[float | None, str]:
    rate = state.seconds_per_step(starts)
    if rate:
        return rate[0], f"the last {counted(rate[1], 'report')}, {number(rate[0])} s a step"
    tokens_per_s = state.value("tokens_per_s")
    if tokens_per_s and plan.tokens_per_step:
        return plan.tokens_per_step / tokens_per_s, "its tokens/s, without evaluation and writing"
    return None, "no rate is known yet"
