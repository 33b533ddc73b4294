"""Runs every correctness probe on its cases, and turns what fails into a verdict.

A verdict is one measurement for each probe: how many budgets the worst case takes; and, where a
case fails, the smallest that still does, what is wrong there and the likely cause in words. A probe
that had no time for all its cases is incomplete, whatever the others said.
"""

import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType

from assay.attention.contract import Implementation
from assay.captures.inputs import make
from assay.correctness import judge
from assay.correctness.cases import Plan, in_order, size
from assay.correctness.diagnosis.explain import likely_cause
from assay.correctness.second_process import Elsewhere
from assay.correctness.shrink import shrink
from assay.host import Host
from assay.plugins import Plugin
from assay.records.schema import Measurement, Status
from assay.records.verdicts import incomplete
from assay.subjects.outcome import Begin, Unsupported, device_lost, out_of_memory
from assay.subjects.sequence import SequenceSubject, bind_loaded, framework_named
from assay.workloads.spec import WorkloadSpec
from assay.workloads.workload import identity

_SHRINKING_S = 6.0
_STATE = (
    "state is carried from call to call, such as a stale buffer or the answer of an earlier call: "
    "on a freshly loaded copy the same case is right"
)
_ENOUGH = 12  # failing cases of a probe, from which to tell the cause
_BROKEN = ("failed", "oom")
_SHARED = 0.3  # of the time, for the first calls of a process among others
_FEWEST = 3  # cases of a probe that are run even when its time is over,
_GRACE = 0.5  # unless it is over by this share of the whole
_DIAGNOSED = ("accuracy", "gradients", "shapes", "stability", "options")


@dataclass(frozen=True, kw_only=True)
class Bench:
    """An implementation where its cases are run."""

    implementation: Implementation
    host: Host
    device: str
    elsewhere: Callable[[WorkloadSpec], Elsewhere | None] | None = None
    fresh: Callable[[], Implementation] | None = None  # loads a copy that was never called

    def bind(self, spec: WorkloadSpec) -> SequenceSubject:
        call = bind_loaded(self.implementation, make(spec), host=self.host, device=self.device)
        return replace(call, elsewhere=self.elsewhere)


def takes_part(probe: Plugin) -> bool:
    """Whether a probe belongs to the suite: one of correctness that makes cases."""
    return probe.literals["STAGE"] == "check" and "cases" in probe.functions


def plan_for(
    implementation: Implementation,
    *,
    seed: int,
    count: int,
    quick: bool,
    device: str,
    dtypes: Sequence[str],
) -> Plan:
    """What cases an implementation is to be given."""
    return Plan(
        seed=seed,
        count=count,
        quick=quick,
        gpu=device != "cpu",
        dtypes=tuple(dtypes),
        accepts=implementation.accepts,
        configs=implementation.configs,
    )


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What one probe said of one case."""

    spec: WorkloadSpec
    status: Status
    share: float | None
    reason: str | None
    cause: str | None = None


def run(
    bench: Bench, probes: Mapping[str, ModuleType], plan: Plan, *, budget_s: float
) -> Iterator[Begin | Measurement]:
    """A verdict for each probe, those with few cases first. `budget_s` is spread over them by the
    number of their cases, but for a share that is there for whoever needs it first."""
    cases = {name: in_order(probe.cases(plan)) for name, probe in probes.items()}
    total, done, start = sum(map(len, cases.values())), 0, time.monotonic()
    passing: list[WorkloadSpec] = []
    for name in sorted(probes, key=lambda name: len(cases[name])):
        probe = probes[name]
        done += len(cases[name])
        until = start + budget_s * (_SHARED + (1 - _SHARED) * done / max(1, total))
        if not cases[name]:
            continue  # it does not apply here
        trials: list[Trial] = []
        for spec in cases[name]:
            late_s = time.monotonic() - until
            if trials and late_s > (0 if len(trials) >= _FEWEST else _GRACE * budget_s):
                break
            yield Begin(bench.implementation.name, probe=name, case=spec.name)
            trials.append(_trial(bench, probe, spec))
            if sum(trial.status in _BROKEN for trial in trials) >= _ENOUGH:
                break
        passing += [trial.spec for trial in trials if trial.status == "ok"]
        yield _verdict(bench, name, probe, trials, len(cases[name]), passing)


def _trial(bench: Bench, probe: ModuleType, spec: WorkloadSpec) -> Trial:
    """One probe on one case; whatever the implementation raises is its outcome."""
    try:
        call = bench.bind(spec)
        found = probe.measure(call, call.workload, bench.host)
    except Unsupported as refusal:
        return Trial(spec=spec, status="unsupported", share=None, reason=str(refusal))
    except judge.WrongForm as wrong:
        return Trial(spec=spec, status="failed", share=None, reason=str(wrong))
    except Exception as error:
        if device_lost(error):
            raise  # nothing works in this process any more; a new one goes on with the others
        traceback.print_exception(error, file=sys.stderr)
        status: Status = "oom" if out_of_memory(error) else "failed"
        reason = f"raises {type(error).__name__}: {_first_line(error)}"
        return Trial(spec=spec, status=status, share=None, reason=reason)
    return _summed(spec, found)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:300]


def _summed(spec: WorkloadSpec, found: Sequence[Measurement]) -> Trial:
    """A case fails with the first of its measurements that does."""
    failed = next((m for m in found if m.status not in ("ok", "unsupported")), None)
    if failed:
        share = failed.value if failed.unit == "ratio" else None
        return Trial(
            spec=spec, status=failed.status, share=share, reason=failed.reason, cause=failed.cause
        )
    shares = [m.value for m in found if m.unit == "ratio" and m.value is not None]
    if not shares:
        reason = found[0].reason if found else "the probe said nothing"
        return Trial(spec=spec, status="unsupported", share=None, reason=reason)
    return Trial(spec=spec, status="ok", share=max(shares), reason=None)


def _verdict(
    bench: Bench,
    name: str,
    probe: ModuleType,
    trials: Sequence[Trial],
    planned: int,
    passing: Sequence[WorkloadSpec],
) -> Measurement:
    failing = [trial for trial in trials if trial.status in _BROKEN]
    if failing:
        return _failure(bench, name, probe, trials, failing, passing)
    shares = [trial.share for trial in trials if trial.share is not None]
    notes = []
    refused = [trial for trial in trials if trial.status == "unsupported"]
    if refused:
        notes.append(f"{len(refused)} cases are not for it: {refused[0].reason}")
    if len(trials) < planned:
        return Measurement(
            subject=bench.implementation.name,
            metric=name,
            value=max(shares, default=None),
            unit="ratio",
            samples=shares,
            status="timeout",
            reason="; ".join([incomplete(len(trials), planned), *notes]),
            source=judge.SOURCE,
            level="kernel",
        )
    if not shares:
        reason = notes[-1] if notes else "there are no cases for it here"
        return Measurement(
            subject=bench.implementation.name,
            metric=name,
            value=None,
            unit="ratio",
            status="unsupported",
            reason=reason,
        )
    return Measurement(
        subject=bench.implementation.name,
        metric=name,
        value=max(shares),
        unit="ratio",
        samples=shares,
        reason="; ".join(notes) or None,
        source=judge.SOURCE,
        level="kernel",
    )


def _failure(
    bench: Bench,
    name: str,
    probe: ModuleType,
    trials: Sequence[Trial],
    failing: Sequence[Trial],
    passing: Sequence[WorkloadSpec],
) -> Measurement:
    """The smallest failing case with what is wrong there, and the likely cause."""
    trial = _smallest(bench, probe, min(failing, key=lambda trial: size(trial.spec)))
    ran = [trial for trial in trials if trial.status != "unsupported"]
    cause = trial.cause
    if not cause and _right_when_fresh(bench, probe, trial):
        cause = _STATE
    if not cause and name in _DIAGNOSED:
        specs = [trial.spec for trial in failing]
        cause = _explained(bench, specs, passing)
    reason = f"{trial.reason}; smallest failing case {trial.spec.name}"
    reason += f"; {len(failing)} of {len(ran)} cases fail"
    return Measurement(
        subject=bench.implementation.name,
        metric=name,
        value=trial.share,
        unit="ratio",
        status=failing[0].status,
        reason=reason,
        cause=cause,
        samples=[trial.share for trial in trials if trial.share is not None],
        source=judge.SOURCE,
        level="kernel",
        workload=identity(trial.spec),
    )


def _smallest(bench: Bench, probe: ModuleType, trial: Trial) -> Trial:
    """The failure on the smallest case that can be found in a few seconds."""
    found = {trial.spec: trial}

    def still_fails(spec: WorkloadSpec) -> bool:
        again = _trial(bench, probe, spec)
        found[spec] = again
        return again.status == trial.status and _as_bad(again.share, trial.share)

    return found[shrink(trial.spec, still_fails, until=time.monotonic() + _SHRINKING_S)]


def _as_bad(share: float | None, first: float | None) -> bool:
    """Whether a smaller case shows the same error, not the rounding that comes after it."""
    return share is None or first is None or share >= min(10.0, first / 4)


def _right_when_fresh(bench: Bench, probe: ModuleType, trial: Trial) -> bool:
    """Whether the case passes on a copy of the implementation that has seen no other call.

    Memory is poisoned meanwhile: what passes or fails by what lies in it carries no state.
    """
    if not bench.fresh:
        return False
    copy = replace(bench, implementation=bench.fresh())
    with framework_named(copy.implementation.framework).poisoned(bench.device):
        return _trial(copy, probe, trial.spec).status == "ok"


def _explained(
    bench: Bench, failing: Sequence[WorkloadSpec], passing: Sequence[WorkloadSpec]
) -> str | None:
    """The likely cause; a broken implementation may break the search for it too."""
    try:
        return likely_cause(failing, passing, partial(Bench.bind, bench))
    except Exception as error:
        traceback.print_exception(error, file=sys.stderr)
        return None
